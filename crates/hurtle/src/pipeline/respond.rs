//! Writes responses of this server and of applications. The request body is fed to its handler
//! while the response is sent.

use std::future::poll_fn;
use std::task::Poll;
use std::{io, mem};

use http::{StatusCode, header};
use hurtle_http::message::response::{Delimiter, Fields, Persistence};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::fields::has_token;

use super::arriving::{ArrivingBody, UNREAD_BYTES_MAX};
use super::beside::beside;
use super::body::discard_body;
use super::connection::{Connection, Next};
use super::duplex::Duplex;
use super::exchange::Exchange;
use super::finish::finish;
use super::observe::observe;
use super::send::{next_after, send};
use super::stream::StreamSender;
use super::worker::Worker;
use crate::answer::{Answer, declared_len, is_bodiless};
use crate::body::Body;
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::handler::wait::Waits;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// Sends a response of this server. The buffer of its fields is used again. `unread`: a request
/// body that no handler reads may still arrive.
pub(super) async fn respond<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: Option<&Resolved<'_>>,
    answer: &mut Answer,
    now_ms: u64,
    unread: bool,
) -> Next {
    let sends_body = request.method != Method::Head && !is_bodiless(answer.status);
    let is_secure = connection.io.is_secure();
    finish(answer, request, resolved, is_secure);
    if let Body::Stream(_) = answer.body {
        begin_body(answer, sends_body).await;
        if let Body::Stream(_) = answer.body {
            let answer = mem::replace(answer, Answer::empty(StatusCode::OK));
            let arriving = if unread { ArrivingBody::unread() } else { ArrivingBody::none() };
            let sending = respond_beside(connection, exchange, request, resolved, answer, arriving);
            return Box::pin(sending).await;
        }
    }
    if sends_body && let Body::File(_) = answer.body {
        warm(&connection.worker, request, answer, now_ms).await;
    }
    // If the body has failed, this is an error now, which is not finished yet.
    finish(answer, request, resolved, is_secure);
    let is_reusable = connection.count_request(request) && !unread && !says_close(&answer.fields);
    let delimiter = delimiter(request, answer);
    let persistence = persistence(request, is_reusable);
    let Answer { status, fields, .. } = &*answer;
    let head = connection.encode_head(*status, fields, delimiter, persistence, now_ms);
    let nothing = Body::Empty;
    let body = if sends_body { &answer.body } else { &nothing };
    let head_bytes = head.len() as u64;
    connection.worker.buffers.recycle(&mut answer.fields);
    exchange.begin_response();
    let sent = send(connection, exchange, head, body).await;
    observe(connection, exchange, Some(request), answer.status, head_bytes, sent);
    match sent {
        // A client that did not ask to close may have sent the next request already.
        Ok(()) => connection.after(is_reusable, unread || request.keep_alive),
        Err(error) => next_after(error),
    }
}

/// Sends a response while the request body may still be arriving.
pub(super) async fn respond_beside<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: Option<&Resolved<'_>>,
    mut answer: Answer,
    mut arriving: ArrivingBody,
) -> Next {
    let silent = request.method == Method::Head || is_bodiless(answer.status);
    let is_secure = connection.io.is_secure();
    finish(&mut answer, request, resolved, is_secure);
    begin_body(&mut answer, !silent).await;
    let declared = declared_len(&answer.fields);
    if !silent {
        warm(&connection.worker, request, &mut answer, clock::now_ms()).await;
    }
    // If the body has failed, this is an error now, which is not finished yet.
    finish(&mut answer, request, resolved, is_secure);
    let delimiter = match &answer.body {
        Body::Stream(stream) if !is_bodiless(answer.status) => {
            // Trailers do not follow a body of a length that the client knows.
            let takes_trailers = request.te_trailers && !request.http10;
            // The status of a gRPC call is in its trailers, announced or not.
            let has_trailers = announces_trailers(&answer.fields) || request.call_type().is_some();
            let takes_length = !(takes_trailers && has_trailers);
            match stream.exact_len().or(declared).filter(|_| takes_length) {
                Some(len) => Delimiter::Length(len),
                None if request.http10 => Delimiter::Close,
                None => Delimiter::Chunked,
            }
        }
        _ => delimiter(request, &answer),
    };
    let mut interim = Vec::new();
    arriving.precede(&connection.io, &mut interim);
    let is_reusable = connection.count_request(request)
        && arriving.allows_reuse()
        && delimiter != Delimiter::Close
        && !says_close(&answer.fields);
    let persistence = persistence(request, is_reusable);
    let Answer { status, fields, body, .. } = &mut answer;
    let now_ms = clock::now_ms();
    let mut out = connection.encode_head(*status, fields, delimiter, persistence, now_ms);
    if !interim.is_empty() {
        out.vec().splice(..0, interim);
    }
    let head_bytes = out.len() as u64;
    exchange.begin_response();
    let sent = match mem::take(body) {
        Body::Stream(stream) if !silent => {
            exchange.sent.moved.set(0);
            let trailers = request.te_trailers;
            let streaming = async |duplex: &Duplex<'_, T>| {
                let len = stream.exact_len().or(declared);
                let sending = StreamSender { duplex, out, delimiter, len, trailers };
                sending.run(stream).await
            };
            let waits = Waits::default();
            let sending = beside(connection, exchange, &mut arriving, &waits, streaming);
            Box::pin(sending).await.flatten()
        }
        body => send(connection, exchange, out, if silent { &Body::Empty } else { &body }).await,
    };
    observe(connection, exchange, Some(request), *status, head_bytes, sent);
    match sent {
        Ok(()) => discard_rest(connection, exchange, request, arriving, is_reusable).await,
        Err(error) => cut_by(error, delimiter),
    }
}

/// Discards the unread rest of the request body, then returns the next step of the connection.
pub(super) async fn discard_rest<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    request: &RequestHead<'_>,
    mut arriving: ArrivingBody,
    is_reusable: bool,
) -> Next {
    if !is_reusable || !arriving.allows_reuse() {
        // A client that did not ask to close may have sent the next request already.
        return connection.after(false, request.keep_alive || !arriving.is_complete());
    }
    arriving.cut();
    match discard_body(connection, exchange, &mut arriving.reading, UNREAD_BYTES_MAX).await {
        Ok(()) => connection.after(true, false),
        Err(Some(_)) => Next::Linger,
        Err(None) => Next::Drop,
    }
}

/// Waits until the start of a file body is in memory, so that a disk error can still replace the
/// response.
async fn warm(worker: &Worker, request: &RequestHead<'_>, answer: &mut Answer, now_ms: u64) {
    if !worker.sender.is_warm(&answer.body, now_ms)
        && let Err(e) = Box::pin(worker.sender.warm(&answer.body)).await
    {
        *answer = unreadable(request, &e);
    }
}

/// Polls the first frame of a response body that will be sent (see `Answer::begin_body`).
async fn begin_body(answer: &mut Answer, sends_body: bool) {
    if sends_body && let Body::Stream(_) = answer.body {
        poll_fn(|cx| {
            answer.begin_body(cx);
            Poll::Ready(())
        })
        .await;
    }
}

/// Returns whether an application's response says that it has trailers, as it should (RFC 9110
/// section 6.6.2, Trailer).
fn announces_trailers(fields: &Fields) -> bool {
    matches!(fields, Fields::Map(map) if map.contains_key(header::TRAILER))
}

/// Returns the next step of the connection after a truncated response. A body that ends with the
/// connection needs a reset, because an orderly close would make it look complete.
pub(super) fn cut_by(error: ExchangeError, delimiter: Delimiter) -> Next {
    match delimiter {
        Delimiter::Close => Next::Abort,
        _ => next_after(error),
    }
}

/// Returns whether the application's response has `Connection: close`.
fn says_close(fields: &Fields) -> bool {
    let Fields::Map(map) = fields else { return false };
    map.keys().any(|name| name == header::CONNECTION)
        && map.get_all(header::CONNECTION).iter().any(|value| has_token(value.as_bytes(), b"close"))
}

/// Logs a file that was found but cannot be read, and returns the error response.
fn unreadable(request: &RequestHead<'_>, e: &io::Error) -> Answer {
    let target = String::from_utf8_lossy(request.raw_target);
    if e.kind() == io::ErrorKind::TimedOut {
        tracing::warn!("{target}: the disk is too slow; answered 503");
        return Answer::error(StatusCode::SERVICE_UNAVAILABLE, None);
    }
    tracing::error!("{target}: {e}");
    Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
}

/// Returns the Connection option of a response.
pub(super) fn persistence(request: &RequestHead<'_>, is_reusable: bool) -> Persistence {
    match (is_reusable, request.http10) {
        (true, false) => Persistence::Implied,
        (true, true) => Persistence::KeepAlive,
        (false, _) => Persistence::Close,
    }
}

/// Returns the delimiter of a response's body. Statuses without a body have none (RFC 9110 section
/// 8.6).
fn delimiter(request: &RequestHead<'_>, answer: &Answer) -> Delimiter {
    match answer.fields {
        Fields::Ready(_) | Fields::Dated(_) => Delimiter::Given,
        Fields::Map(_) if is_bodiless(answer.status) => Delimiter::Given,
        // The response to HEAD may have a Content-Length without a body (RFC 9110 section 9.3.2).
        Fields::Map(_) if matches!(answer.body, Body::Empty) && request.method == Method::Head => {
            declared_len(&answer.fields).map_or(Delimiter::Given, Delimiter::Length)
        }
        // `respond_beside` chooses the delimiter of a body of unknown length.
        Fields::Map(_) => answer.body.exact_len().map_or(Delimiter::Close, Delimiter::Length),
    }
}
