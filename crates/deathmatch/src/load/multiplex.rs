//! The generator's loop for HTTP/2, HTTP/3 and WebSockets: it decides which stream of which
//! connection carries which request when. Requests made while a response is read leave together. A
//! `Link` is a connection with its protocol: `h2` and `websocket`, in clear or over TLS, `h3` over
//! QUIC.

mod links;

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
    /// All connections: the first of each place, then the second of each.
    links: Vec<L>,
    /// The connection of each place that takes requests. The other one, if it is open, ends its
    /// responses after a GOAWAY.
    current: Vec<usize>,
    /// One for each stream of each place, at the place's index times the streams plus the stream's.
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
    /// The connection on which the request was sent, and its ticket.
    sent: Option<(usize, u64)>,
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
        let is_room = 2 * connections <= wire::connections_max();
        let links = if is_room { 2 * connections } else { connections };
        Ok(Engine {
            job,
            watch: None,
            tls: job.tls.as_ref(),
            started: Instant::now(),
            poll: Poll::new()?,
            links: std::iter::repeat_with(|| L::of(job)).take(links).collect(),
            current: (0..connections).collect(),
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
        self.arrivals = self.arrivals.then(pace, 1);
        let tally = Tally::new(self.job.warm_up, duration, self.job.timeout);
        self.tally = tally.watched(self.watch);
        self.slots.iter_mut().for_each(|slot| slot.free_since = 0);
        let give_up = self.tally.to().saturating_add(self.timeout.saturating_mul(2));
        let mut sweep = SWEEP_NS;
        self.started = Instant::now();
        self.notice_closed(&mut events)?;
        self.open_all()?;
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
    pub(super) fn finish(&mut self) -> Load {
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
        for _ in 0..=self.links.len() / events.len() {
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
        for link in 0..self.links.len() {
            if !self.links[link].is_shut() && !self.links[link].expire(now) {
                self.fail_connection(link, Failure::Reset);
            }
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.job.offered, Offered::Closed { .. })
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
        (0..self.current.len()).for_each(|at| self.flush(self.current[at]));
    }

    /// Takes due arrivals and gives them to free slots; `true` if there were any.
    fn arrive(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.arrivals.add_due(now, &mut self.tally);
        let mut worked = false;
        while let Some(intended) = self.arrivals.first() {
            let Some(slot) = self.free.pop_front() else { break };
            self.arrivals.begin();
            let now = self.now();
            self.tally.begin(intended, self.slots[slot].free_since, now);
            self.start(slot, intended, now);
            let at = slot / self.streams;
            if self.links[self.current[at]].is_shut() {
                self.open(at)?;
            }
            self.flush(self.current[at]);
            worked = true;
        }
        Ok(worked)
    }

    /// Begins a request; the next flush sends it, or the connection's establishment.
    fn start(&mut self, slot: usize, intended: u64, now: u64) {
        let which = self.job.choose(&mut self.chosen);
        let (began, left) = (intended, 1);
        let call = Call { intended, began, sent: now, left, which, bytes: 0, retried: false };
        self.calls += 1;
        self.slots[slot].call = Some(call);
        self.ask(slot);
    }

    /// Puts a request on the connection of its place, if it is established.
    fn ask(&mut self, slot: usize) {
        let (link, now) = (self.current[slot / self.streams], self.now());
        let connection = &mut self.links[link];
        if !connection.is_ready() {
            return;
        }
        let Slot { call: Some(call), sent, .. } = &mut self.slots[slot] else { return };
        call.sent = now;
        let (head, body) = self.job.request(call.which);
        let ticket = connection.ask(slot % self.streams, head, body).ok();
        *sent = ticket.map(|ticket| (link, ticket));
        if sent.is_none() {
            self.fail_connection(link, Failure::Protocol);
        }
    }

    fn flush(&mut self, link: usize) {
        if self.links[link].flush().is_err() {
            self.fail_connection(link, Failure::Reset);
        }
    }

    fn handle(&mut self, event: u64, flags: EventFlags) -> io::Result<()> {
        let link = usize::try_from(event & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let Some(connection) = self.links.get_mut(link) else { return Ok(()) };
        if event != connection.token(link) {
            return Ok(());
        }
        if !connection.connected(self.tls)? {
            self.fail_connection(link, Failure::Refused);
            return Ok(());
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(link);
        }
        let closed = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
        if flags.intersects(EventFlags::IN | closed) {
            return self.take(link, flags.intersects(closed));
        }
        Ok(())
    }

    /// Receives until the socket is drained; counts ended requests and, in a closed loop, begins
    /// the next.
    fn take(&mut self, link: usize, closed: bool) -> io::Result<()> {
        let at = link % self.current.len();
        loop {
            let connection = &mut self.links[link];
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
            self.settle(link);
            self.flush(link);
            if self.current[at] != link {
                self.flush(self.current[at]);
            }
            if self.replace(link)? {
                return Ok(());
            }
            if self.is_anew && self.links[link].is_shut() {
                // The next request, if there is one, has a connection of its own.
                return if self.slots[at].call.is_some() { self.open(at) } else { Ok(()) };
            }
            match went {
                Received::Nothing => return Ok(()),
                Received::Some { drained } if drained && !closed => return Ok(()),
                Received::Some { .. } => {}
                Received::Lost(why) => {
                    self.fail_connection(link, why);
                    return Ok(());
                }
            }
        }
    }

    /// Counts the ended requests of a connection.
    fn settle(&mut self, link: usize) {
        let ended = std::mem::take(&mut self.ended);
        if self.is_anew && !ended.is_empty() {
            self.links[link].shut();
        }
        let (at, now) = (link % self.current.len(), self.now());
        for &EndedRequest { slot, how, bytes, status } in &ended {
            let slot = at * self.streams + slot;
            if how == End::Unprocessed {
                // The next connection carries it.
                self.slots[slot].sent = None;
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
        self.slots[slot] = Slot { call: None, sent: None, free_since: now };
        self.free.push_back(slot);
    }

    /// Gives up overdue requests, and in a closed loop begins failed ones again.
    fn sweep(&mut self) -> io::Result<()> {
        let oldest = self.turn.saturating_sub(self.timeout);
        self.expire(oldest);
        self.expire_waiting(oldest);
        // Requests that were given up may have been the last ones.
        (0..self.links.len()).try_for_each(|link| self.replace(link).map(drop))?;
        if self.is_closed() && self.turn < self.tally.to() {
            self.open_all()?;
            self.refill(self.turn);
        }
        Ok(())
    }

    /// Gives up requests sent before a moment.
    fn expire(&mut self, before: u64) {
        for slot in 0..self.slots.len() {
            let Slot { call, sent, .. } = self.slots[slot];
            let Some(call) = call.filter(|call| call.sent < before) else { continue };
            let link = sent.map_or(self.current[slot / self.streams], |(link, _)| link);
            match sent {
                Some((_, ticket)) => self.links[link].cancel(ticket),
                // It was never established.
                None => self.links[link].shut(),
            }
            self.tally.fail(call.intended, call.which, Failure::Timeout, 1);
            self.release(slot, self.turn);
            self.flush(link);
        }
    }

    /// Gives up all requests at the end of time.
    fn abandon(&mut self) {
        self.expire(u64::MAX);
        self.expire_waiting(u64::MAX);
    }

    /// Gives up arrivals that still wait for a place.
    fn expire_waiting(&mut self, before: u64) {
        let Self { arrivals, tally, job, chosen, .. } = self;
        arrivals.expire(before, tally, || job.choose(chosen));
    }
}
