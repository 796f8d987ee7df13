//! An exchange with an upstream: asks one, and another where that is safe, until a response's head
//! is there. What becomes of that is `leaving`'s.

use std::borrow::Cow;
use std::rc::Rc;

use http::StatusCode;

use super::asked::{ask, path_of};
use super::cached::Cached;
use super::duplex::{Broken, Duplex};
use super::exchange::{Asked, Exchange};
use super::fault::{Failed, Told, named, tell};
use super::upload::Upload;
use super::{Connection, Next};
use crate::answer::Answer;
use crate::clock;
use crate::config::EarlyHints;
use crate::h1::forward::{self, Onward};
use crate::h1::framing::BodyLength;
use crate::h1::reply;
use crate::h1::request::Request;
use crate::h1::response::CONTINUE;
use crate::handler::proxy::{Errand, Fault, Heard, Key, Waits};
use crate::rt::{self, First};
use crate::semantics::target::{encode_path, spells};
use crate::serve::deadline::Late;
use crate::transport::{Output, Taken, Transport};

/// What came of listening to an upstream, unless that was broken off.
type Listened = Result<Result<Taken, Told>, Broken>;

/// Interim responses relayed for one request; who sends more never means to answer.
pub(super) const INTERIM_MAX: usize = 32;

impl<T: Transport> Connection<T> {
    /// Passes a request on and its answer back.
    pub(super) async fn proxy_exchange(&mut self, request: &Request<'_>, asked: Asked<'_>) -> Next {
        // RFC 9110 9.3.8: it would show the client the fields that are added here.
        if request.method.as_bytes() == b"TRACE" {
            let unread = request.body != BodyLength::None;
            let mut answer = Answer::method_refused(true);
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
            Cached::Answer(mut answer) => {
                self.respond(request, &mut answer, clock::now_ms(), false).await
            }
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
    fn begin<'a>(&mut self, request: &Request<'_>, asked: Asked<'a>) -> Box<Exchange<'a>> {
        let (upload, body) = Upload::relayed(request);
        let protocol = forward::upgrade(request, &asked.proxy.config().upgrades);
        let path = path_onward(request, &asked);
        let onward = self.onward(request, &path, protocol);
        let onward = Onward { way: self.known_way(request, &onward), ..onward };
        let errand = Errand::new(&asked.proxy, request, body, onward);
        let protocol = protocol.map(str::to_owned);
        drop(path);
        let waits = Waits::default();
        Box::new(Exchange { asked, errand, waits, upload, protocol, invited: false })
    }

    /// The lines that tell of the way here, where more requests than one have use for them.
    fn known_way(&mut self, request: &Request<'_>, onward: &Onward<'_>) -> Option<&[u8]> {
        if self.served == 0 || onward.trusted || T::IS_HTTP2 {
            return None;
        }
        let host = request.host.filter(|host| !host.name.is_empty())?;
        Some(self.way.lines(host, onward))
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
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        loop {
            let now_ms = clock::now_ms();
            let Exchange { asked, errand, .. } = &mut *exchange;
            if !errand.choose(Key { client: self.client, path: &asked.path }, now_ms) {
                // Else it was told of those that were asked.
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    tell(errand, &named(request), &"none is well", status);
                }
                return Err(Failed::Status(status));
            }
            let heard = match errand.send_at_once(now_ms) {
                true => self.await_answer(errand, now_ms).await,
                false => None,
            };
            let heard = match heard {
                Some(heard) => heard,
                None => self.converse(request, exchange).await,
            };
            let errand = &mut exchange.errand;
            let retry = match heard {
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

    /// Waits for the answer to a request that is sent: all that most of them need. `None`: there is
    /// more to do before it comes.
    async fn await_answer(&mut self, errand: &mut Errand, now_ms: u64) -> Option<Listened> {
        self.watch.set(now_ms.saturating_add(errand.first_byte_ms()));
        let heard = match self.watch.wait(rt::race(errand.answer(), self.io.reset())).await {
            Ok(First::A(heard)) => heard,
            Ok(First::B(())) => return Some(Err(Broken::Gone)),
            Err(Late) => return Some(Err(Broken::Late)),
        };
        let heard = match heard {
            Ok(head) => match is_interim(&head) {
                Ok(false) => Ok(head),
                Ok(true) => {
                    errand.put_back(&head);
                    return None;
                }
                Err(fault) => Err(Told::Fault(fault)),
            },
            Err(fault) => Err(Told::Fault(fault)),
        };
        Some(Ok(heard))
    }

    /// Sends a request, and waits for its answer while its body and interim answers flow.
    async fn converse(&mut self, request: &Request<'_>, exchange: &mut Exchange<'_>) -> Listened {
        let site = self.worker.sites.site(exchange.asked.site);
        let hints = site.early_hints() != EarlyHints::Off;
        let Exchange { errand, waits, upload, invited, .. } = exchange;
        let asking = async |duplex: &Duplex<'_, T>| {
            listen((request, hints), duplex, errand, waits, invited).await
        };
        self.beside(upload, waits, asking).await
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

    /// Answers in the place of an upstream that was asked.
    pub(super) async fn give_up(
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
