//! Describes the gates before a handler: limits and access.

use super::line;
use crate::config::{Concurrency, RateLimit};
use crate::site::Resolved;

/// Describes the gates that apply to a request, in the order in which it passes them.
pub(super) fn describe(out: &mut String, resolved: &Resolved<'_>) {
    if let Some(cors) = resolved.cors() {
        let origins: Vec<String> = cors.origins.iter().map(ToString::to_string).collect();
        let credentials = if cors.credentials { ", with credentials" } else { "" };
        line(out, "cors", &format!("allowed for {}{credentials}", origins.join(", ")));
    }
    for limiter in resolved.rate_limits() {
        let RateLimit { requests, burst, key } = limiter.config();
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        let key = key.join(" and ");
        line(out, "limit", &format!("{requests} for each {key}, {burst} at once, else 429"));
    }
    if let Some(server) = resolved.forward_auth() {
        line(out, "auth", &format!("{} decides about each request", server.url()));
    }
    if let Some(gate) = resolved.gate() {
        line(out, "auth", &format!("requires a password for {:?}, else 401", gate.realm()));
    }
    if let Some(authorizer) = resolved.authorizer() {
        line(out, "auth", &format!("the authorizer {} decides first", authorizer.name()));
    }
    if let Some(limiter) = resolved.concurrency() {
        let Concurrency { max, queue, queue_timeout } = limiter.config();
        let wait = queue_timeout.as_millis();
        let queue = match queue {
            0 => String::new(),
            queue => format!(", {queue} more wait for at most {wait} ms"),
        };
        line(out, "limit", &format!("{max} requests at once{queue}, else 503"));
    }
}
