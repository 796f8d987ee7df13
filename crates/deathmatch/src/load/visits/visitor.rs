//! One visitor: its connections, and the progress of its visit.

use std::collections::VecDeque;

use crate::load::link::{EndedRequest, Link};
use crate::load::{Job, Status};

/// Connections beside those in use that end their responses after a GOAWAY.
pub(super) const LEAVING_MAX: usize = 1;

/// A place for a visitor.
pub(super) struct Visitor<L> {
    /// The connections it may have, and those that the server leaves.
    pub(super) lanes: Vec<Lane<L>>,
    /// Largest number of connections that take requests.
    connections_max: usize,
    /// The visit; `None`: the place is free.
    pub(super) visit: Option<Visit>,
    /// End of the last visit.
    pub(super) free_since: u64,
}

/// One of the connections.
pub(super) struct Lane<L> {
    pub(super) link: L,
    /// Requests under way, by their number in the step.
    pub(super) asked: Vec<usize>,
    /// `true` once requests may be sent.
    pub(super) is_open: bool,
}

/// A visit. Times are nanoseconds since the start.
pub(super) struct Visit {
    /// Number of the step.
    pub(super) step: usize,
    /// The moment at which the step should have begun; its time counts from then.
    pub(super) intended: u64,
    pub(super) began: u64,
    /// The time of its first request.
    pub(super) sent: Option<u64>,
    /// Its requests, as indices of the job's.
    requests: Vec<usize>,
    /// `true`: the other requests wait for the response to the first.
    has_document: bool,
    /// Requests that are to be sent, by their number in the step.
    pub(super) queue: VecDeque<usize>,
    /// Requests without a response.
    left: usize,
    pub(super) bytes: u64,
    /// The status of the step: that of the first response, or of the first that is a failure.
    pub(super) status: Option<Status>,
    /// The end of the time in which the visitor reads, after the step.
    pub(super) thinks_until: Option<u64>,
}

impl<L: Link> Visitor<L> {
    /// `lanes`: places for `connections_max` connections, and for those that the server leaves.
    pub(super) fn new(job: &Job, connections_max: usize, lanes: usize) -> Visitor<L> {
        let lane = || Lane { link: L::of(job), asked: Vec::new(), is_open: false };
        let lanes = std::iter::repeat_with(lane).take(lanes).collect();
        Visitor { lanes, connections_max, visit: None, free_since: 0 }
    }

    /// `true` if responses are awaited.
    pub(super) fn is_busy(&self) -> bool {
        self.visit.as_ref().is_some_and(|visit| visit.thinks_until.is_none())
    }

    /// Sends waiting requests on connections that have fewer than the server allows (RFC 9113,
    /// 5.1.2). `false`: a connection does not take one.
    pub(super) fn ask(&mut self, job: &Job, now: u64) -> bool {
        let Some(visit) = &mut self.visit else { return true };
        for Lane { link, asked, is_open } in &mut self.lanes {
            while *is_open && link.may_ask() && asked.len() < link.streams_max() as usize {
                let Some(number) = visit.queue.pop_front() else { return true };
                let (head, body) = job.request(visit.requests[number]);
                if link.ask(number, head, body).is_err() {
                    return false;
                }
                asked.push(number);
                visit.sent.get_or_insert(now);
            }
        }
        true
    }

    /// A connection to open, because requests wait and no other is about to take them. One that the
    /// server leaves takes no more (RFC 9113, 6.8).
    pub(super) fn lane_to_open(&self) -> Option<usize> {
        let waiting = self.visit.as_ref().map_or(0, |visit| visit.queue.len());
        let count = |is: fn(&Lane<L>) -> bool| {
            self.lanes.iter().filter(|lane| !lane.link.is_shut() && is(lane)).count()
        };
        let opening = count(|lane| !lane.is_open);
        let in_use = opening + count(|lane| lane.is_open && lane.link.may_ask());
        let is_needed = opening < waiting && in_use < self.connections_max;
        self.lanes.iter().position(|lane| lane.link.is_shut()).filter(|_| is_needed)
    }

    /// Closes all of the visitor's connections.
    pub(super) fn shut(&mut self) {
        self.lanes.iter_mut().for_each(Lane::shut);
    }
}

impl<L: Link> Lane<L> {
    pub(super) fn shut(&mut self) {
        self.link.shut();
        self.asked.clear();
        self.is_open = false;
    }
}

impl Visit {
    /// A visit at the begin of a step with these requests, of which there is at least one.
    pub(super) fn at_step(
        step: usize,
        requests: Vec<usize>,
        has_document: bool,
        intended: u64,
        began: u64,
    ) -> Visit {
        let first = if has_document { 1 } else { requests.len() };
        Visit {
            step,
            intended,
            began,
            sent: None,
            queue: (0..first).collect(),
            left: requests.len(),
            requests,
            has_document,
            bytes: 0,
            status: None,
            thinks_until: None,
        }
    }

    /// Notes a response; `true`: the step is complete. A page that cannot be shown needs nothing
    /// else.
    pub(super) fn note(&mut self, ended: &EndedRequest) -> bool {
        self.bytes += ended.bytes;
        self.left = self.left.saturating_sub(1);
        let is_failure = ended.status.is_some_and(Status::is_failure);
        if self.status.is_none() || is_failure && !self.status.is_some_and(Status::is_failure) {
            self.status = ended.status;
        }
        if ended.slot == 0 && self.has_document {
            match is_failure {
                true => self.left = 0,
                false => self.queue.extend(1..self.requests.len()),
            }
        }
        self.left == 0
    }
}
