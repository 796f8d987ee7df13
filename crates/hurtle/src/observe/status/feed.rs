//! The figures of status pages: one snapshot a second for the whole process, as long as there are
//! viewers, and none without them.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame};
use slab::Slab;

use super::page;
use crate::metrics::Snapshot;
use crate::metrics::rates::{Rates, SortKey};
use crate::metrics::report::Report;

/// Streams of events that are open at a time, in the whole process. Others get 503.
pub const VIEWERS_MAX: usize = 64;

/// Time between two snapshots, and the age up to which one is shown again. Each event is a
/// heartbeat too.
const INTERVAL: Duration = Duration::from_secs(1);

/// The first bytes of a stream: the pause before a browser connects again, in milliseconds.
const BEGIN: &[u8] = b"retry: 2000\n\n";

/// A handle on the figures; clones share them.
#[derive(Clone)]
pub struct Feed(Arc<SharedFeed>);

struct SharedFeed {
    /// Makes a snapshot. It may block.
    read: Box<dyn Fn() -> Snapshot + Send + Sync>,
    /// Held while a snapshot is made, so that two are not made at a time.
    making: Mutex<()>,
    state: Mutex<FeedState>,
    closed: Condvar,
}

#[derive(Default)]
struct FeedState {
    latest: Option<Arc<Figures>>,
    /// Tasks that wait for the next figures, one for each viewer.
    viewers: Slab<Option<Waker>>,
    /// `true`: a thread makes figures for them.
    is_running: bool,
    /// `true`: the server stops.
    is_closed: bool,
    /// The number of times that the open streams were ended.
    endings: u64,
}

/// The figures of a moment.
#[derive(Debug)]
pub struct Figures {
    made: Instant,
    number: u64,
    /// The counters of the server at one time.
    pub snapshot: Snapshot,
    /// The figures as HTML on one line.
    pub fragment: String,
    event: Bytes,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feed({} viewers)", self.0.lock().viewers.len())
    }
}

impl SharedFeed {
    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes figures unless the latest are new enough.
    fn current(&self) -> Arc<Figures> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = self.lock().latest.clone();
        if let Some(latest) = latest.as_ref().filter(|latest| latest.made.elapsed() < INTERVAL) {
            return Arc::clone(latest);
        }
        let snapshot = (self.read)();
        let mut rates = Rates::between(latest.as_ref().map(|latest| &latest.snapshot), &snapshot);
        rates.sort(SortKey::default());
        let fragment = page::fragment(&Report::new(&rates, SortKey::default()));
        let event = Bytes::from(format!("data: {fragment}\n\n"));
        let number = latest.map_or(0, |latest| latest.number) + 1;
        let figures = Arc::new(Figures { made: Instant::now(), number, snapshot, fragment, event });
        let mut state = self.lock();
        state.latest = Some(Arc::clone(&figures));
        state.wake();
        figures
    }

    /// Makes figures each second until there are no viewers.
    fn run(&self) {
        let _running = Running(self);
        loop {
            self.current();
            let state = self.lock();
            let waited = self.closed.wait_timeout_while(state, INTERVAL, |state| !state.is_closed);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_closed || state.viewers.is_empty() {
                // Under the same lock: a viewer who comes next starts another thread.
                state.is_running = false;
                return;
            }
        }
    }
}

impl FeedState {
    fn wake(&mut self) {
        let waiting = self.viewers.iter_mut().filter_map(|(_, waker)| waker.take());
        waiting.for_each(Waker::wake);
    }
}

/// Records the end of a thread that panics.
struct Running<'a>(&'a SharedFeed);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().is_running = false;
        }
    }
}

impl Feed {
    /// Creates a feed whose snapshots `read` makes, on threads that may block.
    pub fn new(read: impl Fn() -> Snapshot + Send + Sync + 'static) -> Feed {
        Feed(Arc::new(SharedFeed {
            read: Box::new(read),
            making: Mutex::default(),
            state: Mutex::default(),
            closed: Condvar::new(),
        }))
    }

    /// Returns figures that are at most a second old. It may block, so an event loop must not call
    /// it.
    pub fn current(&self) -> Arc<Figures> {
        self.0.current()
    }

    /// Opens a stream of events; `None`: there are too many, or the server stops.
    pub fn subscribe(&self) -> Option<Events> {
        let mut state = self.0.lock();
        if state.is_closed || state.viewers.len() >= VIEWERS_MAX {
            return None;
        }
        let latest = state.latest.as_ref().map_or(0, |latest| latest.number);
        // Without a thread the latest figures may be old.
        let seen = if state.is_running { 0 } else { latest };
        if !state.is_running {
            let shared = Arc::clone(&self.0);
            thread::Builder::new().name("status".to_owned()).spawn(move || shared.run()).ok()?;
            state.is_running = true;
        }
        let key = state.viewers.insert(None);
        let endings = state.endings;
        drop(state);
        Some(Events { feed: self.clone(), key, seen, endings, has_begun: false })
    }

    /// Ends the open streams after a reload: their mounts or the right to see them may be gone. A
    /// browser connects again, and is authorised as any request.
    pub fn end_streams(&self) {
        let mut state = self.0.lock();
        state.endings += 1;
        state.wake();
    }

    /// Ends all streams, because the server stops.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.wake();
        self.0.closed.notify_all();
    }
}

/// A stream of events. A slow viewer gets only the latest figures.
#[derive(Debug)]
pub struct Events {
    feed: Feed,
    key: usize,
    /// Number of the last figures that were sent.
    seen: u64,
    /// `State::endings` at the begin of the stream.
    endings: u64,
    has_begun: bool,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.has_begun {
            self.has_begun = true;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(BEGIN)))));
        }
        let mut state = self.feed.0.lock();
        let is_closed = state.is_closed;
        if state.endings != self.endings {
            return Poll::Ready(None);
        }
        let latest = state.latest.clone().filter(|latest| latest.number > self.seen);
        match latest {
            Some(latest) => {
                drop(state);
                self.seen = latest.number;
                Poll::Ready(Some(Ok(Frame::data(latest.event.clone()))))
            }
            None if is_closed => Poll::Ready(None),
            None => {
                state.viewers[self.key] = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.feed.0.lock().viewers.try_remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_bounded_and_a_stop_ends_their_streams() {
        let feed = Feed::new(Snapshot::default);
        let mut events: Vec<_> = (0..VIEWERS_MAX).map(|_| feed.subscribe().unwrap()).collect();
        assert!(feed.subscribe().is_none(), "one too many");
        events.pop();
        let mut last = feed.subscribe().unwrap();
        feed.close();
        assert!(feed.subscribe().is_none(), "the server stops");
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = || Pin::new(&mut last).poll_frame(&mut cx).map(|next| next.is_some());
        assert_eq!(poll(), Poll::Ready(true), "its first bytes");
        // The thread may have made figures before the end.
        assert!((0..3).any(|_| poll() == Poll::Ready(false)));
    }

    #[test]
    fn figures_are_made_once_a_second_for_all() {
        let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let feed = Feed::new(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Snapshot::default()
        });
        let begun = Instant::now();
        (0..100).for_each(|_| drop(feed.current()));
        let most = 1 + begun.elapsed().as_secs();
        assert!(count.load(std::sync::atomic::Ordering::SeqCst) <= most);
    }
}
