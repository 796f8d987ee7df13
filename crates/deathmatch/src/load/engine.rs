//! The generator's loop: it decides which connection sends which request when. `exchange` does the
//! work on one connection, `wire` the sockets, `tls` encryption, `reader` responses, `pace`
//! arrivals, `tally` counts, and `bulk` the streams beside the requests.

mod exchange;

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll::{Event, EventFlags};

use super::Job;
use super::arrivals::Arrivals;
use super::bulk::Streams;
use super::pace::plan;
use super::pool::{Call, Pool};
use super::reader::Memo;
use super::slow::{SlowClients, SlowTurns};
use super::tally::{Failure, Tally, nanoseconds};
use super::watch::Watch;
use super::wire::{self, Poll, RECEIVE_BYTES};
use crate::sample::{Load, Offered};

/// Interval at which overdue requests are searched and, in a closed loop, lost connections opened
/// again.
const SWEEP_NS: u64 = 10_000_000;

/// For bodies of this length and more only the head is copied: for shorter ones a single copying
/// receive is cheaper than two.
const DISCARD_BYTES_MIN: u64 = 16 * 1024;

const GONE: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// The load of one thread.
pub(super) struct Engine<'a> {
    job: &'a Job,
    watch: Option<&'a Watch>,
    started: Instant,
    poll: Poll,
    pool: Pool,
    arrivals: Arrivals,
    /// Taken at the end of the first run.
    streams: Option<Streams<'a>>,
    /// Taken at the end of the first run, as `streams` are.
    slow: Option<SlowTurns<'a>>,
    /// Number of slots with a call.
    calls: usize,
    tally: Tally,
    memo: Memo,
    /// Number of requests chosen.
    chosen: usize,
    buffer: Vec<u8>,
    discards: bool,
    /// By request: its responses have no body.
    bodyless: Vec<bool>,
    timeout: u64,
    /// Start of this turn of the loop.
    turn: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(job: &'a Job) -> io::Result<Engine<'a>> {
        let slots_max = wire::connections_max();
        let (slots, pace) = plan(job, slots_max)?;
        let expected = &job.expected;
        let timeout = nanoseconds(job.timeout);
        let calls = calls_per_arrival(job);
        let tally = Tally::new(job.warm_up, job.duration, job.timeout);
        let streams =
            job.beside.as_ref().map(|b| Streams::new(b, job.target, timeout, tally.measured()));
        Ok(Engine {
            job,
            watch: None,
            started: Instant::now(),
            poll: Poll::new()?,
            pool: Pool::new(slots, slots_max),
            arrivals: Arrivals::new(pace, calls),
            streams: streams.transpose()?,
            slow: None,
            calls: 0,
            tally,
            memo: Memo::default(),
            chosen: 0,
            buffer: vec![0; RECEIVE_BYTES],
            discards: expected.is_long(DISCARD_BYTES_MIN),
            bodyless: job.requests.iter().map(|one| one.starts_with(b"HEAD ")).collect(),
            timeout,
            turn: 0,
        })
    }

    /// Publishes its figures to a watch, whose stop ends it with the figures so far.
    pub(super) fn watched(mut self, watch: &'a Watch) -> Engine<'a> {
        self.watch = Some(watch);
        self
    }

    /// Has slow clients on other connections meanwhile.
    pub(super) fn reading(mut self, clients: &'a SlowClients) -> Engine<'a> {
        self.slow = Some(SlowTurns::new(clients, self.tally.measured()));
        self
    }

    /// Spins until every intended request is answered or given up. Connections stay open; a further
    /// run uses them again.
    pub(super) fn run(&mut self, duration: Duration) -> io::Result<Load> {
        let mut events = wire::no_events();
        let (_, pace) = plan(self.job, wire::connections_max())?;
        self.arrivals = self.arrivals.then(pace, self.calls_per_arrival());
        let tally = Tally::new(self.job.warm_up, duration, self.job.timeout);
        self.tally = tally.watched(self.watch);
        // A request waits at most the timeout to be sent and to be answered. Only a session,
        // whose calls follow each other, can take longer.
        let give_up = self.tally.to().saturating_add(self.timeout.saturating_mul(2));
        let mut sweep = SWEEP_NS;
        self.started = Instant::now();
        self.notice_closed(&mut events)?;
        self.begin()?;
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
                self.poll.wait(self.arrivals.pause(self.turn, sweep, &self.tally))?;
                self.turn = self.now();
            }
            let count = self.poll.ready(&mut events)?;
            for event in &events[..count] {
                self.handle(event.data.u64(), event.flags)?;
                worked |= self.arrive()?;
            }
            if let Some(streams) = &mut self.streams {
                // At most one piece: a response that has arrived meanwhile waits no longer than
                // that.
                worked |= streams.turn(self.turn, &mut self.buffer)?;
            }
            if let Some(slow) = &mut self.slow {
                worked |= slow.turn(self.turn, &mut self.buffer);
            }
            if count > 0 || worked {
                self.tally.busy(self.turn, self.now());
            }
            if self.turn >= self.tally.to() {
                if self.turn >= give_up {
                    self.abandon();
                }
                if self.calls == 0 && self.arrivals.first().is_none() {
                    let bulk = self.streams.take().map(Streams::finish);
                    let slow = self.slow.take().map(SlowTurns::finish);
                    return Ok(Load { bulk, slow, ..self.finish() });
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

    /// Takes connections out of use that the server has closed since the last run.
    fn notice_closed(&mut self, events: &mut [Event]) -> io::Result<()> {
        // Each connection has at most one event, so a partly filled list is the last.
        for _ in 0..=self.pool.slots.len() / events.len() {
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

    /// Opens the pool, or starts every connection of a closed loop; sessions open their own.
    fn begin(&mut self) -> io::Result<()> {
        self.pool.forget_times();
        match self.job.offered {
            Offered::Closed { .. } => {
                for index in self.pool.take_all() {
                    self.tally.intend(0, 1);
                    self.start(index, 0, 0)?;
                }
            }
            // Connecting is a part of each request.
            Offered::Open { .. } if self.job.is_anew() => self.pool.free_unconnected(),
            Offered::Open { .. } => {
                for index in self.pool.take_unconnected() {
                    self.open(index)?;
                }
            }
            Offered::Sessions { .. } => {}
        }
        Ok(())
    }

    /// Takes due arrivals and gives them to free connections; `true` if there were any.
    fn arrive(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.arrivals.add_due(now, &mut self.tally);
        let sessions = matches!(self.job.offered, Offered::Sessions { .. });
        let mut worked = false;
        while let Some(intended) = self.arrivals.first() {
            let Some(index) = self.pool.take(sessions) else { break };
            self.arrivals.begin();
            // While no connection was free the server was slow: a part of the response time.
            let now = self.now();
            self.tally.begin(intended, self.pool.slots[index].free_since, now);
            self.start(index, intended, now)?;
            worked = true;
        }
        Ok(worked)
    }

    fn calls_per_arrival(&self) -> u32 {
        calls_per_arrival(self.job)
    }

    /// Begins a request, or a session, on a free slot.
    fn start(&mut self, index: usize, intended: u64, now: u64) -> io::Result<()> {
        let left = self.calls_per_arrival();
        let which = self.job.choose(&mut self.chosen);
        let call =
            Call { intended, began: intended, sent: 0, left, which, bytes: 0, retried: false };
        self.calls += 1;
        self.proceed(index, call, now)
    }

    /// Sends a call, over a new connection if the slot has none.
    fn proceed(&mut self, index: usize, call: Call, now: u64) -> io::Result<()> {
        self.pool.slots[index].call = Some(Call { sent: now, ..call });
        if self.pool.slots[index].channel.is_some() {
            self.send(index, now)
        } else {
            self.open(index)
        }
    }

    fn refused(&mut self, index: usize) -> io::Result<()> {
        if self.pool.slots[index].call.is_some() {
            self.fail(index, Failure::Refused);
        } else {
            self.release(index, true);
        }
        Ok(())
    }

    /// Fails a call and the rest of its session.
    fn fail(&mut self, index: usize, why: Failure) {
        if let Some(call) = self.pool.slots[index].call.take() {
            self.calls -= 1;
            self.tally.fail(call.intended, call.which, why, u64::from(call.left));
        }
        self.release(index, true);
    }

    fn release(&mut self, index: usize, close: bool) {
        self.pool.release(index, close, self.now());
    }

    /// Gives up overdue calls, and opens a closed loop's lost connections again: not at once, or a
    /// server that refuses would get requests as fast as the processor allows.
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.turn;
        let oldest = now.saturating_sub(self.timeout);
        for index in 0..self.pool.slots.len() {
            if self.pool.slots[index].call.is_some_and(|call| call.sent < oldest) {
                self.fail(index, Failure::Timeout);
            }
        }
        self.expire_waiting(oldest);
        if matches!(self.job.offered, Offered::Closed { .. }) && self.tally.is_open(now) {
            for index in self.pool.take_shut() {
                if !self.tally.is_open(now) {
                    break;
                }
                self.tally.intend(now, 1);
                self.start(index, now, now)?;
            }
        }
        Ok(())
    }

    /// Gives up all calls at the end of time.
    fn abandon(&mut self) {
        for index in 0..self.pool.slots.len() {
            if self.pool.slots[index].call.is_some() {
                self.fail(index, Failure::Timeout);
            }
        }
        self.expire_waiting(u64::MAX);
    }

    /// Gives up arrivals that still wait for a connection.
    fn expire_waiting(&mut self, before: u64) {
        let Self { arrivals, tally, job, chosen, .. } = self;
        arrivals.expire(before, tally, || job.choose(chosen));
    }
}

fn calls_per_arrival(job: &Job) -> u32 {
    if let Offered::Sessions { calls, .. } = job.offered { calls } else { 1 }
}

fn token(index: usize, generation: u32) -> u64 {
    (u64::from(generation) << 32) | index as u64
}
