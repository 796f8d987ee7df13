//! Logs an application that blocks its worker, which then serves no other connection.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::SizeHint;

use crate::body::{Body, BoxError, Next, Stream};
use crate::clock;
use crate::files::Home;

/// Polls that take this long are logged, in milliseconds.
const LONG_MS: u64 = 10;

/// Interval of log lines of one mount and worker, in milliseconds.
const LINE_EVERY_MS: u64 = 1_000;

/// Watches one mount on one worker.
pub(super) struct Watchdog {
    home: Arc<Home>,
    /// Time of the last log line; 0: never.
    logged_ms: AtomicU64,
    /// Long polls since the last log line.
    unlogged: AtomicU64,
}

impl Watchdog {
    pub(super) fn new(home: &Arc<Home>) -> Arc<Watchdog> {
        let home = Arc::clone(home);
        Arc::new(Watchdog { home, logged_ms: AtomicU64::new(0), unlogged: AtomicU64::new(0) })
    }

    /// Also watches a streamed body.
    pub(super) fn watch(self: &Arc<Self>, body: &mut Body, request: impl FnOnce() -> String) {
        if let Body::Stream(_) = body
            && let Body::Stream(stream) = mem::take(body)
        {
            let (watchdog, request) = (Arc::clone(self), request());
            *body = Body::Stream(Stream::new(WatchedBody { stream, watchdog, request }));
        }
    }

    /// Records a poll for a request that began at `begun_ms` (`clock::now_ms`).
    pub(super) fn record(&self, begun_ms: u64, request: impl FnOnce() -> String) {
        let took_ms = clock::ms_since(begun_ms);
        if took_ms >= LONG_MS {
            self.log(took_ms, &request());
        }
    }

    #[cold]
    fn log(&self, took_ms: u64, request: &str) {
        let (now_ms, logged_ms) = (clock::now_ms(), self.logged_ms.load(Relaxed));
        if logged_ms != 0 && now_ms.saturating_sub(logged_ms) < LINE_EVERY_MS {
            self.unlogged.fetch_add(1, Relaxed);
            return;
        }
        self.logged_ms.store(now_ms.max(1), Relaxed);
        let more = match self.unlogged.swap(0, Relaxed) {
            0 => String::new(),
            n => format!("; {n} more since the last line"),
        };
        let Home { site, mount, .. } = &*self.home;
        tracing::warn!(
            "the application at {site}{mount} held its worker for {took_ms} ms ({request}){more}"
        );
    }
}

/// A response body whose polls are watched.
struct WatchedBody {
    stream: Stream,
    watchdog: Arc<Watchdog>,
    request: String,
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        let begun_ms = clock::now_ms();
        let polled = Pin::new(&mut self.stream).poll_frame(cx);
        self.watchdog.record(begun_ms, || self.request.clone());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.stream.size_hint()
    }
}
