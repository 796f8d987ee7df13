//! Forwards a request: tries upstreams while a retry is safe, until one returns a response head.
//! `response` handles that response.

use std::rc::Rc;
use std::time::Duration;

use http::{StatusCode, Version};
use hurtle_http::message::forward::{self, ForwardParams};
use hurtle_http::message::response_head::ResponseHead;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::grpc::GrpcStatus;

use super::super::client::{Client, Continue, ExchangeError, InterimSender};
use super::super::request::RequestContext;
use super::super::wait::Waits;
use super::super::{Handled, HandlerError, Outcome, own_response};
use super::attempt_log::{log_attempt, log_failure, log_unavailable};
use super::web_call::WebCall;
use super::{Key, ListenOutcome, Proxy, RawHead, UpstreamError, UpstreamRequest, handshake};
use crate::answer::{Answer, GRPC_STATUS};
use crate::clock;
use crate::config::EarlyHints;
use crate::protocol::InterimFields;
use crate::rt::{self, await_in_place};

/// Maximum number of interim responses to one request. A slow one may send 102 (Processing) every
/// few seconds for an hour. An upstream that sends more is treated as failed.
pub(super) const INTERIM_MAX: usize = 1_000;

/// The error of one attempt to get a response head.
enum AttemptError {
    Upstream(UpstreamError),
    Exchange(ExchangeError),
}

impl From<UpstreamError> for AttemptError {
    fn from(error: UpstreamError) -> AttemptError {
        AttemptError::Upstream(error)
    }
}

impl From<ExchangeError> for AttemptError {
    fn from(error: ExchangeError) -> AttemptError {
        AttemptError::Exchange(error)
    }
}

impl Proxy {
    /// Handles a request: from the cache, or by forwarding it.
    pub(crate) async fn call<C: Client>(
        self: &Rc<Proxy>,
        request: &RequestContext<'_>,
        client: &mut C,
    ) -> Handled {
        if let Some(answer) = self.stored_answer(request, client.cache_status()) {
            return Ok(Outcome::Answer(answer));
        }
        if request.gets_early_hints() {
            Box::pin(super::hints::send(request, client)).await?;
        }
        if request.head.method.as_bytes() == b"TRACE" {
            return own_response(Answer::trace_refused());
        }
        // RFC 9110 section 7.6.2: this server is the last recipient.
        if request.head.method == Method::Options && forward::max_forwards(request.head) == Some(0)
        {
            client.discard_body(false).await?;
            return Ok(Outcome::Answer(Answer::options_passed_on()));
        }
        if self.cache().is_some()
            && let Some(handled) = Box::pin(self.fetch_answer(request, client)).await
        {
            return handled;
        }
        if self.has_http2
            && let Some(protocol) = forward::upgrade(request.head, &self.config().upgrades)
            && let Err(why) = handshake::check(request.head, protocol)
        {
            let refused = Answer::error(StatusCode::BAD_REQUEST, Some(why));
            return Err(HandlerError::Answer(Box::new(refused)));
        }
        let takes_body = self.takes_body(request.head);
        let mut upstream = self.begin(request, takes_body, client)?;
        if takes_body && let Some(body) = upstream.unread_body() {
            Box::pin(self.take_body(body, request, client, &mut upstream)).await?;
        }
        match await_in_place!(self.receive_head(request, client, &mut upstream)) {
            Ok(head) => self.handle_head(request, client, upstream, &head),
            Err(error) => {
                upstream.settle_continue(request, client);
                Err(error)
            }
        }
    }

    /// Prepares the request for an upstream; `takes_body`: its body is taken whole before. Boxed,
    /// because it is moved several times.
    ///
    /// # Errors
    /// The response to a request whose edited fields would be malformed.
    fn begin<C: Client>(
        self: &Rc<Proxy>,
        request: &RequestContext<'_>,
        takes_body: bool,
        client: &mut C,
    ) -> Result<Box<UpstreamRequest>, HandlerError> {
        let path = self.forwarded_path(request);
        let certificate = self.config().request_fields.as_ref().and_then(|_| client.certificate());
        let edits = self.edits(request, &path, certificate.as_ref())?;
        let body = client.body(match takes_body {
            true => Continue::OnRead,
            false => Continue::ByHandler,
        });
        let protocol = forward::upgrade(request.head, &self.config().upgrades);
        let params = forward_params(request, &path, protocol);
        let params = ForwardParams { edits: edits.as_ref(), ..params };
        let forwarded = known_forwarding_fields(request, client, &params);
        let key = request.websocket_key();
        let params = ForwardParams { forwarded, websocket_key: key.as_deref(), ..params };
        let web = match self.config().grpc_web {
            true => WebCall::of(request.head),
            false => None,
        };
        // The proxy itself has sent 100 (Continue) then.
        let continued = (takes_body && request.head.expect_continue)
            .then(|| RequestHead { expect_continue: false, ..request.head.clone() });
        let head = continued.as_ref().unwrap_or(request.head);
        let mut upstream = Box::new(match &web {
            None => UpstreamRequest::new(self, head, body, params),
            Some(call) => UpstreamRequest::new(self, &call.head(head), body, params),
        });
        if let Some(call) = &web {
            upstream.translate(call.format);
        }
        upstream.protocol = protocol.map(str::to_owned);
        upstream.buffered = client.buffered();
        Ok(upstream)
    }

    /// Returns whether the client may switch to the protocol that it asks for.
    pub(crate) fn may_switch(&self, request: &RequestHead<'_>) -> bool {
        forward::upgrade(request, &self.config().upgrades).is_some()
    }

    /// Tries upstreams until one responds.
    async fn receive_head<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        upstream: &mut UpstreamRequest,
    ) -> Result<RawHead, HandlerError> {
        if !self.is_open() {
            Box::pin(self.wait_for_application(request, client, upstream)).await?;
        }
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        let key = self.key(request);
        loop {
            let is_chosen = match upstream.is_limited() {
                false => upstream.choose(key, clock::now_ms()),
                true => Box::pin(choose_free(client, upstream, key)).await?,
            };
            let now_ms = clock::now_ms();
            if !is_chosen {
                let Some(pause) = upstream.pause() else {
                    log_unavailable(upstream, &request.describe(), status);
                    return Err(failed(status));
                };
                wait(client, pause).await?;
                continue;
            }
            let received = match upstream.send_at_once(now_ms) {
                true => receive_at_once(client, upstream, now_ms).await,
                false => None,
            };
            let received = match received {
                Some(received) => received,
                // Boxed, because every request would be as large as this wait.
                None => Box::pin(receive_beside(request, client, upstream)).await,
            };
            let failure = match received {
                Ok(head) if upstream.retries(&head, || request.describe()) => continue,
                Ok(head) => return Ok(head),
                Err(failure) => failure,
            };
            let pause;
            (status, pause) = settle(request, upstream, failure)?;
            if let Some(pause) = pause {
                wait(client, pause).await?;
            }
        }
    }

    /// Waits for an application that is starting.
    async fn wait_for_application<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        upstream: &UpstreamRequest,
    ) -> Result<(), HandlerError> {
        if client.beside(&Waits::default(), async |_| self.wait_until_open().await).await? {
            return Ok(());
        }
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let description = request.describe();
        log_failure(upstream, &description, &"the application is not running", status);
        Err(failed(status))
    }
}

impl UpstreamRequest {
    /// Records that a client which waits for 100 (Continue) has not got one. It may or may not send
    /// its body, so the next bytes are ambiguous.
    pub(super) fn settle_continue<C: Client>(&self, request: &RequestContext<'_>, client: &mut C) {
        if request.head.expect_continue && !self.has_continued {
            client.withhold_continue();
        }
    }
}

/// Waits before the next attempt, while the client is watched.
async fn wait<C: Client>(client: &mut C, pause: Duration) -> Result<(), HandlerError> {
    Ok(Box::pin(client.beside(&Waits::default(), async |_| rt::sleep(pause).await)).await?)
}

/// Records and logs a failed attempt. Returns the status for the client if no upstream is left, and
/// the pause before the next attempt.
///
/// # Errors
/// The response, if the request may not be retried.
fn settle(
    request: &RequestContext<'_>,
    upstream: &mut UpstreamRequest,
    failure: AttemptError,
) -> Result<(StatusCode, Option<Duration>), HandlerError> {
    let mut grpc_status = None;
    let (status, retry, is_held) = match failure {
        AttemptError::Upstream(error) => {
            let status = match error {
                UpstreamError::BadRequest => StatusCode::BAD_REQUEST,
                UpstreamError::LostBody(_) => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::BAD_GATEWAY,
            };
            let retry = upstream.may_retry(&error);
            let is_held = !retry && upstream.is_unconnected(Some(&error)) && upstream.may_hold();
            log_attempt(upstream, &request.describe(), &error, status, retry || is_held);
            if let UpstreamError::Stream(error) = &error {
                grpc_status = upstream.grpc_status(request.head, error);
            }
            upstream.failed(&error);
            (status, retry, is_held)
        }
        AttemptError::Exchange(ExchangeError::UpstreamTimeout) => {
            let (status, phase) = (StatusCode::GATEWAY_TIMEOUT, upstream.phase());
            let retry = upstream.may_retry_late();
            let is_held = !retry && upstream.is_unconnected(None) && upstream.may_hold();
            log_attempt(upstream, &request.describe(), &phase, status, retry || is_held);
            upstream.timed_out();
            (status, retry, is_held)
        }
        AttemptError::Exchange(error) => return Err(error.into()),
    };
    if retry {
        return Ok((status, None));
    }
    let pause = if is_held { upstream.pause() } else { None };
    pause
        .map(|pause| (status, Some(pause)))
        .ok_or_else(|| failed_call(request, status, grpc_status))
}

/// Chooses an upstream that has room, and waits for one if there is none.
async fn choose_free<C: Client>(
    client: &mut C,
    upstream: &mut UpstreamRequest,
    key: Key,
) -> Result<bool, HandlerError> {
    let waits = Waits::default();
    let chosen = client.beside(&waits, async |_| upstream.choose_free(key).await).await?;
    chosen.map_err(|busy| {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        HandlerError::Answer(Box::new(Answer::error(status, Some(&busy.to_string()))))
    })
}

/// Returns the parameters for forwarding a request.
pub(super) fn forward_params<'a>(
    request: &RequestContext<'a>,
    path: &'a [u8],
    upgrade: Option<&'a str>,
) -> ForwardParams<'a> {
    let client = request.client;
    ForwardParams {
        path,
        query: request.matched.query,
        authority: "",
        peer: client.peer,
        client: client.address,
        trusted: client.trusted,
        is_tls: client.is_tls,
        version: if request.head.http10 { Version::HTTP_10 } else { client.version },
        upgrade,
        websocket_key: None,
        cache_conditions: None,
        forwarded: None,
        edits: None,
    }
}

/// Returns the forwarding fields, reusing those of the previous request on this connection.
fn known_forwarding_fields<'c, C: Client>(
    request: &RequestContext<'_>,
    client: &'c mut C,
    params: &ForwardParams<'_>,
) -> Option<&'c [u8]> {
    if params.trusted.is_some() || params.edits.is_some() || params.version != Version::HTTP_11 {
        return None;
    }
    let known = client.forwarded_headers()?;
    let host = request.head.host.filter(|host| !host.name.is_empty())?;
    Some(known.lines(host, params))
}

/// Waits for the response to a request that was sent: the common case. `None`: more work is needed
/// before the response.
async fn receive_at_once<C: Client>(
    client: &mut C,
    upstream: &mut UpstreamRequest,
    now_ms: u64,
) -> Option<Result<RawHead, AttemptError>> {
    let due_ms = now_ms.saturating_add(upstream.first_byte_ms());
    let head = match client.until(due_ms, upstream.receive_head()).await {
        Ok(Ok(head)) => head,
        Ok(Err(error)) => return Some(Err(error.into())),
        Err(error) => return Some(Err(error.into())),
    };
    match is_interim(&head) {
        Ok(false) => Some(Ok(head)),
        Ok(true) => {
            upstream.put_back(head);
            None
        }
        Err(error) => Some(Err(error.into())),
    }
}

/// Sends a request and waits for the response while the request body and interim responses flow.
async fn receive_beside<C: Client>(
    request: &RequestContext<'_>,
    client: &mut C,
    upstream: &mut UpstreamRequest,
) -> Result<RawHead, AttemptError> {
    let waits = Waits::default();
    let listening =
        async |interim: &dyn InterimSender| listen(request, interim, upstream, &waits).await;
    client.beside(&waits, listening).await?
}

/// Connects, sends, and reads up to a final head. Relays interim responses.
async fn listen(
    request: &RequestContext<'_>,
    interim: &dyn InterimSender,
    upstream: &mut UpstreamRequest,
    waits: &Waits,
) -> Result<RawHead, AttemptError> {
    upstream.connect(waits).await?;
    for _ in 0..INTERIM_MAX {
        let head = match upstream.listen(waits).await? {
            ListenOutcome::Head(head) => head,
            // RFC 9110 section 10.1.1: 100 may be omitted once some of the content has arrived.
            ListenOutcome::BodyBegun => {
                upstream.has_continued = true;
                continue;
            }
            ListenOutcome::ExpectTimeout => {
                upstream.release();
                upstream.has_continued = true;
                interim.send(StatusCode::CONTINUE, InterimFields::Empty).await?;
                continue;
            }
        };
        if !is_interim(&head)? {
            return Ok(head);
        }
        let reply = head.parse().map_err(UpstreamError::BadResponse)?;
        if is_relayed(request, &reply, upstream) {
            let fields = match reply.status {
                StatusCode::CONTINUE => InterimFields::Empty,
                _ => InterimFields::Forwarded(&reply),
            };
            interim.send(reply.status, fields).await?;
        }
    }
    Err(AttemptError::Upstream(UpstreamError::TooManyInterim))
}

/// Returns the error response after the upstreams failed.
pub(super) fn failed(status: StatusCode) -> HandlerError {
    HandlerError::Answer(Box::new(Answer::error(status, None)))
}

/// Returns the error response after the upstream of a gRPC call has reset its stream.
fn failed_call(
    request: &RequestContext<'_>,
    status: StatusCode,
    grpc_status: Option<GrpcStatus>,
) -> HandlerError {
    let mut answer = Answer::error(status, None);
    if let Some(GrpcStatus(code)) = grpc_status.filter(|_| request.head.is_grpc()) {
        answer = answer.with(GRPC_STATUS, u16::from(code).into());
    }
    HandlerError::Answer(Box::new(answer))
}

/// Returns whether the client gets an upstream's interim response.
fn is_relayed(
    request: &RequestContext<'_>,
    reply: &ResponseHead<'_>,
    upstream: &mut UpstreamRequest,
) -> bool {
    match reply.status {
        StatusCode::CONTINUE => {
            upstream.release();
            // A 100 is useless after the first, and to a client that does not wait for it.
            request.head.expect_continue && !std::mem::replace(&mut upstream.has_continued, true)
        }
        // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
        _ if request.head.http10 => false,
        StatusCode::EARLY_HINTS => request.site.early_hints != EarlyHints::Off,
        _ => true,
    }
}

/// Returns whether a response head is interim (1xx).
pub(super) fn is_interim(head: &RawHead) -> Result<bool, UpstreamError> {
    let may_be = match head {
        // Byte 9 of the status line is the first status digit; `parse` rejects lines without one.
        RawHead::Text(text) => text.get(9) == Some(&b'1'),
        RawHead::Edited(_) => false,
        RawHead::Fields(fields) => fields.status.is_informational(),
    };
    if !may_be {
        return Ok(false);
    }
    let reply = head.parse().map_err(UpstreamError::BadResponse)?;
    Ok(reply.status != StatusCode::SWITCHING_PROTOCOLS)
}
