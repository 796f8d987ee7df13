//! The generator's loop for visits: a visitor opens connections, takes the steps of a visit with
//! pauses between them, and closes the connections. In a step it requests a page, then all that
//! the page needs at once. A step is one request of the figures; a request without a right response
//! fails its step and ends the visit. Files that are requested at once on a connection of their own
//! (`ConnectionUse::Page`) are a visit of one step.

mod visitor;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::arrivals::Arrivals;
use super::link::{End, EndedRequest, Link, Received};
use super::pace::plan;
use super::tally::{Failure, Reply, Tally, nanoseconds};
use super::watch::Watch;
use super::wire::{self, Poll, RECEIVE_BYTES};
use super::{Job, Step};
use crate::random::SplitMix;
use crate::sample::{Load, Offered};
use visitor::{LEAVING_MAX, Visit, Visitor};

/// Interval at which overdue steps are searched and, in a closed loop, failed visits begun again.
const SWEEP_NS: u64 = 10_000_000;

/// Longest sleep of a generator whose connections have timers.
const TIMERS_NS: u64 = 1_000_000;

/// Every run draws the same pauses.
const SEED: u64 = 0x7669_7369_7473;

/// The steps of each visit.
pub(super) enum Steps<'a> {
    /// One step of so many files, the next ones in the job's order.
    Files(usize),
    /// The steps of a scenario, in their order.
    Of(&'a [Step]),
}

/// The load of one thread.
pub(super) struct Engine<'a, L> {
    job: &'a Job,
    watch: Option<&'a Watch>,
    steps: Steps<'a>,
    started: Instant,
    poll: Poll,
    visitors: Vec<Visitor<L>>,
    /// Places for connections of each visitor.
    lanes: usize,
    /// Places without a visitor, the longest free first.
    free: VecDeque<usize>,
    arrivals: Arrivals,
    /// Visitors that pause, by the ends of their pauses.
    pauses: BinaryHeap<Reverse<(u64, usize)>>,
    random: SplitMix,
    tally: Tally,
    /// Number of files chosen.
    chosen: usize,
    buffer: Vec<u8>,
    ended: Vec<EndedRequest>,
    /// Start of this turn of the loop.
    turn: u64,
}

impl<'a, L: Link> Engine<'a, L> {
    /// `connections`: those of each visitor.
    pub(super) fn new(
        job: &'a Job,
        steps: Steps<'a>,
        connections: u32,
    ) -> io::Result<Engine<'a, L>> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text.to_owned());
        let connections = connections.max(1) as usize;
        let lanes = connections + if L::IS_MULTIPLEXED { LEAVING_MAX } else { 0 };
        let (visitors, pace) = plan(job, wire::connections_max() / connections)?;
        let is_empty = match &steps {
            Steps::Files(files) => *files == 0 || !matches!(job.offered, Offered::Closed { .. }),
            Steps::Of(steps) => {
                steps.is_empty() || steps.iter().any(|step| step.requests.is_empty())
            }
        };
        if is_empty || job.beside.is_some() {
            return Err(invalid(
                "visits have steps, pages files and a closed loop, nothing beside",
            ));
        }
        Ok(Engine {
            job,
            watch: None,
            steps,
            started: Instant::now(),
            poll: Poll::new()?,
            visitors: (0..visitors).map(|_| Visitor::new(job, connections, lanes)).collect(),
            lanes,
            free: (0..visitors).collect(),
            arrivals: Arrivals::new(pace, 1),
            pauses: BinaryHeap::new(),
            random: SplitMix(SEED),
            tally: Tally::new(job.warm_up, job.duration, job.timeout),
            chosen: 0,
            buffer: vec![0; RECEIVE_BYTES],
            ended: Vec::new(),
            turn: 0,
        })
    }

    /// Publishes its figures to a watch, whose stop ends it with the figures so far.
    pub(super) fn watched(mut self, watch: &'a Watch) -> Engine<'a, L> {
        self.watch = Some(watch);
        self
    }

    /// Spins until every step that was begun is complete or given up.
    pub(super) fn run(&mut self, duration: Duration) -> io::Result<Load> {
        let mut events = wire::no_events();
        let (_, pace) = plan(self.job, wire::connections_max())?;
        self.arrivals = Arrivals::new(pace, 1);
        let tally = Tally::new(self.job.warm_up, duration, self.job.timeout);
        self.tally = tally.watched(self.watch);
        self.started = Instant::now();
        let mut sweep = 0;
        loop {
            self.turn = self.now();
            let mut worked = self.arrive()? | self.end_pauses()?;
            if self.turn >= sweep {
                sweep = self.turn + SWEEP_NS;
                if let Some(watch) = self.watch {
                    self.tally.publish(self.turn, watch);
                }
                if self.job.stop.load(Ordering::Relaxed) {
                    return match self.watch {
                        Some(_) => Ok(self.finish()),
                        None => Err(io::ErrorKind::Interrupted.into()),
                    };
                }
                self.sweep()?;
            }
            if self.job.client.sleeps && !worked {
                self.poll.wait(self.pause(sweep))?;
                self.turn = self.now();
            }
            let count = self.poll.ready(&mut events)?;
            for event in &events[..count] {
                self.handle(event.data.u64(), event.flags)?;
            }
            worked |= count > 0;
            self.expire_timers()?;
            if worked {
                self.tally.busy(self.turn, self.now());
            }
            let is_over = self.turn >= self.tally.to() && self.arrivals.first().is_none();
            if is_over && !self.visitors.iter().any(Visitor::is_busy) {
                return Ok(self.finish());
            }
        }
    }

    /// Ends the visits, and takes and publishes the counts.
    pub(super) fn finish(&mut self) -> Load {
        for at in 0..self.visitors.len() {
            if self.visitors[at].visit.is_some() {
                self.leave(at);
            }
        }
        self.pauses.clear();
        if let Some(watch) = self.watch {
            let now = self.now();
            self.tally.publish_last(now, watch);
        }
        self.tally.finish()
    }

    fn now(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    /// Time to what is due next.
    fn pause(&self, sweep: u64) -> Duration {
        let timers = if L::HAS_TIMERS { self.turn + TIMERS_NS } else { sweep };
        let thinker = self.pauses.peek().map_or(sweep, |Reverse((until, _))| *until);
        self.arrivals.pause(self.turn, sweep.min(timers).min(thinker), &self.tally)
    }

    fn is_closed(&self) -> bool {
        matches!(self.job.offered, Offered::Closed { .. })
    }

    /// Takes due arrivals and gives them to free visitors; `true` if there were any.
    fn arrive(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.arrivals.add_due(now, &mut self.tally);
        let mut worked = false;
        while let Some(intended) = self.arrivals.first() {
            let Some(at) = self.free.pop_front() else { break };
            self.arrivals.begin();
            self.tally.begin(intended, self.visitors[at].free_since, self.now());
            self.begin_step(at, 0, intended)?;
            worked = true;
        }
        Ok(worked)
    }

    /// Goes on with visits whose pause is over; `true` if there were any.
    fn end_pauses(&mut self) -> io::Result<bool> {
        let now = self.now();
        let mut worked = false;
        while let Some(&Reverse((until, at))) = self.pauses.peek().filter(|p| p.0.0 <= now) {
            self.pauses.pop();
            worked = true;
            if self.visitors[at].visit.as_ref().is_some_and(|v| v.thinks_until == Some(until)) {
                self.tally.late(until, self.now());
                self.go_on(at, until)?;
            }
        }
        Ok(worked)
    }

    /// Begins the next step of a visit, or ends it. In a closed loop another visitor comes then.
    fn go_on(&mut self, at: usize, intended: u64) -> io::Result<()> {
        let Some(visit) = &self.visitors[at].visit else { return Ok(()) };
        let steps = match &self.steps {
            Steps::Files(_) => 1,
            Steps::Of(steps) => steps.len(),
        };
        let mut next = visit.step + 1;
        if next >= steps {
            self.visitors[at].shut();
            next = 0;
        }
        if !self.tally.is_open(intended) || next == 0 && !self.is_closed() {
            self.leave(at);
            return Ok(());
        }
        self.tally.intend(intended, 1);
        self.begin_step(at, next, intended)
    }

    /// Ends a visit: its connections are closed, and the place is free.
    fn leave(&mut self, at: usize) {
        let now = self.now();
        let visitor = &mut self.visitors[at];
        visitor.shut();
        (visitor.visit, visitor.free_since) = (None, now);
        self.free.push_back(at);
    }

    fn begin_step(&mut self, at: usize, step: usize, intended: u64) -> io::Result<()> {
        let (requests, has_document): (Vec<usize>, bool) = match &self.steps {
            Steps::Files(files) => {
                let from = self.chosen;
                self.chosen = from.wrapping_add(*files);
                let which = |number| self.job.nth(from.wrapping_add(number));
                ((0..*files).map(which).collect(), false)
            }
            Steps::Of(steps) => (steps[step].requests.clone(), true),
        };
        let visit = Visit::at_step(step, requests, has_document, intended, self.now());
        self.visitors[at].visit = Some(visit);
        self.ask(at)
    }

    /// Sends waiting requests, and opens the connections that they need.
    fn ask(&mut self, at: usize) -> io::Result<()> {
        let now = self.now();
        if !self.visitors[at].ask(self.job, now) {
            self.fail(at, Failure::Protocol);
            return Ok(());
        }
        while let Some(lane) = self.visitors[at].lane_to_open() {
            let link = &mut self.visitors[at].lanes[lane].link;
            if !link.begin(self.job.target, self.job.tls.as_ref())? {
                self.fail(at, Failure::Refused);
                return Ok(());
            }
            let token = link.token(at * self.lanes + lane);
            if let Some(socket) = link.socket() {
                self.poll.add(socket, token)?;
            }
        }
        (0..self.lanes).for_each(|lane| self.flush(at, lane));
        Ok(())
    }

    fn handle(&mut self, event: u64, flags: EventFlags) -> io::Result<()> {
        let index = usize::try_from(event & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let (at, lane) = (index / self.lanes, index % self.lanes);
        let Some(visitor) = self.visitors.get_mut(at) else { return Ok(()) };
        let link = &mut visitor.lanes[lane].link;
        if event != link.token(index) {
            return Ok(());
        }
        if !link.connected(self.job.tls.as_ref())? {
            return self.lose(at, lane, Failure::Refused);
        }
        self.note_open(at, lane);
        self.ask(at)?;
        let closed = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
        if flags.intersects(EventFlags::IN | closed) {
            return self.take(at, lane, flags.intersects(closed));
        }
        Ok(())
    }

    /// Receives until the socket is drained, or the connection is shut.
    fn take(&mut self, at: usize, lane: usize, closed: bool) -> io::Result<()> {
        let index = at * self.lanes + lane;
        let token = self.visitors[at].lanes[lane].link.token(index);
        // Until the connection is another, because the step or the visit has ended.
        while self.visitors[at].lanes[lane].link.token(index) == token {
            let link = &mut self.visitors[at].lanes[lane].link;
            let went = link.receive(&mut self.buffer, &self.job.expected, &mut self.ended);
            if !matches!(went, Received::Nothing) {
                self.tally.read(self.turn);
            }
            self.note_open(at, lane);
            self.settle(at, lane)?;
            if self.visitors[at].lanes[lane].link.token(index) != token {
                break;
            }
            if let Received::Lost(why) = went {
                return self.lose(at, lane, why);
            }
            let Visitor { lanes, .. } = &mut self.visitors[at];
            if lanes[lane].link.is_drained() {
                lanes[lane].shut();
            }
            self.ask(at)?;
            match went {
                Received::Some { drained } if !drained || closed => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Counts a connection that carries requests from now on.
    fn note_open(&mut self, at: usize, lane: usize) {
        let Visitor { lanes, visit, .. } = &mut self.visitors[at];
        let lane = &mut lanes[lane];
        if !lane.is_open && lane.link.may_ask() {
            lane.is_open = true;
            self.tally.connection();
            let began = visit.as_ref().map_or(self.turn, |visit| visit.intended);
            self.tally.handshake(began, lane.link.resumed());
        }
    }

    /// Counts ended requests; the last of a step ends it.
    fn settle(&mut self, at: usize, lane: usize) -> io::Result<()> {
        let now = self.now();
        let mut all = std::mem::take(&mut self.ended);
        for ended in all.drain(..) {
            let Visitor { lanes, visit, .. } = &mut self.visitors[at];
            lanes[lane].asked.retain(|number| *number != ended.slot);
            let Some(visit) = visit.as_mut().filter(|visit| visit.thinks_until.is_none()) else {
                continue;
            };
            match ended.how {
                End::Answer(None) if visit.note(&ended) => self.end_step(at, now)?,
                End::Answer(None) => {}
                // Another connection carries it.
                End::Unprocessed => visit.queue.push_back(ended.slot),
                End::Answer(Some(wrong)) => self.fail(at, Failure::Response(wrong)),
                End::Reset => self.fail(at, Failure::Protocol),
            }
        }
        self.ended = all;
        Ok(())
    }

    fn end_step(&mut self, at: usize, now: u64) -> io::Result<()> {
        let Some(visit) = &mut self.visitors[at].visit else { return Ok(()) };
        let Visit { step, intended, sent, bytes, status, .. } = *visit;
        let sent = sent.unwrap_or(intended);
        let (which, began, ended) = (step, intended, now);
        self.tally.reply(&Reply { intended, which, began, sent, ended, bytes, status });
        let pause = match &self.steps {
            Steps::Files(_) => 0,
            Steps::Of(steps) => {
                let [least, most] = steps[step].pause.map(nanoseconds);
                least + (self.random.unit() * most.saturating_sub(least) as f64) as u64
            }
        };
        if pause == 0 {
            return self.go_on(at, now);
        }
        visit.thinks_until = Some(now.saturating_add(pause));
        self.pauses.push(Reverse((now.saturating_add(pause), at)));
        Ok(())
    }

    fn flush(&mut self, at: usize, lane: usize) {
        let lane = &mut self.visitors[at].lanes[lane];
        if lane.link.flush().is_err() && !lane.asked.is_empty() {
            self.fail(at, Failure::Reset);
        }
    }

    /// Handles the loss of a connection. One that nothing waits for is opened again when it is
    /// needed.
    fn lose(&mut self, at: usize, lane: usize, why: Failure) -> io::Result<()> {
        let Visitor { lanes, visit, .. } = &mut self.visitors[at];
        let its = &mut lanes[lane];
        let is_awaited = !its.is_open && visit.as_ref().is_some_and(|v| !v.queue.is_empty());
        let has_failed = is_awaited || !its.asked.is_empty();
        its.shut();
        if has_failed {
            self.fail(at, why);
        }
        self.ask(at)
    }

    /// Ends a visit whose step has failed.
    fn fail(&mut self, at: usize, why: Failure) {
        if let Some(visit) = self.visitors[at].visit.take() {
            self.tally.fail(visit.intended, visit.step, why, 1);
            self.leave(at);
        }
    }

    /// Handles the connections' timers, such as those of lost packets.
    fn expire_timers(&mut self) -> io::Result<()> {
        if !L::HAS_TIMERS {
            return Ok(());
        }
        let now = Instant::now();
        for index in 0..self.visitors.len() * self.lanes {
            let (at, lane) = (index / self.lanes, index % self.lanes);
            let link = &mut self.visitors[at].lanes[lane].link;
            if !link.is_shut() && !link.expire(now) {
                self.lose(at, lane, Failure::Reset)?;
            }
        }
        Ok(())
    }

    /// Gives up overdue steps and, in a closed loop, begins visits in free places.
    fn sweep(&mut self) -> io::Result<()> {
        let oldest = self.turn.saturating_sub(nanoseconds(self.job.timeout));
        // A visit that never began fails at its first step.
        self.arrivals.expire(oldest, &mut self.tally, || 0);
        for at in 0..self.visitors.len() {
            let visit = self.visitors[at].visit.as_ref();
            if visit.is_some_and(|v| v.thinks_until.is_none() && v.began < oldest) {
                self.fail(at, Failure::Timeout);
            }
        }
        for _ in 0..self.free.len() {
            if !self.is_closed() || !self.tally.is_open(self.turn) {
                break;
            }
            let Some(at) = self.free.pop_front() else { break };
            self.tally.intend(self.turn, 1);
            self.begin_step(at, 0, self.turn)?;
        }
        Ok(())
    }
}
