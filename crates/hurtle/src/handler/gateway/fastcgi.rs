//! A FastCGI application: connections to it, the pool of idle ones, and one request on a
//! connection. `hurtle_http::fcgi` encodes the records.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::super::body_buffer::OutgoingBody;
use super::exchange::{GatewayError, Sink, Timer};
use super::stderr_log::StderrLog;
use crate::clock;
use crate::config::{GatewayTimeouts, Upstream};
use crate::rt::{self, Alarm, First};
use crate::transport::{self, Attempt, Fill, Output, Plain, SendQueue, Transport};
use bytes::Bytes;
use hurtle_http::fcgi::{self, CONTENT_BYTES_MAX, Decoder, EndStatus, Event, Role};

/// Longest time that an idle connection is kept.
const IDLE_MS_MAX: u64 = 10_000;

/// A FastCGI application, as seen by one worker.
#[derive(Debug)]
pub(super) struct Peer {
    upstream: Upstream,
    /// Most idle connections.
    keep: usize,
    connect_timeout: Duration,
    timeouts: GatewayTimeouts,
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
pub(super) struct FastCgiRequest {
    pub(super) role: Role,
    pub(super) variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) body: OutgoingBody,
    /// `true` for a safe method: the request may be sent again on another connection.
    pub(super) may_repeat: bool,
}

impl Peer {
    pub(super) fn new(
        upstream: Upstream,
        keep: usize,
        connect_timeout: Duration,
        timeouts: GatewayTimeouts,
    ) -> Peer {
        let (idle, swept) = (RefCell::default(), Cell::new(false));
        Peer { upstream, keep, connect_timeout, timeouts, idle, swept }
    }

    /// Returns the application's address.
    pub(super) fn name(&self) -> String {
        self.upstream.plain()
    }

    /// Sends a request and passes the response to `sink` as it arrives.
    pub(super) async fn request(
        self: &Rc<Peer>,
        mut call: FastCgiRequest,
        sink: &mut Sink,
    ) -> Result<(), GatewayError> {
        match self.ask(&mut call, sink).await {
            Asked::Done(done) => done,
            Asked::NoConnection(error) => Err(error),
        }
    }

    /// Like `request`, and tells whether the application has seen anything of the request.
    pub(super) async fn ask(self: &Rc<Peer>, call: &mut FastCgiRequest, sink: &mut Sink) -> Asked {
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
        call: &mut FastCgiRequest,
        sink: &mut Sink,
    ) -> Result<(), GatewayError> {
        let timer = Timer::new(&self.timeouts);
        let keep = self.keep > 0;
        let sending = async {
            let sent = send(&io, call, keep, &timer).await;
            timer.set_all_sent();
            match sent {
                Err(error) => error,
                // The response tells whether a request that was not read is an error.
                Ok(_) => pending().await,
            }
        };
        let clean = match rt::race(self.read_response(&io, &timer, sink), sending).await {
            First::A(heard) => heard?,
            First::B(error) => return Err(error),
        };
        if keep && clean && timer.is_all_sent() {
            self.keep(io);
        }
        Ok(())
    }

    /// Reads until the request is over; `true` if no byte is left unread.
    async fn read_response(
        &self,
        io: &Plain,
        timer: &Timer<'_>,
        sink: &mut Sink,
    ) -> Result<bool, GatewayError> {
        let mut stderr_log = StderrLog::new(&self.name());
        let (mut input, mut decoder) = (transport::Input::default(), Decoder::default());
        loop {
            while let Some((said, len)) =
                decoder.next(input.bytes()).map_err(GatewayError::Record)?
            {
                let ended = match said {
                    Event::Stdout(bytes) => {
                        let data = Bytes::copy_from_slice(bytes);
                        sink.take(data).await?;
                        None
                    }
                    Event::Stderr(bytes) => {
                        stderr_log.take(bytes);
                        None
                    }
                    Event::End(ended) => Some(ended),
                    Event::Skipped => None,
                };
                input.consume(len);
                match ended {
                    None => {}
                    Some(EndStatus::Complete) => return Ok(input.bytes().is_empty()),
                    Some(EndStatus::Overloaded) => return Err(GatewayError::Overloaded),
                    Some(EndStatus::UnknownRole) => return Err(GatewayError::Role),
                }
            }
            let fill = async || poll_fn(|cx| io.poll_fill(cx, &mut input, Fill::Body)).await;
            match timer.read(sink.has_head(), fill).await? {
                Ok(0) => return Err(GatewayError::Gone(None)),
                Ok(_) => {}
                Err(e) => return Err(GatewayError::Gone(Some(e))),
            }
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
        if idle.len() >= self.keep {
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

/// Sends a request; `false`: the application closed its side.
async fn send(
    io: &Plain,
    call: &mut FastCgiRequest,
    keep: bool,
    timer: &Timer<'_>,
) -> Result<bool, GatewayError> {
    let mut queue = SendQueue::default();
    let mut head = Output::new();
    fcgi::begin(head.vec(), call.role, keep, &call.variables);
    queue.push(head);
    // An authorizer has no input (FastCGI section 6.3).
    if call.role == Role::Authorizer {
        return write(io, &mut queue, timer).await;
    }
    let body = &mut call.body;
    while !body.is_end_stream() {
        if !write(io, &mut queue, timer).await? {
            return Ok(false);
        }
        let mut data = match body.next().await {
            None => break,
            Some(Err(_)) => return Err(GatewayError::Abandoned),
            Some(Ok(data)) => data,
        };
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(CONTENT_BYTES_MAX));
            let mut head = Output::new();
            fcgi::stdin(head.vec(), piece.len());
            queue.push(head);
            queue.push(piece);
            if !write(io, &mut queue, timer).await? {
                return Ok(false);
            }
        }
    }
    let mut end = Output::new();
    fcgi::stdin(end.vec(), 0);
    queue.push(end);
    write(io, &mut queue, timer).await
}

/// Sends all pieces; `false`: the application closed its side.
async fn write(io: &Plain, queue: &mut SendQueue, timer: &Timer<'_>) -> Result<bool, GatewayError> {
    while !queue.is_empty() {
        let sent = timer.write(poll_fn(|cx| io.poll_send(cx, queue, Attempt::Ready))).await?;
        if !matches!(sent, Ok(n) if n > 0) {
            return Ok(false);
        }
    }
    Ok(timer.write(poll_fn(|cx| io.poll_flush(cx, Attempt::Ready))).await?.is_ok())
}
