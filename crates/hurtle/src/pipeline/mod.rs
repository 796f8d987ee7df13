//! One exchange (request and response), independent of the protocol: resolve, authorise, handle,
//! send, log. An HTTP/1.1 connection has many in sequence; an HTTP/2 stream has one.

mod app;
mod authorise;
mod body;
mod body_writer;
mod cache_shortcut;
mod cached;
mod duplex;
mod fault;
mod fill;
mod gateway;
mod handle;
mod hints;
mod http_request;
mod interim;
mod internal;
mod observe;
mod outcome;
mod proxy;
mod quick;
mod relay;
mod request_info;
mod selection;
mod send;
mod stream;
mod tunnel;
mod upload;
mod upstream_exchange;
mod upstream_response;

pub mod balancers;
pub mod shortcuts;
pub mod worker;

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;
use std::{io, mem};

use http::{HeaderValue, StatusCode, header};
use hurtle_http::h1::forwarded_headers::ForwardedHeaders;
use hurtle_http::h1::response::{Delimiter, Fields, Persistence};
use hurtle_http::request::ParseError;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};

pub(crate) use self::body::Ended;

use self::app::{begin_body, says_close};
use self::handle::Outcome;
use self::outcome::Outcome as CacheOutcome;
use self::quick::Quick;
use self::request_info::{ask, client, described, path_of};
use self::upload::Upload;
use self::worker::{ConnectionSlot, Worker};
use crate::answer::{Answer, is_bodiless};
use crate::body::Body;
use crate::clock;
use crate::deadline::Watch;
use crate::protocol::{Head, HeadFields, InterimFields, Protocol};
use crate::site::{Channel, Resolved};
use crate::transport::{Input, Output, Progress};

/// A connection (HTTP/1.1) or stream (HTTP/2) with the state of its current exchange.
pub struct Exchange<T> {
    pub(crate) io: T,
    pub(crate) input: Input,
    pub(crate) worker: Rc<Worker>,
    pub(crate) watch: Watch,
    pub(crate) peer: Option<IpAddr>,
    /// The client of the current request: the peer, or the address that a trusted proxy names.
    pub(crate) client: Option<IpAddr>,
    /// Bytes of the current response that the kernel has taken.
    pub(crate) sent: Progress,
    /// The cache's result for the current request.
    pub(crate) outcome: Option<CacheOutcome>,
    /// The value of Strict-Transport-Security for the current request.
    pub(crate) hsts: Option<HeaderValue>,
    /// The forwarding fields (Forwarded and similar) that upstreams get.
    pub(crate) way: ForwardedHeaders,
    /// Requests answered on this connection.
    pub(crate) served: u64,
    /// Time at which the current request was read, if there is an access log.
    pub(crate) begun: Option<Instant>,
    /// The peer has closed its sending side; requests already received are still answered.
    pub(crate) ended: bool,
    /// Held for its `Drop`: declared last, so that the slot is released after the connection is
    /// closed.
    pub(crate) _place: Rc<ConnectionSlot>,
}

/// The next step of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read the next request.
    Request,
    /// Close; all received bytes were read.
    Close,
    /// Close after the peer had time to read the response, since it may still be sending.
    Linger,
    /// Drop: the response was truncated.
    Drop,
    /// Reset: the peer does not read.
    Abort,
}

impl<T: Protocol> Exchange<T> {
    /// Creates a connection. `input` holds the bytes that were already read.
    pub fn new(
        io: T,
        input: Input,
        peer: Option<IpAddr>,
        place: Rc<ConnectionSlot>,
    ) -> Exchange<T> {
        let worker = Rc::clone(place.shared_worker());
        let watch = worker.deadlines.watch();
        let sent = Progress { share: worker.share(peer), ..Progress::default() };
        Exchange {
            io,
            input,
            worker,
            watch,
            peer,
            client: peer,
            sent,
            outcome: None,
            hsts: None,
            way: ForwardedHeaders::default(),
            served: 0,
            begun: None,
            ended: false,
            _place: place,
        }
    }
}

impl<T: Protocol> Exchange<T> {
    /// Returns the security properties of the connection.
    fn channel(&self) -> Channel {
        Channel { secure: self.io.is_secure(), policy: self.io.policy() }
    }

    /// Handles one request and sends its response.
    pub(crate) async fn exchange(&mut self, request: &RequestHead<'_>) -> Next {
        let now_ms = clock::now_ms();
        self.outcome = None;
        if !self.worker.trusted_proxies.is_empty() {
            self.client = self.peer.map(|peer| client(request, peer, &self.worker.trusted_proxies));
            self.sent.share = self.worker.share(self.client);
        }
        let worker = Rc::clone(&self.worker);
        let name = request.host.as_ref().map(|h| h.name);
        let resolved = worker.sites.resolve(name, path_of(&request.target), self.client);
        if self.io.is_secure() {
            self.hsts = resolved.as_ref().and_then(|resolved| resolved.site.hsts()).cloned();
        }
        let quick = resolved.as_ref().and_then(|resolved| self.quick(request, resolved, now_ms));
        let mut answer = match quick {
            Some(Quick::Answer(answer)) => answer,
            // Most applications respond on the first poll, which avoids the cost of a wait.
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
            // Not boxed: the future is no larger than the one that sends responses below.
            Some(Quick::Proxy(asked)) => return self.proxy_exchange(request, asked).await,
            None => return Box::pin(self.slow_exchange(request, resolved, now_ms)).await,
        };
        self.respond(request, &mut answer, now_ms, false).await
    }

    /// Runs an exchange that must wait before the response is known.
    async fn slow_exchange(
        &mut self,
        request: &RequestHead<'_>,
        resolved: Option<Resolved<'_>>,
        now_ms: u64,
    ) -> Next {
        let unread = request.body != BodyLength::None;
        let refused = self.challenge(request);
        let refused = refused.or_else(|| self.elsewhere(request, resolved.as_ref()?));
        if let Some(mut answer) = refused {
            return self.respond(request, &mut answer, now_ms, unread).await;
        }
        let outcome = match &resolved {
            None => Outcome::AfterBody,
            Some(resolved) => match self.authorise(request, resolved).await {
                Ok(granted) => self.handle(request, resolved, &granted).await,
                Err(answer) => Outcome::Answer(answer),
            },
        };
        match outcome {
            Outcome::Answer(mut answer) => self.respond(request, &mut answer, now_ms, unread).await,
            Outcome::Working(at_work) => Box::pin(self.app_exchange(request, at_work)).await,
            Outcome::Proxy(asked) => {
                if let Some(mut answer) = self.stored_answer(request, asked.route()) {
                    return self.respond(request, &mut answer, now_ms, false).await;
                }
                if let Err(next) = self.hint(request, &asked).await {
                    return next;
                }
                Box::pin(self.proxy_exchange(request, asked)).await
            }
            Outcome::Route => {
                let mut answer = self.handled(request, resolved).await;
                self.respond(request, &mut answer, now_ms, unread).await
            }
            Outcome::AfterBody => self.after_body(request, resolved, now_ms).await,
        }
    }

    /// Runs an exchange whose handler does not read the body.
    async fn after_body(
        &mut self,
        request: &RequestHead<'_>,
        resolved: Option<Resolved<'_>>,
        now_ms: u64,
    ) -> Next {
        let unread = request.body != BodyLength::None;
        let refused = Self::refusal(request, resolved.is_some());
        // A client that sent `Expect: 100-continue` gets the error at once (RFC 9110 section
        // 10.1.1). It may send the body anyway, so the connection ends.
        let refused = match refused {
            Some(mut answer) if request.expect_continue && unread => {
                return self.respond(request, &mut answer, now_ms, true).await;
            }
            refused => refused,
        };
        if unread {
            // RFC 9110 section 10.1.1: 100 (Continue) only if the body will be accepted.
            if request.expect_continue
                && self.input.bytes().is_empty()
                && !self.is_too_large(request.body)
                && let Err(next) = Box::pin(self.invite()).await
            {
                return next;
            }
            // The body is read before the response, so that a malformed one gets an error.
            let bytes_max = self.worker.limits.body_bytes;
            let discarded = self.discard_body(&mut self.io.reading(request.body), bytes_max).await;
            if let Err(error) = discarded {
                return match error {
                    Some(error) => Box::pin(self.refuse(error)).await,
                    None => Next::Drop,
                };
            }
        }
        let mut answer = match refused {
            Some(answer) => answer,
            None => Box::pin(self.handled(request, resolved)).await,
        };
        self.respond(request, &mut answer, now_ms, false).await
    }

    async fn handled(&self, request: &RequestHead<'_>, resolved: Option<Resolved<'_>>) -> Answer {
        let not_found = || Answer::error(StatusCode::NOT_FOUND, None);
        let Some(resolved) = resolved else { return not_found() };
        let (number, site, target) = (resolved.number, resolved.site, resolved.target);
        let Some((route, (path, query))) = resolved.into_route().zip(target) else {
            return not_found();
        };
        let route = (route, self.client);
        site.answer(&self.worker.store, &ask(request, number, path, query), route).await
    }

    /// Sends a response and drops it. `unread`: a request body that no handler reads may still
    /// arrive.
    async fn respond(
        &mut self,
        request: &RequestHead<'_>,
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
        let delimiter = delimiter(answer);
        let head = self.encode_head(request, answer, delimiter, goes_on, now_ms);
        let nothing = Body::Empty;
        let body = if sends_body { &answer.body } else { &nothing };
        let head_bytes = head.len() as u64;
        self.spare(&mut answer.fields);
        let sent = self.send(head, body).await;
        self.log(Some(request), answer.status, head_bytes);
        match sent {
            // A client that did not ask to close may have sent the next request already.
            Ok(()) => self.after(goes_on, unread || request.keep_alive),
            Err(next) => next,
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
    fn goes_on(&mut self, request: &RequestHead<'_>) -> bool {
        self.served += 1;
        let more = self.worker.limits.requests_per_connection.is_none_or(|max| self.served < max);
        request.keep_alive && more && self.io.carries_more() && !self.worker.deadlines.is_draining()
    }

    /// Adds Strict-Transport-Security (RFC 6797 section 7.1) where the site sets it. The prepared
    /// fields of a file already contain it.
    fn pin(hsts: Option<&HeaderValue>, answer: &mut Answer) {
        if let (Fields::Map(fields), Some(hsts)) = (&mut answer.fields, hsts) {
            fields.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
    }

    fn encode_head(
        &self,
        request: &RequestHead<'_>,
        answer: &mut Answer,
        delimiter: Delimiter,
        goes_on: bool,
        now_ms: u64,
    ) -> Output {
        Self::pin(self.hsts.as_ref(), answer);
        let mut out = Output::new();
        let date = clock::date(now_ms);
        let head = Head {
            status: answer.status,
            fields: HeadFields::Made(&answer.fields),
            delimiter,
            persistence: persistence(request, goes_on),
            date: &date,
        };
        self.io.encode_head(out.vec(), &head);
        out
    }

    /// Returns whether the peer is a trusted proxy.
    fn trusts_peer(&self) -> bool {
        let trusted = &self.worker.trusted_proxies;
        self.peer.is_some_and(|peer| trusted.iter().any(|network| network.contains(&peer)))
    }

    /// Returns the next step after a response that was sent completely.
    fn after(&self, goes_on: bool, unread: bool) -> Next {
        match (goes_on, unread || !self.input.bytes().is_empty()) {
            (true, _) => Next::Request,
            (false, false) if !self.worker.deadlines.is_draining() => Next::Close,
            (false, _) => Next::Linger,
        }
    }

    /// Sends an error response to a malformed request, then ends the connection: its framing is
    /// unreliable.
    pub(crate) async fn refuse(&mut self, error: ParseError) -> Next {
        let mut answer = Answer::error(error.status(), Some(&error.to_string()));
        if self.io.is_secure() {
            // The request's host is unknown, but TLS has a server name.
            let name = self.io.server_name();
            let found = self.worker.sites.find(name.as_deref().map(str::as_bytes));
            Self::pin(found.and_then(|(_, site)| site.hsts()), &mut answer);
        }
        let mut head = Output::new();
        let parts = Head {
            status: answer.status,
            fields: HeadFields::Made(&answer.fields),
            delimiter: delimiter(&answer),
            persistence: Persistence::Close,
            date: &clock::date(clock::now_ms()),
        };
        self.io.encode_head(head.vec(), &parts);
        let head_bytes = head.len() as u64;
        let sent = self.send(head, &answer.body).await;
        self.log(None, answer.status, head_bytes);
        match sent {
            Ok(()) => Next::Linger,
            Err(next) => next,
        }
    }

    /// Sends 100 (Continue).
    async fn invite(&mut self) -> Result<(), Next> {
        self.send_interim(StatusCode::CONTINUE, InterimFields::Empty).await
    }
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
fn persistence(request: &RequestHead<'_>, goes_on: bool) -> Persistence {
    match (goes_on, request.http10) {
        (true, false) => Persistence::Implied,
        (true, true) => Persistence::KeepAlive,
        (false, _) => Persistence::Close,
    }
}

/// Returns the delimiter of a response's body. Statuses without a body have none (RFC 9110 section
/// 8.6).
fn delimiter(answer: &Answer) -> Delimiter {
    match answer.fields {
        Fields::Ready(_) | Fields::Dated(_) => Delimiter::Given,
        Fields::Map(_) if is_bodiless(answer.status) => Delimiter::Given,
        // `answer` chooses the delimiter of a body of unknown length.
        Fields::Map(_) => answer.body.exact_len().map_or(Delimiter::Close, Delimiter::Length),
    }
}
