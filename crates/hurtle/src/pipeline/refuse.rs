//! Refuses requests that are malformed, too large or too slow. The framing is unreliable then, so
//! the response is the connection's last.

use std::sync::Arc;

use hurtle_http::message::response::{Delimiter, Persistence};
use hurtle_http::request::PartialLine;
use hurtle_http::request::{ParseError, RequestHead};

use super::connection::{Connection, Next};
use super::exchange::{Exchange, RefusedLine};
use super::finish::{finish, finish_refusal};
use super::observe::{count_refusal, observe};
use super::send::{next_after, send};
use crate::answer::Answer;
use crate::body::Body;
use crate::clock;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// Bytes of a refused request's target that are logged.
const REFUSED_TARGET_BYTES_MAX: usize = 1 << 10;

/// Sends an error response to a request whose head is malformed, too large or too slow. `line` is
/// what was read of its request line.
pub(crate) async fn refuse<T: Protocol>(
    connection: &mut Connection<T>,
    error: ParseError,
    line: PartialLine<'_>,
) -> Next {
    let exchange = &mut Exchange::begin(connection);
    let unrouted = Arc::clone(&connection.metrics.unrouted);
    connection.count_for(&unrouted);
    count_refusal(connection, exchange, error, None);
    exchange.begin_time();
    let mut answer = Answer::error(error.status(), Some(&error.to_string()));
    if connection.io.is_secure() {
        // The request's host is unknown, but TLS has a server name.
        let name = connection.io.server_name();
        let sites = connection.worker.sites.at(connection.slot.listen());
        let found = sites.find(name.as_deref().map(str::as_bytes));
        finish_refusal(&mut answer, found.map(|(_, site)| site));
    }
    if !line.method.is_empty() || !line.target.is_empty() {
        let target = &line.target[..line.target.len().min(REFUSED_TARGET_BYTES_MAX)];
        let (method, target) = (line.method.into(), target.into());
        exchange.details().refused =
            Some(RefusedLine { method, target, is_http11: line.is_http11 });
    }
    let is_head = line.method == b"HEAD";
    send_last(connection, exchange, None, &answer, is_head).await
}

/// Sends an error response to a request whose body is malformed, too large or too slow.
pub(super) async fn refuse_body<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: Option<&Resolved<'_>>,
    error: ParseError,
) -> Next {
    count_refusal(connection, exchange, error, Some(request));
    let mut answer = Answer::error(error.status(), Some(&error.to_string()));
    finish(&mut answer, request, resolved, connection.io.is_secure());
    let is_head = request.method.as_bytes() == b"HEAD";
    send_last(connection, exchange, Some(request), &answer, is_head).await
}

/// Sends the last response of a connection. `None`: no request could be parsed.
async fn send_last<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    request: Option<&RequestHead<'_>>,
    answer: &Answer,
    is_head: bool,
) -> Next {
    let Answer { status, fields, body, .. } = answer;
    let delimiter = body.exact_len().map_or(Delimiter::Close, Delimiter::Length);
    let (persistence, now_ms) = (Persistence::Close, clock::now_ms());
    let head = connection.encode_head(*status, fields, delimiter, persistence, now_ms);
    let head_bytes = head.len() as u64;
    // RFC 9110 section 9.3.2: the response to HEAD has no content.
    let body = if is_head { &Body::Empty } else { body };
    let sent = send(connection, exchange, head, body).await;
    observe(connection, exchange, request, *status, head_bytes, sent);
    match sent {
        Ok(()) => Next::Linger,
        Err(error) => next_after(error),
    }
}
