//! The step `handle`: calls the handler of the route, or answers for the site where it has none.

use std::rc::Rc;

use http::{StatusCode, header};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::target::Target;

use super::client::{ExchangeClient, Incoming};
use super::connection::Connection;
use super::context::context;
use super::exchange::Exchange;
use super::gates::challenge;
use super::resolve::{Routed, needs_tls};
use crate::answer::Answer;
use crate::compress::forbids;
use crate::files::{FileQuery, Key};
use crate::handler::client::{Client, ExchangeError};
use crate::handler::request::{HandlerRequest, MatchedPath, RequestContext};
use crate::handler::{Handled, InternalRedirect, Outcome, own_response, refusal};
use crate::limits::concurrency::Place;
use crate::protocol::Protocol;
use crate::site::{MountRef, Resolved};

/// The outcome of a handler, and the state of the request's body.
pub(super) struct Handling {
    pub(super) handled: Handled,
    pub(super) incoming: Incoming,
    /// `true` if it has waited, so that time has passed.
    pub(super) has_waited: bool,
}

/// Additions to a request for its handler: those of its gates, and the error that it replaces.
pub(super) struct Additions<'a> {
    /// The variables of an authorizer.
    pub(super) variables: &'a [(Vec<u8>, Vec<u8>)],
    /// The place of `concurrency`.
    pub(super) place: Option<&'a Rc<Place>>,
    /// The status of the error that the response replaces.
    pub(super) replaced: Option<StatusCode>,
}

/// Calls the handler of a mount. `granted` are the additions of its gates, if there are some.
#[allow(clippy::manual_async_fn)] // An async fn would store its arguments twice.
pub(super) fn handle<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    at: &(&MountRef<'_>, MatchedPath<'_>),
    granted: Option<&Additions<'_>>,
    now_ms: u64,
) -> impl Future<Output = Handling> {
    async move {
        let (mount, matched) = *at;
        let context = context(connection, exchange, routed, mount, matched, now_ms);
        let context = match granted {
            None => context,
            Some(&Additions { variables: granted, place, replaced }) => {
                RequestContext { granted, place, replaced, ..context }
            }
        };
        let Routed { request, resolved, .. } = routed;
        let mut client = ExchangeClient::new(connection, exchange, request, Some(resolved));
        let handled = mount.handler().call(&context, &mut client).await;
        let ExchangeClient { incoming, has_waited, .. } = client;
        exchange.note_own_stream(mount.handler(), &handled);
        Handling { handled, incoming, has_waited }
    }
}

/// Handles a request for a host without a site, or for an https URL in clear.
pub(super) async fn refuse_host<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
) -> (Result<Answer, ExchangeError>, Incoming) {
    if let Some(answer) = challenge(connection, request) {
        return (Ok(answer), Incoming::of(request));
    }
    let needs_tls = needs_tls(connection, request);
    let mut client = ExchangeClient::new(connection, exchange, request, None);
    let is_for_server = request.target == Target::Asterisk;
    let answer = match refusal(request) {
        _ if needs_tls => Answer::error(
            StatusCode::MISDIRECTED_REQUEST,
            Some("an https URL needs a connection with TLS"),
        ),
        Some(refused) if request.method != Method::Options || is_for_server => refused,
        _ => Answer::error(StatusCode::MISDIRECTED_REQUEST, Some(&client.unknown_host())),
    };
    let discarded = client.discard_body(true).await;
    (discarded.map(|()| answer), client.incoming)
}

/// Returns the file of an internal redirect.
pub(super) async fn internal_file<T: Protocol>(
    connection: &Connection<T>,
    Routed { request, worker, resolved }: Routed<'_, '_>,
    redirect: &InternalRedirect,
) -> Answer {
    let mount = resolved.mount().map(|(mount, _)| mount);
    let Some(internal) = mount.and_then(|mount| mount.internal()) else {
        return Answer::error(StatusCode::NOT_FOUND, None);
    };
    let key = Key { site: resolved.site.key(), path: b"" };
    let mut query = HandlerRequest::new(request, key, connection.is_private);
    // RFC 9110 sections 13.2.1 and 14.2: preconditions and ranges apply to GET and HEAD only.
    if !matches!(request.method, Method::Get | Method::Head) {
        query.file = FileQuery::default();
    }
    let (edits, path) = (resolved.edits(), resolved.path());
    if edits.may_set(&header::CACHE_CONTROL, &path, forbids)
        || edits.may_set(&header::CONTENT_ENCODING, &path, |_| true)
    {
        query.file.accept_encoding = None;
    }
    internal.answer(&worker.store, redirect, &query).await
}

/// Handles a request without a mount.
pub(super) async fn handle_for_site<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    Routed { request, resolved, .. }: Routed<'_, '_>,
) -> (Handled, Incoming) {
    let mut client = ExchangeClient::new(connection, exchange, request, None);
    let handled = own_answer(request, resolved, &mut client).await;
    (handled, client.incoming)
}

/// Responds to a request whose route is a response of the site, or whose target has no path.
async fn own_answer(
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    client: &mut impl Client,
) -> Handled {
    let refused = match resolved.take_answer() {
        // A redirect of a rule is for every method, like that of a mount.
        Some(answer) if answer.status.is_redirection() => {
            client.discard_body(!matches!(request.method, Method::Get | Method::Head)).await?;
            return match request.method {
                Method::Other(b"TRACE") => own_response(Answer::trace_refused()),
                _ => own_response(answer),
            };
        }
        // The handlers of such a site take all methods, so the site's response is for all.
        Some(answer)
            if matches!(request.method, Method::Other(_)) && resolved.site.reads_bodies() =>
        {
            return own_response(answer);
        }
        Some(answer) => refusal(request).ok_or(own_response(answer)),
        None => {
            let not_found = Ok(Outcome::Answer(Answer::error(StatusCode::NOT_FOUND, None)));
            refusal(request).ok_or(not_found)
        }
    };
    client.discard_body(refused.is_ok()).await?;
    refused.map_or_else(|handled| handled, own_response)
}
