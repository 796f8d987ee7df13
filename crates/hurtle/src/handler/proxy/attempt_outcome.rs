//! Records how an attempt ended: in the upstream's metrics and in its standing.

use http::StatusCode;
use hurtle_http::h2::Reason;
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::grpc::{self, GrpcStatus};

use super::link::{Channel, Link};
use super::peer::UpstreamError;
use super::phase::Phase;
use super::upstream_request::UpstreamRequest;
use crate::clock;
use crate::metrics::UpstreamOutcome;
use crate::protocol::h2::StreamError;

impl UpstreamRequest {
    /// Records a failure of the upstream.
    pub(crate) fn failed(&mut self, error: &UpstreamError) {
        let Some(peer) = self.peer() else { return };
        // The upstream closes the connection or protects itself, and may get the request again.
        let is_spared = matches!(error, UpstreamError::Unprocessed | UpstreamError::Busy);
        if is_spared
            || matches!(
                error,
                UpstreamError::BadRequest
                    | UpstreamError::LostBody(_)
                    | UpstreamError::NoConnectProtocol(_)
            )
        {
            return;
        }
        let silent = matches!(error, UpstreamError::Gone(_) | UpstreamError::NotRead(_));
        // The upstream may have closed an idle connection at the same moment, which is not a
        // failure.
        if silent && self.is_on_idle_connection() {
            return peer.close_idle();
        }
        // The connection broke beneath several requests, and a new one may carry this one.
        if silent && self.link.as_ref().is_some_and(|link| link.reused) {
            return self.record_failure(UpstreamOutcome::Failed);
        }
        self.is_delivered |= !self.is_unconnected(Some(error));
        self.count_failed(UpstreamOutcome::Failed);
    }

    /// Records a timeout of the upstream.
    pub(crate) fn timed_out(&mut self) {
        // A shared connection may be dead.
        if let Some(Link { channel: Channel::Stream(stream), .. }) = &self.link {
            stream.retire();
        }
        match self.phase() {
            Phase::Connecting => {
                self.peer().into_iter().for_each(|peer| peer.addresses.request_update());
            }
            _ => self.is_delivered = true,
        }
        self.count_failed(UpstreamOutcome::TimedOut);
    }

    /// Records a failure, after which this request tries other upstreams.
    pub(super) fn count_failed(&mut self, outcome: UpstreamOutcome) {
        self.record_failure(outcome);
        let number = self.number();
        self.tried.extend(number);
    }

    fn record_failure(&self, outcome: UpstreamOutcome) {
        let Some((number, peer)) = self.number().zip(self.peer()) else { return };
        peer.metrics().count(outcome, None);
        let now_ms = clock::now_ms();
        let ejection = &self.proxy.config.balancing.ejection;
        if let Some(reason) = peer.standing.failed(ejection, now_ms) {
            self.proxy.eject(number, &reason, now_ms);
        }
    }

    /// Records a response of the upstream.
    pub(crate) fn succeeded(&self, status: StatusCode) {
        let Some((number, peer)) = self.number().zip(self.peer()) else { return };
        let time = self.chosen.map(|chosen| chosen.elapsed());
        self.answered.set(time.unwrap_or_default());
        peer.metrics().count(UpstreamOutcome::Answered, time);
        peer.standing.succeeded();
        let ejection = &self.proxy.config.balancing.ejection;
        if ejection.errors_percent.is_some() {
            let (is_error, now_ms) = (status.is_server_error(), clock::now_ms());
            if let Some(reason) = peer.standing.count(is_error, ejection, now_ms) {
                self.proxy.eject(number, &reason, now_ms);
            }
        }
    }

    /// Returns the status of a gRPC call whose stream the upstream has ended, if it is another than
    /// UNAVAILABLE. The upstream cancels a call whose deadline has passed.
    pub(super) fn grpc_status(
        &self,
        call: &RequestHead<'_>,
        error: &StreamError,
    ) -> Option<GrpcStatus> {
        let StreamError::Reset(reason) = error else { return None };
        let mut fields = call.fields.iter();
        let timeout = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-timeout"));
        let timeout = timeout.and_then(|(_, value)| grpc::timeout(value));
        let elapsed = self.chosen.map(|chosen| chosen.elapsed());
        let is_late = timeout.zip(elapsed).is_some_and(|(timeout, elapsed)| elapsed >= timeout);
        Some(match *reason {
            Reason::CANCEL if is_late => GrpcStatus::DEADLINE_EXCEEDED,
            reason => GrpcStatus::of_reset(reason.0),
        })
    }
}
