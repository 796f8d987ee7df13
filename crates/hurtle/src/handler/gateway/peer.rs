//! An application at an address: connections to it, the pool of idle ones, and one request on a
//! connection. `fastcgi` and `uwsgi` are the protocols that it may speak.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::super::body_buffer::OutgoingBody;
use super::exchange::{GatewayError, Sink, Timer};
use super::{fastcgi, uwsgi};
use crate::clock;
use crate::config::{Upstream, UpstreamTimeouts};
use crate::rt::{self, Alarm, First};
use crate::transport::{Attempt, Plain, SendQueue, Transport};
use hurtle_http::fcgi::Role;

/// Longest time that an idle connection is kept.
const IDLE_MS_MAX: u64 = 10_000;

/// The protocol of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// FastCGI 1.0; the number is the most idle connections that are kept.
    FastCgi(usize),
    /// uwsgi, with a connection for each request.
    Uwsgi,
}

/// An application, as seen by one worker.
#[derive(Debug)]
pub(super) struct Peer {
    upstream: Upstream,
    protocol: Protocol,
    connect_timeout: Duration,
    timeouts: UpstreamTimeouts,
    idle: RefCell<Vec<IdleConnection>>,
    /// `true` while a task closes expired idle connections.
    swept: Cell<bool>,
}

#[derive(Debug)]
struct IdleConnection {
    io: Plain,
    since_ms: u64,
}

/// The end of a request to an application.
pub(super) enum Asked {
    /// It got the request.
    Done(Result<(), GatewayError>),
    /// It accepts no connection.
    NoConnection(GatewayError),
}

/// A request to the application.
pub(super) struct ApplicationRequest {
    /// `Responder` in protocols without roles.
    pub(super) role: Role,
    pub(super) variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) body: OutgoingBody,
    /// `true` for a safe method: the request may be sent again on another connection.
    pub(super) may_repeat: bool,
}

impl Peer {
    pub(super) fn new(
        upstream: Upstream,
        protocol: Protocol,
        connect_timeout: Duration,
        timeouts: UpstreamTimeouts,
    ) -> Peer {
        let (idle, swept) = (RefCell::default(), Cell::new(false));
        Peer { upstream, protocol, connect_timeout, timeouts, idle, swept }
    }

    /// Returns the application's address.
    pub(super) fn name(&self) -> String {
        self.upstream.plain()
    }

    /// Sends a request and passes the response to `sink` as it arrives.
    pub(super) async fn request(
        self: &Rc<Peer>,
        mut call: ApplicationRequest,
        sink: &mut Sink,
    ) -> Result<(), GatewayError> {
        match self.ask(&mut call, sink).await {
            Asked::Done(done) => done,
            Asked::NoConnection(error) => Err(error),
        }
    }

    /// Like `request`, and tells whether the application has seen anything of the request.
    pub(super) async fn ask(
        self: &Rc<Peer>,
        call: &mut ApplicationRequest,
        sink: &mut Sink,
    ) -> Asked {
        while let Some(io) = self.idle() {
            let bodiless = call.body.is_end_stream();
            match self.exchange(io, call, sink).await {
                // The application closed the idle connection at the same moment.
                Err(GatewayError::Gone(_))
                    if call.may_repeat && bodiless && sink.is_untouched() => {}
                done => return Asked::Done(done),
            }
        }
        match rt::timeout(self.connect_timeout, self.connect()).await {
            None => Asked::NoConnection(GatewayError::Slow("accept a connection")),
            Some(Err(error)) => Asked::NoConnection(GatewayError::Refused(error)),
            Some(Ok(io)) => Asked::Done(self.exchange(io, call, sink).await),
        }
    }

    async fn connect(&self) -> io::Result<Plain> {
        match &self.upstream {
            Upstream::Address(address) => Plain::connect(*address).await,
            Upstream::Name(name, port) => Plain::connect_by_name(name, *port).await,
            Upstream::Unix(path) => Plain::connect_unix(path).await,
        }
    }

    /// Sends one request on a connection and keeps the connection if possible.
    async fn exchange(
        self: &Rc<Peer>,
        io: Plain,
        call: &mut ApplicationRequest,
        sink: &mut Sink,
    ) -> Result<(), GatewayError> {
        let timer = Timer::new(&self.timeouts);
        let keep = self.idle_max() > 0;
        let sending = async {
            let sent = match self.protocol {
                Protocol::FastCgi(_) => fastcgi::send(&io, call, keep, &timer).await,
                Protocol::Uwsgi => uwsgi::send(&io, call, &timer).await,
            };
            timer.set_all_sent();
            match sent {
                Err(error) => error,
                // The response tells whether a request that was not read is an error.
                Ok(_) => pending().await,
            }
        };
        let reading = async {
            match self.protocol {
                Protocol::FastCgi(_) => {
                    fastcgi::read_response(&io, &self.name(), &timer, sink).await
                }
                Protocol::Uwsgi => uwsgi::read_response(&io, &timer, sink).await.map(|()| false),
            }
        };
        let clean = match rt::race(reading, sending).await {
            First::A(heard) => heard?,
            First::B(error) => return Err(error),
        };
        if keep && clean && timer.is_all_sent() {
            self.keep(io);
        }
        Ok(())
    }

    fn idle_max(&self) -> usize {
        match self.protocol {
            Protocol::FastCgi(kept) => kept,
            Protocol::Uwsgi => 0,
        }
    }

    fn idle(&self) -> Option<Plain> {
        loop {
            let IdleConnection { mut io, since_ms } = self.idle.borrow_mut().pop()?;
            let fresh = clock::now_ms().saturating_sub(since_ms) < IDLE_MS_MAX;
            if fresh && io.is_quiet() {
                return Some(io);
            }
        }
    }

    fn keep(self: &Rc<Peer>, io: Plain) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.idle_max() {
            return;
        }
        idle.push(IdleConnection { io, since_ms: clock::now_ms() });
        if !self.swept.replace(true) {
            let peer = Rc::clone(self);
            rt::spawn(async move { peer.sweep().await });
        }
    }

    /// Closes expired idle connections until there are none.
    async fn sweep(&self) {
        let mut alarm = Alarm::unset();
        while !self.idle.borrow().is_empty() {
            alarm.wait(Duration::from_millis(IDLE_MS_MAX / 4)).await;
            let now_ms = clock::now_ms();
            self.idle
                .borrow_mut()
                .retain(|idle| now_ms.saturating_sub(idle.since_ms) < IDLE_MS_MAX);
        }
        self.swept.set(false);
    }
}

/// Sends all pieces; `false`: the application closed its side.
pub(super) async fn write(
    io: &Plain,
    queue: &mut SendQueue,
    timer: &Timer<'_>,
) -> Result<bool, GatewayError> {
    while !queue.is_empty() {
        let sent = timer.write(poll_fn(|cx| io.poll_send(cx, queue, Attempt::Ready))).await?;
        if !matches!(sent, Ok(n) if n > 0) {
            return Ok(false);
        }
    }
    Ok(timer.write(poll_fn(|cx| io.poll_flush(cx, Attempt::Ready))).await?.is_ok())
}
