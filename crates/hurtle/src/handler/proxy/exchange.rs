//! The state of one exchange with an upstream, and the response that it ends with.

use std::sync::Arc;

use http::StatusCode;
use hurtle_http::h2::Reason;
use hurtle_http::request::RequestHead;
use hurtle_http::request::grpc_web::WebFormat;
use hurtle_http::semantics::accept::Coding;
use hurtle_http::semantics::grpc::{self, GrpcStatus};

use super::super::wait::Waits;
use super::framing::Framing;
use super::tunnel_end::TunnelEnd;
use super::upstream_request::UpstreamRequest;
use crate::answer::{Answer, Needs};
use crate::observe::BufferedBytes;
use crate::protocol::h2::StreamError;
use crate::transport::Input;

/// An exchange in progress.
pub struct UpstreamExchange {
    /// The request.
    pub upstream: UpstreamRequest,
    /// The upstream's deadlines.
    pub waits: Waits,
    /// The protocol to switch to, if the upstream accepts it.
    pub(super) protocol: Option<String>,
    /// The form of a gRPC-Web call that is translated to gRPC.
    pub(super) web: Option<WebFormat>,
    /// `true` if the client was sent 100 (Continue).
    pub(super) has_continued: bool,
    /// The bytes of its bodies that were kept in files.
    pub(super) buffered: Option<Arc<BufferedBytes>>,
}

/// A response for the client, whose body is read from the upstream.
pub struct UpstreamResponse {
    /// The response's status.
    pub status: StatusCode,
    /// Its field lines, with Date.
    pub lines: Vec<u8>,
    /// The edits that it still needs.
    pub needs: Needs,
    /// The value of a Set-Cookie of this server, which no edit of the site removes.
    pub cookie: Option<String>,
    /// The body.
    pub body: UpstreamBody,
}

/// The body of an upstream's response; `relay` yields its frames.
pub struct UpstreamBody {
    pub(super) exchange: Box<UpstreamExchange>,
    pub(super) framing: Framing,
    /// The length of the body, or of that of the response to GET, if it is known.
    pub(super) len: Option<u64>,
    /// The coding to apply to the body; `None`: it is relayed as it is.
    pub(super) coding: Option<BodyCoding>,
    /// `true` if the upstream's connection can be reused after the body.
    pub(super) keeps_upstream: bool,
    /// `true`: what the client cannot take yet is kept. Otherwise the upstream waits for the
    /// client.
    pub(super) is_kept: bool,
}

/// The coding of a body that is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyCoding {
    /// A content-coding.
    Content(Coding),
    /// gRPC-Web, whose trailers are part of the body.
    Web(WebFormat),
}

/// An upstream that has switched protocols.
pub struct UpstreamTunnel {
    /// The 101 for the client.
    pub head: Answer,
    /// Bytes of the new protocol that have arrived behind the upstream's head.
    pub received: Input,
    /// The upstream.
    pub end: TunnelEnd,
}

/// Returns the status of a gRPC call whose stream the upstream has ended, if it is another than
/// UNAVAILABLE. The upstream cancels a call whose deadline has passed.
pub(super) fn grpc_status(
    upstream: &UpstreamRequest,
    call: &RequestHead<'_>,
    error: &StreamError,
) -> Option<GrpcStatus> {
    let StreamError::Reset(reason) = error else { return None };
    let mut fields = call.fields.iter();
    let timeout = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-timeout"));
    let timeout = timeout.and_then(|(_, value)| grpc::timeout(value));
    let elapsed = upstream.times().chosen.map(|chosen| chosen.elapsed());
    let is_late = timeout.zip(elapsed).is_some_and(|(timeout, elapsed)| elapsed >= timeout);
    Some(match *reason {
        Reason::CANCEL if is_late => GrpcStatus::DEADLINE_EXCEEDED,
        reason => GrpcStatus::of_reset(reason.0),
    })
}

impl UpstreamExchange {
    /// Creates the exchange of a request without a body, which switches no protocol.
    pub(super) fn bodiless(upstream: UpstreamRequest) -> UpstreamExchange {
        UpstreamExchange {
            upstream,
            waits: Waits::default(),
            protocol: None,
            web: None,
            has_continued: false,
            buffered: None,
        }
    }
}
