//! Handles an upstream's response: decides its use, encodes its head for the client, and sends its
//! body. `proxy` obtains the response; `relay` streams its body.

use http::StatusCode;
use hurtle_http::h1::forward::{self, HeaderEdits};
use hurtle_http::h1::response::Delimiter;
use hurtle_http::h1::response_head::{self, ResponseHead};
use hurtle_http::request::RequestHead;

use super::app::ended_by;
use super::duplex::{Duplex, ExchangeError};
use super::fault::{named, tell};
use super::internal::At;
use super::relay::{Framing, Relay, RelayError};
use super::upstream_exchange::{UpstreamExchange, UpstreamRoute};
use super::{Exchange, Next, persistence};
use crate::clock;
use crate::handler::proxy::{Phase, UpstreamError};
use crate::protocol::{Head, HeadFields, Protocol};
use crate::transport::{Output, Taken};

/// A response that is being sent to the client.
struct Leaving {
    /// The encoded head.
    out: Output,
    framing: Framing,
    passing: Passing,
}

/// Data that is needed after the response was sent.
#[derive(Clone, Copy)]
struct Passing {
    status: StatusCode,
    head_bytes: u64,
    /// `true` if the upstream's connection can be reused.
    keep_alive: bool,
    /// `true` if the client's connection can be reused.
    goes_on: bool,
}

/// The decision about a response.
enum Verdict {
    /// Send it to the client.
    Pass(Leaving),
    /// Switch protocols (101); the encoded head.
    Switch(Output),
    /// Send the file that the response names.
    File,
    /// Refuse it: the response is not valid for this request.
    Refuse,
}

impl<T: Protocol> Exchange<T> {
    /// Handles a response whose head has arrived.
    pub(super) async fn hear(
        &mut self,
        request: &RequestHead<'_>,
        mut exchange: Box<UpstreamExchange<'_>>,
        head: Taken,
    ) -> Next {
        match self.judge(request, &mut exchange, &head) {
            Verdict::Pass(leaving) => {
                drop(head);
                self.pass_back(request, exchange, leaving).await
            }
            Verdict::Switch(out) => {
                drop(head);
                Box::pin(self.tunnel(request, exchange.upstream, out)).await
            }
            Verdict::File => Box::pin(self.send_internal(request, exchange, head)).await,
            Verdict::Refuse => {
                Box::pin(self.give_up(request, exchange, StatusCode::BAD_GATEWAY)).await
            }
        }
    }

    /// Decides about a response.
    fn judge(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
        head: &[u8],
    ) -> Verdict {
        let unasked = |reply: &ResponseHead<'_>| {
            reply.status == StatusCode::SWITCHING_PROTOCOLS
                && !is_agreed(exchange.protocol.as_deref(), reply)
        };
        let fault = match &response_head::parse(head) {
            Ok(reply) if unasked(reply) => UpstreamError::UnexpectedUpgrade,
            Ok(reply) => return self.judge_sound(request, exchange, reply),
            Err(flaw) => UpstreamError::BadResponse(*flaw),
        };
        tell(&exchange.upstream, &named(request), &fault, StatusCode::BAD_GATEWAY);
        exchange.upstream.failed(false);
        Verdict::Refuse
    }

    fn judge_sound(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
        reply: &ResponseHead<'_>,
    ) -> Verdict {
        exchange.upstream.succeeded();
        self.invalidate(request, &exchange.asked, reply.status);
        if let (Some(protocol), StatusCode::SWITCHING_PROTOCOLS) =
            (&exchange.protocol, reply.status)
        {
            let mut out = Output::new();
            forward::switching(out.vec(), reply, protocol, &clock::date(clock::now_ms()));
            return Verdict::Switch(out);
        }
        let UpstreamRoute { proxy, mount, .. } = &exchange.asked;
        if reply.file.is_some() && mount.is_some() && proxy.config().internal.is_some() {
            return Verdict::File;
        }
        Verdict::Pass(self.leave(request, exchange, reply))
    }

    /// Encodes a response's head for the client.
    fn leave(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
        reply: &ResponseHead<'_>,
    ) -> Leaving {
        let status = reply.status;
        let framing = Framing::of(request, reply);
        exchange.settle_invitation(request);
        let goes_on = self.goes_on(request)
            && exchange.upload.may_go_on()
            && framing.delimiter != Delimiter::Close;
        let mut out = Output::new();
        let persistence = persistence(request, goes_on);
        let date = clock::date(clock::now_ms());
        let (removed, mut set) = self.rules(exchange.asked.site, &exchange.asked.path, status);
        if let Some(outcome) = self.outcome {
            outcome.line(&mut set);
        }
        let removes =
            |name: &[u8]| removed.iter().any(|r| r.as_str().as_bytes().eq_ignore_ascii_case(name));
        let edits = HeaderEdits { removes: &removes, set };
        let head = Head {
            status,
            fields: HeadFields::Forwarded(reply, &edits),
            delimiter: framing.delimiter,
            persistence,
            date: &date,
        };
        self.io.encode_head(out.vec(), &head);
        let keep_alive = reply.keep_alive && framing.may_keep_alive;
        let passing = Passing { status, head_bytes: out.len() as u64, keep_alive, goes_on };
        Leaving { out, framing, passing }
    }

    /// Sends a response's head and body.
    async fn pass_back(
        &mut self,
        request: &RequestHead<'_>,
        mut exchange: Box<UpstreamExchange<'_>>,
        leaving: Leaving,
    ) -> Next {
        let Leaving { out, framing, passing } = leaving;
        match exchange.whole(&framing) {
            Some((input, len)) => {
                if let Err(next) = self.send_from(out, input, len).await {
                    self.log(Some(request), passing.status, passing.head_bytes);
                    return next;
                }
            }
            None => {
                let streamed = self.stream_back(request, exchange, (out, framing), passing);
                match Box::pin(streamed).await {
                    Ok(back) => exchange = back,
                    Err(next) => return next,
                }
            }
        }
        self.log(Some(request), passing.status, passing.head_bytes);
        if passing.keep_alive {
            exchange.upstream.finish();
        }
        match exchange.upload.reading.is_done() {
            true => self.after(passing.goes_on, false),
            false => {
                let UpstreamExchange { upstream, upload, .. } = *exchange;
                drop(upstream);
                Box::pin(self.pass_over(upload, passing.goes_on)).await
            }
        }
    }

    /// Sends a response whose body has not arrived completely or is large; `out` holds its head.
    async fn stream_back<'a>(
        &mut self,
        request: &RequestHead<'_>,
        mut exchange: Box<UpstreamExchange<'a>>,
        (out, framing): (Output, Framing),
        passing: Passing,
    ) -> Result<Box<UpstreamExchange<'a>>, Next> {
        let delimiter = framing.delimiter;
        let broken = match self.relay(request, &mut exchange, out, framing).await {
            Ok(()) => return Ok(exchange),
            Err(RelayError::Client(broken)) => broken,
            Err(RelayError::Upstream(why, status)) => {
                tell(&exchange.upstream, &named(request), &why, status);
                if self.sent.moved.get() == 0 {
                    return Err(self.give_up(request, exchange, status).await);
                }
                ExchangeError::Answer
            }
        };
        self.log(Some(request), passing.status, passing.head_bytes);
        Err(ended_by(broken, delimiter))
    }

    /// Relays the body.
    async fn relay(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
        out: Output,
        framing: Framing,
    ) -> Result<(), RelayError> {
        self.sent.moved.set(0);
        let within_ms = exchange.asked.proxy.config().read_timeout.as_millis() as u64;
        let UpstreamExchange { upstream, waits, upload, .. } = exchange;
        let te_trailers = request.te_trailers;
        let streaming = async |duplex: &Duplex<'_, T>| {
            let relay = Relay { duplex, out, framing, te_trailers, waits, within_ms };
            let relayed =
                upstream.beside(waits, async |source, input| relay.run(source, input).await);
            relayed.await.unwrap_or(Err(RelayError::Client(ExchangeError::Answer)))
        };
        match self.beside(upload, waits, streaming).await {
            Ok(relayed) => relayed,
            Err(ExchangeError::Late) => {
                Err(RelayError::Upstream(Phase::Reading.to_string(), StatusCode::GATEWAY_TIMEOUT))
            }
            Err(broken) => Err(RelayError::Client(broken)),
        }
    }

    /// Sends the internal file that an upstream named.
    async fn send_internal(
        &mut self,
        request: &RequestHead<'_>,
        mut exchange: Box<UpstreamExchange<'_>>,
        head: Taken,
    ) -> Next {
        let now_ms = clock::now_ms();
        exchange.settle_invitation(request);
        let UpstreamExchange { asked, mut upstream, upload, .. } = *exchange;
        // `judge` has parsed the head before.
        let Ok(reply) = response_head::parse(&head) else { return Next::Drop };
        let Some((file, mount)) = reply.file.zip(asked.mount) else { return Next::Drop };
        upstream.discard(reply.length);
        drop(upstream);
        let at = At { site: asked.site, mount, path: &asked.path };
        let mut answer = self
            .internal_answer(request, &at, file, |kept, content| {
                let keep = |name: &[u8], value: &[u8]| {
                    forward::keep_for_file(kept, name, value, content);
                };
                forward::each_for_client(&reply, keep);
            })
            .await;
        match upload.reading.is_done() {
            true => self.respond(request, &mut answer, now_ms, false).await,
            false => self.answer(request, answer, upload).await,
        }
    }
}

/// RFC 9110 section 7.8: the upstream must switch to a protocol that the request named.
fn is_agreed(protocol: Option<&str>, reply: &ResponseHead<'_>) -> bool {
    let agreed = protocol.zip(reply.upgrade);
    agreed.is_some_and(|(asked, got)| got.eq_ignore_ascii_case(asked.as_bytes()))
}
