//! The step `write`: writes the outcome of a request, by its kind. Each ends with the log record.

use http::StatusCode;
use hurtle_http::request::RequestHead;

use super::client::Incoming;
use super::connection::{Connection, Next};
use super::exchange::Exchange;
use super::handle::internal_file;
use super::observe::{count_limit, observe_unanswered};
use super::refuse::refuse_body;
use super::relay::{Unsent, relay};
use super::resolve::Routed;
use super::respond::{respond, respond_beside};
use super::send::next_after;
use super::tunnel::{OpenTunnel, open_tunnel};
use crate::answer::Answer;
use crate::clock;
use crate::handler::Outcome;
use crate::handler::client::ExchangeError;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// The end of the last step of an exchange.
pub(super) enum Last {
    Next(Next),
    /// The client has the head that opens a tunnel, which is to be run.
    Tunnel(Box<OpenTunnel>),
}

impl From<Next> for Last {
    fn from(next: Next) -> Last {
        Last::Next(next)
    }
}

/// Writes the outcome of a handler by its kind.
///
/// # Errors
/// Nothing was sent: another response is to be written.
pub(super) async fn write<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    outcome: Outcome,
    incoming: Incoming,
) -> Result<Last, Box<Unsent>> {
    let Routed { request, resolved, .. } = routed;
    let next = match outcome {
        Outcome::Answer(answer) => {
            count_limit(connection, exchange, &answer);
            write_answer(connection, exchange, request, Some(resolved), answer, incoming).await
        }
        Outcome::Stream(response) => {
            relay(connection, exchange, request, resolved, response, incoming).await?
        }
        Outcome::Tunnel(tunnel) => {
            let opened = open_tunnel(connection, exchange, request, resolved, tunnel).await;
            return Ok(opened.map_or_else(Last::Next, Last::Tunnel));
        }
        Outcome::InternalRedirect(redirect) => {
            let answer = internal_file(connection, routed, &redirect).await;
            if answer.status.as_u16() >= 400 {
                return Err(Box::new(Unsent { error: answer, incoming }));
            }
            write_answer(connection, exchange, request, Some(resolved), answer, incoming).await
        }
        // The caller runs it in another mount.
        Outcome::Otherwise => Next::Drop,
        Outcome::Abort => {
            observe_unanswered(connection, exchange, request, Ok(()));
            Next::Abort
        }
    };
    Ok(next.into())
}

/// Writes the response that refuses a request before it is handled.
pub(super) async fn write_refusal<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    mut answer: Answer,
) -> Next {
    if let Some(media_type) = request.call_type() {
        answer = Answer::grpc(&answer, media_type);
    }
    // With 2xx a WebSocket would be open (RFC 8441 section 5).
    if request.protocol.is_some() && answer.status.is_success() {
        answer.status = StatusCode::FORBIDDEN;
    }
    let incoming = Incoming::of(request);
    write_answer(connection, exchange, request, Some(resolved), answer, incoming).await
}

/// Writes a response. `resolved`: `None` if no site has the request's host.
pub(super) async fn write_answer<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: Option<&Resolved<'_>>,
    mut answer: Answer,
    incoming: Incoming,
) -> Next {
    let now_ms = clock::now_ms();
    let unread = match incoming {
        Incoming::Done => false,
        Incoming::Unread => true,
        Incoming::Arriving(arriving) => {
            return respond_beside(connection, exchange, request, resolved, answer, *arriving)
                .await;
        }
    };
    respond(connection, exchange, request, resolved, &mut answer, now_ms, unread).await
}

/// Ends an exchange that has no response, except to a request body that is malformed, too large or
/// too slow.
pub(super) async fn end_exchange<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: Option<&Resolved<'_>>,
    error: ExchangeError,
) -> Next {
    match error {
        ExchangeError::ParseError(error) => {
            refuse_body(connection, exchange, request, resolved, error).await
        }
        ExchangeError::Stalled
        | ExchangeError::Gone
        | ExchangeError::ResponseBody
        | ExchangeError::UpstreamTimeout => {
            observe_unanswered(connection, exchange, request, Err(error));
            next_after(error)
        }
    }
}
