//! Handles an upstream's response head: it is relayed, switches the protocol, names an internal file,
//! or is invalid.

use http::{HeaderName, StatusCode};
use hurtle_http::h1::forward::{self, HeaderEdits};
use hurtle_http::h1::response::{Delimiter, field};
use hurtle_http::h1::response_head::{File, ResponseHead};
use hurtle_http::request::fields::{is_same, pairs};

use super::super::client::Client;
use super::super::request::RequestContext;
use super::super::{FileName, Handled, InternalRedirect, Outcome, Tunnel};
use super::exchange::{BodyCoding, UpstreamExchange, UpstreamResponse, UpstreamTunnel};
use super::forward::{failed, log_failure};
use super::framing::Framing;
use super::{Channel, Link, Proxy, RawHead, UpstreamError, handshake, web_call};
use crate::clock;
use crate::compress::{Codings, Policy};
use crate::transport::Output;

impl Proxy {
    /// Handles a response whose head has arrived.
    pub(super) fn handle_head<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        mut exchange: Box<UpstreamExchange>,
        head: &RawHead,
    ) -> Handled {
        let mut parsed = head.parse();
        let is_on_stream = matches!(head, RawHead::Fields(_));
        if is_on_stream
            && exchange.protocol.is_some()
            && let Ok(reply) = &mut parsed
            && reply.status.is_success()
        {
            // RFC 8441 section 5: a success is the 101 of HTTP/1.1.
            reply.status = StatusCode::SWITCHING_PROTOCOLS;
        }
        // By reference: a parsed head is large.
        let error = match &parsed {
            Ok(reply)
                if reply.status == StatusCode::SWITCHING_PROTOCOLS
                    && !is_on_stream
                    && !accepts(exchange.protocol.as_deref(), reply) =>
            {
                UpstreamError::UnexpectedUpgrade
            }
            Ok(reply) => return Ok(self.use_response(request, client, exchange, reply)),
            Err(error) => UpstreamError::BadResponse(*error),
        };
        let status = StatusCode::BAD_GATEWAY;
        log_failure(&exchange.upstream, &request.describe(), &error, status);
        exchange.upstream.failed(&error);
        exchange.settle_continue(request, client);
        Err(failed(status))
    }

    /// Handles a valid response.
    fn use_response<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
        mut exchange: Box<UpstreamExchange>,
        reply: &ResponseHead<'_>,
    ) -> Outcome {
        exchange.upstream.succeeded(reply.status);
        self.invalidate(request, reply.status);
        if let (Some(protocol), StatusCode::SWITCHING_PROTOCOLS) =
            (&exchange.protocol, reply.status)
        {
            let (removed, set) = request.matched.edits(reply.status);
            let edits = HeaderEdits { removes: &|name| lists(&removed, name), set };
            let head = match request.head.protocol {
                Some(_) => client.encode_head(reply, Delimiter::Given, &edits).bytes,
                None => {
                    let mut head = Output::new();
                    let date = clock::date(clock::now_ms());
                    let accept = match exchange.upstream.link() {
                        Some(Link { channel: Channel::Stream(_), .. }) => {
                            handshake::accept(request.head, protocol)
                        }
                        _ => None,
                    };
                    let switch = (protocol.as_str(), accept.as_deref());
                    forward::switching(head.vec(), reply, switch, &date, &edits);
                    head
                }
            };
            let tunnel = UpstreamTunnel { head, upstream: exchange.upstream };
            return Outcome::Tunnel(Tunnel::Upstream(Box::new(tunnel)));
        }
        if exchange.protocol.is_some() {
            exchange.upstream.end_stream();
        }
        exchange.settle_continue(request, client);
        if request.has_internal_files
            && let Some(file) = reply.file
        {
            let redirect = internal_redirect(reply, file);
            exchange.upstream.discard(reply.length);
            return Outcome::InternalRedirect(Box::new(redirect));
        }
        let mut framing = Framing::of(request.head, reply);
        let (mut removed, mut set) = request.matched.edits(reply.status);
        if let Some(status) = client.cache_status() {
            status.encode(&mut set);
        }
        if let Some(cookie) = self.sticky_cookie(request, exchange.upstream.number()) {
            field(&mut set, "Set-Cookie", cookie.as_bytes());
        }
        let mut coding = None;
        // A cache keeps what the upstream has sent, and the upstream's variants.
        if let Some(format) = exchange.web {
            let is_call = web_call::edit(format, reply, &mut removed, &mut set);
            coding = is_call.then_some(BodyCoding::Web(format));
        } else if let (Some(policy), None) = (request.compress, self.cache()) {
            let len = reply.content_length.or(framing.known_len().map(|len| len as u64));
            let codings = decide(policy, request, (reply, len), (&removed, &set));
            codings.edit(&mut removed, &mut set);
            coding = codings.coding().map(BodyCoding::Content);
        }
        if coding.is_some() {
            framing.encode();
        }
        let edits = HeaderEdits { removes: &|name| lists(&removed, name), set };
        let head = client.encode_head(reply, framing.delimiter, &edits);
        let (status, keeps_upstream) = (reply.status, reply.keep_alive && framing.may_keep_alive);
        Outcome::Stream(UpstreamResponse {
            exchange,
            head,
            framing,
            coding,
            status,
            keeps_upstream,
        })
    }
}

/// Decides about compressing a response with the site's header rules applied.
fn decide(
    policy: &Policy,
    request: &RequestContext<'_>,
    (reply, len): (&ResponseHead<'_>, Option<u64>),
    (removed, set): (&[HeaderName], &[u8]),
) -> Codings {
    Codings::decide(policy, request.head, (reply.status, len), |take| {
        let is_removed = |name: &[u8]| removed.iter().any(|r| is_same(name, r.as_str().as_bytes()));
        forward::each_for_client(reply, |name, value| {
            if !is_removed(name) {
                take(name, value);
            }
        });
        pairs(set).for_each(|(name, value)| take(name, value));
    })
}

fn internal_redirect(reply: &ResponseHead<'_>, file: File<'_>) -> InternalRedirect {
    let kept = |with_content| {
        let mut kept = Vec::new();
        forward::each_for_client(reply, |name, value| {
            forward::keep_for_file(&mut kept, name, value, with_content);
        });
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

fn lists(names: &[HeaderName], name: &[u8]) -> bool {
    names.iter().any(|listed| listed.as_str().as_bytes().eq_ignore_ascii_case(name))
}
