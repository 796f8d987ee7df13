//! A FastCGI application: connecting to it, the connections it keeps open, and one request on one of
//! them. The records are `crate::fcgi`'s.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use super::asking::{Fault, Sink, Watch};
use super::complaints::Complaints;
use super::input::Input;
use crate::clock;
use crate::config::{Patience, Upstream};
use crate::fcgi::{self, CONTENT_BYTES_MAX, Decoder, Ended, Role, Said};
use crate::rt::{self, Alarm, First};
use crate::transport::{self, Plain, Transport};
use bytes::Bytes;

/// How long an idle connection is kept.
const IDLE_MS_MAX: u64 = 10_000;

/// A FastCGI application, as one worker knows it.
#[derive(Debug)]
pub(super) struct Peer {
    upstream: Upstream,
    /// Idle connections that are kept.
    keep: usize,
    patience: Patience,
    idle: RefCell<Vec<Idle>>,
    /// Somebody closes idle connections in time.
    swept: Cell<bool>,
}

#[derive(Debug)]
struct Idle {
    io: Plain,
    since_ms: u64,
}

/// What is asked.
pub(super) struct Call {
    pub(super) role: Role,
    pub(super) variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) body: Input,
    /// To ask twice does no more than to ask once.
    pub(super) may_repeat: bool,
}

impl Peer {
    pub(super) fn new(upstream: Upstream, keep: usize, patience: Patience) -> Peer {
        let (idle, swept) = (RefCell::default(), Cell::new(false));
        Peer { upstream, keep, patience, idle, swept }
    }

    /// Where it listens.
    pub(super) fn name(&self) -> String {
        self.upstream.plain()
    }

    /// Asks, and hands on the answer as it comes.
    pub(super) async fn ask(self: &Rc<Peer>, mut call: Call, sink: &mut Sink) -> Result<(), Fault> {
        while let Some(io) = self.idle() {
            let bodiless = call.body.is_over();
            match self.converse(io, &mut call, sink).await {
                // It was closed at the same moment.
                Err(Fault::Gone(_)) if call.may_repeat && bodiless && sink.is_untouched() => {}
                done => return done,
            }
        }
        let connected = rt::timeout(self.patience.connect, self.connect()).await;
        let io = connected.ok_or(Fault::Slow("take a connection"))?.map_err(Fault::Refused)?;
        self.converse(io, &mut call, sink).await
    }

    async fn connect(&self) -> io::Result<Plain> {
        match &self.upstream {
            Upstream::Address(address) => Plain::connect(*address).await,
            Upstream::Name(name, port) => Plain::connect_by_name(name, *port).await,
            Upstream::Unix(path) => Plain::connect_unix(path).await,
        }
    }

    /// One request on a connection, which is kept afterwards if it may be.
    async fn converse(
        self: &Rc<Peer>,
        io: Plain,
        call: &mut Call,
        sink: &mut Sink,
    ) -> Result<(), Fault> {
        let watch = Watch::new(&self.patience);
        let keep = self.keep > 0;
        let sending = async {
            let sent = send(&io, call, keep, &watch).await;
            watch.all_sent();
            match sent {
                Err(fault) => fault,
                // What it says will tell how that was meant.
                Ok(_) => pending().await,
            }
        };
        let clean = match rt::race(self.hear(&io, &watch, sink), sending).await {
            First::A(heard) => heard?,
            First::B(fault) => return Err(fault),
        };
        if keep && clean && watch.is_all_sent() {
            self.keep(io);
        }
        Ok(())
    }

    /// Listens until the request is over; whether nothing is left unread.
    async fn hear(&self, io: &Plain, watch: &Watch<'_>, sink: &mut Sink) -> Result<bool, Fault> {
        let mut complaints = Complaints::of(&self.name());
        let (mut input, mut decoder) = (transport::Input::default(), Decoder::default());
        loop {
            while let Some((said, len)) = decoder.next(input.bytes()).map_err(Fault::Record)? {
                let ended = match said {
                    Said::Output(bytes) => {
                        let data = Bytes::copy_from_slice(bytes);
                        sink.take(data).await?;
                        None
                    }
                    Said::Complaint(bytes) => {
                        complaints.take(bytes);
                        None
                    }
                    Said::End(ended) => Some(ended),
                    Said::Nothing => None,
                };
                input.consume(len);
                match ended {
                    None => {}
                    Some(Ended::Complete) => return Ok(input.bytes().is_empty()),
                    Some(Ended::Overloaded) => return Err(Fault::Overloaded),
                    Some(Ended::UnknownRole) => return Err(Fault::Role),
                }
            }
            let fill = async || poll_fn(|cx| input.poll_fill_shared(io, cx)).await;
            match watch.read(sink.has_head(), fill).await? {
                Ok(0) => return Err(Fault::Gone(None)),
                Ok(_) => {}
                Err(e) => return Err(Fault::Gone(Some(e))),
            }
        }
    }

    fn idle(&self) -> Option<Plain> {
        loop {
            let Idle { mut io, since_ms } = self.idle.borrow_mut().pop()?;
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
        idle.push(Idle { io, since_ms: clock::now_ms() });
        if !self.swept.replace(true) {
            let peer = Rc::clone(self);
            rt::spawn(async move { peer.sweep().await });
        }
    }

    /// Closes idle connections in time, for as long as there are some.
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

/// Sends a request; whether it was taken whole.
async fn send(io: &Plain, call: &mut Call, keep: bool, watch: &Watch<'_>) -> Result<bool, Fault> {
    let mut head = Vec::new();
    fcgi::begin(&mut head, call.role, keep, &call.variables);
    // FastCGI 6.3: an authorizer has no input.
    if call.role == Role::Authorizer {
        return Ok(write(io, &mut [IoSlice::new(&head)], watch).await?.is_ok());
    }
    let body = &mut call.body;
    while !body.is_over() {
        if !head.is_empty() {
            if write(io, &mut [IoSlice::new(&head)], watch).await?.is_err() {
                return Ok(false);
            }
            head.clear();
        }
        let data = match body.next().await {
            None => break,
            Some(Err(_)) => return Err(Fault::Abandoned),
            Some(Ok(data)) => data,
        };
        for piece in data.chunks(CONTENT_BYTES_MAX) {
            head.clear();
            fcgi::stdin(&mut head, piece.len());
            if write(io, &mut [IoSlice::new(&head), IoSlice::new(piece)], watch).await?.is_err() {
                return Ok(false);
            }
        }
        head.clear();
    }
    fcgi::stdin(&mut head, 0);
    Ok(write(io, &mut [IoSlice::new(&head)], watch).await?.is_ok())
}

/// Writes all of it.
async fn write(
    io: &Plain,
    mut bufs: &mut [IoSlice<'_>],
    watch: &Watch<'_>,
) -> Result<io::Result<()>, Fault> {
    while !bufs.is_empty() {
        match watch.write(poll_fn(|cx| io.poll_write_shared(cx, bufs))).await? {
            Ok(0) => return Ok(Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => IoSlice::advance_slices(&mut bufs, n),
            Err(e) => return Ok(Err(e)),
        }
    }
    Ok(Ok(()))
}
