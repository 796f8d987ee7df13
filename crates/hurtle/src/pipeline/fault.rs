//! Errors between the client and an upstream, and their log lines.

use http::StatusCode;
use hurtle_http::request::RequestHead;

use super::duplex::ExchangeError;
use super::request_info::path_of;
use crate::handler::proxy::{UpstreamError, UpstreamRequest};

/// The error if no upstream returned a response head.
pub(super) enum ForwardError {
    /// All upstreams failed; the client gets this status.
    Status(StatusCode),
    /// The exchange with the client ended.
    Exchange(ExchangeError),
}

/// The error of waiting for one upstream's response.
pub(super) enum ListenError {
    UpstreamError(UpstreamError),
    Exchange(ExchangeError),
}

impl From<UpstreamError> for ListenError {
    fn from(fault: UpstreamError) -> ListenError {
        ListenError::UpstreamError(fault)
    }
}

impl From<ExchangeError> for ListenError {
    fn from(broken: ExchangeError) -> ListenError {
        ListenError::Exchange(broken)
    }
}

/// Logs an upstream's error with the status that the client gets.
pub(super) fn tell(
    upstream: &UpstreamRequest,
    what: &str,
    why: &dyn std::fmt::Display,
    status: StatusCode,
) {
    tracing::error!("upstream {}: {why} ({what}: {})", upstream.upstream_name(), status.as_u16());
}

/// Formats a request for the log: method and path.
pub(super) fn named(request: &RequestHead<'_>) -> String {
    let method = String::from_utf8_lossy(request.method.as_bytes());
    // The query is omitted, because it may hold secrets.
    let path = path_of(&request.target).map_or(b"*".as_slice(), |(path, _)| path);
    format!("{method} {}", String::from_utf8_lossy(path))
}
