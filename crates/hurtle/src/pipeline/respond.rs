//! Writes responses of this server and of applications. The request body is fed to its handler while
//! the response is sent.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::{io, mem};

use http::{StatusCode, header};
use hurtle_http::h1::PartialLine;
use hurtle_http::h1::response::{Delimiter, Fields, Persistence};
use hurtle_http::request::{Method, ParseError, RequestHead};
use hurtle_http::semantics::fields::has_token;

use super::duplex::Duplex;
use super::exchange::RefusedLine;
use super::finish::finish_refusal;
use super::send::next_after;
use super::stream::StreamSender;
use super::upload::{UNREAD_BYTES_MAX, Upload};
use super::{Connection, Next};
use crate::answer::{Answer, declared_len, is_bodiless};
use crate::body::Body;
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::handler::wait::Waits;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// Bytes of a refused request's target that are logged.
const REFUSED_TARGET_BYTES_MAX: usize = 1 << 10;

impl<T: Protocol> Connection<T> {
    /// Sends a response and drops it. `unread`: a request body that no handler reads may still
    /// arrive.
    pub(super) async fn respond(
        &mut self,
        request: &RequestHead<'_>,
        resolved: Option<&Resolved<'_>>,
        answer: &mut Answer,
        now_ms: u64,
        unread: bool,
    ) -> Next {
        let sends_body = request.method != Method::Head && !is_bodiless(answer.status);
        self.finish(answer, request, resolved);
        if let Body::Stream(_) = answer.body {
            begin_body(answer, sends_body).await;
            if let Body::Stream(_) = answer.body {
                let answer = mem::replace(answer, Answer::empty(StatusCode::OK));
                let upload = Upload::none();
                return Box::pin(self.respond_beside(request, resolved, answer, upload)).await;
            }
        }
        if sends_body && let Body::File(_) = answer.body {
            self.warm(request, answer, now_ms).await;
        }
        // A body that has failed is replaced by an error.
        self.finish(answer, request, resolved);
        let is_reusable = self.count_request(request) && !unread && !says_close(&answer.fields);
        let delimiter = delimiter(request, answer);
        let persistence = persistence(request, is_reusable);
        let Answer { status, fields, .. } = &*answer;
        let head = self.encode_head(*status, fields, delimiter, persistence, now_ms);
        let nothing = Body::Empty;
        let body = if sends_body { &answer.body } else { &nothing };
        let head_bytes = head.len() as u64;
        self.worker.buffers.recycle(&mut answer.fields);
        self.begin_response();
        let sent = self.send(head, body).await;
        self.observe(Some(request), answer.status, head_bytes, sent);
        match sent {
            // A client that did not ask to close may have sent the next request already.
            Ok(()) => self.after(is_reusable, unread || request.keep_alive),
            Err(error) => next_after(error),
        }
    }

    /// Waits until the start of a file body is in memory, so that a disk error can still replace the
    /// response.
    async fn warm(&self, request: &RequestHead<'_>, answer: &mut Answer, now_ms: u64) {
        let sender = &self.worker.sender;
        if !sender.is_warm(&answer.body, now_ms)
            && let Err(e) = Box::pin(sender.warm(&answer.body)).await
        {
            *answer = unreadable(request, &e);
        }
    }

    /// Counts a request. Returns whether another one may follow on the connection.
    pub(super) fn count_request(&mut self, request: &RequestHead<'_>) -> bool {
        self.served += 1;
        let more = self.worker.limits.requests_per_connection.is_none_or(|max| self.served < max);
        request.keep_alive && more && self.io.carries_more() && !self.worker.deadlines.is_draining()
    }

    /// Returns the next step after a response that was sent completely.
    pub(super) fn after(&self, is_reusable: bool, unread: bool) -> Next {
        match (is_reusable, unread || !self.input.bytes().is_empty()) {
            (true, _) => Next::Request,
            (false, false) if !self.worker.deadlines.is_draining() => Next::Close,
            (false, _) => Next::Linger,
        }
    }

    /// Sends an error response to a malformed request, then ends the connection: its framing is
    /// unreliable.
    pub(crate) async fn refuse(&mut self, error: ParseError, line: PartialLine<'_>) -> Next {
        let unrouted = Arc::clone(&self.metrics.unrouted);
        self.count_for(&unrouted);
        self.count_refusal(error, None);
        self.begin_time();
        let mut answer = Answer::error(error.status(), Some(&error.to_string()));
        if self.io.is_secure() {
            // The request's host is unknown, but TLS has a server name.
            let name = self.io.server_name();
            let sites = self.worker.sites.at(self.slot.listen());
            let found = sites.find(name.as_deref().map(str::as_bytes));
            finish_refusal(&mut answer, found.map(|(_, site)| site));
        }
        if !line.method.is_empty() || !line.target.is_empty() {
            let target = &line.target[..line.target.len().min(REFUSED_TARGET_BYTES_MAX)];
            let (method, target) = (line.method.into(), target.into());
            let refused = RefusedLine { method, target, is_http11: line.is_http11 };
            self.exchange.details.get_or_insert_default().refused = Some(refused);
        }
        self.send_last(None, &answer).await
    }

    /// Sends an error response to a request whose body is malformed, too large or too slow, then ends
    /// the connection.
    pub(super) async fn refuse_body(
        &mut self,
        request: &RequestHead<'_>,
        resolved: Option<&Resolved<'_>>,
        error: ParseError,
    ) -> Next {
        self.count_refusal(error, Some(request));
        let mut answer = Answer::error(error.status(), Some(&error.to_string()));
        self.finish(&mut answer, request, resolved);
        self.send_last(Some(request), &answer).await
    }

    /// Sends the last response of a connection. `None`: no request could be parsed.
    async fn send_last(&mut self, request: Option<&RequestHead<'_>>, answer: &Answer) -> Next {
        let delimiter = answer.body.exact_len().map_or(Delimiter::Close, Delimiter::Length);
        let (persistence, now_ms) = (Persistence::Close, clock::now_ms());
        let head = self.encode_head(answer.status, &answer.fields, delimiter, persistence, now_ms);
        let head_bytes = head.len() as u64;
        let refused = self.exchange.details.as_ref().and_then(|details| details.refused.as_ref());
        let method = match request {
            Some(request) => request.method.as_bytes(),
            None => refused.map_or(&b""[..], |line| &line.method),
        };
        // RFC 9110 section 9.3.2: the response to HEAD has no content.
        let body = if method == b"HEAD" { &Body::Empty } else { &answer.body };
        let sent = self.send(head, body).await;
        self.observe(request, answer.status, head_bytes, sent);
        match sent {
            Ok(()) => Next::Linger,
            Err(error) => next_after(error),
        }
    }

    /// Sends a response while the request body may still be arriving.
    pub(super) async fn respond_beside(
        &mut self,
        request: &RequestHead<'_>,
        resolved: Option<&Resolved<'_>>,
        mut answer: Answer,
        mut upload: Upload,
    ) -> Next {
        let silent = request.method == Method::Head || is_bodiless(answer.status);
        self.finish(&mut answer, request, resolved);
        begin_body(&mut answer, !silent).await;
        let declared = declared_len(&answer.fields);
        if !silent {
            self.warm(request, &mut answer, clock::now_ms()).await;
        }
        // A body that has failed is replaced by an error.
        self.finish(&mut answer, request, resolved);
        let delimiter = match &answer.body {
            Body::Stream(stream) if !is_bodiless(answer.status) => {
                match stream.exact_len().or(declared) {
                    Some(len) => Delimiter::Length(len),
                    None if request.http10 => Delimiter::Close,
                    None => Delimiter::Chunked,
                }
            }
            _ => delimiter(request, &answer),
        };
        let mut interim = Vec::new();
        upload.precede(&self.io, &mut interim);
        let is_reusable = self.count_request(request)
            && upload.allows_reuse()
            && delimiter != Delimiter::Close
            && !says_close(&answer.fields);
        let now_ms = clock::now_ms();
        let persistence = persistence(request, is_reusable);
        let mut out =
            self.encode_head(answer.status, &answer.fields, delimiter, persistence, now_ms);
        if !interim.is_empty() {
            out.vec().splice(..0, interim);
        }
        let head_bytes = out.len() as u64;
        self.begin_response();
        let sent = match mem::take(&mut answer.body) {
            Body::Stream(stream) if !silent => {
                self.sent.moved.set(0);
                let trailers = request.te_trailers;
                let streaming = async |duplex: &Duplex<'_, T>| {
                    let sending = StreamSender { duplex, out, delimiter, trailers };
                    sending.run(stream).await
                };
                let waits = Waits::default();
                Box::pin(self.beside(&mut upload, &waits, streaming)).await.flatten()
            }
            body => self.send(out, if silent { &Body::Empty } else { &body }).await,
        };
        self.observe(Some(request), answer.status, head_bytes, sent);
        match sent {
            Ok(()) => self.discard_rest(upload, is_reusable).await,
            Err(error) => cut_by(error, delimiter),
        }
    }

    /// Discards the unread rest of the request body, then returns the next step of the connection.
    pub(super) async fn discard_rest(&mut self, mut upload: Upload, is_reusable: bool) -> Next {
        let is_complete = upload.reading.is_done();
        if !is_reusable || !upload.allows_reuse() {
            return self.after(false, !is_complete);
        }
        upload.cut();
        match self.discard_body(&mut upload.reading, UNREAD_BYTES_MAX).await {
            Ok(()) => self.after(true, false),
            Err(Some(_)) => Next::Linger,
            Err(None) => Next::Drop,
        }
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
