//! One HTTP/1.1 connection: read a head, find who answers, send the answer, give way, go on or
//! close. What the bytes mean is `crate::h1`'s; what is answered, the handlers'. Exchanges in which
//! both directions flow at once are in `app`.

mod admission;
mod again;
mod app;
mod asked;
mod cached;
mod duplex;
mod exchange;
mod fault;
mod fill;
mod gateway;
mod hints;
mod input;
mod internal;
mod leaving;
mod log;
mod made;
mod outcome;
mod proxy;
mod quick;
mod reading;
mod relay;
mod selection;
mod send;
mod stream;
mod tunnel;
mod upload;

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;
use std::{io, mem};

use http::{StatusCode, header};

use self::app::{Called, begin_body, says_close};
use self::asked::{ask, client, described, path_of};
use self::outcome::Outcome;
use self::quick::Quick;
use self::reading::Reading;
use self::upload::Upload;
use super::deadline::Watch;
use super::{Place, Worker};
use crate::answer::{Answer, is_bodiless};
use crate::body::Body;
use crate::config::Schedule;
use crate::h1::Sin;
use crate::h1::framing::BodyLength;
use crate::h1::request::{self, Joined, Method, Request};
use crate::h1::response::{self, Delimiter, Fields, Persistence};
use crate::h1::way::Way;
use crate::site::Channel;
use crate::transport::{Input, Output, Progress, Transport};
use crate::{clock, rt};

/// A connection.
pub struct Connection<T> {
    io: T,
    input: Input,
    worker: Rc<Worker>,
    watch: Watch,
    peer: Option<IpAddr>,
    /// Who sent the current request: the peer, or whom a trusted one names.
    client: Option<IpAddr>,
    /// Bytes of the current answer that the kernel has taken.
    sent: Progress,
    /// What a cache of upstreams' answers did for the current request.
    outcome: Option<Outcome>,
    /// What upstreams are told of its requests.
    way: Way,
    /// Requests answered.
    served: u64,
    /// When the current request was read, if there is a log to tell.
    begun: Option<Instant>,
    /// The peer will send nothing more; what it sent is still answered.
    ended: bool,
    /// Given up when all else is: the connection is closed by then.
    _place: Rc<Place>,
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another request may come.
    Request,
    /// No more; the peer has sent nothing that is unread.
    Close,
    /// No more, but the peer may still be sending: let it read the answer first.
    Linger,
    /// The answer did not leave whole: end without pretending.
    Drop,
    /// The peer takes nothing: end without keeping what it did not take.
    Abort,
}

/// How HTTP/2's preface begins (RFC 9113 3.4): as no request of HTTP/1.1 can.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Pipelined requests answered in one turn before the other connections have theirs.
const PIPELINED_MAX: u64 = 16;

/// The same of requests that were there whenever they were asked for, one at a time.
const UNWAITED_MAX: u64 = 128;

impl<T: Transport> Connection<T> {
    /// A connection; `input` is what was read of it already.
    pub fn new(io: T, input: Input, peer: Option<IpAddr>, place: Rc<Place>) -> Connection<T> {
        let worker = Rc::clone(&place.0);
        let watch = worker.deadlines.watch();
        let sent = Progress { share: worker.share(peer), ..Progress::default() };
        Connection {
            io,
            input,
            worker,
            watch,
            peer,
            client: peer,
            sent,
            outcome: None,
            way: Way::default(),
            served: 0,
            begun: None,
            ended: false,
            _place: place,
        }
    }

    /// Serves it to its end; unless it turns out to speak HTTP/2 (RFC 9113 3.3): then, itself and
    /// what was read of it.
    #[allow(clippy::manual_async_fn)] // Such a one has room for what it is given twice.
    pub fn run(mut self) -> impl Future<Output = Option<(T, Input)>> {
        async move {
            loop {
                let head = self.read_head().await;
                self.begun = self.worker.log.as_ref().map(|_| Instant::now());
                let joined = Joined::default();
                let next = match head {
                    // Matched by reference: a request moved is a request stored twice.
                    Ok(Some(head)) => match &self.parse(&head, &joined) {
                        Ok(request) => {
                            self.input.put_back(request.rest);
                            self.exchange(request).await
                        }
                        Err(_) if self.is_preface(&head) => return Some(self.give_back(&head)),
                        Err(sin) => self.refuse(*sin).await,
                    },
                    Ok(None) => Next::Close,
                    Err(_) if self.is_preface(self.input.bytes()) => {
                        return Some(self.give_back(b""));
                    }
                    Err(sin) => self.refuse(sin).await,
                };
                // Another request comes by another stream.
                let next = if T::IS_HTTP2 && next == Next::Request { Next::Close } else { next };
                if next != Next::Request {
                    self.end(next).await;
                    return None;
                }
                if self.has_had_its_turn() {
                    rt::give_way().await;
                }
            }
        }
    }

    fn parse<'a>(&self, head: &'a [u8], joined: &'a Joined) -> Result<Request<'a>, Sin> {
        let Worker { head_limits, sections, .. } = &*self.worker;
        request::parse_lately(head, joined, head_limits, sections)
    }

    /// Whether what is no request line begins HTTP/2. Over TLS that is agreed on before.
    fn is_preface(&self, head: &[u8]) -> bool {
        self.served == 0 && !self.io.is_secure() && head.starts_with(PREFACE)
    }

    /// The channel, and what was read and not served: `head`, and what came behind it.
    fn give_back(self, head: &[u8]) -> (T, Input) {
        let early = [head, self.input.bytes()].concat();
        (self.io, Input::holding(early))
    }

    /// Whether the others come before this connection's next read (seed: Warp). Usually that read
    /// waits, and that is it; not where requests are here already.
    fn has_had_its_turn(&self) -> bool {
        let max = if self.input.bytes().is_empty() { UNWAITED_MAX } else { PIPELINED_MAX };
        self.worker.schedule == Schedule::Yield || self.served.is_multiple_of(max)
    }

    /// Answers a sin that was seen before there was a request, and ends.
    pub async fn turn_down(mut self, sin: Sin) {
        let next = self.refuse(sin).await;
        self.end(next).await;
    }

    async fn end(&mut self, next: Next) {
        match next {
            // Dropping closes, and nothing is unread: that is a FIN.
            Next::Request | Next::Close => self.io.close(),
            Next::Linger => Box::pin(self.linger()).await,
            Next::Drop => {}
            Next::Abort => self.io.abort(),
        }
    }

    /// What requests come by.
    fn channel(&self) -> Channel {
        Channel { secure: self.io.is_secure(), policy: self.io.policy() }
    }

    /// One request and its answer.
    async fn exchange(&mut self, request: &Request<'_>) -> Next {
        let now_ms = clock::now_ms();
        self.outcome = None;
        if !self.worker.trusted_proxies.is_empty() {
            self.client = self.peer.map(|peer| client(request, peer, &self.worker.trusted_proxies));
            self.sent.share = self.worker.share(self.client);
        }
        let mut answer = match self.quick(request, now_ms) {
            Some(Quick::Answer(answer)) => answer,
            // Most applications answer at once: that takes none of what waiting does.
            Some(Quick::App(mut calling)) => {
                let asked = || described(request);
                match poll_fn(|cx| Poll::Ready(calling.poll(cx, now_ms, asked))).await {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        let answering = calling.wait(asked());
                        return Box::pin(self.app_exchange(request, answering.into())).await;
                    }
                }
            }
            // Not in a box: it has room where answers are sent, below.
            Some(Quick::Proxy(asked)) => return self.proxy_exchange(request, asked).await,
            None => return Box::pin(self.slow_exchange(request, now_ms)).await,
        };
        self.respond(request, &mut answer, now_ms, false).await
    }

    /// Everything else.
    async fn slow_exchange(&mut self, request: &Request<'_>, now_ms: u64) -> Next {
        let unread = request.body != BodyLength::None;
        if let Some(mut answer) = self.challenge(request).or_else(|| self.elsewhere(request)) {
            return self.respond(request, &mut answer, now_ms, unread).await;
        }
        let granted = match self.authorise(request).await {
            Ok(granted) => granted,
            Err(mut answer) => {
                return self.respond(request, &mut answer, now_ms, unread).await;
            }
        };
        match self.call_reader(request, &granted).await {
            None => {}
            Some(Ok(Called::App(app))) => return Box::pin(self.app_exchange(request, app)).await,
            Some(Ok(Called::Proxy(asked))) => {
                if let Some(mut answer) = self.stored_answer(request, asked.sought()) {
                    return self.respond(request, &mut answer, now_ms, false).await;
                }
                if let Err(next) = self.hint(request, &asked).await {
                    return next;
                }
                return Box::pin(self.proxy_exchange(request, asked)).await;
            }
            Some(Err(mut answer)) => {
                return self.respond(request, &mut answer, now_ms, unread).await;
            }
        }
        let refused = self.refusal(request);
        // A client that waits for leave to send its body is told at once that there is no use in
        // it (RFC 9110 10.1.1); whether it sends it all the same is not known, so this is the end.
        let refused = match refused {
            Some(mut answer) if request.expect_continue && unread => {
                return self.respond(request, &mut answer, now_ms, true).await;
            }
            refused => refused,
        };
        if unread {
            // RFC 9110 10.1.1: what will be refused all the same is not asked for.
            if request.expect_continue
                && self.input.bytes().is_empty()
                && !self.is_too_large(request.body)
                && let Err(next) = Box::pin(self.invite()).await
            {
                return next;
            }
            // No handler here has use for a body; it is read before the answer, so that a broken
            // one is told.
            let bytes_max = self.worker.limits.body_bytes;
            let discarded = self.discard_body(&mut Reading::new(request.body), bytes_max).await;
            if let Err(sin) = discarded {
                return match sin {
                    Some(sin) => Box::pin(self.refuse(sin)).await,
                    None => Next::Drop,
                };
            }
        }
        let mut answer = match refused {
            Some(answer) => answer,
            None => Box::pin(self.handled(request)).await,
        };
        self.respond(request, &mut answer, now_ms, false).await
    }

    async fn handled(&self, request: &Request<'_>) -> Answer {
        let name = request.host.as_ref().map(|h| h.name);
        let found = self.worker.sites.find(name).zip(path_of(&request.target));
        let Some(((number, site), (path, query))) = found else {
            return Answer::error(StatusCode::NOT_FOUND, None);
        };
        site.answer(&self.worker.store, &ask(request, number, path, query), self.client).await
    }

    /// Sends an answer, of which nothing is of use afterwards. `unread`: a body may still come that
    /// nobody will read.
    async fn respond(
        &mut self,
        request: &Request<'_>,
        answer: &mut Answer,
        now_ms: u64,
        unread: bool,
    ) -> Next {
        let sends_body = request.method != Method::Head && !is_bodiless(answer.status);
        if let Body::Stream(_) = answer.body {
            begin_body(answer, sends_body).await;
            if let Body::Stream(_) = answer.body {
                let answer = mem::replace(answer, Answer::empty(StatusCode::OK));
                return Box::pin(self.answer(request, answer, Upload::none())).await;
            }
        }
        if sends_body && let Body::File(_) = answer.body {
            self.warm(request, answer, now_ms).await;
        }
        let goes_on = self.goes_on(request) && !unread && !says_close(&answer.fields);
        let mut head = Output::new();
        let delimiter = delimiter(answer);
        self.encode_head(&mut head, request, answer, delimiter, goes_on, now_ms);
        let nothing = Body::Empty;
        let body = if sends_body { &answer.body } else { &nothing };
        let head_bytes = head.len() as u64;
        self.spare(&mut answer.fields);
        let sent = self.send(head, body).await;
        self.log(Some(request), answer.status, head_bytes);
        match sent {
            // Who did not ask for the end may have sent the next request already.
            Ok(()) => self.after(goes_on, unread || request.keep_alive),
            Err(next) => next,
        }
    }

    /// Asked before a byte is promised: a disk that does not answer can still be told of.
    async fn warm(&self, request: &Request<'_>, answer: &mut Answer, now_ms: u64) {
        let sender = &self.worker.sender;
        if !sender.is_warm(&answer.body, now_ms)
            && let Err(e) = Box::pin(sender.warm(&answer.body)).await
        {
            *answer = unreadable(request, &e);
        }
    }

    /// Counts a request; says whether another one may follow it.
    fn goes_on(&mut self, request: &Request<'_>) -> bool {
        self.served += 1;
        let more = self.worker.limits.requests_per_connection.is_none_or(|max| self.served < max);
        request.keep_alive && more && !self.worker.deadlines.is_draining()
    }

    /// Tells browsers to come by TLS only, where the site that has this name wants that: with every
    /// answer over TLS, whoever made it (RFC 6797 7.1). A file's fields say it already.
    fn pin(&self, name: Option<&[u8]>, answer: &mut Answer) {
        let Fields::Map(fields) = &mut answer.fields else { return };
        if !self.io.is_secure() {
            return;
        }
        let found = self.worker.sites.find(name);
        if let Some(hsts) = found.and_then(|(_, site)| site.hsts()) {
            fields.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
    }

    fn encode_head(
        &self,
        head: &mut Output,
        request: &Request<'_>,
        answer: &mut Answer,
        delimiter: Delimiter,
        goes_on: bool,
        now_ms: u64,
    ) {
        self.pin(request.host.as_ref().map(|h| h.name), answer);
        response::encode(
            head.vec(),
            answer.status,
            &clock::date(now_ms),
            &answer.fields,
            delimiter,
            persistence(request, goes_on),
        );
    }

    /// Whether the peer is believed in what it says of those before it.
    fn trusts_peer(&self) -> bool {
        let trusted = &self.worker.trusted_proxies;
        self.peer.is_some_and(|peer| trusted.iter().any(|network| network.contains(&peer)))
    }

    /// What becomes of the connection after an answer that left whole.
    fn after(&self, goes_on: bool, unread: bool) -> Next {
        match (goes_on, unread || !self.input.bytes().is_empty()) {
            (true, _) => Next::Request,
            (false, false) if !self.worker.deadlines.is_draining() => Next::Close,
            (false, _) => Next::Linger,
        }
    }

    /// Answers a sin; the framing can no longer be trusted, so nothing more is read as requests.
    async fn refuse(&mut self, sin: Sin) -> Next {
        let mut answer = Answer::error(sin.status(), Some(&sin.to_string()));
        // What was asked of whom is not known, but whom the handshake was with.
        let name = self.io.server_name();
        self.pin(name.as_deref().map(str::as_bytes), &mut answer);
        let mut head = Output::new();
        let date = clock::date(clock::now_ms());
        let delimiter = delimiter(&answer);
        let close = Persistence::Close;
        response::encode(head.vec(), answer.status, &date, &answer.fields, delimiter, close);
        let head_bytes = head.len() as u64;
        let sent = self.send(head, &answer.body).await;
        self.log(None, answer.status, head_bytes);
        match sent {
            Ok(()) => Next::Linger,
            Err(next) => next,
        }
    }

    /// Asks for the body the client holds back.
    async fn invite(&mut self) -> Result<(), Next> {
        let mut interim = Output::new();
        interim.vec().extend_from_slice(response::CONTINUE);
        self.send(interim, &Body::Empty).await
    }
}

/// The answer in the place of a file that was found but cannot be read.
fn unreadable(request: &Request<'_>, e: &io::Error) -> Answer {
    let target = String::from_utf8_lossy(request.raw_target);
    if e.kind() == io::ErrorKind::TimedOut {
        tracing::warn!("{target}: the disk is too slow; answered 503");
        return Answer::error(StatusCode::SERVICE_UNAVAILABLE, None);
    }
    tracing::error!("{target}: {e}");
    Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
}

/// What an answer says of the connection.
fn persistence(request: &Request<'_>, goes_on: bool) -> Persistence {
    match (goes_on, request.http10) {
        (true, false) => Persistence::Implied,
        (true, true) => Persistence::KeepAlive,
        (false, _) => Persistence::Close,
    }
}

/// How an answer's body is delimited. Statuses without one say nothing (RFC 9110 8.6).
fn delimiter(answer: &Answer) -> Delimiter {
    match answer.fields {
        Fields::Ready(_) | Fields::Dated(_) => Delimiter::Given,
        Fields::Map(_) if is_bodiless(answer.status) => Delimiter::Given,
        // A body whose length only its end tells is delimited where it is sent.
        Fields::Map(_) => answer.body.exact_len().map_or(Delimiter::Close, Delimiter::Length),
    }
}
