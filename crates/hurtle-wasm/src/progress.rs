//! The progress of one request: the processor time that the component has used, and how far it has
//! read the request's body.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use wasmtime_wasi_http::Error;

use crate::BoxError;
use crate::settings::Settings;

/// The component has to read next, or to respond.
const UNREAD: u8 = 0;
/// The component waits for the client.
const WAITING: u8 = 1;
/// The component has read all of the body.
const ENDED: u8 = 2;

/// The progress of one request. Its component, its request's body and its response share it.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    /// Begin of the turn, in nanoseconds since `begun`.
    turn_ns: AtomicU64,
    /// Processor time of the turns before, in nanoseconds.
    spent_ns: AtomicU64,
    /// `UNREAD`, `WAITING` or `ENDED`.
    body: AtomicU8,
    /// Time of the last read, in nanoseconds since `begun`.
    read_ns: AtomicU64,
    /// `true`: the component wanted more memory than its limit.
    wants_memory: AtomicBool,
    /// `true`: the processor time is used up.
    is_over: AtomicBool,
}

impl Progress {
    pub(crate) fn new(has_body: bool) -> Progress {
        Progress {
            begun: Instant::now(),
            turn_ns: AtomicU64::new(0),
            spent_ns: AtomicU64::new(0),
            body: AtomicU8::new(if has_body { UNREAD } else { ENDED }),
            read_ns: AtomicU64::new(0),
            wants_memory: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notes that the component's turn begins. A thread that is preempted meanwhile counts as
    /// computing.
    pub(crate) fn begin_turn(&self) {
        self.turn_ns.store(self.now_ns(), Relaxed);
    }

    /// Notes that the component's turn ends.
    pub(crate) fn end_turn(&self) {
        let turn = self.now_ns().saturating_sub(self.turn_ns.load(Relaxed));
        self.spent_ns.fetch_add(turn, Relaxed);
    }

    /// Within a turn: `true` if the component has used more processor time than this.
    pub(crate) fn exceeds(&self, cpu_time: Duration) -> bool {
        let turn = self.now_ns().saturating_sub(self.turn_ns.load(Relaxed));
        let spent = Duration::from_nanos(self.spent_ns.load(Relaxed).saturating_add(turn));
        let is_over = spent > cpu_time;
        self.is_over.fetch_or(is_over, Relaxed);
        is_over
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    pub(crate) fn note_memory(&self) {
        self.wants_memory.store(true, Relaxed);
    }

    pub(crate) fn wants_memory(&self) -> bool {
        self.wants_memory.load(Relaxed)
    }

    /// Time until the response's head is due; `None`: it is late.
    pub(crate) fn until_head(&self, settings: &Settings) -> Option<Duration> {
        let since_read = self.now_ns().saturating_sub(self.read_ns.load(Relaxed));
        let since_read = Duration::from_nanos(since_read);
        let limit = match self.body.load(Relaxed) {
            // The client's time is limited by the server.
            WAITING => return Some(settings.send_timeout),
            ENDED => settings.first_byte_timeout,
            _ => settings.send_timeout,
        };
        limit.checked_sub(since_read).filter(|rest| !rest.is_zero())
    }

    /// `true`: the component waits for the client.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.body.load(Relaxed) == WAITING
    }

    fn note_read(&self, state: u8) {
        self.body.store(state, Relaxed);
        self.read_ns.store(self.now_ns(), Relaxed);
    }
}

/// A request's body whose reads are noted.
pub(crate) struct RequestBody<B> {
    body: Pin<Box<B>>,
    progress: Arc<Progress>,
}

impl<B> RequestBody<B> {
    pub(crate) fn new(body: B, progress: &Arc<Progress>) -> RequestBody<B> {
        RequestBody { body: Box::pin(body), progress: Arc::clone(progress) }
    }
}

impl<B> Drop for RequestBody<B> {
    fn drop(&mut self) {
        // A component that reads no more does not wait for the client.
        if self.progress.waits_for_client() {
            self.progress.note_read(ENDED);
        }
    }
}

/// Wakes a component that waits for the client, whose bytes have come: from then on the time is the
/// component's, also if it does not read them.
struct ArrivalWaker {
    progress: Arc<Progress>,
    component: Waker,
}

impl Wake for ArrivalWaker {
    fn wake(self: Arc<Self>) {
        if self.progress.waits_for_client() {
            self.progress.note_read(UNREAD);
        }
        self.component.wake_by_ref();
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let (progress, component) = (Arc::clone(&self.progress), cx.waker().clone());
        let waker = Waker::from(Arc::new(ArrivalWaker { progress, component }));
        // Noted first, because the bytes may come at any time from the poll on.
        self.progress.note_read(WAITING);
        let polled = self.body.as_mut().poll_frame(&mut Context::from_waker(&waker));
        let Poll::Ready(read) = polled else { return Poll::Pending };
        self.progress.note_read(match &read {
            Some(Ok(frame)) if frame.is_data() && !self.body.is_end_stream() => UNREAD,
            _ => ENDED,
        });
        let failed = |error: B::Error| {
            let error: BoxError = error.into();
            Error::InternalError(Some(error.to_string()))
        };
        Poll::Ready(read.map(|read| read.map_err(failed)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    /// A body whose frames come when the test says so.
    #[derive(Clone, Default)]
    struct Scripted(Arc<Mutex<(VecDeque<Bytes>, Option<Waker>)>>);

    impl Scripted {
        fn arrive(&self) {
            let mut state = self.0.lock().unwrap();
            state.0.push_back(Bytes::from_static(b"bytes"));
            let waker = state.1.take();
            drop(state);
            waker.unwrap().wake();
        }
    }

    impl Body for Scripted {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let mut state = self.0.lock().unwrap();
            match state.0.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => {
                    state.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    /// A component that had begun a read was taken to wait for the client for ever.
    #[test]
    fn the_time_is_the_components_once_bytes_have_come_or_it_reads_no_more() {
        let settings = Settings {
            send_timeout: Duration::from_nanos(1),
            first_byte_timeout: Duration::from_nanos(1),
            ..Settings::new("test")
        };
        for arrives in [true, false] {
            let progress = Arc::new(Progress::new(true));
            let client = Scripted::default();
            let mut body = Box::pin(RequestBody::new(client.clone(), &progress));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(body.as_mut().poll_frame(&mut cx).is_pending());
            assert!(progress.until_head(&settings).is_some(), "it waits for the client");
            if arrives {
                client.arrive();
            } else {
                drop(body);
            }
            assert!(!progress.waits_for_client(), "arrives: {arrives}");
            assert_eq!(progress.until_head(&settings), None, "arrives: {arrives}");
        }
    }
}
