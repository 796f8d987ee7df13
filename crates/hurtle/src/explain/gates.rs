//! Describes the gates before a handler: limits and access.

use std::net::IpAddr;
use std::sync::Arc;

use super::line;
use crate::config::{ClientTimeouts, Concurrency, Cors, Jwt, RateLimit, Store};
use crate::limits::rate::RateLimiter;
use crate::site::{Gate, Resolved, admits};

/// Describes the gates that apply to a request of this client, in the order in which it passes
/// them. Returns whether one refuses it.
pub(super) fn describe(
    out: &mut String,
    resolved: &Resolved<'_>,
    store: Option<&Store>,
    client: Option<IpAddr>,
) -> bool {
    let mut is_refused = false;
    for gate in resolved.gates() {
        match gate {
            // `tls` has its own lines.
            Gate::AcmeChallenge | Gate::Channel => {}
            Gate::ClientCertificate => {
                line(out, "access", "requires a client certificate, else 403");
            }
            Gate::Maintenance(maintenance) => {
                let file = maintenance.file();
                is_refused |= file.exists();
                line(out, "limit", &format!("503 while there is {}", file.display()));
            }
            Gate::Cors(cors) => describe_cors(out, cors),
            Gate::Address(access) => {
                let is_admitted = admits(access, client);
                is_refused |= !is_admitted;
                let what = if is_admitted { "admits" } else { "refuses" };
                let client =
                    client.map_or("a local client".to_owned(), |client| client.to_string());
                line(
                    out,
                    "access",
                    &format!("{what} {client}; others get 403 by `allow` and `deny`"),
                );
            }
            Gate::BodySize(bytes) => {
                line(out, "limit", &format!("{bytes} bytes of a request body, else 413"));
            }
            Gate::Rate(limiters) => describe_rates(out, limiters),
            Gate::SharedRate(_) => {
                if let Some(store) = store {
                    let what = format!(
                        "over all servers that share {}, prefix {:?}",
                        store.url(),
                        store.prefix
                    );
                    line(out, "", &what);
                }
            }
            Gate::Token(tokens) => describe_token(out, tokens.config()),
            Gate::Forward(server) => {
                line(out, "auth", &format!("{} decides about each request", server.url()));
            }
            Gate::Basic(passwords) => {
                let realm = passwords.realm();
                line(out, "auth", &format!("requires a password for {realm:?}, else 401"));
            }
            Gate::Authorizer(authorizer) => {
                line(out, "auth", &format!("the authorizer {} decides first", authorizer.name()));
            }
            Gate::Concurrency(limiter) => describe_concurrency(out, limiter.config()),
        }
    }
    if let Some(timeouts) = resolved.timeouts() {
        describe_timeouts(out, timeouts);
    }
    is_refused
}

fn describe_timeouts(out: &mut String, timeouts: &ClientTimeouts) {
    let ClientTimeouts { body_rate, body_grace, write_stall } = timeouts;
    let rate = body_rate.map(|rate| format!("at least {rate} bytes of a body a second, else 408"));
    let grace = body_grace.map(|time| format!("{} ms for a slower body", time.as_millis()));
    let stall =
        write_stall.map(|time| format!("{} ms without progress of a response", time.as_millis()));
    rate.into_iter().chain(grace).chain(stall).for_each(|text| line(out, "limit", &text));
}

fn describe_cors(out: &mut String, cors: &Cors) {
    let origins: Vec<String> = cors.origins.iter().map(ToString::to_string).collect();
    let credentials = if cors.credentials { ", with credentials" } else { "" };
    line(out, "cors", &format!("allowed for {}{credentials}", origins.join(", ")));
}

fn describe_rates(out: &mut String, limiters: &[Arc<RateLimiter>]) {
    for limiter in limiters {
        let RateLimit { requests, burst, key } = limiter.config();
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        let key = key.join(" and ");
        line(out, "limit", &format!("{requests} for each {key}, {burst} at once, else 429"));
    }
}

fn describe_concurrency(out: &mut String, limit: &Concurrency) {
    let Concurrency { max, queue, queue_timeout } = limit;
    let wait = queue_timeout.as_millis();
    let queue = match queue {
        0 => String::new(),
        queue => format!(", {queue} more wait for at most {wait} ms"),
    };
    line(out, "limit", &format!("{max} requests at once{queue}, else 503"));
}

fn describe_token(out: &mut String, jwt: &Jwt) {
    let names: Vec<String> = jwt.rules.algorithms.iter().map(|name| format!("{name:?}")).collect();
    let names = names.join(", ");
    let cookie = jwt.rules.token_cookie.as_ref();
    let cookie = cookie.map_or_else(String::new, |name| format!(" or the cookie {name}"));
    let what = format!("requires a bearer token{cookie} signed with {names}, else 401");
    line(out, "auth", &what);
    line(out, "", &format!("its key is in {}", jwt.jwks));
    let claims = [("iss", &jwt.rules.issuer), ("aud", &jwt.rules.audience)];
    for (name, accepted) in claims.iter().filter(|(_, accepted)| !accepted.is_empty()) {
        line(out, "", &format!("its claim {name} has {}", accepted.join(" or ")));
    }
    for (claim, field) in &jwt.rules.claims {
        line(out, "", &format!("its claim {claim} is in the request field {field}"));
    }
}
