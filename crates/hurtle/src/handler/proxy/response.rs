//! Handles an upstream's response head: it is relayed, switches the protocol, names an internal
//! file, or is invalid.

use http::StatusCode;
use hurtle_http::message::field_lines::field;
use hurtle_http::message::forward;
use hurtle_http::message::response::Fields;
use hurtle_http::message::response_head::{File, ResponseError, ResponseHead};

use super::super::client::Client;
use super::super::request::RequestContext;
use super::super::{FileName, Handled, InternalRedirect, Outcome, Tunnel};
use super::attempt_log::log_failure;
use super::forward::failed;
use super::framing::Framing;
use super::tunnel_end::TunnelEnd;
use super::upstream_body::{BodyCoding, UpstreamBody};
use super::web_call::WebCall;
use super::{Channel, Proxy, RawHead, UpstreamError, UpstreamRequest, handshake, web_call};
use crate::answer::{Answer, Needs};
use crate::body::Body;
use crate::clock;
use crate::observe::UpstreamLog;
use crate::transport::Input;

/// A response for the client, whose body is read from the upstream.
pub(crate) struct UpstreamResponse {
    /// Status that the client gets.
    pub status: StatusCode,
    /// Its field lines, with Date.
    pub lines: Vec<u8>,
    /// The edits that it still needs.
    pub needs: Needs,
    /// The value of a Set-Cookie of this server, which no edit of the site removes.
    pub cookie: Option<String>,
    /// The body, read as the client takes it.
    pub body: UpstreamBody,
}

/// An upstream that has switched protocols.
pub(crate) struct UpstreamTunnel {
    /// The 101 for the client.
    pub head: Answer,
    /// The value of a Set-Cookie of this server, which no edit of the site removes.
    pub cookie: Option<String>,
    /// Bytes of the new protocol that have arrived behind the upstream's head.
    pub received: Input,
    /// The connection to the upstream.
    pub end: TunnelEnd,
    /// The upstream, for the log.
    pub upstream: UpstreamLog,
}

impl Proxy {
    /// Handles a response whose head has arrived.
    pub(super) fn handle_head<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        upstream: Box<UpstreamRequest>,
        head: &RawHead,
    ) -> Handled {
        let mut parsed = head.parse();
        let translate = |reply| self.translated(head, reply, || self.encoded_base(request));
        match parsed.as_ref().ok().and_then(translate) {
            None => self.handle_parsed(request, client, upstream, head, &mut parsed),
            Some(head) => self.handle_translated(request, client, upstream, &head),
        }
    }

    /// Handles a response whose head is in the client's terms already.
    pub(super) fn handle_translated<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        upstream: Box<UpstreamRequest>,
        head: &RawHead,
    ) -> Handled {
        self.handle_parsed(request, client, upstream, head, &mut head.parse())
    }

    /// Handles a response in the client's terms. By reference, because a parsed head is large.
    fn handle_parsed<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        mut upstream: Box<UpstreamRequest>,
        head: &RawHead,
        parsed: &mut Result<ResponseHead<'_>, ResponseError>,
    ) -> Handled {
        let is_on_stream = matches!(head, RawHead::Fields(_));
        if is_on_stream
            && upstream.protocol.is_some()
            && let Ok(reply) = parsed
            && reply.status.is_success()
        {
            // RFC 8441 section 5: a success is the 101 of HTTP/1.1.
            reply.status = StatusCode::SWITCHING_PROTOCOLS;
        }
        let error = match &*parsed {
            Ok(reply)
                if reply.status == StatusCode::SWITCHING_PROTOCOLS
                    && !is_on_stream
                    && !accepts(upstream.protocol.as_deref(), reply) =>
            {
                UpstreamError::UnexpectedUpgrade
            }
            Ok(reply) => return Ok(self.use_response(request, client, upstream, reply)),
            Err(error) => UpstreamError::BadResponse(*error),
        };
        let status = StatusCode::BAD_GATEWAY;
        log_failure(&upstream, &request.describe(), &error, status);
        upstream.failed(&error);
        upstream.settle_continue(request, client);
        Err(failed(status))
    }

    /// Handles a valid response.
    fn use_response<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        mut upstream: Box<UpstreamRequest>,
        reply: &ResponseHead<'_>,
    ) -> Outcome {
        upstream.succeeded(reply.status);
        self.invalidate(request, reply.status);
        if upstream.protocol.is_some() && reply.status == StatusCode::SWITCHING_PROTOCOLS {
            let cookie = self.sticky_cookie(request, upstream.number());
            return switch(request, upstream, reply, cookie);
        }
        if upstream.protocol.is_some() {
            upstream.end_stream();
        }
        upstream.settle_continue(request, client);
        if request.has_internal_files
            && let Some(file) = reply.file
        {
            let cookie = self.sticky_cookie(request, upstream.number());
            let redirect = internal_redirect(reply, file, cookie.as_deref());
            upstream.discard(reply);
            return Outcome::InternalRedirect(Box::new(redirect));
        }
        let mut framing = Framing::of(request.head, reply);
        let mut lines = request.buffers.take_lines();
        forward::response_fields(&mut lines, reply, &clock::date(clock::now_ms()));
        if let Some(status) = client.cache_status() {
            status.encode(&mut lines);
        }
        // A cache keeps what the upstream has sent, and the upstream's variants.
        let needs = match self.cache().is_none() && upstream.web.is_none() {
            true => Needs::EditsAndCoding,
            false => Needs::Edits,
        };
        let web = upstream.web.filter(|_| web_call::is_answer(reply));
        if let Some(format) = web {
            framing.encode(request.head.http10);
            lines = web_call::edited(format, reply, lines);
        }
        let cookie = self.sticky_cookie(request, upstream.number());
        let keeps_upstream = reply.keep_alive && framing.may_keep_alive;
        let coding = web.map(BodyCoding::Web);
        let len = reply.content_length.or(framing.known_len().map(|len| len as u64));
        let is_kept = self.keeps_response(request, reply);
        let body = UpstreamBody { upstream, framing, len, coding, keeps_upstream, is_kept };
        Outcome::Stream(UpstreamResponse { status: reply.status, lines, needs, cookie, body })
    }
}

impl Proxy {
    /// Returns whether the body of a response is kept for a slow client. Calls of gRPC to HTTP/2
    /// upstreams share a connection, and hold nothing else.
    fn keeps_response(&self, request: &RequestContext<'_>, reply: &ResponseHead<'_>) -> bool {
        let is_call = || request.head.is_grpc() || WebCall::of(request.head).is_some();
        self.config().buffer.kind.of_responses()
            && !reply.is_unbuffered
            && !(self.has_http2 && is_call())
    }
}

/// Returns the tunnel of an upstream that has switched protocols.
fn switch(
    request: &RequestContext<'_>,
    mut upstream: Box<UpstreamRequest>,
    reply: &ResponseHead<'_>,
    cookie: Option<String>,
) -> Outcome {
    let protocol = upstream.protocol.take().unwrap_or_default();
    let (mut lines, date) = (request.buffers.take_lines(), clock::date(clock::now_ms()));
    match (request.head.protocol, upstream.link()) {
        // RFC 8441 section 5: a stream has no option of the connection.
        (Some(_), _) => forward::response_fields(&mut lines, reply, &date),
        (None, link) => {
            let is_stream = link.is_some_and(|link| matches!(link.channel, Channel::Stream(_)));
            let accept = if is_stream { handshake::accept(request.head, &protocol) } else { None };
            forward::switch_fields(&mut lines, reply, &protocol, accept.as_deref(), &date);
        }
    }
    let head = Answer::new(reply.status, Fields::Dated(lines), Body::Empty);
    let head = Answer { needs: Needs::Edits, ..head };
    let times = upstream.times();
    match upstream.into_tunnel() {
        Some((end, received)) => {
            let tunnel = UpstreamTunnel { head, cookie, received, end, upstream: times };
            Outcome::Tunnel(Tunnel::Upstream(Box::new(tunnel)))
        }
        None => Outcome::Answer(Answer::error(StatusCode::BAD_GATEWAY, None)),
    }
}

fn internal_redirect(
    reply: &ResponseHead<'_>,
    file: File<'_>,
    cookie: Option<&str>,
) -> InternalRedirect {
    let kept = |with_content| {
        let mut kept = Vec::new();
        forward::each_for_client(reply, |name, value| {
            forward::keep_for_file(&mut kept, name, value, with_content);
        });
        cookie.iter().for_each(|cookie| field(&mut kept, "Set-Cookie", cookie.as_bytes()));
        kept.into()
    };
    let file = match file {
        File::Accel(name) => FileName::Accel(name.to_vec()),
        File::Sendfile(name) => FileName::Sendfile(name.to_vec()),
    };
    InternalRedirect { file, kept: kept(true), kept_without_content: kept(false) }
}

/// RFC 9110 section 7.8: the upstream must switch to a protocol that the request named.
fn accepts(protocol: Option<&str>, reply: &ResponseHead<'_>) -> bool {
    let named = protocol.zip(reply.upgrade);
    named.is_some_and(|(sent, accepted)| accepted.eq_ignore_ascii_case(sent.as_bytes()))
}
