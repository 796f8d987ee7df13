//! Limits on requests at once, with a bounded queue. Requests wait in the order of their arrival,
//! over all workers, and without a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::Concurrency;
use crate::rt::{Permit, Permits};

/// A limit and the requests that it counts.
#[derive(Debug)]
pub struct ConcurrencyLimiter {
    config: Concurrency,
    permits: Permits,
    waiting: AtomicU64,
}

/// The admission of a request.
#[derive(Debug)]
pub enum Admission {
    /// It may be handled now, and counts until the permit is dropped.
    Now(Permit),
    /// It has a place in the queue.
    Queued(QueuePlace),
}

/// As many requests as allowed are handled, and as many as allowed wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFullError;

/// A place in the queue. It is given up when dropped.
#[derive(Debug)]
pub struct QueuePlace(Arc<ConcurrencyLimiter>);

impl ConcurrencyLimiter {
    /// Creates a limiter without requests.
    pub fn new(config: Concurrency) -> ConcurrencyLimiter {
        let max = usize::try_from(config.max).unwrap_or(usize::MAX);
        ConcurrencyLimiter { config, permits: Permits::new(max), waiting: AtomicU64::new(0) }
    }

    /// The limit as configured.
    pub fn config(&self) -> &Concurrency {
        &self.config
    }

    /// Admits a request if it needs no place in the queue.
    pub fn try_admit(&self) -> Option<Permit> {
        self.permits.try_take()
    }

    /// Admits a request.
    ///
    /// # Errors
    /// The queue is full.
    pub fn admit(self: &Arc<Self>) -> Result<Admission, QueueFullError> {
        // Fails while requests wait, so that no request overtakes them.
        if let Some(permit) = self.permits.try_take() {
            return Ok(Admission::Now(permit));
        }
        if self.waiting.fetch_add(1, Relaxed) >= self.config.queue {
            self.waiting.fetch_sub(1, Relaxed);
            return Err(QueueFullError);
        }
        Ok(Admission::Queued(QueuePlace(Arc::clone(self))))
    }
}

impl QueuePlace {
    /// Waits for a permit.
    pub async fn wait(&self) -> Permit {
        self.0.permits.take().await
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn requests_wait_in_order_and_the_queue_is_bounded() {
        let config = Concurrency { queue: 2, ..Concurrency::new(1) };
        let limiter = Arc::new(ConcurrencyLimiter::new(config));
        let place = || match limiter.admit() {
            Ok(Admission::Queued(place)) => place,
            other => panic!("{other:?}"),
        };
        let Ok(Admission::Now(running)) = limiter.admit() else { panic!("one may run") };
        let (first, second) = (place(), place());
        assert_eq!(limiter.admit().unwrap_err(), QueueFullError);
        let cx = &mut Context::from_waker(Waker::noop());
        let mut second_waits = Box::pin(second.wait());
        {
            let mut first_waits = pin!(first.wait());
            assert!(first_waits.as_mut().poll(cx).is_pending());
            assert!(second_waits.as_mut().poll(cx).is_pending());
            drop(running);
            assert!(second_waits.as_mut().poll(cx).is_pending(), "the first goes first");
            let Poll::Ready(_permit) = first_waits.as_mut().poll(cx) else { panic!("its turn") };
        }
        drop(first);
        assert!(second_waits.as_mut().poll(cx).is_ready());
        drop(second_waits);
        drop(second);
        assert!(matches!(limiter.admit(), Ok(Admission::Now(_))));
    }

    #[test]
    fn a_request_that_is_dropped_leaves_the_queue() {
        let config = Concurrency { queue: 1, ..Concurrency::new(1) };
        let limiter = Arc::new(ConcurrencyLimiter::new(config));
        let running = limiter.admit();
        let Ok(Admission::Queued(place)) = limiter.admit() else { panic!("one may wait") };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut waits = Box::pin(place.wait());
        assert!(waits.as_mut().poll(cx).is_pending());
        drop(waits);
        drop(place);
        let Ok(Admission::Queued(next)) = limiter.admit() else { panic!("its place is free") };
        drop(running);
        assert!(pin!(next.wait()).poll(cx).is_ready(), "its turn is not lost");
    }
}
