//! The present work of one worker: its hottest paths and its slowest requests in flight. Only its
//! thread uses this; once a second it publishes the top of both for readers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;

use super::paths::{HotPaths, PATH_BYTES_KEPT, SampledPaths};
use super::{RouteMetrics, WorkerMetrics};
use crate::clock;

/// Requests in flight that a worker records; more are only counted.
const RECORDED_MAX: usize = 4_096;

/// Requests in flight that a worker publishes.
const SLOWEST_MAX: usize = 20;

/// Paths of a window that a worker publishes.
const HOTTEST_MAX: usize = 32;

/// Bytes of a method that are shown.
const METHOD_BYTES_MAX: usize = 16;

/// The activity of one worker.
#[derive(Debug, Default)]
pub struct Activity {
    paths: RefCell<HotPaths>,
    in_flight: RefCell<Slab<Record>>,
    /// Requests in flight beyond `RECORDED_MAX`.
    unrecorded: Cell<u64>,
}

#[derive(Debug)]
struct Record {
    begun_ms: u64,
    route: Arc<RouteMetrics>,
    method: Start<METHOD_BYTES_MAX>,
    path: Start<PATH_BYTES_KEPT>,
    has_begun_response: bool,
}

/// The first bytes of a text, kept without an allocation for each request.
#[derive(Debug)]
struct Start<const MAX: usize> {
    len: u8,
    bytes: [u8; MAX],
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight {
    all: Rc<Activity>,
    /// `None`: it is only counted.
    key: Option<usize>,
}

/// The activity of a worker as readers get it.
#[derive(Clone, Debug, Default)]
pub(super) struct Published {
    pub(super) paths: SampledPaths,
    /// Those without a response first, the oldest first.
    pub(super) slowest: Vec<SlowRequest>,
    /// Requests in flight that were examined, and those that were not.
    pub(super) in_flight: (u64, u64),
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct SlowRequest {
    pub(super) age_ms: u64,
    pub(super) route: Arc<RouteMetrics>,
    pub(super) method: Box<[u8]>,
    pub(super) path: Box<[u8]>,
    pub(super) has_begun_response: bool,
}

impl Activity {
    /// Counts the path of a response that was timed. `responses`: those since the last of its route
    /// that was timed, this one included.
    pub fn count(&self, route: &RouteMetrics, path: &[u8], responses: u64) {
        let mut paths = self.paths.borrow_mut();
        let now_secs = || clock::coarse_unix_secs(clock::now_ms());
        let left = paths.count(responses, now_secs, route.site().unwrap_or_default(), path);
        route.set_due_after(left - 1);
    }

    /// Records a request that does not end at once.
    pub fn begin(
        self: &Rc<Activity>,
        route: &Arc<RouteMetrics>,
        method: &[u8],
        path: &[u8],
    ) -> InFlight {
        let mut in_flight = self.in_flight.borrow_mut();
        let key = if in_flight.len() < RECORDED_MAX {
            Some(in_flight.insert(Record {
                begun_ms: clock::now_ms(),
                route: Arc::clone(route),
                method: Start::of(method),
                path: Start::of(path),
                has_begun_response: false,
            }))
        } else {
            self.unrecorded.set(self.unrecorded.get() + 1);
            None
        };
        InFlight { all: Rc::clone(self), key }
    }

    /// Publishes the hottest paths and the slowest requests, if a reader does not read just now.
    pub fn publish(&self, metrics: &WorkerMetrics) {
        let now_ms = clock::now_ms();
        let paths = self.paths.borrow().read(clock::coarse_unix_secs(now_ms), HOTTEST_MAX);
        let in_flight = self.in_flight.borrow();
        let mut oldest: Vec<&Record> = in_flight.iter().map(|(_, record)| record).collect();
        oldest.sort_unstable_by_key(|of| (of.has_begun_response, of.begun_ms));
        let slowest = oldest.into_iter().take(SLOWEST_MAX).map(|of| SlowRequest {
            age_ms: now_ms.saturating_sub(of.begun_ms),
            route: Arc::clone(&of.route),
            method: of.method.as_bytes().into(),
            path: of.path.as_bytes().into(),
            has_begun_response: of.has_begun_response,
        });
        let counts = (in_flight.len() as u64, self.unrecorded.get());
        metrics.publish(Published { paths, slowest: slowest.collect(), in_flight: counts });
    }
}

impl<const MAX: usize> Start<MAX> {
    fn of(text: &[u8]) -> Start<MAX> {
        const { assert!(MAX <= u8::MAX as usize) };
        let len = text.len().min(MAX);
        let mut bytes = [0; MAX];
        bytes[..len].copy_from_slice(&text[..len]);
        Start { len: len as u8, bytes }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl InFlight {
    /// Records that the response has begun.
    pub fn begin_response(&self) {
        let record = self.key.map(|key| (key, self.all.in_flight.borrow_mut()));
        if let Some((key, mut in_flight)) = record
            && let Some(record) = in_flight.get_mut(key)
        {
            record.has_begun_response = true;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        match self.key {
            Some(key) => drop(self.all.in_flight.borrow_mut().try_remove(key)),
            None => self.all.unrecorded.set(self.all.unrecorded.get() - 1),
        }
    }
}
