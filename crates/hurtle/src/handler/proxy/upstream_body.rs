//! The body of an upstream's response until its end: its framing, its coding, and the upstream that
//! sends it. `relay` yields its frames.

use std::mem;

use http::{HeaderMap, StatusCode};
use hurtle_http::message::response::Delimiter;
use hurtle_http::request::RequestHead;
use hurtle_http::request::grpc_web::WebFormat;
use hurtle_http::semantics::accept::Coding;

use super::super::client::ExchangeError;
use super::attempt_log::log_failure;
use super::framing::Framing;
use super::relay::{Failure, RelayError};
use super::upstream_request::UpstreamRequest;
use crate::observe::UpstreamLog;
use crate::transport::Input;

/// The body of an upstream's response.
pub(crate) struct UpstreamBody {
    pub(super) upstream: Box<UpstreamRequest>,
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
pub(crate) enum BodyCoding {
    Content(Coding),
    /// gRPC-Web, whose trailers are part of the body.
    Web(WebFormat),
}

/// The end of a response whose body was not relayed completely.
pub(crate) enum RelayEnd {
    /// The response is cut short. A call whose upstream failed has these trailers.
    Cut(ExchangeError, Option<HeaderMap>),
    /// The body ends with the status of the failed call.
    Reported(ExchangeError),
    /// Nothing was sent; the client gets this status.
    Unsent(StatusCode),
}

impl UpstreamBody {
    /// Returns the delimiter towards the client.
    pub(crate) fn delimiter(&self) -> Delimiter {
        self.framing.delimiter
    }

    /// Returns the length in bytes, or that of the response to GET, if it is known.
    pub(crate) fn described_len(&self) -> Option<u64> {
        self.len
    }

    /// Encodes the body on its way, for a client of HTTP/1.1 or later.
    pub(crate) fn encode(&mut self, coding: Coding) {
        self.coding = Some(BodyCoding::Content(coding));
        self.framing.encode(false);
    }

    /// Takes the input that holds the whole body, with the body's length, and leaves the upstream.
    /// `None` unless the body has arrived and is sent as it is.
    pub(crate) fn take_whole(&mut self) -> Option<(Input, usize)> {
        let UpstreamBody { upstream, framing, coding, keeps_upstream, .. } = self;
        if coding.is_some() || !upstream.is_sent() {
            return None;
        }
        let len = framing.known_len()?;
        let input = &mut upstream.link()?.input;
        let arrived = input.bytes().len();
        if arrived < len {
            return None;
        }
        let input = mem::take(input);
        // Bytes after the response belong to no request (RFC 9112 section 11.1).
        upstream.leave(*keeps_upstream && arrived == len);
        Some((input, len))
    }

    /// Returns the upstream with its times, for the log.
    pub(crate) fn log(&self) -> UpstreamLog {
        self.upstream.times()
    }

    /// Returns the upstream's connection to the idle ones, after the body was relayed to its end.
    pub(crate) fn finish(&mut self) {
        if self.keeps_upstream {
            self.upstream.finish();
        }
    }

    /// Returns the end of a response that an error has ended, and logs a failure of the upstream.
    /// `description` has the request for the log; `has_sent`: the client may have the head.
    pub(crate) fn end(
        &self,
        error: RelayError,
        request: &RequestHead<'_>,
        description: impl FnOnce() -> String,
        has_sent: bool,
    ) -> RelayEnd {
        let failure = match error {
            RelayError::Client(error) => return RelayEnd::Cut(error, None),
            RelayError::Upstream(failure) => failure,
        };
        let (upstream, Failure { reason, status, .. }) = (&*self.upstream, &*failure);
        log_failure(upstream, &description(), reason, *status);
        if !has_sent {
            return RelayEnd::Unsent(*status);
        }
        if failure.is_reported {
            return RelayEnd::Reported(ExchangeError::ResponseBody);
        }
        let error = match *status {
            StatusCode::GATEWAY_TIMEOUT => ExchangeError::UpstreamTimeout,
            _ => ExchangeError::ResponseBody,
        };
        let trailers = request.is_grpc().then(|| failure.grpc_fields(upstream, request));
        RelayEnd::Cut(error, trailers)
    }
}
