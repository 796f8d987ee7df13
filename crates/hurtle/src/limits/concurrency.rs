//! Limits on requests at once, with a bounded queue. Requests wait in the order of their arrival,
//! over all workers, and without a thread.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::Concurrency;
use crate::rt::{self, Permit, Permits};

/// A limit and the requests that it counts.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    config: Concurrency,
    permits: Permits,
    waiting: AtomicU64,
}

/// The admission of a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It may be handled now, and counts until the permit is dropped.
    Now(Permit),
    /// It has a place in the queue.
    Queued(QueuePlace),
}

/// A place in the queue. It is given up when dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace(Arc<ConcurrencyLimiter>);

/// A request's place among those that a limit counts. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    limiter: Arc<ConcurrencyLimiter>,
    state: RefCell<PlaceState>,
}

/// The state of a place.
#[derive(Debug)]
enum PlaceState {
    /// The request has not asked for it.
    Free,
    /// The request has it.
    Taken {
        /// Held for its `Drop`.
        _permit: Permit,
    },
    /// The request was refused.
    Refused,
}

/// The reason for which a request gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceError {
    /// As many requests as allowed are handled, and as many as allowed wait.
    QueueFull,
    /// It has waited for as long as allowed.
    TooSlow,
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlaceError::QueueFull => "the queue is full",
            PlaceError::TooSlow => "the queue is too slow",
        })
    }
}

impl ConcurrencyLimiter {
    /// Creates a limiter without requests.
    pub(crate) fn new(config: Concurrency) -> ConcurrencyLimiter {
        let max = usize::try_from(config.max).unwrap_or(usize::MAX);
        ConcurrencyLimiter { config, permits: Permits::new(max), waiting: AtomicU64::new(0) }
    }

    /// The limit as configured.
    pub(crate) fn config(&self) -> &Concurrency {
        &self.config
    }

    /// Returns whether a request would be refused now.
    pub(crate) fn is_full(&self) -> bool {
        self.permits.is_none_free() && self.waiting.load(Relaxed) >= self.config.queue
    }

    /// Admits a request if it needs no place in the queue.
    pub(crate) fn try_admit(&self) -> Option<Permit> {
        self.permits.try_take()
    }

    /// Admits a request.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Admission, PlaceError> {
        // Fails while requests wait, so that no request overtakes them.
        if let Some(permit) = self.permits.try_take() {
            return Ok(Admission::Now(permit));
        }
        if self.waiting.fetch_add(1, Relaxed) >= self.config.queue {
            self.waiting.fetch_sub(1, Relaxed);
            return Err(PlaceError::QueueFull);
        }
        Ok(Admission::Queued(QueuePlace(Arc::clone(self))))
    }
}

impl Place {
    /// Creates a place that no request has yet.
    pub(crate) fn new(limiter: &Arc<ConcurrencyLimiter>) -> Place {
        Place { limiter: Arc::clone(limiter), state: RefCell::new(PlaceState::Free) }
    }

    /// Takes the place, unless the request has it. Waits for as long as the limit allows.
    ///
    /// # Errors
    /// The queue is full, or too slow.
    pub(crate) async fn take(&self) -> Result<(), PlaceError> {
        if let PlaceState::Taken { .. } = *self.state.borrow() {
            return Ok(());
        }
        let taken = self.wait().await;
        let result = taken.as_ref().map(|_| ()).map_err(|error| *error);
        let taken = taken.map(|permit| PlaceState::Taken { _permit: permit });
        *self.state.borrow_mut() = taken.unwrap_or(PlaceState::Refused);
        result
    }

    /// Returns whether the limit has refused the request.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(*self.state.borrow(), PlaceState::Refused)
    }

    async fn wait(&self) -> Result<Permit, PlaceError> {
        match self.limiter.admit()? {
            Admission::Now(permit) => Ok(permit),
            Admission::Queued(place) => {
                let waited = rt::timeout(self.limiter.config.queue_timeout, place.wait()).await;
                waited.ok_or(PlaceError::TooSlow)
            }
        }
    }
}

impl QueuePlace {
    /// Waits for a permit.
    pub(crate) async fn wait(&self) -> Permit {
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
        assert_eq!(limiter.admit().unwrap_err(), PlaceError::QueueFull);
        assert!(limiter.is_full());
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
