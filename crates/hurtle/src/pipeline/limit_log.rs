//! Log lines about requests that a limit refuses. They name the key of the limit. A flood of
//! refused requests gives one line for each limit and second.

use std::cell::Cell;

use crate::clock;
use crate::metrics::LimitKind;

/// Least time between two lines about one limit, in milliseconds.
const LINE_EVERY_MS: u64 = 1_000;

/// The lines of one worker.
#[derive(Debug, Default)]
pub(crate) struct LimitLog {
    of: [LoggedLimit; KEYS.len()],
}

#[derive(Debug, Default)]
struct LoggedLimit {
    /// Time of the last line.
    logged_ms: Cell<Option<u64>>,
    /// Requests refused since then.
    unlogged: Cell<u64>,
}

/// The limits that refuse requests, and the keys that set them.
const KEYS: [(LimitKind, &str); 7] = [
    (LimitKind::Head, "head_bytes, head_fields or target_bytes in [limits]"),
    (LimitKind::HeadTime, "head_timeout in [limits]"),
    (LimitKind::Body, "body_bytes"),
    (LimitKind::BodyTime, "body_rate"),
    (LimitKind::SendTime, "write_stall"),
    (LimitKind::RequestRate, "rate_limit"),
    (LimitKind::Concurrency, "concurrency"),
];

impl LimitLog {
    /// Logs that `kind` has refused a request, which `describe` names.
    #[cold]
    pub(super) fn log(&self, kind: LimitKind, describe: impl FnOnce() -> String) {
        let known = KEYS.iter().zip(&self.of).find(|((of, _), _)| *of == kind);
        let Some(((_, key), limit)) = known else { return };
        let now_ms = clock::now_ms();
        if limit.logged_ms.get().is_some_and(|at| now_ms < at + LINE_EVERY_MS) {
            return limit.unlogged.set(limit.unlogged.get() + 1);
        }
        limit.logged_ms.set(Some(now_ms));
        let more = match limit.unlogged.take() {
            0 => String::new(),
            count => format!(" (and {count} more since the last line)"),
        };
        tracing::warn!("{}: refused by `{key}`{more}", describe());
    }
}
