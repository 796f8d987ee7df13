//! An exchange with an upstream: asks one, and another where that is safe, until a response's head
//! is there, and decides what becomes of it. `relay` brings its body to the client, `tunnel` another
//! protocol's bytes.

use std::borrow::Cow;
use std::rc::Rc;

use http::StatusCode;

use super::app::ended_by;
use super::asked::{ask, path_of};
use super::cached::Cached;
use super::duplex::{Broken, Duplex};
use super::exchange::{Asked, Exchange};
use super::fault::{Failed, Told, named, tell};
use super::internal::At;
use super::relay::{Cut, Framing, Relay};
use super::upload::Upload;
use super::{Connection, Next, persistence};
use crate::answer::Answer;
use crate::clock;
use crate::config::EarlyHints;
use crate::h1::forward::{self, Dress};
use crate::h1::framing::BodyLength;
use crate::h1::reply::{self, Reply};
use crate::h1::request::Request;
use crate::h1::response::{CONTINUE, Delimiter};
use crate::handler::proxy::{Errand, Fault, Heard, Key, Phase, Waits};
use crate::semantics::target::{encode_path, spells};
use crate::transport::{Output, Taken, Transport};

/// Interim responses relayed for one request; who sends more never means to answer.
pub(super) const INTERIM_MAX: usize = 32;

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
    /// Passes a request on and its answer back.
    pub(super) async fn proxy_exchange(&mut self, request: &Request<'_>, asked: Asked<'_>) -> Next {
        // RFC 9110 9.3.8: it would show the client the fields that are added here.
        if request.method.as_bytes() == b"TRACE" {
            let unread = request.body != BodyLength::None;
            let answer = Answer::method_refused(true);
            return Box::pin(self.respond(request, answer, clock::now_ms(), unread)).await;
        }
        let asked = match asked.proxy.cache() {
            None => asked,
            Some(_) => match Box::pin(self.cache_exchange(request, asked)).await {
                Ok(next) => return next,
                Err(asked) => asked,
            },
        };
        let mut exchange = self.begin(request, asked);
        match self.ask(request, &mut exchange).await {
            Ok(head) => self.hear(request, exchange, head).await,
            Err(Failed::Status(status)) => Box::pin(self.give_up(request, exchange, status)).await,
            Err(Failed::Broken(broken)) => self.broken(broken).await,
        }
    }

    /// The same where a cache may have the answer, or want it; `Err`: it has no part in this.
    async fn cache_exchange<'a>(
        &mut self,
        request: &Request<'_>,
        asked: Asked<'a>,
    ) -> Result<Next, Asked<'a>> {
        Ok(match self.cached(request, &asked).await {
            Cached::Alone => return Err(asked),
            Cached::Answer(answer) => self.respond(request, answer, clock::now_ms(), false).await,
            Cached::Pass(passed) => {
                let (errand, head) = *passed;
                let exchange = Box::new(Exchange::bodiless(asked, errand));
                self.hear(request, exchange, head).await
            }
            Cached::Failed(status) => self.fail(request, &asked, Upload::none(), status).await,
            Cached::Broken(broken) => self.broken(broken).await,
        })
    }

    /// A request as it goes on. In a box: it is handed on, and what is handed on is moved.
    fn begin<'a>(&self, request: &Request<'_>, asked: Asked<'a>) -> Box<Exchange<'a>> {
        let (upload, body) = Upload::relayed(request);
        let protocol = forward::upgrade(request, &asked.proxy.config().upgrades);
        let path = path_onward(request, &asked);
        let onward = self.onward(request, &path, protocol);
        let errand = Errand::new(&asked.proxy, request, body, onward);
        let protocol = protocol.map(str::to_owned);
        drop(path);
        let waits = Waits::default();
        Box::new(Exchange { asked, errand, waits, upload, protocol, invited: false })
    }

    async fn broken(&mut self, broken: Broken) -> Next {
        match broken {
            Broken::Sin(sin) => Box::pin(self.refuse(sin)).await,
            Broken::Stalled => Next::Abort,
            _ => Next::Drop,
        }
    }

    /// Asks upstreams until one answers.
    async fn ask(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Taken, Failed> {
        if !exchange.asked.proxy.is_open() {
            Box::pin(self.wait_for_application(request, exchange)).await?;
        }
        let client = self.client;
        let site = self.worker.sites.site(exchange.asked.site);
        let hints = site.early_hints() != EarlyHints::Off;
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        loop {
            let Exchange { asked, errand, waits, upload, invited, .. } = &mut *exchange;
            if !errand.choose(Key { client, path: &asked.path }) {
                // Else it was told of those that were asked.
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    tell(errand, &named(request), &"none is well", status);
                }
                return Err(Failed::Status(status));
            }
            let asking = async |duplex: &Duplex<'_, T>| {
                listen((request, hints), duplex, errand, waits, invited).await
            };
            let retry = match self.beside(upload, waits, asking).await {
                Ok(Ok(head)) => return Ok(head),
                Ok(Err(Told::Fault(fault))) => {
                    status = StatusCode::BAD_GATEWAY;
                    tell(errand, &named(request), &fault, status);
                    let retry = errand.may_retry(&fault);
                    errand.failed(matches!(fault, Fault::Gone(_) | Fault::Deaf(_)));
                    retry
                }
                Err(Broken::Late) => {
                    status = StatusCode::GATEWAY_TIMEOUT;
                    tell(errand, &named(request), &errand.phase(), status);
                    errand.failed(false);
                    errand.may_retry_late()
                }
                Ok(Err(Told::Broken(broken))) | Err(broken) => {
                    return Err(Failed::Broken(broken));
                }
            };
            if !retry {
                return Err(Failed::Status(status));
            }
        }
    }

    /// Waits for an application that the server is just starting.
    async fn wait_for_application(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), Failed> {
        let Exchange { asked, errand, waits, upload, .. } = exchange;
        match self.beside(upload, waits, async |_| asked.proxy.opens().await).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                tell(errand, &named(request), &"the application is not running", status);
                Err(Failed::Status(status))
            }
            Err(broken) => Err(Failed::Broken(broken)),
        }
    }

    /// Does with a response what has to be done with it.
    async fn hear(
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
        let answer = self
            .internal_answer(request, &at, file, |kept, content| {
                let keep = |name: &[u8], value: &[u8]| {
                    forward::keep_for_file(kept, name, value, content);
                };
                forward::each_for_client(&reply, keep);
            })
            .await;
        match upload.reading.is_done() {
            true => self.respond(request, answer, now_ms, false).await,
            false => self.answer(request, answer, upload).await,
        }
    }

    /// Answers in the place of an upstream that was asked.
    async fn give_up(
        &mut self,
        request: &Request<'_>,
        mut exchange: Box<Exchange<'_>>,
        status: StatusCode,
    ) -> Next {
        exchange.settle_invitation(request);
        let Exchange { asked, errand, upload, .. } = *exchange;
        drop(errand);
        self.fail(request, &asked, upload, status).await
    }

    /// Answers in an upstream's place.
    async fn fail(
        &mut self,
        request: &Request<'_>,
        asked: &Asked<'_>,
        upload: Upload,
        status: StatusCode,
    ) -> Next {
        let worker = Rc::clone(&self.worker);
        let mut answer = Answer::error(status, None);
        if let Some((path, query)) = path_of(&request.target) {
            let site = worker.sites.site(asked.site);
            let ask = ask(request, asked.site, path, query);
            answer = Box::pin(site.with_page(&worker.store, &ask, answer)).await;
        }
        self.answer(request, answer, upload).await
    }
}

/// The path an upstream is asked for: as the client wrote it, if that only spells the one that was
/// understood; else that one encoded anew. A cache knows one spelling, and so must whoever fills it.
fn path_onward<'a>(request: &Request<'a>, asked: &'a Asked<'_>) -> Cow<'a, [u8]> {
    let sent = path_of(&request.target).map(|(sent, _)| sent);
    match sent.filter(|sent| asked.proxy.cache().is_none() && spells(sent, &asked.path)) {
        Some(sent) => Cow::Borrowed(sent),
        None => match encode_path(&asked.path) {
            Cow::Borrowed(path) => Cow::Borrowed(path.as_bytes()),
            Cow::Owned(path) => Cow::Owned(path.into_bytes()),
        },
    }
}

/// Connects, sends, and listens until a final head has come, relaying interim ones; `hints`: 103s too.
async fn listen<T: Transport>(
    (request, hints): (&Request<'_>, bool),
    duplex: &Duplex<'_, T>,
    errand: &mut Errand,
    waits: &Waits,
    invited: &mut bool,
) -> Result<Taken, Told> {
    errand.connect(waits).await?;
    for _ in 0..INTERIM_MAX {
        let head = match errand.listen(waits).await? {
            Heard::Head(head) => head,
            Heard::Nothing => {
                errand.release();
                *invited = true;
                Box::pin(duplex.write(&mut [std::io::IoSlice::new(CONTINUE)])).await?;
                continue;
            }
        };
        if !is_interim(&head)? {
            return Ok(head);
        }
        if let Some(out) = relayed((request, hints), &head, errand, invited)? {
            drop(head);
            Box::pin(duplex.write(&mut [std::io::IoSlice::new(&out)])).await?;
        }
    }
    Err(Told::Fault(Fault::Cut))
}

/// An interim response as the client gets it, if it does.
fn relayed(
    (request, hints): (&Request<'_>, bool),
    head: &[u8],
    errand: &mut Errand,
    invited: &mut bool,
) -> Result<Option<Output>, Fault> {
    let reply = reply::parse(head).map_err(Fault::Flaw)?;
    match reply.status {
        StatusCode::CONTINUE => {
            errand.release();
            // A second one, or one that the client does not wait for, says nothing.
            if !request.expect_continue || std::mem::replace(invited, true) {
                return Ok(None);
            }
        }
        // RFC 9110 15.2: HTTP/1.0 knows no interim responses.
        _ if request.http10 => return Ok(None),
        StatusCode::EARLY_HINTS if !hints => return Ok(None),
        _ => {}
    }
    let mut out = Output::new();
    forward::interim(out.vec(), &reply);
    Ok(Some(out))
}

/// Whether a response's head is not its last.
pub(super) fn is_interim(head: &[u8]) -> Result<bool, Fault> {
    // The status line's tenth byte is the status's first; a line without it is for `parse`.
    if head.get(9) != Some(&b'1') {
        return Ok(false);
    }
    let reply = reply::parse(head).map_err(Fault::Flaw)?;
    Ok(reply.status != StatusCode::SWITCHING_PROTOCOLS)
}

/// RFC 9110 7.8: the change must be to what was asked for.
fn is_agreed(protocol: Option<&str>, reply: &Reply<'_>) -> bool {
    let agreed = protocol.zip(reply.upgrade);
    agreed.is_some_and(|(asked, got)| got.eq_ignore_ascii_case(asked.as_bytes()))
}
