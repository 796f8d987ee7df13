//! Tells the operator of an application that holds its worker: while it does, nobody else there is
//! served.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Method, Uri};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::clock;

/// What is polled for longer is told of.
const LONG: Duration = Duration::from_millis(10);

/// Of one mount, a worker says no more than a line in this time, in milliseconds.
const LINE_EVERY_MS: u64 = 1_000;

/// Watches one mount on one worker.
pub(super) struct Watchdog {
    site: Arc<str>,
    mount: Arc<str>,
    /// When it was last told of; 0: never.
    told_ms: AtomicU64,
    /// Long polls since then.
    untold: AtomicU64,
}

impl Watchdog {
    pub(super) fn new(site: &Arc<str>, mount: &Arc<str>) -> Arc<Watchdog> {
        let (site, mount) = (Arc::clone(site), Arc::clone(mount));
        Arc::new(Watchdog { site, mount, told_ms: AtomicU64::new(0), untold: AtomicU64::new(0) })
    }

    /// Is told how long one poll for a request took.
    pub(super) fn saw(&self, took: Duration, method: &Method, uri: &Uri) {
        if took > LONG {
            self.tell(took, method, uri);
        }
    }

    fn tell(&self, took: Duration, method: &Method, uri: &Uri) {
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
        let (site, mount) = (&self.site, &self.mount);
        // The query may hold what is nobody's business.
        let (path, took_ms) = (uri.path(), took.as_millis());
        tracing::warn!(
            "the application at {site}{mount} held its worker for {took_ms} ms ({method} {path}){more}"
        );
    }
}

pin_project! {
    /// The body of an answer to a request, whose polls are watched too.
    pub(super) struct Watched<B> {
        #[pin]
        pub(super) body: B,
        pub(super) dog: Arc<Watchdog>,
        pub(super) method: Method,
        pub(super) uri: Uri,
    }
}

impl<B: Body> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let begun = Instant::now();
        let polled = this.body.poll_frame(cx);
        this.dog.saw(begun.elapsed(), this.method, this.uri);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
