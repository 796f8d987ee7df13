//! The generator's loop for HTTP/2, HTTP/3 and WebSockets: it decides which stream of which
//! connection carries which request when. Requests made while a response is read leave together. A
//! `Link` is a connection with its protocol: `h2` and `websocket`, in clear or over TLS, `h3` over
//! QUIC.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll::{Event, EventFlags};

use super::arrivals::Arrivals;
use super::link::{End, EndedRequest, Link, Received};
use super::pace::plan;
use super::pool::Call;
use super::tally::{Failure, Reply, Tally, nanoseconds};
use super::watch::Watch;
use super::wire::{self, Poll, RECEIVE_BYTES};
use super::{Job, Tls};
use crate::sample::{Load, Offered};

/// Interval at which overdue requests are searched and, in a closed loop, failed ones sent again.
const SWEEP_NS: u64 = 10_000_000;

/// Longest sleep of a generator whose connections have timers.
const TIMERS_NS: u64 = 1_000_000;

/// The load of one thread.
pub(super) struct Engine<'a, L> {
    job: &'a Job,
    watch: Option<&'a Watch>,
    tls: Option<&'a Tls>,
    started: Instant,
    poll: Poll,
    connections: Vec<L>,
    /// One for each stream of each connection, at the connection's index times the streams plus the
    /// stream's; with its ticket once the request is sent.
    slots: Vec<Slot>,
    streams: usize,
    /// `true` if every request has a connection of its own, which ends after the response.
    is_anew: bool,
    /// Slots without a request, the longest free first.
    free: VecDeque<usize>,
    arrivals: Arrivals,
    /// Number of slots with a request.
    calls: usize,
    tally: Tally,
    /// Number of requests chosen.
    chosen: usize,
    buffer: Vec<u8>,
    ended: Vec<EndedRequest>,
    timeout: u64,
    /// Start of this turn of the loop.
    turn: u64,
}

/// State of one stream.
#[derive(Clone, Copy, Default)]
struct Slot {
    call: Option<Call>,
    ticket: Option<u64>,
    free_since: u64,
}

impl<'a, L: Link> Engine<'a, L> {
    pub(super) fn new(job: &'a Job, streams: u32) -> io::Result<Engine<'a, L>> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text.to_owned());
        let (connections, pace) = plan(job, wire::connections_max())?;
        if connections == 0 || streams == 0 {
            return Err(invalid("HTTP/2 and HTTP/3 take at least a connection and a stream"));
        }
        if job.beside.is_some() {
            return Err(invalid("nothing runs beside HTTP/2 and HTTP/3"));
        }
        let streams = streams as usize;
        Ok(Engine {
            job,
            watch: None,
            tls: job.tls.as_ref(),
            started: Instant::now(),
            poll: Poll::new()?,
            connections: std::iter::repeat_with(|| L::of(job)).take(connections).collect(),
            slots: vec![Slot::default(); connections * streams],
            streams,
            is_anew: job.is_anew(),
            // From one connection to the next, so that all are used equally.
            free: (0..streams)
                .flat_map(|stream| (0..connections).map(move |at| at * streams + stream))
                .collect(),
            arrivals: Arrivals::new(pace, 1),
            calls: 0,
            tally: Tally::new(job.warm_up, job.duration, job.timeout),
            chosen: 0,
            buffer: vec![0; RECEIVE_BYTES],
            ended: Vec::new(),
            timeout: nanoseconds(job.timeout),
            turn: 0,
        })
    }

    /// Publishes its figures to a watch, whose stop ends it with the figures so far.
    pub(super) fn watched(mut self, watch: &'a Watch) -> Engine<'a, L> {
        self.watch = Some(watch);
        self
    }

    /// Spins until every intended request is answered or given up. Connections stay open; a further
    /// run uses them again.
    pub(super) fn run(&mut self, duration: Duration) -> io::Result<Load> {
        let mut events = wire::no_events();
        let (_, pace) = plan(self.job, wire::connections_max())?;
        self.arrivals = Arrivals::new(pace, 1);
        let tally = Tally::new(self.job.warm_up, duration, self.job.timeout);
        self.tally = tally.watched(self.watch);
        self.slots.iter_mut().for_each(|slot| slot.free_since = 0);
        let give_up = self.tally.to().saturating_add(self.timeout.saturating_mul(2));
        let mut sweep = SWEEP_NS;
        self.started = Instant::now();
        self.notice_closed(&mut events)?;
        (0..self.connections.len())
            .filter(|&at| self.connections[at].is_shut())
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|at| self.open(at))?;
        self.refill(0);
        loop {
            self.turn = self.now();
            let mut worked = self.arrive()?;
            if self.turn >= sweep {
                sweep = self.turn + SWEEP_NS;
                self.sweep()?;
                if let Some(watch) = self.watch {
                    self.tally.publish(self.turn, watch);
                }
                if self.job.stop.load(Ordering::Relaxed) {
                    return match self.watch {
                        Some(_) => Ok(self.finish()),
                        None => Err(io::ErrorKind::Interrupted.into()),
                    };
                }
            }
            if self.job.client.sleeps && !worked {
                let timers = if L::HAS_TIMERS { self.turn + TIMERS_NS } else { sweep };
                self.poll.wait(self.arrivals.pause(self.turn, sweep.min(timers), &self.tally))?;
                self.turn = self.now();
            }
            let count = self.poll.ready(&mut events)?;
            for event in &events[..count] {
                self.handle(event.data.u64(), event.flags)?;
                worked |= self.arrive()?;
            }
            self.expire_timers();
            if count > 0 || worked {
                self.tally.busy(self.turn, self.now());
            }
            if self.turn >= self.tally.to() {
                if self.turn >= give_up {
                    self.abandon();
                }
                if self.calls == 0 && self.arrivals.first().is_none() {
                    return Ok(self.finish());
                }
            }
        }
    }

    /// Takes the counts, and publishes them.
    fn finish(&mut self) -> Load {
        if let Some(watch) = self.watch {
            let now = self.now();
            self.tally.publish_last(now, watch);
        }
        self.tally.finish()
    }

    fn now(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    /// Takes connections out of use that the server has closed since the last run, and answers what
    /// it has sent meanwhile.
    fn notice_closed(&mut self, events: &mut [Event]) -> io::Result<()> {
        self.expire_timers();
        for _ in 0..=self.connections.len() / events.len() {
            let count = self.poll.ready(events)?;
            for event in &events[..count] {
                self.handle(event.data.u64(), event.flags)?;
            }
            if count < events.len() {
                break;
            }
        }
        Ok(())
    }

    /// Handles the connections' timers, such as those of lost packets.
    fn expire_timers(&mut self) {
        if !L::HAS_TIMERS {
            return;
        }
        let now = Instant::now();
        for at in 0..self.connections.len() {
            if !self.connections[at].is_shut() && !self.connections[at].expire(now) {
                self.fail_connection(at, Failure::Reset);
            }
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.job.offered, Offered::Closed { .. })
    }

    fn open(&mut self, at: usize) -> io::Result<()> {
        let connection = &mut self.connections[at];
        if !connection.begin(self.job.target, self.tls)? {
            self.fail_connection(at, Failure::Refused);
            return Ok(());
        }
        let token = connection.token(at);
        if let Some(socket) = connection.socket() {
            self.poll.add(socket, token)?;
        }
        Ok(())
    }

    /// In a closed loop, gives every slot without a request one.
    fn refill(&mut self, now: u64) {
        if !self.is_closed() || !self.tally.is_open(now) {
            return;
        }
        for slot in std::mem::take(&mut self.free) {
            if !self.tally.is_open(now) {
                self.free.push_back(slot);
                continue;
            }
            self.tally.intend(now, 1);
            self.start(slot, now, now);
        }
        (0..self.connections.len()).for_each(|at| self.flush(at));
    }

    /// Takes due arrivals and gives them to free slots; `true` if there were any.
    fn arrive(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.arrivals.add_due(now, &mut self.tally);
        let mut worked = false;
        while let Some(intended) = self.arrivals.first() {
            let Some(slot) = self.free.pop_front() else { break };
            self.arrivals.begin();
            // Only the generator's own delay counts.
            let free_since = self.slots[slot].free_since.max(intended);
            let now = self.now();
            self.tally.record_lateness(intended, now.saturating_sub(free_since));
            self.start(slot, intended, now);
            let at = slot / self.streams;
            if self.connections[at].is_shut() {
                self.open(at)?;
            }
            self.flush(at);
            worked = true;
        }
        Ok(worked)
    }

    /// Begins a request; the next flush sends it, or the connection's establishment.
    fn start(&mut self, slot: usize, intended: u64, now: u64) {
        let which = self.job.nth(self.chosen);
        self.chosen = self.chosen.wrapping_add(1);
        let (began, left) = (intended, 1);
        let call = Call { intended, began, sent: now, left, which, bytes: 0, retried: false };
        self.calls += 1;
        self.slots[slot].call = Some(call);
        self.ask(slot);
    }

    /// Puts a request on its connection, if it is established.
    fn ask(&mut self, slot: usize) {
        let (at, now) = (slot / self.streams, self.now());
        let connection = &mut self.connections[at];
        if !connection.is_ready() {
            return;
        }
        let Slot { call: Some(call), ticket, .. } = &mut self.slots[slot] else { return };
        call.sent = now;
        let (head, body) = self.job.request(call.which);
        *ticket = connection.ask(slot % self.streams, head, body).ok();
        if ticket.is_none() {
            self.fail_connection(at, Failure::Protocol);
        }
    }

    fn flush(&mut self, at: usize) {
        if self.connections[at].flush().is_err() {
            self.fail_connection(at, Failure::Reset);
        }
    }

    fn handle(&mut self, event: u64, flags: EventFlags) -> io::Result<()> {
        let at = usize::try_from(event & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let Some(connection) = self.connections.get_mut(at) else { return Ok(()) };
        if event != connection.token(at) {
            return Ok(());
        }
        if !connection.connected(self.tls)? {
            self.fail_connection(at, Failure::Refused);
            return Ok(());
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(at);
        }
        let closed = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
        if flags.intersects(EventFlags::IN | closed) {
            return self.take(at, flags.intersects(closed));
        }
        Ok(())
    }

    /// Receives until the socket is drained; counts ended requests and, in a closed loop, begins
    /// the next.
    fn take(&mut self, at: usize, closed: bool) -> io::Result<()> {
        loop {
            let connection = &mut self.connections[at];
            let was_ready = connection.is_ready();
            let expected = &self.job.expected;
            let went = connection.receive(&mut self.buffer, expected, &mut self.ended);
            if !matches!(went, Received::Nothing) {
                self.tally.read(self.turn);
            }
            let is_ready = connection.is_ready();
            if is_ready && !was_ready && !self.handle_established(at) {
                return Ok(());
            }
            self.settle(at);
            self.flush(at);
            if self.connections[at].is_drained() {
                self.connections[at].shut();
                return self.open(at);
            }
            if self.is_anew && self.connections[at].is_shut() {
                // The next request, if there is one, has a connection of its own.
                return if self.slots[at].call.is_some() { self.open(at) } else { Ok(()) };
            }
            match went {
                Received::Nothing => return Ok(()),
                Received::Some { drained } if drained && !closed => return Ok(()),
                Received::Some { .. } => {}
                Received::Lost(why) => {
                    self.fail_connection(at, why);
                    return Ok(());
                }
            }
        }
    }

    /// Sends waiting requests on an established connection; `false` if it cannot be used.
    fn handle_established(&mut self, at: usize) -> bool {
        let connection = &mut self.connections[at];
        if connection.streams_max() < self.streams as u32 {
            self.fail_connection(at, Failure::Protocol);
            return false;
        }
        self.tally.connection();
        let (now, resumed) = (self.now(), self.connections[at].resumed());
        let slots = at * self.streams..(at + 1) * self.streams;
        let first = slots.clone().find_map(|slot| self.slots[slot].call);
        self.tally.handshake(first.map_or(now, |call| call.intended), resumed);
        slots.for_each(|slot| self.ask(slot));
        true
    }

    /// Counts the ended requests of a connection.
    fn settle(&mut self, at: usize) {
        let ended = std::mem::take(&mut self.ended);
        if self.is_anew && !ended.is_empty() {
            self.connections[at].shut();
        }
        let now = self.now();
        for &EndedRequest { slot, how, bytes, status } in &ended {
            let slot = at * self.streams + slot;
            if how == End::Unprocessed {
                // The next connection carries it.
                self.slots[slot].ticket = None;
                continue;
            }
            let Some(call) = self.slots[slot].call.take() else { continue };
            let Call { intended, began, sent, which, .. } = call;
            self.release(slot, now);
            match how {
                End::Answer(None) => {
                    let reply = Reply { intended, which, began, sent, ended: now, bytes, status };
                    self.tally.reply(&reply);
                }
                End::Answer(Some(wrong)) => {
                    self.tally.fail(intended, which, Failure::Response(wrong), 1);
                }
                End::Reset | End::Unprocessed => {
                    self.tally.fail(intended, which, Failure::Protocol, 1);
                }
            }
            // The next sweep repeats requests that were reset; otherwise they would repeat as fast
            // as possible.
            if self.is_closed() && how != End::Reset && self.tally.is_open(now) {
                self.free.pop_back();
                self.tally.intend(now, 1);
                self.start(slot, now, now);
            }
        }
        self.ended = ended;
        self.ended.clear();
    }

    fn release(&mut self, slot: usize, now: u64) {
        self.calls -= 1;
        self.slots[slot] = Slot { call: None, ticket: None, free_since: now };
        self.free.push_back(slot);
    }

    /// Closes a connection and fails its requests.
    fn fail_connection(&mut self, at: usize, why: Failure) {
        self.connections[at].shut();
        let now = self.now();
        for slot in at * self.streams..(at + 1) * self.streams {
            if let Some(call) = self.slots[slot].call.take() {
                self.tally.fail(call.intended, call.which, why, 1);
                self.release(slot, now);
            }
        }
    }

    /// Gives up overdue requests, and in a closed loop begins failed ones again.
    fn sweep(&mut self) -> io::Result<()> {
        let oldest = self.turn.saturating_sub(self.timeout);
        self.expire(oldest);
        self.arrivals.expire(oldest, &mut self.tally);
        if self.is_closed() && self.turn < self.tally.to() {
            for at in 0..self.connections.len() {
                if self.connections[at].is_shut() {
                    self.open(at)?;
                }
            }
            self.refill(self.turn);
        }
        Ok(())
    }

    /// Gives up requests sent before a moment.
    fn expire(&mut self, before: u64) {
        for slot in 0..self.slots.len() {
            let Slot { call, ticket, .. } = self.slots[slot];
            let Some(call) = call.filter(|call| call.sent < before) else { continue };
            let at = slot / self.streams;
            match ticket {
                Some(ticket) if self.connections[at].is_ready() => {
                    self.connections[at].cancel(ticket);
                }
                // It was never established.
                _ => self.connections[at].shut(),
            }
            self.tally.fail(call.intended, call.which, Failure::Timeout, 1);
            self.release(slot, self.turn);
            self.flush(at);
        }
    }

    /// Gives up all requests at the end of time.
    fn abandon(&mut self) {
        self.expire(u64::MAX);
        self.arrivals.expire(u64::MAX, &mut self.tally);
    }
}
