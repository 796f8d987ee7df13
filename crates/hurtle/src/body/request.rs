//! Passes a request's body from its connection to its reader, maybe on another thread. The
//! connection reads a frame only when the reader asks for one, so at most one frame waits here.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::BoxError;

/// The body of a request as an application reads it. Reading is what makes the client send: a
/// client that waits for `100 Continue` gets it when the body is first polled, and one that sends
/// faster than the application reads is held back. Dropped unread, it is no longer waited for.
///
/// Trailers come as a last frame. An error means that the body will never be whole: the client is
/// gone, or broke the rules; its request is then answered by the server. A body is read until the
/// response is complete: a task that reads on after that gets an error, too.
#[derive(Default)]
pub struct RequestBody {
    /// `None` if the request has no body, or all of it was read.
    slot: Option<Arc<Slot>>,
    /// Bytes left, if the client sent a Content-Length.
    left: Option<u64>,
}

/// An interim response, sent while the body is received (RFC 9110 15.2).
#[derive(Debug)]
pub struct Interim {
    /// Status of the interim response, of class 1xx.
    pub status: StatusCode,
    /// Fields, without those of a body or of the connection.
    pub fields: HeaderMap,
}

/// The connection's end of a request's body.
pub(crate) struct Feeder(Arc<Slot>);

#[derive(Default)]
struct Slot(Mutex<BodyState>);

#[derive(Default)]
struct BodyState {
    frame: Option<Result<Frame<Bytes>, BoxError>>,
    /// `frame` is the last one.
    ended: bool,
    /// The reader waits for a frame.
    wanted: bool,
    /// The reader was dropped.
    abandoned: bool,
    interim: Option<Interim>,
    reader: Option<Waker>,
    feeder: Option<Waker>,
}

/// Creates both ends of a body of `len` bytes (`None`: unknown until the end).
pub(crate) fn feed(len: Option<u64>) -> (Feeder, RequestBody) {
    let slot = Arc::<Slot>::default();
    (Feeder(Arc::clone(&slot)), RequestBody { slot: Some(slot), left: len })
}

impl Slot {
    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn state(&self) -> MutexGuard<'_, BodyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feeder {
    /// Waits until the reader asks for a frame. `false`: the reader was dropped, or has the last
    /// frame.
    pub(crate) async fn wanted(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.0.state();
            if state.wanted || state.abandoned || state.ended {
                return Poll::Ready(!state.abandoned && !state.ended);
            }
            state.feeder = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits until the reader was dropped.
    pub(crate) async fn abandoned(&self) {
        poll_fn(|cx| {
            let mut state = self.0.state();
            if state.abandoned {
                return Poll::Ready(());
            }
            state.feeder = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns true if the reader waits for a frame.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.0.state();
        state.wanted && !state.abandoned
    }

    /// Takes the interim response that the reader wants sent.
    pub(crate) fn interim(&self) -> Option<Interim> {
        self.0.state().interim.take()
    }

    /// Returns true if the reader was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.state().abandoned
    }

    /// Gives the reader the frame it asked for; with `last`, the body ends after it.
    pub(crate) fn put(&self, frame: Frame<Bytes>, last: bool) {
        self.give(Some(Ok(frame)), last);
    }

    /// Ends the body with an error.
    pub(crate) fn fail(&self, error: BoxError) {
        self.give(Some(Err(error)), true);
    }

    pub(crate) fn end(&self) {
        self.give(None, true);
    }

    fn give(&self, frame: Option<Result<Frame<Bytes>, BoxError>>, last: bool) {
        let reader = {
            let mut state = self.0.state();
            if state.ended {
                return;
            }
            state.frame = frame;
            state.ended = last;
            state.wanted = false;
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.give(Some(Err("the request's body was cut short".into())), true);
    }
}

impl RequestBody {
    /// Sends an interim response before more of the body is read. It is dropped if another one
    /// still waits, if no more of the body is read, or if the protocol has no interim responses.
    pub fn send_interim(&self, interim: Interim) {
        if let Some(slot) = &self.slot {
            slot.state().interim.get_or_insert(interim);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(slot) = &self.slot else { return Poll::Ready(None) };
        let mut state = slot.state();
        let (frame, ended) = (state.frame.take(), state.ended);
        if frame.is_none() && !ended {
            let is_new = !mem::replace(&mut state.wanted, true);
            state.reader = Some(cx.waker().clone());
            // In one task with its reader, a feeder that waits on would be polled without end.
            let feeder = if is_new { state.feeder.take() } else { None };
            drop(state);
            if let Some(feeder) = feeder {
                feeder.wake();
            }
            return Poll::Pending;
        }
        drop(state);
        if ended {
            self.slot = None;
        }
        if let (Some(left), Some(Ok(frame))) = (&mut self.left, &frame) {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| {
            let state = slot.state();
            state.ended && state.frame.is_none()
        })
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.slot, self.left) {
            (None, _) => SizeHint::with_exact(0),
            (Some(_), Some(left)) => SizeHint::with_exact(left),
            (Some(_), None) => SizeHint::default(),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(slot) = &self.slot else { return };
        let feeder = {
            let mut state = slot.state();
            state.abandoned = true;
            state.feeder.take()
        };
        if let Some(feeder) = feeder {
            feeder.wake();
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("size", &self.size_hint()).finish()
    }
}

impl fmt::Debug for Feeder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    use super::*;
    use crate::rt::{First, race};

    fn run<T>(task: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
    }

    async fn next(body: &mut RequestBody) -> Option<Result<Bytes, String>> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.map(|f| f.into_data().unwrap_or_default()).map_err(|e| e.to_string()))
    }

    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Wakes>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Regression: a task with both ends polled itself without end while the client sent nothing.
    #[test]
    fn a_reader_that_is_polled_again_does_not_wake_its_feeder() {
        let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let (feeder, mut body) = feed(None);
        let mut abandoned = pin!(feeder.abandoned());
        for _ in 0..5 {
            assert!(abandoned.as_mut().poll(&mut cx).is_pending());
            assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
        }
        assert_eq!(wakes.0.load(SeqCst), 1, "when it asked for a frame");
        drop(body);
        assert_eq!(wakes.0.load(SeqCst), 2, "when it was dropped");
        assert!(abandoned.poll(&mut cx).is_ready());
    }

    #[test]
    fn nothing_is_fed_before_it_is_wanted() {
        run(async {
            let (feeder, mut body) = feed(Some(5));
            assert_eq!(body.size_hint().exact(), Some(5));
            assert!(!feeder.is_wanted());
            let fed = async {
                assert!(feeder.wanted().await, "there is a reader");
                feeder.put(Frame::data("hello".into()), true);
                std::future::pending::<()>().await;
            };
            let First::A(read) = race(next(&mut body), fed).await else { panic!("no end") };
            assert_eq!(read, Some(Ok("hello".into())));
            assert!(body.is_end_stream(), "it was said to be the last");
            assert_eq!(body.size_hint().exact(), Some(0));
            assert_eq!(next(&mut body).await, None);
        });
    }

    #[test]
    fn each_end_notices_a_dropped_other_end() {
        run(async {
            let (feeder, body) = feed(None);
            drop(body);
            assert!(!feeder.wanted().await && feeder.is_abandoned());

            let (feeder, mut body) = feed(None);
            drop(feeder);
            assert!(next(&mut body).await.unwrap().is_err(), "a part is no body");
            assert_eq!(next(&mut body).await, None);

            let (feeder, mut body) = feed(None);
            feeder.end();
            drop(feeder);
            assert_eq!(next(&mut body).await, None, "it was whole before");
        });
    }

    #[test]
    fn a_feeder_does_not_wait_after_the_end() {
        run(async {
            let (feeder, mut body) = feed(Some(5));
            let fed = async {
                assert!(feeder.wanted().await, "there is a reader");
                feeder.put(Frame::data("hello".into()), true);
                feeder.wanted().await
            };
            let (read, wanted) = tokio::join!(next(&mut body), fed);
            assert_eq!(read, Some(Ok("hello".into())));
            assert!(!wanted, "who waited here for ever would never be dropped");
        });
    }

    #[test]
    fn none_is_empty() {
        let body = RequestBody::default();
        assert!(body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(0));
    }
}
