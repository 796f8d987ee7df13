//! Tells the operator of an application that holds its worker: while it does, nobody else there is
//! served.

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

/// What is polled for as long, or longer, is told of, in milliseconds.
const LONG_MS: u64 = 10;

/// Of one mount, a worker says no more than a line in this time, in milliseconds.
const LINE_EVERY_MS: u64 = 1_000;

/// Watches one mount on one worker.
pub(super) struct Watchdog {
    home: Arc<Home>,
    /// When it was last told of; 0: never.
    told_ms: AtomicU64,
    /// Long polls since then.
    untold: AtomicU64,
}

impl Watchdog {
    pub(super) fn new(home: &Arc<Home>) -> Arc<Watchdog> {
        let home = Arc::clone(home);
        Arc::new(Watchdog { home, told_ms: AtomicU64::new(0), untold: AtomicU64::new(0) })
    }

    /// Watches what is left to make of a body, too.
    pub(super) fn watch(self: &Arc<Self>, body: &mut Body, asked: impl FnOnce() -> String) {
        if let Body::Stream(_) = body
            && let Body::Stream(stream) = mem::take(body)
        {
            let (dog, asked) = (Arc::clone(self), asked());
            *body = Body::Stream(Stream::new(Watched { stream, dog, asked }));
        }
    }

    /// Is told that a poll for a request, begun then (`clock::now_ms`), has ended.
    pub(super) fn saw(&self, begun_ms: u64, asked: impl FnOnce() -> String) {
        let took_ms = clock::ms_since(begun_ms);
        if took_ms >= LONG_MS {
            self.tell(took_ms, &asked());
        }
    }

    #[cold]
    fn tell(&self, took_ms: u64, asked: &str) {
        let (now_ms, told_ms) = (clock::now_ms(), self.told_ms.load(Relaxed));
        if told_ms != 0 && now_ms.saturating_sub(told_ms) < LINE_EVERY_MS {
            self.untold.fetch_add(1, Relaxed);
            return;
        }
        self.told_ms.store(now_ms.max(1), Relaxed);
        let more = match self.untold.swap(0, Relaxed) {
            0 => String::new(),
            n => format!("; {n} more since the last line"),
        };
        let Home { site, mount, .. } = &*self.home;
        tracing::warn!(
            "the application at {site}{mount} held its worker for {took_ms} ms ({asked}){more}"
        );
    }
}

/// The body of an answer to a request, whose polls are watched too.
struct Watched {
    stream: Stream,
    dog: Arc<Watchdog>,
    asked: String,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        let begun_ms = clock::now_ms();
        let polled = Pin::new(&mut self.stream).poll_frame(cx);
        self.dog.saw(begun_ms, || self.asked.clone());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.stream.size_hint()
    }
}
