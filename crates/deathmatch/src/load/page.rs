//! The generator's loop for pages: each visitor opens a connection, requests all files of a page,
//! and closes the connection once they are complete. Then the next page begins. A page is one
//! request of the figures; one failed file fails the page.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::link::{End, EndedRequest, Link, Received};
use super::pace::plan;
use super::tally::{Failure, Reply, Tally, nanoseconds};
use super::wire::{self, Poll, RECEIVE_BYTES};
use super::{Job, Tls};
use crate::sample::{Load, Offered};

/// Interval at which overdue pages are searched and failed ones begun again.
const SWEEP_NS: u64 = 10_000_000;

/// The load of one thread.
pub(super) struct Engine<'a, L> {
    job: &'a Job,
    tls: Option<&'a Tls>,
    /// Files of a page.
    files: usize,
    started: Instant,
    poll: Poll,
    visitors: Vec<Visitor<L>>,
    tally: Tally,
    /// Number of requests made.
    asked: usize,
    buffer: Vec<u8>,
    ended: Vec<EndedRequest>,
    /// Start of this turn of the loop.
    turn: u64,
}

/// A connection, and the page on it.
#[derive(Default)]
struct Visitor<L> {
    link: L,
    page: Option<Page>,
}

/// A page under way. Times are nanoseconds since the start.
#[derive(Clone, Copy)]
struct Page {
    began: u64,
    /// The time of its requests; `None` before them.
    asked: Option<u64>,
    /// Files that are not complete.
    left: usize,
    bytes: u64,
}

impl<'a, L: Link> Engine<'a, L> {
    pub(super) fn new(job: &'a Job, files: u32) -> io::Result<Engine<'a, L>> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text.to_owned());
        let (visitors, _) = plan(job, wire::connections_max())?;
        let tls = Some(job.tls.as_ref().ok_or_else(|| invalid("pages are requested encrypted"))?);
        if !matches!(job.offered, Offered::Closed { .. }) || files == 0 || job.beside.is_some() {
            return Err(invalid("pages have files, a closed loop and nothing beside them"));
        }
        Ok(Engine {
            job,
            tls,
            files: files as usize,
            started: Instant::now(),
            poll: Poll::new()?,
            visitors: std::iter::repeat_with(Visitor::default).take(visitors).collect(),
            tally: Tally::new(job.warm_up, job.duration, job.timeout),
            asked: 0,
            buffer: vec![0; RECEIVE_BYTES],
            ended: Vec::new(),
            turn: 0,
        })
    }

    /// Spins until every page that was begun is complete or given up.
    pub(super) fn run(&mut self, duration: Duration) -> io::Result<Load> {
        let mut events = wire::no_events();
        self.tally = Tally::new(self.job.warm_up, duration, self.job.timeout);
        self.started = Instant::now();
        let mut sweep = 0;
        loop {
            self.turn = self.now();
            if self.turn >= sweep {
                sweep = self.turn + SWEEP_NS;
                if self.job.stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                self.sweep()?;
            }
            let count = self.poll.ready(&mut events)?;
            for event in &events[..count] {
                self.handle(event.data.u64(), event.flags)?;
            }
            self.expire_timers();
            if count > 0 {
                self.tally.busy(self.turn, self.now());
            }
            if self.turn >= self.tally.to() && self.visitors.iter().all(|v| v.page.is_none()) {
                return Ok(self.tally.finish());
            }
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    /// Begins a page on a new connection, if there is time for further ones.
    fn begin(&mut self, at: usize) -> io::Result<()> {
        let now = self.now();
        if !self.tally.is_open(now) {
            return Ok(());
        }
        self.tally.intend(now, 1);
        let page = Page { began: now, asked: None, left: self.files, bytes: 0 };
        let Visitor { link, page: place } = &mut self.visitors[at];
        *place = Some(page);
        if !link.begin(self.job.target, self.tls)? {
            self.fail(at, Failure::Refused);
            return Ok(());
        }
        let token = link.token(at);
        if let Some(socket) = link.socket() {
            self.poll.add(socket, token)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: u64, flags: EventFlags) -> io::Result<()> {
        let at = usize::try_from(event & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let Some(Visitor { link, .. }) = self.visitors.get_mut(at) else { return Ok(()) };
        if event != link.token(at) {
            return Ok(());
        }
        if !link.connected(self.tls)? {
            self.fail(at, Failure::Refused);
            return Ok(());
        }
        self.flush(at);
        let closed = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
        if flags.intersects(EventFlags::IN | closed) {
            return self.take(at, flags.intersects(closed));
        }
        Ok(())
    }

    /// Receives until the socket is drained, or the page has ended.
    fn take(&mut self, at: usize, closed: bool) -> io::Result<()> {
        loop {
            let link = &mut self.visitors[at].link;
            let went = link.receive(&mut self.buffer, &self.job.expected, &mut self.ended);
            if !matches!(went, Received::Nothing) {
                self.tally.read(self.turn);
            }
            self.ask(at);
            self.settle(at);
            if self.visitors[at].page.is_none() {
                return self.begin(at);
            }
            self.flush(at);
            match went {
                Received::Nothing => return Ok(()),
                Received::Some { drained } if drained && !closed => return Ok(()),
                Received::Some { .. } => {}
                Received::Lost(why) => {
                    self.fail(at, why);
                    return Ok(());
                }
            }
        }
    }

    /// Requests all files of a page once the connection carries requests.
    fn ask(&mut self, at: usize) {
        let now = self.now();
        let Visitor { link, page: Some(page) } = &mut self.visitors[at] else { return };
        if page.asked.is_some() || !link.may_ask() {
            return;
        }
        page.asked = Some(now);
        self.tally.handshake(page.began, link.resumed());
        for slot in 0..self.files {
            let request = self.job.request(self.job.nth(self.asked));
            self.asked = self.asked.wrapping_add(1);
            if link.ask(slot, request).is_err() {
                self.fail(at, Failure::Http2);
                return;
            }
        }
    }

    /// Counts the complete files of a page; the last of them ends it.
    fn settle(&mut self, at: usize) {
        let now = self.now();
        for EndedRequest { how, bytes, .. } in std::mem::take(&mut self.ended) {
            let Some(page) = &mut self.visitors[at].page else { return };
            match how {
                End::Answer(None) => {
                    page.left -= 1;
                    page.bytes += bytes;
                }
                End::Answer(Some(wrong)) => self.fail(at, Failure::Response(wrong)),
                End::Reset | End::Unprocessed => self.fail(at, Failure::Http2),
            }
        }
        let Visitor { link, page } = &mut self.visitors[at];
        if let Some(Page { began, asked, bytes, .. }) = page.take_if(|page| page.left == 0) {
            link.shut();
            let sent = asked.unwrap_or(began);
            self.tally.reply(&Reply { intended: began, which: 0, began, sent, ended: now, bytes });
        }
    }

    fn flush(&mut self, at: usize) {
        if self.visitors[at].link.flush().is_err() {
            self.fail(at, Failure::Reset);
        }
    }

    fn fail(&mut self, at: usize, why: Failure) {
        let Visitor { link, page } = &mut self.visitors[at];
        link.shut();
        if let Some(page) = page.take() {
            self.tally.fail(page.began, 0, why, 1);
        }
    }

    /// Handles the connections' timers, such as those of lost packets.
    fn expire_timers(&mut self) {
        if !L::HAS_TIMERS {
            return;
        }
        let now = Instant::now();
        for at in 0..self.visitors.len() {
            let link = &mut self.visitors[at].link;
            if !link.is_shut() && !link.expire(now) {
                self.fail(at, Failure::Reset);
            }
        }
    }

    /// Gives up overdue pages; begins the first ones, and others after a failure.
    fn sweep(&mut self) -> io::Result<()> {
        let oldest = self.turn.saturating_sub(nanoseconds(self.job.timeout));
        for at in 0..self.visitors.len() {
            if self.visitors[at].page.is_some_and(|page| page.began < oldest) {
                self.fail(at, Failure::Timeout);
            }
            if self.visitors[at].page.is_none() {
                self.begin(at)?;
            }
        }
        Ok(())
    }
}
