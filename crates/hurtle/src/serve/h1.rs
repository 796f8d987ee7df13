//! One HTTP/1.1 connection: read a head, find who answers, send the answer, give way, go on or
//! close. What the bytes mean is `crate::h1`'s; what is answered, the handlers'.

mod input;

use std::borrow::Cow;
use std::cell::Cell;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::StatusCode;

use super::Worker;
use super::deadline::Watch;
use crate::answer::Answer;
use crate::body::Body;
use crate::files::{self, FileQuery, Key};
use crate::h1::Sin;
use crate::h1::framing::BodyLength;
use crate::h1::request::{self, Method, Request, Value};
use crate::h1::response::{self, Delimiter, Fields, Persistence};
use crate::handler::Ask;
use crate::observe::Exchange;
use crate::semantics::conditional::Preconditions;
use crate::semantics::target::Target;
use crate::transport::{Input, Output, Plain};
use crate::{clock, rt};

/// A connection.
pub struct Connection {
    io: Plain,
    input: Input,
    worker: Rc<Worker>,
    watch: Watch,
    peer: Option<IpAddr>,
    /// Bytes of the current answer that the kernel has taken.
    sent: Cell<u64>,
    /// Requests answered.
    served: u64,
    /// When the current request was read, if there is a log to tell.
    begun: Option<Instant>,
    /// The peer will send nothing more; what it sent is still answered.
    ended: bool,
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

/// Pipelined requests answered in one turn before the other connections have theirs.
const PIPELINED_MAX: u64 = 16;

impl Connection {
    /// A connection just accepted.
    pub fn new(io: Plain, worker: Rc<Worker>) -> Connection {
        let watch = worker.deadlines.watch();
        let peer = io.peer();
        let sent = Cell::new(0);
        Connection {
            io,
            input: Input::default(),
            worker,
            watch,
            peer,
            sent,
            served: 0,
            begun: None,
            ended: false,
        }
    }

    /// Serves it to its end.
    pub async fn run(mut self) {
        loop {
            let head = self.read_head().await;
            self.begun = self.worker.log.as_ref().map(|_| Instant::now());
            let next = match head {
                // Matched by reference: a request moved is a request stored twice.
                Ok(Some(head)) => match &request::parse(&head, &self.worker.head_limits) {
                    Ok(request) => self.exchange(request).await,
                    Err(sin) => self.refuse(*sin).await,
                },
                Ok(None) => Next::Close,
                Err(sin) => self.refuse(sin).await,
            };
            match next {
                Next::Request => {}
                Next::Close => return self.io.finish(),
                Next::Linger => return Box::pin(self.linger()).await,
                Next::Drop => return,
                Next::Abort => return self.io.abort(),
            }
            // Giving way (seed: Warp): usually the next read waits, and that is it. Where requests
            // are here already, the others have their turn first.
            if !self.input.bytes().is_empty() && self.served.is_multiple_of(PIPELINED_MAX) {
                rt::give_way().await;
            }
        }
    }

    /// One request and its answer.
    async fn exchange(&mut self, request: &Request<'_>) -> Next {
        let now_ms = clock::now_ms();
        if let Some(answer) = self.quick_answer(request, now_ms) {
            return self.respond(request, answer, now_ms, false).await;
        }
        Box::pin(self.slow_exchange(request, now_ms)).await
    }

    /// The answer that takes nothing but memory: a known file for a request without a body.
    fn quick_answer(&self, request: &Request<'_>, now_ms: u64) -> Option<Answer> {
        if !matches!(request.method, Method::Get | Method::Head) || request.body != BodyLength::None
        {
            return None;
        }
        let (site, found) = self.worker.sites.find(request.host.as_ref().map(|h| h.name))?;
        let (path, _) = path_of(&request.target)?;
        let entry = self.worker.store.fresh(Key { site, path }, now_ms)?;
        if !found.admits(&entry, self.peer) {
            return None;
        }
        Some(files::answer(&entry, StatusCode::OK, &file_query(request)))
    }

    /// Everything else.
    async fn slow_exchange(&mut self, request: &Request<'_>, now_ms: u64) -> Next {
        let refused = self.refusal(request);
        // A client that waits for leave to send its body is told at once that there is no use in
        // it (RFC 9110 10.1.1); whether it sends it all the same is not known, so this is the end.
        if let Some(answer) = &refused
            && request.expect_continue
            && request.body != BodyLength::None
        {
            return self.respond(request, answer.clone(), now_ms, true).await;
        }
        if request.body != BodyLength::None {
            // RFC 9110 10.1.1: what will be refused all the same is not asked for.
            if request.expect_continue
                && self.input.bytes().is_empty()
                && !self.is_too_large(request.body)
                && let Err(next) = self.invite().await
            {
                return next;
            }
            // No handler here has use for a body; it is read before the answer, so that a broken
            // one is told.
            if let Err(sin) = self.discard_body(request.body).await {
                return match sin {
                    Some(sin) => self.refuse(sin).await,
                    None => Next::Drop,
                };
            }
        }
        let answer = match refused {
            Some(answer) => answer,
            None => self.handled(request).await,
        };
        self.respond(request, answer, now_ms, false).await
    }

    /// The answer that needs no handler, if there is one.
    fn refusal(&self, request: &Request<'_>) -> Option<Answer> {
        match request.method {
            Method::Options if request.target == Target::Asterisk => return Some(Answer::options()),
            Method::Get | Method::Head | Method::Options => {}
            Method::Other(_) => return Some(Answer::method_refused(request.method.is_known())),
        }
        let name = request.host.as_ref().map(|h| h.name);
        if self.worker.sites.find(name).is_none() {
            return Some(Answer::error(StatusCode::MISDIRECTED_REQUEST, None));
        }
        (request.method == Method::Options).then(Answer::options)
    }

    async fn handled(&self, request: &Request<'_>) -> Answer {
        let name = request.host.as_ref().map(|h| h.name);
        let found = self.worker.sites.find(name).zip(path_of(&request.target));
        let Some(((number, site), (path, query))) = found else {
            return Answer::error(StatusCode::NOT_FOUND, None);
        };
        let ask = Ask {
            get: request.method == Method::Get,
            key: Key { site: number, path },
            query,
            file: file_query(request),
            accept: value(&request.accept),
        };
        site.answer(&self.worker.store, &ask, self.peer).await
    }

    /// Sends an answer. `unread`: a body may still come that nobody will read.
    async fn respond(
        &mut self,
        request: &Request<'_>,
        answer: Answer,
        now_ms: u64,
        unread: bool,
    ) -> Next {
        self.served += 1;
        let more = self.worker.limits.requests_per_connection.is_none_or(|max| self.served < max);
        let goes_on = request.keep_alive && !unread && more && !self.worker.deadlines.is_draining();
        let persistence = match (goes_on, request.http10) {
            (true, false) => Persistence::Implied,
            (true, true) => Persistence::KeepAlive,
            (false, _) => Persistence::Close,
        };
        let mut head = Output::new();
        let delimiter = delimiter(&answer);
        response::encode(
            head.vec(),
            answer.status,
            &clock::date(now_ms),
            &answer.fields,
            delimiter,
            persistence,
        );
        let nothing = Body::Empty;
        let sends_body = request.method != Method::Head && !is_bodiless(answer.status);
        let body = if sends_body { &answer.body } else { &nothing };
        let head_bytes = head.len() as u64;
        let sent = self.send(head, body).await;
        self.log(Some(request), answer.status, head_bytes);
        if let Err(next) = sent {
            return next;
        }
        match (goes_on, unread || !self.input.bytes().is_empty()) {
            (true, _) => Next::Request,
            (false, false) if !self.worker.deadlines.is_draining() => Next::Close,
            (false, _) => Next::Linger,
        }
    }

    /// Sends all of it, or says how the connection ends.
    async fn send(&mut self, head: Output, body: &Body) -> Result<(), Next> {
        let stall_ms = self.worker.limits.write_stall.as_millis() as u64;
        self.sent.set(0);
        let sending = pin!(self.worker.sender.send(&mut self.io, head, body, &self.sent));
        match self.watch.wait_while_moving(sending, &self.sent, stall_ms).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Next::Drop),
            Err(_) => Err(Next::Abort),
        }
    }

    /// Answers a sin; the framing can no longer be trusted, so nothing more is read as requests.
    async fn refuse(&mut self, sin: Sin) -> Next {
        let answer = Answer::error(sin.status(), Some(&sin.to_string()));
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

    /// Writes the access log's line; `None`: there was no request that could be read.
    fn log(&self, request: Option<&Request<'_>>, status: StatusCode, head_bytes: u64) {
        let Some(log) = &self.worker.log else { return };
        let duration = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        log.record(&Exchange {
            client: self.peer,
            method: request.map_or(b"", |r| r.method.as_bytes()),
            target: request.map_or(b"", |r| r.raw_target),
            version_minor: u8::from(request.is_some_and(|r| !r.http10)),
            status: status.as_u16(),
            body_bytes: self.sent.get().saturating_sub(head_bytes),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            host: request.and_then(|r| r.host).map_or(b"", |host| host.name),
            referer: request.and_then(|r| value(&r.referer)),
            user_agent: request.and_then(|r| value(&r.user_agent)),
            unix_secs: clock::coarse_unix_secs(clock::now_ms()),
        });
    }

    /// Asks for the body the client holds back.
    async fn invite(&mut self) -> Result<(), Next> {
        let mut interim = Output::new();
        interim.vec().extend_from_slice(response::CONTINUE);
        self.send(interim, &Body::Empty).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let open = &self.worker.open;
        open.set(open.get() - 1);
        if self.worker.deadlines.is_draining() {
            self.worker.closed.ring();
        }
    }
}

/// RFC 9110 6.4.1: whatever the answer holds, these statuses have no body.
fn is_bodiless(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || status.is_informational()
}

/// How an answer's body is delimited. Statuses without one say nothing (RFC 9110 8.6).
fn delimiter(answer: &Answer) -> Delimiter {
    match answer.fields {
        Fields::Ready(_) => Delimiter::Given,
        Fields::Map(_) if is_bodiless(answer.status) => Delimiter::Given,
        Fields::Map(_) => Delimiter::Length(answer.body.len()),
    }
}

fn path_of<'a>(target: &Target<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    match target {
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
            Some((path, *query))
        }
        Target::Asterisk | Target::Authority(_) => None,
    }
}

fn value<'a>(field: &'a Value<'_>) -> Option<&'a [u8]> {
    field.as_ref().map(Cow::as_ref)
}

fn file_query<'a>(request: &'a Request<'_>) -> FileQuery<'a> {
    FileQuery {
        preconditions: Preconditions {
            if_match: value(&request.if_match),
            if_none_match: value(&request.if_none_match),
            if_modified_since: value(&request.if_modified_since),
            if_unmodified_since: value(&request.if_unmodified_since),
            if_range: value(&request.if_range),
        },
        // RFC 9110 14.2: Range means nothing but in GET.
        range: if request.method == Method::Get { value(&request.range) } else { None },
        accept_encoding: value(&request.accept_encoding),
    }
}
