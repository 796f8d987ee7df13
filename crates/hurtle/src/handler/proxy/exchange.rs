//! The state of one exchange with an upstream, and the response that it ends with.

use http::StatusCode;
use hurtle_http::semantics::accept::Coding;

use super::super::client::EncodedHead;
use super::super::wait::Waits;
use super::framing::Framing;
use super::upstream_request::UpstreamRequest;
use crate::transport::Output;

/// An exchange in progress.
pub struct UpstreamExchange {
    /// The request.
    pub upstream: UpstreamRequest,
    /// The upstream's deadlines.
    pub waits: Waits,
    /// The protocol to switch to, if the upstream accepts it.
    pub(super) protocol: Option<String>,
    /// `true` if the client was sent 100 (Continue).
    pub(super) has_continued: bool,
}

/// A response for the client, whose body is read from the upstream.
pub struct UpstreamResponse {
    /// The exchange.
    pub exchange: Box<UpstreamExchange>,
    /// The response's head for the client.
    pub head: EncodedHead,
    /// The framing of its body.
    pub framing: Framing,
    /// The content-coding to apply to the body; `None`: it is relayed as it is.
    pub coding: Option<Coding>,
    /// The response's status.
    pub status: StatusCode,
    /// `true` if the upstream's connection can be reused after the body.
    pub keeps_upstream: bool,
}

/// The connection to an upstream that has switched protocols.
pub struct UpstreamTunnel {
    /// The encoded head of the 101 for the client.
    pub head: Output,
    /// The request.
    pub upstream: UpstreamRequest,
}

impl UpstreamExchange {
    /// Creates the exchange of a request without a body, which switches no protocol.
    pub(super) fn bodiless(upstream: UpstreamRequest) -> UpstreamExchange {
        UpstreamExchange { upstream, waits: Waits::default(), protocol: None, has_continued: false }
    }
}
