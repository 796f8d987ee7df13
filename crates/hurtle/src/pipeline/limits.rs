//! The gates that limit requests: their rates, here and over several servers, and how many are
//! handled at once.

use std::rc::Rc;
use std::sync::Arc;

use super::connection::Connection;
use super::exchange::Exchange;
use super::observe::hit;
use super::resolve::Routed;
use crate::answer::Answer;
use crate::clock;
use crate::handler::HandlerError;
use crate::handler::client::ExchangeError;
use crate::limits::concurrency::{ConcurrencyLimiter, Place};
use crate::limits::rate::{RateExceededError, RateLimiter, Requester};
use crate::metrics::LimitKind;
use crate::protocol::Protocol;
use crate::rt::{self, First};
use crate::shared_store::{Decision, SharedStore};
use crate::site::Gate;

/// Returns the properties by which rate limits tell clients apart.
fn requester<'a>(exchange: &Exchange, routed: Routed<'a, '_>) -> Requester<'a> {
    let path = routed.resolved.target().map_or(&b""[..], |(path, _)| path);
    Requester { address: exchange.client, path, head: routed.request }
}

/// Checks the request against the rate limits. One that a limit refuses counts for none.
///
/// # Errors
/// The response: 429.
pub(super) fn check_rates<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    limiters: &[Arc<RateLimiter>],
    routed: Routed<'_, '_>,
) -> Result<(), Box<Answer>> {
    let requester = requester(exchange, routed);
    let now_ns = clock::now_ms().saturating_mul(1_000_000);
    for (number, limiter) in limiters.iter().enumerate() {
        let Some(key) = limiter.key(&requester) else { continue };
        if let Err(error) = limiter.take(key, now_ns) {
            for taken in &limiters[..number] {
                taken.key(&requester).into_iter().for_each(|key| taken.put_back(key));
            }
            hit(connection, exchange, LimitKind::RequestRate, Some(routed.request));
            return Err(Box::new(limiter.refusal(error)));
        }
    }
    Ok(())
}

/// Puts back what the rate limits of this server have counted of a request in the mounts before its
/// own, because a limit of that one refuses it.
pub(super) fn put_back_rates(exchange: &Exchange, routed: Routed<'_, '_>) {
    let requester = requester(exchange, routed);
    let counted = exchange.details.iter().flat_map(|details| &details.rates);
    for limiter in counted.filter_map(Gate::rates).flatten() {
        limiter.key(&requester).into_iter().for_each(|key| limiter.put_back(key));
    }
}

/// Checks the request against the rate limits over all servers that share the store. This server's
/// own limits have accepted it, and decide if the store does not.
///
/// # Errors
/// The response: 429.
pub(super) async fn check_shared_rates<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    store: &SharedStore,
    limiters: &[Arc<RateLimiter>],
    routed: Routed<'_, '_>,
) -> Result<(), Box<Answer>> {
    let requester = requester(exchange, routed);
    let limits = limiters.iter().map(|limiter| &**limiter);
    let keyed = limits.filter_map(|limiter| Some((limiter, limiter.shared(&requester)?)));
    let (limiters, allowances): (Vec<_>, Vec<_>) = keyed.unzip();
    if allowances.is_empty() {
        return Ok(());
    }
    let Decision::Refused { number, wait_ns } = store.take(&allowances).await else {
        return Ok(());
    };
    for limiter in &limiters {
        limiter.key(&requester).into_iter().for_each(|key| limiter.put_back(key));
    }
    hit(connection, exchange, LimitKind::RequestRate, Some(routed.request));
    match limiters.get(number) {
        Some(limiter) => Err(Box::new(limiter.refusal(RateExceededError { wait_ns }))),
        None => Ok(()),
    }
}

/// Waits for a place of a concurrency limit. A request whose body is taken whole first gets one
/// that its handler takes then, unless it would be refused now.
///
/// # Errors
/// The response (503), or the client is gone.
pub(super) async fn find_place<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    limiter: &Arc<ConcurrencyLimiter>,
    Routed { request, resolved, .. }: Routed<'_, '_>,
) -> Result<Rc<Place>, HandlerError> {
    let place = Place::new(limiter);
    let mount = resolved.mount().map(|(mount, _)| mount);
    let is_later = mount.is_some_and(|mount| mount.handler().takes_body(request));
    if !is_later || limiter.is_full() {
        match rt::race(place.take(), connection.io.reset()).await {
            First::A(Ok(())) => {}
            First::A(Err(error)) => {
                hit(connection, exchange, LimitKind::Concurrency, Some(request));
                return Err(HandlerError::unavailable(&error.to_string()));
            }
            First::B(()) => return Err(HandlerError::Exchange(ExchangeError::Gone)),
        }
    }
    Ok(Rc::new(place))
}
