//! The generator's loop: which connection sends which request when. It decides and calls; what is done
//! on one connection is in `exchange`, sockets are in `wire`, encryption in `tls`, answers in `reader`,
//! arrivals in `pace`, counts in `tally`, streams beside the requests in `bulk`.

mod exchange;

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::event::epoll::{Event, EventData, EventFlags};

use super::Job;
use super::arrivals::Arrivals;
use super::bulk::Streams;
use super::pace::plan;
use super::pool::{Call, Pool};
use super::reader::Memo;
use super::tally::{Failure, Tally, nanoseconds};
use super::wire::{self, EVENTS_MAX, Poll, RECEIVE_BYTES};
use crate::sample::{Load, Offered};

/// How often overdue requests are looked for and, in a closed loop, lost connections opened again.
const SWEEP_NS: u64 = 10_000_000;

/// From bodies of this length on only the head is copied: below, one receive that copies is cheaper
/// than two.
const DISCARD_BYTES_MIN: u64 = 16 * 1024;

const GONE: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// One thread's worth of load.
pub(super) struct Engine<'a> {
    job: &'a Job,
    started: Instant,
    poll: Poll,
    pool: Pool,
    arrivals: Arrivals,
    streams: Option<Streams<'a>>,
    /// Slots with a call.
    calls: usize,
    tally: Tally,
    memo: Memo,
    /// How many requests were chosen.
    chosen: usize,
    buffer: Vec<u8>,
    discards: bool,
    bodyless: bool,
    timeout: u64,
    /// When this turn of the loop began.
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
            started: Instant::now(),
            poll: Poll::new()?,
            pool: Pool::new(slots, slots_max),
            arrivals: Arrivals::new(pace, calls),
            streams: streams.transpose()?,
            calls: 0,
            tally,
            memo: Memo::default(),
            chosen: 0,
            buffer: vec![0; RECEIVE_BYTES],
            discards: expected.body.is_none() && expected.body_bytes >= DISCARD_BYTES_MIN,
            bodyless: job.requests.first().is_some_and(|first| first.starts_with(b"HEAD ")),
            timeout,
            turn: 0,
        })
    }

    /// Spins until every request that was intended is answered or given up.
    pub(super) fn run(mut self) -> io::Result<Load> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = vec![none; EVENTS_MAX];
        // Nothing waits longer than the timeout to be sent nor, once sent, to be answered; only a
        // session, whose calls follow each other, can pass this.
        let give_up = self.tally.to().saturating_add(self.timeout.saturating_mul(2));
        let mut sweep = SWEEP_NS;
        self.started = Instant::now();
        self.begin()?;
        loop {
            self.turn = self.now();
            let mut worked = self.arrive()?;
            if self.turn >= sweep {
                sweep = self.turn + SWEEP_NS;
                self.sweep()?;
                if self.job.stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            let count = self.poll.ready(&mut events)?;
            for event in &events[..count] {
                self.handle(event.data.u64(), event.flags)?;
                worked |= self.arrive()?;
            }
            if let Some(streams) = &mut self.streams {
                // At most one piece: an answer that came meanwhile waits no longer than that.
                worked |= streams.turn(self.turn, &mut self.buffer)?;
            }
            if count > 0 || worked {
                self.tally.busy(self.turn, self.now());
            }
            if self.turn >= self.tally.to() {
                if self.turn >= give_up {
                    self.abandon();
                }
                if self.calls == 0 && self.arrivals.first().is_none() {
                    let bulk = self.streams.map(Streams::finish);
                    return Ok(Load { bulk, ..self.tally.finish() });
                }
            }
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    /// Opens the pool, or starts every connection of a closed loop.
    fn begin(&mut self) -> io::Result<()> {
        for index in 0..self.pool.slots.len() {
            match self.job.offered {
                Offered::Closed { .. } => {
                    self.tally.intend(0, 1);
                    self.start(index, 0, 0)?;
                }
                _ => self.open(index)?,
            }
        }
        Ok(())
    }

    /// Takes what has arrived by now and gives it to whichever connection is free. True if there
    /// was anything to do.
    fn arrive(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.arrivals.come(now, &mut self.tally);
        let sessions = matches!(self.job.offered, Offered::Sessions { .. });
        let mut worked = false;
        while let Some(intended) = self.arrivals.first() {
            let Some(index) = self.pool.take(sessions) else { break };
            self.arrivals.begin();
            // Only what the generator itself delays: while no connection was free the server was
            // slow, and that belongs to the response time.
            let free_since = self.pool.slots[index].free_since.max(intended);
            let now = self.now();
            self.tally.late(intended, now.saturating_sub(free_since));
            self.start(index, intended, now)?;
            worked = true;
        }
        Ok(worked)
    }

    fn calls_per_arrival(&self) -> u32 {
        calls_per_arrival(self.job)
    }

    /// Which request is next.
    fn choose(&mut self) -> usize {
        self.chosen = self.chosen.wrapping_add(1);
        self.job.nth(self.chosen - 1)
    }

    /// Begins a request, or a session, on a free slot.
    fn start(&mut self, index: usize, intended: u64, now: u64) -> io::Result<()> {
        let left = self.calls_per_arrival();
        let which = self.choose();
        let call =
            Call { intended, began: intended, sent: 0, left, which, bytes: 0, retried: false };
        self.calls += 1;
        self.proceed(index, call, now)
    }

    /// Sends a call, over a new connection if there is none.
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

    /// Gives a call up, and those of its session that would have followed.
    fn fail(&mut self, index: usize, why: Failure) {
        if let Some(call) = self.pool.slots[index].call.take() {
            self.calls -= 1;
            self.tally.fail(call.intended, why, u64::from(call.left));
        }
        self.release(index, true);
    }

    fn release(&mut self, index: usize, close: bool) {
        self.pool.release(index, close, self.now());
    }

    /// Gives up what is overdue, and opens a closed loop's lost connections again: not at once, or
    /// a server that refuses would be asked as fast as the processor can.
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.turn;
        let oldest = now.saturating_sub(self.timeout);
        for index in 0..self.pool.slots.len() {
            if self.pool.slots[index].call.is_some_and(|call| call.sent < oldest) {
                self.fail(index, Failure::Timeout);
            }
        }
        self.arrivals.expire(oldest, &mut self.tally);
        if matches!(self.job.offered, Offered::Closed { .. }) && now < self.tally.to() {
            for index in self.pool.take_shut() {
                self.tally.intend(now, 1);
                self.start(index, now, now)?;
            }
        }
        Ok(())
    }

    /// Time is up for everything.
    fn abandon(&mut self) {
        for index in 0..self.pool.slots.len() {
            if self.pool.slots[index].call.is_some() {
                self.fail(index, Failure::Timeout);
            }
        }
        self.arrivals.expire(u64::MAX, &mut self.tally);
    }
}

fn calls_per_arrival(job: &Job) -> u32 {
    if let Offered::Sessions { calls, .. } = job.offered { calls } else { 1 }
}

fn token(index: usize, generation: u32) -> u64 {
    (u64::from(generation) << 32) | index as u64
}
