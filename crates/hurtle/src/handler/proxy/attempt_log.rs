//! Log lines about upstreams that fail.

use std::fmt::Display;

use http::StatusCode;

use super::UpstreamRequest;

/// Logs an upstream's error with the status that the client gets. `request` describes the request.
pub(super) fn log_failure(
    upstream: &UpstreamRequest,
    request: &str,
    error: &dyn Display,
    status: StatusCode,
) {
    let name = upstream.upstream_name();
    tracing::error!("upstream {name}: {error} ({request}: {})", status.as_u16());
}

/// Logs an attempt that failed. With a retry the client does not notice it; if an idle connection
/// was closed meanwhile, nothing is wrong at all.
pub(super) fn log_attempt(
    upstream: &UpstreamRequest,
    request: &str,
    error: &dyn Display,
    status: StatusCode,
    retry: bool,
) {
    if !retry {
        return log_failure(upstream, request, error, status);
    }
    // One line for a request that waits.
    if upstream.is_held() {
        return;
    }
    let name = upstream.upstream_name();
    match upstream.is_on_idle_connection() {
        true => tracing::info!("upstream {name}: {error} ({request}: retried)"),
        false => tracing::warn!("upstream {name}: {error} ({request}: retried)"),
    }
}

/// Logs that no upstream is left to try; the failures of those that were tried are logged.
pub(super) fn log_unavailable(upstream: &UpstreamRequest, request: &str, status: StatusCode) {
    let error = match status {
        StatusCode::SERVICE_UNAVAILABLE => "no upstream is available",
        _ => "no other upstream is available",
    };
    log_failure(upstream, request, &error, status);
}
