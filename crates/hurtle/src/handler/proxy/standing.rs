//! The standing of an upstream with one worker: failures, ejection and slow start.

use std::cell::Cell;
use std::time::Duration;

use crate::config::Ejection;

/// A whole share, in thousandths.
pub(super) const WHOLE: u64 = 1_000;

/// The least share in a slow start, in thousandths.
const SLOW_START_MIN: u64 = WHOLE / 10;

/// Failures, ejection and slow start of an upstream. Times are in milliseconds, on `clock`'s scale.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Failures in a row.
    failures: Cell<u32>,
    /// End of the current or last ejection.
    ejected_until_ms: Cell<u64>,
    /// Time of the last ejection; 0: there was none.
    last_ms: Cell<u64>,
    /// Time since which the upstream is available again; 0: it always was.
    back_ms: Cell<u64>,
    /// Start of the current window.
    window_ms: Cell<u64>,
    requests: Cell<u32>,
    errors: Cell<u32>,
}

impl Standing {
    /// Returns whether the upstream is ejected.
    pub(super) fn is_ejected(&self, now_ms: u64) -> bool {
        self.ejected_until_ms.get() > now_ms
    }

    /// Records a response that is no failure.
    pub(super) fn succeeded(&self) {
        self.failures.set(0);
    }

    /// Records a failure. Returns the reason for an ejection, if there is one.
    pub(super) fn failed(&self, ejection: &Ejection, now_ms: u64) -> Option<String> {
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        let by_share = self.count(true, ejection, now_ms);
        // After an ejection, a single failure starts the next one.
        let in_a_row = ejection.failures > 0 && failures >= ejection.failures;
        in_a_row.then(|| format!("{failures} failures in a row")).or(by_share)
    }

    /// Counts a response or failure in the window. Returns the reason for an ejection, if there is
    /// one.
    pub(super) fn count(&self, is_error: bool, ejection: &Ejection, now_ms: u64) -> Option<String> {
        let percent = ejection.errors_percent?;
        if now_ms.saturating_sub(self.window_ms.get()) >= ms(ejection.window) {
            self.begin_window(now_ms);
        }
        let requests = self.requests.get().saturating_add(1);
        let errors = self.errors.get().saturating_add(u32::from(is_error));
        self.requests.set(requests);
        self.errors.set(errors);
        let is_enough = requests >= ejection.min_requests
            && u64::from(errors) * 100 >= u64::from(percent) * u64::from(requests);
        (is_error && is_enough).then(|| format!("{errors} of {requests} requests failed"))
    }

    /// Ejects the upstream; returns for how long. Each ejection takes twice as long as the one
    /// before, until the upstream has served for as long as that one.
    pub(super) fn eject(&self, ejection: &Ejection, now_ms: u64) -> Duration {
        let last_ms = self.last_ms.get();
        let served_ms = now_ms.saturating_sub(self.ejected_until_ms.get());
        let time_ms = match last_ms > 0 && served_ms < last_ms {
            true => last_ms.saturating_mul(2).min(ms(ejection.max_time)),
            false => ms(ejection.time),
        };
        let until_ms = now_ms.saturating_add(time_ms);
        self.last_ms.set(time_ms);
        self.ejected_until_ms.set(until_ms);
        self.back_ms.set(until_ms);
        self.begin_window(until_ms);
        Duration::from_millis(time_ms)
    }

    /// Forgets failures and ejections: health checks have decided.
    pub(super) fn reset(&self) {
        self.failures.set(0);
        self.ejected_until_ms.set(0);
        self.last_ms.set(0);
        self.back_ms.set(0);
        self.begin_window(0);
    }

    /// Starts the slow start.
    pub(super) fn came_back(&self, now_ms: u64) {
        self.back_ms.set(now_ms);
    }

    /// Returns the upstream's share in a slow start of `slow_ms`, in thousandths of its weight.
    pub(super) fn share(&self, slow_ms: u64, now_ms: u64) -> u64 {
        let back_ms = self.back_ms.get();
        let since_ms = now_ms.saturating_sub(back_ms);
        if back_ms == 0 || since_ms >= slow_ms {
            return WHOLE;
        }
        (since_ms.saturating_mul(WHOLE) / slow_ms).max(SLOW_START_MIN)
    }

    fn begin_window(&self, now_ms: u64) {
        self.window_ms.set(now_ms);
        self.requests.set(0);
        self.errors.set(0);
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
