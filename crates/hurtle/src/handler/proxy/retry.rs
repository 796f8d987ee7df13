//! Decides whether a request is tried again: at once, or after a wait while no upstream accepts
//! connections (`retry_for`), such as during a restart.

use std::rc::Rc;
use std::time::Duration;

use super::peer::UpstreamError;
use super::{Phase, Proxy, RawHead, UpstreamRequest};
use crate::clock;
use crate::metrics::UpstreamOutcome;

/// Most attempts of one request.
const TRIES_MAX: usize = 3;

/// Pause between two attempts of a request.
const PAUSE_MS: u64 = 250;

/// Most requests of a worker that wait for the upstreams of a mount; others fail at once.
const HELD_MAX: usize = 1_024;

/// The wait of a request.
#[derive(Debug)]
pub(super) struct Hold {
    /// Time at which it ends, in milliseconds.
    until_ms: u64,
    /// Counts the request among those that wait.
    proxy: Rc<Proxy>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.proxy.held.set(self.proxy.held.get() - 1);
    }
}

impl UpstreamRequest {
    /// `true` if the request may be retried after a failure. It was not processed or is idempotent,
    /// none of its body is lost, and the retry budget allows it. The budget is charged.
    pub(crate) fn may_retry(&mut self, error: &UpstreamError) -> bool {
        let unsent = matches!(
            error,
            UpstreamError::Unresolved(_)
                | UpstreamError::Refused(_)
                | UpstreamError::Handshake(_)
                | UpstreamError::Unprocessed
                | UpstreamError::Busy
        );
        let unanswered = matches!(error, UpstreamError::Gone(_) | UpstreamError::NotRead(_));
        let harmless = unsent || (unanswered && self.idempotent);
        harmless && self.has_retry_left()
    }

    /// Returns whether another upstream gets the request, because this one has answered with a
    /// status of `retry_status`; records that as a failure. The budget is charged.
    pub(super) fn retries(&mut self, head: &RawHead, describe: impl FnOnce() -> String) -> bool {
        let listed = &self.proxy.config.retry_status;
        if listed.is_empty() || !self.idempotent {
            return false;
        }
        let status = std::str::from_utf8(head.status()).ok().and_then(|digits| digits.parse().ok());
        let Some(status) = status.filter(|status| listed.iter().any(|of| of.contains(*status)))
        else {
            return false;
        };
        let has_other = self.number().is_some_and(|own| self.proxy.has_other(own, &self.tried));
        if !has_other || !self.has_retry_left() {
            return false;
        }
        tracing::warn!(
            "upstream {}: status {status} ({}: retried)",
            self.upstream_name(),
            describe()
        );
        self.is_delivered = true;
        self.count_failed(UpstreamOutcome::Failed);
        true
    }

    /// `true` if the request may be retried after a connect timeout. The budget is charged.
    pub(crate) fn may_retry_late(&mut self) -> bool {
        self.phase() == Phase::Connecting && self.has_retry_left()
    }

    fn has_retry_left(&mut self) -> bool {
        self.tries < TRIES_MAX && self.sender.is_repeatable() && self.proxy.charge_retry()
    }

    /// Returns whether a request that no upstream has got may wait for one.
    pub(super) fn may_hold(&self) -> bool {
        let is_due = match &self.hold {
            Some(hold) => clock::now_ms() < hold.until_ms,
            None => {
                !self.proxy.config.connecting.retry_for.is_zero()
                    && self.proxy.held.get() < HELD_MAX
            }
        };
        is_due && !self.is_delivered && self.is_repeatable()
    }

    /// `true` from the first wait on.
    pub(super) fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Begins a pause, after which every upstream is tried again. `None`: the request fails.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        if !self.may_hold() {
            return None;
        }
        let now_ms = clock::now_ms();
        let hold = self.hold.get_or_insert_with(|| {
            let proxy = Rc::clone(&self.proxy);
            proxy.held.set(proxy.held.get() + 1);
            let time_ms = proxy.config.connecting.retry_for.as_millis() as u64;
            Hold { until_ms: now_ms.saturating_add(time_ms), proxy }
        });
        let pause_ms = PAUSE_MS.min(hold.until_ms.saturating_sub(now_ms));
        self.try_anew();
        Some(Duration::from_millis(pause_ms))
    }

    /// Returns whether the upstream has not got the request because of a failed connection.
    pub(super) fn is_unconnected(&self, error: Option<&UpstreamError>) -> bool {
        match error {
            None => self.phase() == Phase::Connecting,
            Some(error) => matches!(
                error,
                UpstreamError::Unresolved(_)
                    | UpstreamError::Refused(_)
                    | UpstreamError::Handshake(_)
            ),
        }
    }

    /// `true` if nothing of the request's body is lost.
    pub(super) fn is_repeatable(&self) -> bool {
        self.sender.is_repeatable()
    }

    /// Forgets which upstreams have failed this request.
    pub(super) fn try_anew(&mut self) {
        self.tried.clear();
        self.tries = 0;
        self.vacate();
    }
}
