//! One request on its way to an upstream and back: who is asked, how far it got, whether another
//! one may be asked instead. Bytes between upstream and client are the engine's to move.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::link::{Link, Source};
use super::peer::{Fault, Peer};
use super::pump::Pump;
use super::wait::Waits;
use super::{Key, Proxy};
use crate::body::RequestBody;
use crate::clock;
use crate::h1::forward::{self, Onward};
use crate::h1::framing::BodyLength;
use crate::h1::reply::Length;
use crate::h1::request::Request;
use crate::rt::{self, First};
use crate::transport::{Input, Output, Taken};

/// Upstreams asked for one request.
const TRIES_MAX: usize = 3;

/// How long an upstream may think about a request before its body is sent unasked (RFC 9110
/// 10.1.1): not every server knows `Expect`.
const EXPECT_TIME: Duration = Duration::from_secs(1);

/// A request on its way.
pub struct Errand {
    proxy: Rc<Proxy>,
    pump: Pump,
    link: Option<Link>,
    at: Option<Visit>,
    tried: Vec<usize>,
    tries: usize,
    /// Doing it twice is doing it once (RFC 9110 9.2.2).
    idempotent: bool,
    phase: Cell<Phase>,
}

/// The upstream that has the request, which is counted there.
struct Visit {
    number: usize,
    peer: Rc<Peer>,
}

/// What an upstream was last waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Phase {
    Connecting,
    Sending,
    Waiting,
    Reading,
}

/// What came of listening to an upstream.
pub enum Heard {
    /// A response's head.
    Head(Taken),
    /// Nothing for a while: the client, who waits for leave to send its body, gets it from here.
    Nothing,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Connecting => "it takes too long to connect",
            Phase::Sending => "it takes none of the request's bytes",
            Phase::Waiting => "it takes too long to answer",
            Phase::Reading => "its answer stopped coming",
        })
    }
}

impl Errand {
    /// Of a request, its body, and what becomes of it on the way; a missing authority is filled in.
    pub fn new(
        proxy: &Rc<Proxy>,
        request: &Request<'_>,
        body: RequestBody,
        onward: Onward<'_>,
    ) -> Errand {
        let mut head = Output::new();
        let onward = Onward { authority: proxy.authority(), ..onward };
        forward::request(head.vec(), request, &onward);
        proxy.credit();
        let method = request.method.as_bytes();
        let chunked = request.body == BodyLength::Chunked;
        Errand {
            proxy: Rc::clone(proxy),
            pump: Pump::new(head, body, chunked, request.expect_continue),
            link: None,
            at: None,
            tried: Vec::new(),
            tries: 0,
            idempotent: onward.upgrade.is_none()
                && matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE"),
            phase: Cell::new(Phase::Connecting),
        }
    }

    /// What the upstream was last waited for.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Who was asked last, for the log.
    pub fn whom(&self) -> String {
        self.at.as_ref().map_or_else(|| "(any)".to_owned(), |at| at.peer.to_string())
    }

    /// Chooses who is asked; false: nobody is left.
    pub fn choose(&mut self, key: Key<'_>, now_ms: u64) -> bool {
        self.link = None;
        self.pump.begin();
        let picked = self.proxy.pick(key, &self.tried, now_ms);
        self.at = picked.map(|number| Visit::new(number, &self.proxy.peers[number]));
        self.tries += 1;
        self.at.is_some()
    }

    /// Sends a request that has no body to who was chosen, if an idle connection takes it at once;
    /// false: that is left to `connect` and `listen`.
    pub fn send_at_once(&mut self, now_ms: u64) -> bool {
        if self.pump.has_body() {
            return false;
        }
        self.link = self.at.as_ref().and_then(|at| at.peer.idle(now_ms));
        let Some(link) = &self.link else { return false };
        self.pump.send_at_once(&link.io);
        self.phase.set(Phase::Waiting);
        self.pump.is_done()
    }

    /// How long a response's head may take, in milliseconds.
    pub fn first_byte_ms(&self) -> u64 {
        ms(self.proxy.config.first_byte_timeout)
    }

    /// Waits for the response's head to a request that was sent at once.
    ///
    /// # Errors
    /// There will be none.
    pub async fn answer(&mut self) -> Result<Taken, Fault> {
        let Some(Link { io, input, .. }) = &mut self.link else { return Err(Fault::Gone(None)) };
        Source::Own(io).head(input).await
    }

    /// Takes back a head that `listen` is to hear.
    pub fn put_back(&mut self, head: &[u8]) {
        if let Some(link) = &mut self.link {
            link.input.put_back(head);
        }
    }

    /// Gets a connection to who was chosen: one that is idle, if there is one.
    ///
    /// # Errors
    /// No request was sent.
    pub async fn connect(&mut self, waits: &Waits) -> Result<(), Fault> {
        if self.link.is_some() {
            return Ok(());
        }
        self.phase.set(Phase::Connecting);
        let Some(at) = &self.at else { return Err(Fault::Gone(None)) };
        self.link = at.peer.idle(clock::now_ms());
        if self.link.is_none() {
            let _wait = waits.read(ms(self.proxy.config.connect_timeout));
            self.link = Some(Box::pin(at.peer.connect()).await?);
        }
        Ok(())
    }

    /// Sends the request, or what is left of it, until a response's head has come.
    ///
    /// # Errors
    /// There will be none.
    pub async fn listen(&mut self, waits: &Waits) -> Result<Heard, Fault> {
        let Some(Link { io, input, .. }) = &mut self.link else { return Err(Fault::Gone(None)) };
        let config = &self.proxy.config;
        let stall_ms = ms(config.send_timeout);
        let mut deaf = None;
        if !self.pump.is_done() {
            self.phase.set(Phase::Sending);
            if self.pump.has_body() {
                let head = async { Source::Shared(io).head(input).await };
                // In a box, as what is rare below: who waits is as large as its largest wait.
                match Box::pin(rt::race(head, self.pump.run(io, waits, stall_ms))).await {
                    First::A(head) => return head.map(Heard::Head),
                    First::B(sent) => deaf = sent.err(),
                }
            } else {
                deaf = self.pump.run(io, waits, stall_ms).await.err();
            }
        }
        self.phase.set(Phase::Waiting);
        let _wait = waits.read(ms(config.first_byte_timeout));
        // Who takes no more of a request may have answered it.
        let mut source = if self.pump.is_done() { Source::Own(io) } else { Source::Shared(io) };
        let head = source.head(input);
        if self.pump.is_held() && deaf.is_none() {
            return match Box::pin(rt::race(head, rt::sleep(EXPECT_TIME))).await {
                First::A(head) => head.map(Heard::Head),
                First::B(()) => Ok(Heard::Nothing),
            };
        }
        match (head.await, deaf) {
            (Err(Fault::Gone(_)), Some(e)) => Err(Fault::Deaf(e)),
            (head, _) => head.map(Heard::Head),
        }
    }

    /// The upstream, or the time, allowed the body.
    pub fn release(&mut self) {
        self.pump.release();
    }

    /// Whether another upstream, or another connection, may be tried after a failure: the request
    /// was certainly not processed, or may be done twice; nothing of its body is lost; and it can be
    /// afforded.
    pub fn may_retry(&mut self, fault: &Fault) -> bool {
        let unsent = matches!(fault, Fault::Unknown(_) | Fault::Refused(_));
        let unanswered = matches!(fault, Fault::Gone(_) | Fault::Deaf(_));
        let harmless = unsent || (unanswered && self.idempotent);
        harmless && self.may_go_on()
    }

    /// The same after a connection that took too long to be made.
    pub fn may_retry_late(&mut self) -> bool {
        self.phase.get() == Phase::Connecting && self.may_go_on()
    }

    fn may_go_on(&mut self) -> bool {
        self.tries < TRIES_MAX && self.pump.is_untouched() && self.proxy.afford()
    }

    /// Notes that who was asked failed; `silent`: it ended the connection without a word.
    pub fn failed(&mut self, silent: bool) {
        let Some(at) = &self.at else { return };
        // An idle connection may have been closed at the moment it was used: nobody's failure.
        if silent && self.link.as_ref().is_some_and(|link| link.reused) {
            return at.peer.forget_idle();
        }
        at.peer.failed(clock::now_ms());
        self.tried.push(at.number);
    }

    /// Notes that who was asked answered.
    pub fn succeeded(&self) {
        if let Some(at) = &self.at {
            at.peer.succeeded();
        }
    }

    /// The connection, while the answer is read from it.
    pub fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// Whether the request is sent whole.
    pub fn is_sent(&self) -> bool {
        self.pump.is_done()
    }

    /// Does `work`, which reads the answer, while the rest of the request is sent. A request that
    /// the upstream stops taking is not the answer's failure.
    pub async fn beside<T>(
        &mut self,
        waits: &Waits,
        work: impl AsyncFnOnce(Source<'_>, &mut Input) -> T,
    ) -> Option<T> {
        self.phase.set(Phase::Reading);
        let Link { io, input, .. } = self.link.as_mut()?;
        if self.pump.is_done() || self.pump.is_held() {
            return Some(work(Source::Own(io), input).await);
        }
        let stall_ms = ms(self.proxy.config.send_timeout);
        let pump = &mut self.pump;
        let sending = async {
            // Whatever comes of it, the answer says when this is over.
            let _ = pump.run(io, waits, stall_ms).await;
            std::future::pending::<T>().await
        };
        match rt::race(work(Source::Shared(io), input), sending).await {
            First::A(done) | First::B(done) => Some(done),
        }
    }

    /// Gives the connection back after an answer that was read to its end.
    pub fn finish(&mut self) {
        let (Some(link), Some(at)) = (self.link.take(), &self.at) else { return };
        // More than the answer is no answer to anything (RFC 9112 11.1).
        if self.pump.is_done() && link.input.bytes().is_empty() {
            at.peer.keep(link.io);
        }
    }

    /// Drops an answer's body: the connection is given back if that was all there was, and here.
    pub fn discard(&mut self, length: Length) {
        let Some(link) = &mut self.link else { return };
        let here = link.input.bytes().len();
        match length {
            Length::Framed(BodyLength::None) => {}
            Length::Framed(BodyLength::Exactly(len)) if len <= here as u64 => {
                link.input.consume(len as usize);
            }
            _ => return,
        }
        self.finish();
    }

    /// The connection itself, for another protocol; who was asked is busy until this is dropped.
    pub fn take_link(&mut self) -> Option<Link> {
        self.link.take()
    }
}

impl Visit {
    fn new(number: usize, peer: &Rc<Peer>) -> Visit {
        peer.in_flight.set(peer.in_flight.get() + 1);
        Visit { number, peer: Rc::clone(peer) }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.peer.in_flight.set(self.peer.in_flight.get() - 1);
    }
}

impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errand").field("phase", &self.phase).finish_non_exhaustive()
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
