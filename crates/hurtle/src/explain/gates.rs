//! Describes the gates before a handler: limits and access.

use super::line;
use crate::config::{Concurrency, Jwt, RateLimit, Store};
use crate::site::{Authenticator, Resolved};

/// Describes the gates that apply to a request, in the order in which it passes them.
pub(super) fn describe(out: &mut String, resolved: &Resolved<'_>, store: Option<&Store>) {
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
        if let Some(store) = store {
            let url = store.url();
            line(out, "", &format!("over all servers that share {url}, prefix {:?}", store.prefix));
        }
    }
    match resolved.authenticator() {
        None => {}
        Some(Authenticator::Server(server)) => {
            line(out, "auth", &format!("{} decides about each request", server.url()));
        }
        Some(Authenticator::Token(gate)) => describe_token(out, gate.config()),
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

fn describe_token(out: &mut String, jwt: &Jwt) {
    let names: Vec<String> = jwt.algorithms.iter().map(|name| format!("{name:?}")).collect();
    let names = names.join(", ");
    let cookie = jwt.token_cookie.as_ref();
    let cookie = cookie.map_or_else(String::new, |name| format!(" or the cookie {name}"));
    let what = format!("requires a bearer token{cookie} signed with {names}, else 401");
    line(out, "auth", &what);
    line(out, "", &format!("its key is in {}", jwt.jwks));
    let claims = [("iss", &jwt.issuer), ("aud", &jwt.audience)];
    for (name, accepted) in claims.iter().filter(|(_, accepted)| !accepted.is_empty()) {
        line(out, "", &format!("its claim {name} has {}", accepted.join(" or ")));
    }
    for (claim, field) in &jwt.claims {
        line(out, "", &format!("its claim {claim} is in the request field {field}"));
    }
}
