//! Describes the upstreams of a mount, and what happens before and after they are asked.

use hurtle_http::semantics::caching::Heuristics;

use super::line;
use crate::config::Buffering;
use crate::handler::proxy::Proxy;

/// Describes the mount `at` of a proxy.
pub(super) fn describe(out: &mut String, at: &str, proxy: &Proxy) {
    let config = proxy.config();
    line(out, "mount", &format!("{at}: forwarded to {}", config.describe_upstreams()));
    if !config.base().is_empty() {
        let path = format!("the upstream gets {} in place of that of the mount", config.base());
        line(out, "path", &path);
    } else if config.strip_prefix {
        line(out, "path", "the upstream gets the path without that of the mount");
    }
    if let Some(fields) = &config.request_fields {
        line(out, "fields", &format!("of the request: {}", fields.describe()));
    }
    if let Some(version) = config.send_proxy_protocol {
        let text = format!("each connection begins with the PROXY protocol, {}", version.name());
        line(out, "client", &text);
    }
    line(out, "balance", &config.balancing.describe());
    if let Some(queue) = &config.queue {
        line(out, "queue", &queue.describe());
    }
    if !config.connecting.retry_for.is_zero() {
        let time_ms = config.connecting.retry_for.as_millis();
        line(out, "retry", &format!("for {time_ms} ms while no upstream accepts connections"));
    }
    describe_buffering(out, config.buffer.kind);
    describe_cache(out, proxy);
}

/// Describes bodies that are not kept for slow clients.
pub(super) fn describe_buffering(out: &mut String, buffering: Buffering) {
    let passed_on = match buffering {
        Buffering::Both => return,
        Buffering::Request => "request: bodies of responses",
        Buffering::Response => "response: bodies of requests",
        Buffering::Off => "off: bodies",
    };
    line(out, "buffer", &format!("{passed_on} are passed on as they arrive"));
}

fn describe_cache(out: &mut String, proxy: &Proxy) {
    let Some(cache) = proxy.cache() else { return };
    let lifetime =
        format!("max-age, s-maxage or Expires; {}", without_lifetime(cache.heuristics()));
    let least = format!("a GET's response is stored for the lifetime it gives: {lifetime}");
    line(out, "cache", &least);
    line(out, "", &format!("not if its body is longer than {} bytes", cache.object_bytes_max()));
    line(out, "", "not with Cache-Control: no-store, private or no-cache, or Vary: *");
    line(out, "", "not with Set-Cookie, unless public or s-maxage");
    line(
        out,
        "",
        "not if the request has Authorization, unless public, s-maxage or must-revalidate",
    );
    line(out, "", "Cache-Status of each response says what happened; detail= why it is not stored");
}

/// Describes what becomes of a response without an explicit lifetime.
fn without_lifetime(heuristics: &Heuristics) -> String {
    let Heuristics { lifetimes, percent } = heuristics;
    if lifetimes.is_empty() && *percent == 0 {
        return "heuristic_percent is 0, so without one it is not stored".to_owned();
    }
    let mut parts: Vec<String> = lifetimes
        .by_status
        .iter()
        .map(|(status, s)| format!("{s} s for {}", status.as_str()))
        .collect();
    let others = if parts.is_empty() { "" } else { " for any other status" };
    parts.push(match (lifetimes.any, percent) {
        (Some(seconds), _) => format!("{seconds} s{others}"),
        (None, 0) => "no other status is stored".to_owned(),
        (None, percent) => format!("{percent} % of the time since Last-Modified{others}"),
    });
    format!("without one, {}", parts.join(", "))
}
