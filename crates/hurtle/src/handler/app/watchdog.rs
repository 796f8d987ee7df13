//! Tells the operator of an application that holds its worker: while it does, nobody else there is
//! served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{Method, Uri};

use crate::body::Watch;
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

    /// Watches what is done for one request.
    pub(super) fn watch(self: &Arc<Watchdog>, method: &Method, uri: &Uri) -> Watch {
        let (dog, method, uri) = (Arc::clone(self), method.clone(), uri.clone());
        Arc::new(move |took| {
            if took > LONG {
                dog.tell(took, &method, &uri);
            }
        })
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
