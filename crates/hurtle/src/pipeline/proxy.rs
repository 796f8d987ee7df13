//! Forwards a request: tries upstreams while a retry is safe, until one returns a response head.
//! `upstream_response` handles that response.

use std::borrow::Cow;
use std::rc::Rc;

use http::StatusCode;
use hurtle_http::h1::forward::{self, ForwardParams};
use hurtle_http::h1::response_head::{self, ResponseHead};
use hurtle_http::request::RequestHead;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::semantics::target::{encode_path, is_encoding_of};

use super::cached::Cached;
use super::duplex::{Duplex, ExchangeError};
use super::fault::{ForwardError, ListenError, named, tell};
use super::request_info::{ask, path_of};
use super::upload::Upload;
use super::upstream_exchange::{UpstreamExchange, UpstreamRoute};
use super::{Exchange, Next};
use crate::answer::Answer;
use crate::clock;
use crate::config::EarlyHints;
use crate::deadline::DeadlineError;
use crate::handler::proxy::{Key, ListenOutcome, UpstreamError, UpstreamRequest, Waits};
use crate::protocol::{InterimFields, Protocol};
use crate::rt::{self, First};
use crate::transport::Taken;

/// The result of waiting for an upstream's response head.
type Listened = Result<Result<Taken, ListenError>, ExchangeError>;

/// Maximum number of interim responses to one request. An upstream that sends more is treated as
/// failed.
pub(super) const INTERIM_MAX: usize = 32;

impl<T: Protocol> Exchange<T> {
    /// Forwards a request and sends the upstream's response.
    pub(super) async fn proxy_exchange(
        &mut self,
        request: &RequestHead<'_>,
        asked: UpstreamRoute<'_>,
    ) -> Next {
        if request.method.as_bytes() == b"TRACE" {
            let unread = request.body != BodyLength::None;
            let mut answer = Answer::trace_refused();
            return Box::pin(self.respond(request, &mut answer, clock::now_ms(), unread)).await;
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
            Err(ForwardError::Status(status)) => {
                Box::pin(self.give_up(request, exchange, status)).await
            }
            Err(ForwardError::Exchange(broken)) => self.broken(broken).await,
        }
    }

    /// Runs an exchange through the cache. `Err`: the request is forwarded without the cache.
    async fn cache_exchange<'a>(
        &mut self,
        request: &RequestHead<'_>,
        asked: UpstreamRoute<'a>,
    ) -> Result<Next, UpstreamRoute<'a>> {
        Ok(match self.cached(request, &asked).await {
            Cached::Alone => return Err(asked),
            Cached::Answer(mut answer) => {
                self.respond(request, &mut answer, clock::now_ms(), false).await
            }
            Cached::Pass(passed) => {
                let (upstream, head) = *passed;
                let exchange = Box::new(UpstreamExchange::bodiless(asked, upstream));
                self.hear(request, exchange, head).await
            }
            Cached::Failed(status) => self.fail(request, &asked, Upload::none(), status).await,
            Cached::Error(broken) => self.broken(broken).await,
        })
    }

    /// Prepares the request for an upstream. Boxed, because it is moved several times.
    fn begin<'a>(
        &mut self,
        request: &RequestHead<'_>,
        asked: UpstreamRoute<'a>,
    ) -> Box<UpstreamExchange<'a>> {
        let (upload, body) = Upload::relayed(&self.io, request);
        let protocol = forward::upgrade(request, &asked.proxy.config().upgrades);
        let path = path_onward(request, &asked);
        let onward = self.onward(request, &path, protocol);
        let onward = ForwardParams { forwarded: self.known_way(request, &onward), ..onward };
        let upstream = UpstreamRequest::new(&asked.proxy, request, body, onward);
        let protocol = protocol.map(str::to_owned);
        drop(path);
        let waits = Waits::default();
        Box::new(UpstreamExchange { asked, upstream, waits, upload, protocol, invited: false })
    }

    /// Returns the forwarding fields, reusing those of the previous request on this connection.
    fn known_way(
        &mut self,
        request: &RequestHead<'_>,
        onward: &ForwardParams<'_>,
    ) -> Option<&[u8]> {
        if self.served == 0 || onward.is_trusted || onward.is_http2 {
            return None;
        }
        let host = request.host.filter(|host| !host.name.is_empty())?;
        Some(self.way.lines(host, onward))
    }

    async fn broken(&mut self, broken: ExchangeError) -> Next {
        match broken {
            ExchangeError::ParseError(error) => Box::pin(self.refuse(error)).await,
            ExchangeError::Stalled => Next::Abort,
            _ => Next::Drop,
        }
    }

    /// Tries upstreams until one responds.
    async fn ask(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
    ) -> Result<Taken, ForwardError> {
        if !exchange.asked.proxy.is_open() {
            Box::pin(self.wait_for_application(request, exchange)).await?;
        }
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        loop {
            let now_ms = clock::now_ms();
            let UpstreamExchange { asked, upstream, .. } = &mut *exchange;
            if !upstream.choose(Key { client: self.client, path: &asked.path }, now_ms) {
                // Otherwise the errors of the tried upstreams were logged.
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    tell(upstream, &named(request), &"no upstream is available", status);
                }
                return Err(ForwardError::Status(status));
            }
            let heard = match upstream.send_at_once(now_ms) {
                true => self.await_answer(upstream, now_ms).await,
                false => None,
            };
            let heard = match heard {
                Some(heard) => heard,
                None => self.converse(request, exchange).await,
            };
            let upstream = &mut exchange.upstream;
            let retry = match heard {
                Ok(Ok(head)) => return Ok(head),
                Ok(Err(ListenError::UpstreamError(fault))) => {
                    status = StatusCode::BAD_GATEWAY;
                    tell(upstream, &named(request), &fault, status);
                    let retry = upstream.may_retry(&fault);
                    upstream.failed(matches!(
                        fault,
                        UpstreamError::Gone(_) | UpstreamError::NotRead(_)
                    ));
                    retry
                }
                Err(ExchangeError::Late) => {
                    status = StatusCode::GATEWAY_TIMEOUT;
                    tell(upstream, &named(request), &upstream.phase(), status);
                    upstream.failed(false);
                    upstream.may_retry_late()
                }
                Ok(Err(ListenError::Exchange(broken))) | Err(broken) => {
                    return Err(ForwardError::Exchange(broken));
                }
            };
            if !retry {
                return Err(ForwardError::Status(status));
            }
        }
    }

    /// Waits for the response to a request that was sent: the common case. `None`: more work is
    /// needed before the response.
    async fn await_answer(
        &mut self,
        upstream: &mut UpstreamRequest,
        now_ms: u64,
    ) -> Option<Listened> {
        self.watch.set(now_ms.saturating_add(upstream.first_byte_ms()));
        let heard = match self.watch.wait(rt::race(upstream.answer(), self.io.reset())).await {
            Ok(First::A(heard)) => heard,
            Ok(First::B(())) => return Some(Err(ExchangeError::Gone)),
            Err(DeadlineError) => return Some(Err(ExchangeError::Late)),
        };
        let heard = match heard {
            Ok(head) => match is_interim(&head) {
                Ok(false) => Ok(head),
                Ok(true) => {
                    upstream.put_back(&head);
                    return None;
                }
                Err(fault) => Err(ListenError::UpstreamError(fault)),
            },
            Err(fault) => Err(ListenError::UpstreamError(fault)),
        };
        Some(Ok(heard))
    }

    /// Sends a request and waits for the response while the request body and interim responses
    /// flow.
    async fn converse(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
    ) -> Listened {
        let site = self.worker.sites.site(exchange.asked.site);
        let hints = site.early_hints() != EarlyHints::Off;
        let UpstreamExchange { upstream, waits, upload, invited, .. } = exchange;
        let asking = async |duplex: &Duplex<'_, T>| {
            listen((request, hints), duplex, upstream, waits, invited).await
        };
        self.beside(upload, waits, asking).await
    }

    /// Waits for an application that is starting.
    async fn wait_for_application(
        &mut self,
        request: &RequestHead<'_>,
        exchange: &mut UpstreamExchange<'_>,
    ) -> Result<(), ForwardError> {
        let UpstreamExchange { asked, upstream, waits, upload, .. } = exchange;
        match self.beside(upload, waits, async |_| asked.proxy.wait_until_open().await).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                tell(upstream, &named(request), &"the application is not running", status);
                Err(ForwardError::Status(status))
            }
            Err(broken) => Err(ForwardError::Exchange(broken)),
        }
    }

    /// Sends an error response after an upstream failed.
    pub(super) async fn give_up(
        &mut self,
        request: &RequestHead<'_>,
        mut exchange: Box<UpstreamExchange<'_>>,
        status: StatusCode,
    ) -> Next {
        exchange.settle_invitation(request);
        let UpstreamExchange { asked, upstream, upload, .. } = *exchange;
        drop(upstream);
        self.fail(request, &asked, upload, status).await
    }

    /// Sends an error response because no upstream responded.
    async fn fail(
        &mut self,
        request: &RequestHead<'_>,
        asked: &UpstreamRoute<'_>,
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

/// Returns the path for the upstream: as the client sent it if it decodes to the routed path,
/// otherwise encoded again. A cache uses one spelling only, so its fetches do too.
fn path_onward<'a>(request: &RequestHead<'a>, asked: &'a UpstreamRoute<'_>) -> Cow<'a, [u8]> {
    let sent = path_of(&request.target).map(|(sent, _)| sent);
    match sent.filter(|sent| asked.proxy.cache().is_none() && is_encoding_of(sent, &asked.path)) {
        Some(sent) => Cow::Borrowed(sent),
        None => match encode_path(&asked.path) {
            Cow::Borrowed(path) => Cow::Borrowed(path.as_bytes()),
            Cow::Owned(path) => Cow::Owned(path.into_bytes()),
        },
    }
}

/// Connects, sends, and reads up to a final head. Relays interim responses; 103 only if `hints` is
/// set.
async fn listen<T: Protocol>(
    (request, hints): (&RequestHead<'_>, bool),
    duplex: &Duplex<'_, T>,
    upstream: &mut UpstreamRequest,
    waits: &Waits,
    invited: &mut bool,
) -> Result<Taken, ListenError> {
    upstream.connect(waits).await?;
    for _ in 0..INTERIM_MAX {
        let head = match upstream.listen(waits).await? {
            ListenOutcome::Head(head) => head,
            ListenOutcome::ExpectTimeout => {
                upstream.release();
                *invited = true;
                Box::pin(duplex.interim(StatusCode::CONTINUE, InterimFields::Empty)).await?;
                continue;
            }
        };
        if !is_interim(&head)? {
            return Ok(head);
        }
        let reply = response_head::parse(&head).map_err(UpstreamError::BadResponse)?;
        if is_relayed((request, hints), &reply, upstream, invited) {
            let fields = match reply.status {
                StatusCode::CONTINUE => InterimFields::Empty,
                _ => InterimFields::Forwarded(&reply),
            };
            Box::pin(duplex.interim(reply.status, fields)).await?;
        }
    }
    Err(ListenError::UpstreamError(UpstreamError::Cut))
}

/// Returns whether the client gets an upstream's interim response.
fn is_relayed(
    (request, hints): (&RequestHead<'_>, bool),
    reply: &ResponseHead<'_>,
    upstream: &mut UpstreamRequest,
    invited: &mut bool,
) -> bool {
    match reply.status {
        StatusCode::CONTINUE => {
            upstream.release();
            // A second 100, or one that the client does not wait for, is useless.
            request.expect_continue && !std::mem::replace(invited, true)
        }
        // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
        _ if request.http10 => false,
        StatusCode::EARLY_HINTS => hints,
        _ => true,
    }
}

/// Returns whether a response head is interim (1xx).
pub(super) fn is_interim(head: &[u8]) -> Result<bool, UpstreamError> {
    // Byte 9 of the status line is the first status digit; `parse` rejects lines without one.
    if head.get(9) != Some(&b'1') {
        return Ok(false);
    }
    let reply = response_head::parse(head).map_err(UpstreamError::BadResponse)?;
    Ok(reply.status != StatusCode::SWITCHING_PROTOCOLS)
}
