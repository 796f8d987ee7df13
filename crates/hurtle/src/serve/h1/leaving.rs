//! A response on its way back to the client: what becomes of it, its head as the client gets it, and
//! its body. `proxy` has asked for it; `relay` brings what streams.

use http::StatusCode;

use super::app::ended_by;
use super::duplex::{Broken, Duplex};
use super::exchange::{Asked, Exchange};
use super::fault::{named, tell};
use super::internal::At;
use super::relay::{Cut, Framing, Relay};
use super::{Connection, Next, persistence};
use crate::clock;
use crate::h1::forward::{self, Dress};
use crate::h1::reply::{self, Reply};
use crate::h1::request::Request;
use crate::h1::response::Delimiter;
use crate::handler::proxy::{Fault, Phase};
use crate::transport::{Output, Taken, Transport};

/// A response on its way to the client.
struct Leaving {
    /// Its head.
    out: Output,
    framing: Framing,
    passing: Passing,
}

/// What is still to be known of it when it has left.
#[derive(Clone, Copy)]
struct Passing {
    status: StatusCode,
    head_bytes: u64,
    /// Whether the upstream's connection outlives it.
    keep_alive: bool,
    /// Whether the client's does.
    goes_on: bool,
}

/// What becomes of a response.
enum Verdict {
    /// The client gets it.
    Pass(Leaving),
    /// It is the last one before another protocol; its head.
    Switch(Output),
    /// The client gets the file that it names.
    File,
    /// It is none that a client could get.
    Refuse,
}

impl<T: Transport> Connection<T> {
    /// Does with a response what has to be done with it.
    pub(super) async fn hear(
        &mut self,
        request: &Request<'_>,
        mut exchange: Box<Exchange<'_>>,
        head: Taken,
    ) -> Next {
        match self.judge(request, &mut exchange, &head) {
            Verdict::Pass(leaving) => {
                drop(head);
                self.pass_back(request, exchange, leaving).await
            }
            Verdict::Switch(out) => {
                drop(head);
                Box::pin(self.tunnel(request, exchange.errand, out)).await
            }
            Verdict::File => Box::pin(self.send_internal(request, exchange, head)).await,
            Verdict::Refuse => {
                Box::pin(self.give_up(request, exchange, StatusCode::BAD_GATEWAY)).await
            }
        }
    }

    /// Decides what becomes of a response.
    fn judge(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange<'_>,
        head: &[u8],
    ) -> Verdict {
        let unasked = |reply: &Reply<'_>| {
            reply.status == StatusCode::SWITCHING_PROTOCOLS
                && !is_agreed(exchange.protocol.as_deref(), reply)
        };
        let fault = match &reply::parse(head) {
            Ok(reply) if unasked(reply) => Fault::Unasked,
            Ok(reply) => return self.judge_sound(request, exchange, reply),
            Err(flaw) => Fault::Flaw(*flaw),
        };
        tell(&exchange.errand, &named(request), &fault, StatusCode::BAD_GATEWAY);
        exchange.errand.failed(false);
        Verdict::Refuse
    }

    fn judge_sound(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange<'_>,
        reply: &Reply<'_>,
    ) -> Verdict {
        exchange.errand.succeeded();
        self.invalidate(request, &exchange.asked, reply.status);
        if let (Some(protocol), StatusCode::SWITCHING_PROTOCOLS) =
            (&exchange.protocol, reply.status)
        {
            let mut out = Output::new();
            forward::switching(out.vec(), reply, protocol, &clock::date(clock::now_ms()));
            return Verdict::Switch(out);
        }
        let Asked { proxy, mount, .. } = &exchange.asked;
        if reply.file.is_some() && mount.is_some() && proxy.config().internal.is_some() {
            return Verdict::File;
        }
        Verdict::Pass(self.leave(request, exchange, reply))
    }

    /// Writes a response's head as its client gets it.
    fn leave(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange<'_>,
        reply: &Reply<'_>,
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
        let dress = Dress { removes: &removes, set };
        forward::reply(out.vec(), reply, &date, framing.delimiter, persistence, &dress);
        let keep_alive = reply.keep_alive && framing.may_keep_alive;
        let passing = Passing { status, head_bytes: out.len() as u64, keep_alive, goes_on };
        Leaving { out, framing, passing }
    }

    /// Sends a response's head and body.
    async fn pass_back(
        &mut self,
        request: &Request<'_>,
        mut exchange: Box<Exchange<'_>>,
        leaving: Leaving,
    ) -> Next {
        let Leaving { out, framing, passing } = leaving;
        match exchange.take_whole(&framing, &out) {
            Some(whole) => {
                drop(out);
                if let Err(next) = self.send_bytes(&whole).await {
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
            exchange.errand.finish();
        }
        match exchange.upload.reading.is_done() {
            true => self.after(passing.goes_on, false),
            false => {
                let Exchange { errand, upload, .. } = *exchange;
                drop(errand);
                Box::pin(self.pass_over(upload, passing.goes_on)).await
            }
        }
    }

    /// Sends a response whose body is not all here yet, or is large; `out`: its head.
    async fn stream_back<'a>(
        &mut self,
        request: &Request<'_>,
        mut exchange: Box<Exchange<'a>>,
        (out, framing): (Output, Framing),
        passing: Passing,
    ) -> Result<Box<Exchange<'a>>, Next> {
        let delimiter = framing.delimiter;
        let broken = match self.relay(request, &mut exchange, out, framing).await {
            Ok(()) => return Ok(exchange),
            Err(Cut::Client(broken)) => broken,
            Err(Cut::Upstream(why, status)) => {
                tell(&exchange.errand, &named(request), &why, status);
                if self.sent.moved.get() == 0 {
                    return Err(self.give_up(request, exchange, status).await);
                }
                Broken::Answer
            }
        };
        self.log(Some(request), passing.status, passing.head_bytes);
        Err(ended_by(broken, delimiter))
    }

    /// Relays it.
    async fn relay(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange<'_>,
        out: Output,
        framing: Framing,
    ) -> Result<(), Cut> {
        self.sent.moved.set(0);
        let within_ms = exchange.asked.proxy.config().read_timeout.as_millis() as u64;
        let Exchange { errand, waits, upload, .. } = exchange;
        let te_trailers = request.te_trailers;
        let streaming = async |duplex: &Duplex<'_, T>| {
            let relay = Relay { duplex, out, framing, te_trailers, waits, within_ms };
            let relayed =
                errand.beside(waits, async |source, input| relay.run(source, input).await);
            relayed.await.unwrap_or(Err(Cut::Client(Broken::Answer)))
        };
        match self.beside(upload, waits, streaming).await {
            Ok(relayed) => relayed,
            Err(Broken::Late) => {
                Err(Cut::Upstream(Phase::Reading.to_string(), StatusCode::GATEWAY_TIMEOUT))
            }
            Err(broken) => Err(Cut::Client(broken)),
        }
    }

    /// Sends the file an upstream named, as if the client had asked for it.
    async fn send_internal(
        &mut self,
        request: &Request<'_>,
        mut exchange: Box<Exchange<'_>>,
        head: Taken,
    ) -> Next {
        let now_ms = clock::now_ms();
        exchange.settle_invitation(request);
        let Exchange { asked, mut errand, upload, .. } = *exchange;
        // It was read before.
        let Ok(reply) = reply::parse(&head) else { return Next::Drop };
        let Some((file, mount)) = reply.file.zip(asked.mount) else { return Next::Drop };
        errand.discard(reply.length);
        drop(errand);
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

/// RFC 9110 7.8: the change must be to what was asked for.
fn is_agreed(protocol: Option<&str>, reply: &Reply<'_>) -> bool {
    let agreed = protocol.zip(reply.upgrade);
    agreed.is_some_and(|(asked, got)| got.eq_ignore_ascii_case(asked.as_bytes()))
}
