//! The state of one exchange with an upstream, and the response that it ends with.

use hurtle_http::h1::response_head::DetachedHead;

use super::super::wait::Waits;
use super::upstream_request::UpstreamRequest;
use crate::transport::{Output, Taken};

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
    /// The response's head.
    pub head: Box<ReceivedHead>,
}

/// A parsed head with its bytes.
pub struct ReceivedHead {
    /// The bytes.
    pub bytes: Taken,
    /// The result of parsing them.
    pub parsed: DetachedHead,
}

/// The connection to an upstream that has switched protocols.
pub struct UpstreamTunnel {
    /// The encoded head of the 101 for the client.
    pub head: Output,
    /// The request; the upstream counts it until it is dropped.
    pub upstream: UpstreamRequest,
}

impl UpstreamExchange {
    /// Creates an exchange.
    pub(super) fn new(upstream: UpstreamRequest, protocol: Option<String>) -> UpstreamExchange {
        UpstreamExchange { upstream, waits: Waits::default(), protocol, has_continued: false }
    }
}
