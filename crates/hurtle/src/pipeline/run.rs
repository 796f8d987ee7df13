//! One exchange from its first step to its last: `resolve`, `gates`, `handle`, `finish` and
//! `write`, `observe`. What is rare is boxed, because a connection is as large as its largest wait.

use std::mem;
use std::rc::Rc;
use std::time::Instant;

use http::HeaderName;
use hurtle_http::request::{RequestFields, RequestHead};

use super::client::Incoming;
use super::connection::{Connection, Next};
use super::errors::{FailedRequest, intercept, own_page, replace, without_body};
use super::exchange::Exchange;
use super::gates::{Granted, Passage, Refusal, pass, pass_at_once};
use super::handle::{Additions, Handling, handle, handle_for_site, refuse_host};
use super::identify::Identity;
use super::known::known_answer;
use super::limits::put_back_rates;
use super::observe::{count_buffered, count_limit, hit, record_in_flight, time_known};
use super::relay::{Unsent, relay};
use super::resolve::{Routed, resolve};
use super::respond::respond;
use super::tunnel::run_tunnel;
use super::worker::Worker;
use super::write::{Last, end_exchange, write, write_answer, write_refusal};
use crate::answer::Answer;
use crate::clock;
use crate::config::ErrorPage;
use crate::handler::{Handled, HandlerError, Outcome};
use crate::limits::concurrency::Place;
use crate::metrics::LimitKind;
use crate::protocol::Protocol;
use crate::rt::await_in_place;
use crate::site::Gate;

/// Handles one request and sends its response. Returns the next step of the connection.
pub(crate) async fn run_exchange<T: Protocol>(
    connection: &mut Connection<T>,
    request: &RequestHead<'_>,
) -> Next {
    let exchange = &mut Exchange::begin(connection);
    let now_ms = clock::now_ms();
    connection.slot.update(&mut connection.worker);
    let worker = Rc::clone(&connection.worker);

    let Some(resolved) = resolve(connection, exchange, &worker, request) else {
        connection.count_for(&worker.metrics.unrouted);
        exchange.begin_time();
        return Box::pin(misdirected(connection, exchange, request)).await;
    };
    // Most responses are known files or stored responses, which need no route.
    if let Some(mut answer) = known_answer(connection, exchange, request, &resolved, now_ms) {
        time_known(connection, exchange, request, &answer);
        let (resolved, answer) = (Some(&resolved), &mut answer);
        return await_in_place!(respond(
            connection, exchange, request, resolved, answer, now_ms, false
        ));
    }

    exchange.begun.get_or_insert_with(Instant::now);
    let routed = Routed { request, worker: &worker, resolved: &resolved };
    count_for(connection, exchange, routed);
    let last = match worker.tracing.is_on() {
        true => {
            let (lines, field_count, own_fields) = identify(connection, exchange, request, &worker);
            let fields = RequestFields::Lines(&lines);
            let request =
                RequestHead { fields, field_count, own_fields, section: None, ..request.clone() };
            let routed = Routed { request: &request, ..routed };
            Box::pin(run_route(connection, exchange, routed, now_ms)).await
        }
        false => await_in_place!(run_route(connection, exchange, routed, now_ms)),
    };
    match last {
        Last::Next(next) => next,
        Last::Tunnel(tunnel) => {
            // A tunnel may outlive the configuration.
            drop(worker);
            Box::pin(run_tunnel(connection, exchange, request, *tunnel)).await
        }
    }
}

/// Counts a request under its route from now on, with that route's timeouts.
fn count_for<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    Routed { request, resolved, .. }: Routed<'_, '_>,
) {
    connection.count_for(resolved.metrics());
    exchange.time_by(resolved.timeouts(), &connection.slot);
    record_in_flight(connection, exchange, request);
    count_buffered(connection, exchange);
}

/// Returns the field lines of a request with its IDs, their number, and the names of the IDs.
fn identify<T: Protocol>(
    connection: &Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    worker: &Worker,
) -> (Vec<u8>, usize, &'static [HeaderName]) {
    let identity = Identity::of(request, worker.tracing, connection.trusted().is_some());
    let (lines, count) = identity.lines(request);
    let own_fields = identity.own_fields();
    exchange.details().identity = Some(identity);
    (lines, count, own_fields)
}

/// Responds to a request for a host without a site.
async fn misdirected<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
) -> Next {
    match refuse_host(connection, exchange, request).await {
        (Ok(answer), incoming) => {
            write_answer(connection, exchange, request, None, answer, incoming).await
        }
        (Err(error), _) => end_exchange(connection, exchange, request, None, error).await,
    }
}

/// Runs the exchange of a request that no cache answers.
#[allow(clippy::manual_async_fn)] // An async fn would store its arguments twice.
fn run_route<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    mut now_ms: u64,
) -> impl Future<Output = Last> {
    async move {
        let Routed { request, resolved, .. } = routed;
        match pass_at_once(connection, exchange, routed) {
            Ok(Passage::Open) => {}
            Ok(Passage::Waits(from)) => {
                return Box::pin(run_gated(connection, exchange, routed, from)).await;
            }
            Err((number, refusal)) => {
                exchange.refused_at = u16::try_from(number).ok();
                return Box::pin(refuse_at_gate(connection, exchange, routed, refusal)).await;
            }
        }
        let Some(at) = resolved.mount() else {
            return Box::pin(run_site(connection, exchange, routed)).await;
        };
        let mut handling = await_in_place!(handle(connection, exchange, routed, &at, None, now_ms));
        if handling.has_waited {
            now_ms = clock::now_ms();
        }
        if at.0.intercepts_errors() {
            handling.handled = intercept(exchange, request, resolved, handling.handled);
        }
        // The two common outcomes are written here, because `deliver` has room for all of them.
        if let (Ok(Outcome::Answer(answer)), Incoming::Done) =
            (&mut handling.handled, &handling.incoming)
        {
            count_limit(connection, exchange, answer);
            let resolved = Some(resolved);
            let sent = await_in_place!(respond(
                connection, exchange, request, resolved, answer, now_ms, false
            ));
            return sent.into();
        }
        let incoming = handling.incoming;
        match handling.handled {
            Ok(Outcome::Stream(response)) => {
                let relayed = await_in_place!(relay(
                    connection, exchange, request, resolved, response, incoming
                ));
                match relayed {
                    Ok(next) => next.into(),
                    Err(unsent) => {
                        let Unsent { error, incoming } = *unsent;
                        let delivered =
                            deliver_error(connection, exchange, routed, error, incoming);
                        Box::pin(delivered).await.into()
                    }
                }
            }
            Ok(Outcome::Otherwise) => {
                let granted = Granted::default();
                Box::pin(run_otherwise(connection, exchange, routed, granted)).await
            }
            handled => {
                Box::pin(deliver(connection, exchange, routed, handled, incoming, &mut None)).await
            }
        }
    }
}

/// Runs an exchange whose gates from this number on may have to wait.
async fn run_gated<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    from: usize,
) -> Last {
    let gates = &routed.resolved.gates()[from..];
    match pass(connection, exchange, routed, gates, Granted::default()).await {
        Ok(granted) => run_granted(connection, exchange, routed, granted).await,
        Err((number, refusal)) => {
            exchange.refused_at = u16::try_from(from + number).ok();
            refuse_at_gate(connection, exchange, routed, refusal).await
        }
    }
}

/// Runs the exchange of a request for which a mount of files has no file: in the mount that such
/// requests are for, through the gates of that mount which the request has not passed.
async fn run_otherwise<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    granted: Granted,
) -> Last {
    let passed = routed.resolved.gates();
    let Some(next) = routed.resolved.handed_on() else { return Next::Drop.into() };
    let mut rates = passed.iter().filter(|gate| gate.rates().is_some()).peekable();
    if rates.peek().is_some() {
        exchange.details().rates.extend(rates.cloned());
    }
    let routed = Routed { resolved: &next, ..routed };
    count_for(connection, exchange, routed);
    let is_new = |(_, gate): &(usize, &Gate)| !passed.iter().any(|passed| passed.is(gate));
    let gates = next.gates().iter().enumerate().filter(is_new);
    let (numbers, gates): (Vec<usize>, Vec<Gate>) =
        gates.map(|(n, gate)| (n, gate.clone())).unzip();
    match pass(connection, exchange, routed, &gates, granted).await {
        Ok(granted) => Box::pin(run_granted(connection, exchange, routed, granted)).await,
        Err((number, refusal)) => {
            if gates.get(number).is_some_and(Gate::limits_rate) {
                put_back_rates(exchange, routed);
            }
            exchange.refused_at =
                numbers.get(number).and_then(|number| u16::try_from(*number).ok());
            refuse_at_gate(connection, exchange, routed, refusal).await
        }
    }
}

/// Runs an exchange whose gates are passed.
async fn run_granted<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    mut granted: Granted,
) -> Last {
    let mut place = granted.place.take();
    let head = &granted.head(routed.request);
    let edited = routed.with(head);
    let Some(at) = routed.resolved.mount() else {
        return run_site(connection, exchange, edited).await;
    };
    let additions =
        Additions { variables: &granted.variables, place: place.as_ref(), replaced: None };
    let handling =
        handle(connection, exchange, edited, &at, Some(&additions), clock::now_ms()).await;
    let Handling { mut handled, incoming, .. } = handling;
    if place.as_ref().is_some_and(|place| place.is_refused()) {
        hit(connection, exchange, LimitKind::Concurrency, Some(head));
        let is_it = |gate: &Gate| matches!(gate, Gate::Concurrency(_));
        let at = routed.resolved.gates().iter().position(is_it);
        exchange.refused_at = at.and_then(|at| u16::try_from(at).ok());
    }
    if let Ok(Outcome::Otherwise) = handled {
        granted.place = place;
        return Box::pin(run_otherwise(connection, exchange, routed, granted)).await;
    }
    if at.0.intercepts_errors() {
        handled = intercept(exchange, head, routed.resolved, handled);
    }
    let mut last = deliver(connection, exchange, edited, handled, incoming, &mut place).await;
    if let Last::Tunnel(tunnel) = &mut last {
        tunnel.place = place;
    }
    last
}

/// Runs the exchange of a request without a mount.
async fn run_site<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
) -> Last {
    let (handled, incoming) = handle_for_site(connection, exchange, routed).await;
    deliver(connection, exchange, routed, handled, incoming, &mut None).await
}

/// Writes the response to a request that a gate has refused.
async fn refuse_at_gate<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    refusal: Refusal,
) -> Last {
    let Routed { request, resolved, .. } = routed;
    match refusal {
        Refusal::Plain(answer) => {
            write_refusal(connection, exchange, request, resolved, *answer).await.into()
        }
        Refusal::Error(answer) => {
            let incoming = Incoming::of(request);
            deliver_error(connection, exchange, routed, *answer, incoming).await.into()
        }
        Refusal::Handled(refused) => {
            let (handled, incoming) = *refused;
            deliver(connection, exchange, routed, handled, incoming, &mut None).await
        }
    }
}

/// Writes what a handler has returned, or what the client gets in place of it. `place` is freed
/// before an error, because a mount that responds to that may have the same limit.
async fn deliver<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    handled: Handled,
    incoming: Incoming,
    place: &mut Option<Rc<Place>>,
) -> Last {
    let Routed { request, resolved, .. } = routed;
    let (error, incoming) = match handled {
        Ok(outcome) => match write(connection, exchange, routed, outcome, incoming).await {
            Ok(last) => return last,
            Err(unsent) => (unsent.error, unsent.incoming),
        },
        Err(HandlerError::Answer(answer)) => {
            count_limit(connection, exchange, &answer);
            (*answer, incoming)
        }
        Err(HandlerError::Exchange(error)) => {
            let resolved = Some(resolved);
            return end_exchange(connection, exchange, request, resolved, error).await.into();
        }
    };
    *place = None;
    deliver_error(connection, exchange, routed, error, incoming).await.into()
}

/// Writes an error response of this server, or what the site has in place of it.
async fn deliver_error<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    answer: Answer,
    incoming: Incoming,
) -> Next {
    let Routed { request, resolved, .. } = routed;
    match own_page(routed, answer).await {
        Ok(answer) => {
            write_answer(connection, exchange, request, Some(resolved), answer, incoming).await
        }
        Err((plain, page)) => {
            let replaced = deliver_replacement(connection, exchange, routed, page, plain, incoming);
            Box::pin(replaced).await
        }
    }
}

/// Writes the response of a mount to an error. An exchange has one such response: an error of it is
/// sent as it is.
async fn deliver_replacement<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    Routed { request, worker, resolved }: Routed<'_, '_>,
    page: &ErrorPage,
    plain: Answer,
    incoming: Incoming,
) -> Next {
    let is_first = !mem::replace(&mut exchange.has_replacement, true);
    let gates = resolved.gates();
    let (passed, refusing) =
        match exchange.refused_at.take().and_then(|at| gates.split_at_checked(at.into())) {
            Some((passed, rest)) => (passed, rest.first()),
            None => (gates, None),
        };
    if let Some(next) = resolved.after_error(page, passed).filter(|_| is_first) {
        // A page has the status of the error, a mount with a name its own.
        let status = page.status.or(page.path().map(|_| plain.status));
        let mut lines = Vec::new();
        let get = &without_body(request, &mut lines);
        let routed = Routed { request: get, worker, resolved: &next };
        let rates = exchange.details.as_mut().map(|details| mem::take(&mut details.rates));
        let counted: Vec<&Gate> =
            passed.iter().chain(refusing).chain(rates.iter().flatten()).collect();
        let failed = FailedRequest { counted: &counted, refusing, plain: &plain };
        if let Some((handled, mut place)) =
            replace(connection, exchange, routed, &failed, status).await
        {
            connection.count_for(next.metrics());
            exchange.time_by(next.timeouts(), &connection.slot);
            let sent = deliver(connection, exchange, routed, handled, incoming, &mut place).await;
            return match sent {
                Last::Next(next) => next,
                // A GET without upgrades opens none.
                Last::Tunnel(_) => Next::Drop,
            };
        }
    }
    write_answer(connection, exchange, request, Some(resolved), plain, incoming).await
}
