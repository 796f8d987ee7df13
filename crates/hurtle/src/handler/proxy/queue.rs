//! Upstreams with a limit of requests at once (`max_connections`): the choice of one that has room,
//! and the wait for one. All workers share the limits.

use std::fmt;
use std::future::{Future as _, poll_fn};
use std::task::Poll;

use super::peer::Peer;
use super::{Key, Proxy};
use crate::clock;
use crate::limits::Limiters;
use crate::limits::concurrency::Admission;
use crate::rt::{self, Permit};

/// The number of an upstream, and the request's place at it; `None`: the upstream has no limit.
pub(super) type Admitted = (usize, Option<Permit>);

/// Every upstream that could have the request is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BusyError {
    /// As many requests wait as allowed.
    QueueFull,
    /// The request has waited for as long as allowed.
    QueueTimeout,
}

impl fmt::Display for BusyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BusyError::QueueFull => "all upstreams are busy, and the queue is full",
            BusyError::QueueTimeout => "all upstreams are busy, and the queue is too slow",
        })
    }
}

/// Counts a request among those that wait for an upstream until it is dropped.
pub(super) struct Waiting<'a>(&'a Peer);

impl<'a> Waiting<'a> {
    pub(super) fn new(peer: &'a Peer) -> Waiting<'a> {
        peer.waiting.set(peer.waiting.get() + 1);
        Waiting(peer)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

impl Proxy {
    /// Sets the limits of its upstreams, once.
    pub(crate) fn limit_by(&self, limiters: &Limiters) {
        let Some(queue) = &self.config.queue else { return };
        for (peer, server) in self.peers.iter().zip(&self.config.upstreams) {
            if let Some(limiter) = limiters.of_upstream(server, queue) {
                peer.limiter.get_or_init(|| limiter);
            }
        }
    }

    /// Chooses an upstream that was not tried before and has room; waits for one if there is none.
    /// `None`: no upstream is available. A request that a hash or a cookie sends to an upstream
    /// waits for that one; another one gets it only after the time-out, or if the queue is full.
    ///
    /// # Errors
    /// The upstreams are busy.
    pub(super) async fn admit(
        &self,
        key: Key,
        tried: &[usize],
    ) -> Result<Option<Admitted>, BusyError> {
        let now_ms = clock::now_ms();
        let Some(first) = self.pick(key, tried, now_ms) else { return Ok(None) };
        if let Some(admitted) = self.admit_at(first) {
            return Ok(Some(admitted));
        }
        let is_bound = !matches!(key, Key::Any | Key::Sticky(None));
        let mut full = vec![first];
        if !is_bound && let Some(admitted) = self.admit_elsewhere(key, tried, &mut full) {
            return Ok(Some(admitted));
        }
        let admitted = match self.wait_for(&full).await {
            Err(busy) if is_bound => self.admit_elsewhere(key, tried, &mut full).ok_or(busy),
            waited => waited,
        };
        if admitted.is_err() {
            self.peers[first].metrics().count_refused();
        }
        admitted.map(Some)
    }

    /// Takes a place at an upstream that has room.
    fn admit_at(&self, at: usize) -> Option<Admitted> {
        match self.peers[at].limiter.get() {
            None => Some((at, None)),
            Some(limiter) => limiter.try_admit().map(|permit| (at, Some(permit))),
        }
    }

    /// Takes a place at another upstream than the `full` ones, of which there is at least one; adds
    /// those that are full to them. Backups and ejected upstreams do not take over from those that
    /// only are busy.
    fn admit_elsewhere(
        &self,
        key: Key,
        tried: &[usize],
        full: &mut Vec<usize>,
    ) -> Option<Admitted> {
        let now_ms = clock::now_ms();
        let kind = |at: usize| {
            (self.config.upstreams[at].backup, self.peers[at].standing.is_ejected(now_ms))
        };
        let expected = kind(*full.first()?);
        loop {
            let skipped = [tried, full.as_slice()].concat();
            let at = self.pick(key, &skipped, now_ms).filter(|at| kind(*at) == expected)?;
            if let Some(admitted) = self.admit_at(at) {
                return Some(admitted);
            }
            full.push(at);
        }
    }

    /// Waits for a place at one of the upstreams, in all of their queues.
    async fn wait_for(&self, full: &[usize]) -> Result<Admitted, BusyError> {
        let mut places = Vec::new();
        for at in full {
            let Some(limiter) = self.peers[*at].limiter.get() else { continue };
            match limiter.admit() {
                Ok(Admission::Now(permit)) => return Ok((*at, Some(permit))),
                Ok(Admission::Queued(place)) => places.push((*at, place)),
                Err(_) => {}
            }
        }
        let (Some((first, _)), Some(queue)) = (places.first(), &self.config.queue) else {
            return Err(BusyError::QueueFull);
        };
        let _waiting = Waiting::new(&self.peers[*first]);
        let waits = places.iter().map(|(at, place)| (*at, Box::pin(place.wait())));
        let mut waits: Vec<_> = waits.collect();
        let first_of_all = poll_fn(|cx| {
            for (at, wait) in &mut waits {
                if let Poll::Ready(permit) = wait.as_mut().poll(cx) {
                    return Poll::Ready((*at, Some(permit)));
                }
            }
            Poll::Pending
        });
        rt::timeout(queue.timeout, first_of_all).await.ok_or(BusyError::QueueTimeout)
    }
}
