//! The addresses of an upstream. Those of a name are resolved periodically, by the system's
//! resolver on a disk thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::peer::{Peer, UpstreamError};
use crate::clock;
use crate::config::Upstream;
use crate::disk::{Disk, Lane};
use crate::rt::{self, Bell, host_names};

/// Time in which an address that failed is tried after the others, in milliseconds.
const AVOIDED_MS: u64 = 10_000;

/// Least pause between two resolutions of a name.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The addresses of an upstream.
#[derive(Debug)]
pub(super) struct Addresses {
    known: RefCell<Vec<Known>>,
    /// The next address in turn.
    turn: Cell<usize>,
    /// Grows when the addresses change: connections of an earlier generation are not reused.
    generation: Cell<u32>,
    /// `true` while the name cannot be resolved.
    is_failing: Cell<bool>,
    /// Rung when no address could be connected to.
    wanted: Rc<Bell>,
    disk: Disk,
    lane: Lane,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    address: SocketAddr,
    /// Until this time, it is tried after the others.
    avoided_until_ms: u64,
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Update {
    Unchanged,
    Changed,
    /// The name could not be resolved; known addresses stay.
    Failed(String),
}

impl Addresses {
    pub(super) fn new(upstream: &Upstream, disk: Disk, lane: Lane) -> Addresses {
        let known = match upstream {
            Upstream::Address(address) => vec![Known { address: *address, avoided_until_ms: 0 }],
            Upstream::Name(..) | Upstream::Unix(_) => Vec::new(),
        };
        Addresses {
            known: RefCell::new(known),
            turn: Cell::new(0),
            generation: Cell::new(0),
            is_failing: Cell::new(false),
            wanted: Rc::default(),
            disk,
            lane,
        }
    }

    /// The number of changes so far.
    pub(super) fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Returns the addresses in the order to try them: each is the first in turn, and those that
    /// failed lately come last.
    pub(super) fn in_turn(&self, now_ms: u64) -> Vec<SocketAddr> {
        let mut known = self.known.borrow().clone();
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        if !known.is_empty() {
            let start = turn % known.len();
            known.rotate_left(start);
        }
        known.sort_by_key(|known| known.avoided_until_ms > now_ms);
        known.into_iter().map(|known| known.address).collect()
    }

    /// Records whether an address could be connected to.
    pub(super) fn record(&self, address: SocketAddr, connected: bool, now_ms: u64) {
        let mut known = self.known.borrow_mut();
        if let Some(known) = known.iter_mut().find(|known| known.address == address) {
            known.avoided_until_ms = if connected { 0 } else { now_ms + AVOIDED_MS };
        }
    }

    /// Requests a resolution soon: no address could be connected to, or none has responded.
    pub(super) fn request_update(&self) {
        self.wanted.ring();
    }

    async fn resolve(&self, name: &str, port: u16) -> Update {
        let name = name.to_owned();
        let job = move || host_names::addresses(&name, port);
        self.update(match self.disk.run(self.lane, job).await {
            Ok(found) => found.map_err(|e: io::Error| e.to_string()),
            Err(_) => Err("the look-up takes too long".to_owned()),
        })
    }

    /// Takes the result of a resolution.
    fn update(&self, found: Result<Vec<SocketAddr>, String>) -> Update {
        let mut found = match found {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => return Update::Failed("it has no address".to_owned()),
            Err(why) => return Update::Failed(why),
        };
        // The resolver's order differs from one time to the next.
        found.sort_unstable();
        found.dedup();
        let mut known = self.known.borrow_mut();
        if known.iter().map(|known| &known.address).eq(&found) {
            return Update::Unchanged;
        }
        let kept = |address: SocketAddr| {
            let same = known.iter().find(|known| known.address == address);
            same.copied().unwrap_or(Known { address, avoided_until_ms: 0 })
        };
        let found = found.into_iter().map(kept).collect();
        *known = found;
        self.generation.set(self.generation.get().wrapping_add(1));
        Update::Changed
    }
}

impl Peer {
    /// Resolves the upstream's name if no address is known.
    pub(super) async fn look_up(&self) -> Result<(), UpstreamError> {
        let Upstream::Name(name, port) = self.upstream() else { return Ok(()) };
        if !self.addresses.known.borrow().is_empty() {
            return Ok(());
        }
        match self.addresses.resolve(name, *port).await {
            Update::Failed(why) => Err(UpstreamError::Unresolved(why)),
            Update::Changed | Update::Unchanged => Ok(()),
        }
    }

    /// Resolves the upstream's name and closes idle connections if its addresses have changed.
    async fn refresh(&self, name: &str, port: u16) {
        let addresses = &self.addresses;
        let is_first = addresses.known.borrow().is_empty();
        match addresses.resolve(name, port).await {
            Update::Failed(why) => {
                if !addresses.is_failing.replace(true) {
                    tracing::warn!(
                        "upstream {self}: its name cannot be resolved, so known addresses stay in \
                         use: {why}"
                    );
                }
                return;
            }
            Update::Changed => {
                self.close_idle();
                if !is_first {
                    tracing::info!("upstream {self} has other addresses");
                }
            }
            Update::Unchanged => {}
        }
        if addresses.is_failing.replace(false) {
            tracing::info!("upstream {self}: its name is resolved again");
        }
    }
}

/// Resolves the name of an upstream again at this interval, or soon after no address could be
/// connected to, until the upstream is dropped.
pub(super) async fn keep_resolved(peer: Weak<Peer>, interval: Duration) {
    while let Some(peer) = peer.upgrade() {
        let Upstream::Name(name, port) = peer.upstream() else { return };
        peer.refresh(name, *port).await;
        let wanted = Rc::clone(&peer.addresses.wanted);
        drop(peer);
        rt::sleep(PAUSE_MIN).await;
        wanted.wait(Some(interval.saturating_sub(PAUSE_MIN))).await;
    }
}

/// Time for one of `left` addresses that are tried one after the other until `due_ms`.
pub(super) fn time_for_one(left: usize, due_ms: u64) -> Duration {
    let left_ms = due_ms.saturating_sub(clock::now_ms());
    Duration::from_millis(left_ms / left.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn address(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 80).into()
    }

    fn addresses() -> Addresses {
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let lane = disk.lane();
        Addresses::new(&Upstream::Name("a".into(), 80), disk, lane)
    }

    fn list(numbers: &[u8]) -> Vec<SocketAddr> {
        numbers.iter().map(|n| address(*n)).collect()
    }

    #[test]
    fn each_address_is_tried_first_in_turn_and_failed_ones_last() {
        let addresses = addresses();
        assert_eq!(addresses.in_turn(0), []);
        addresses.update(Ok(list(&[3, 1, 2])));
        addresses.turn.set(0);
        for expected in [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]] {
            assert_eq!(addresses.in_turn(0), list(&expected));
        }
        addresses.record(address(2), false, 0);
        assert_eq!(addresses.in_turn(1), list(&[3, 1, 2]));
        assert_eq!(addresses.in_turn(AVOIDED_MS), list(&[3, 1, 2]));
        assert_eq!(addresses.in_turn(AVOIDED_MS), list(&[1, 2, 3]), "it is tried again");
        addresses.record(address(2), true, 0);
        assert_eq!(addresses.in_turn(1), list(&[2, 3, 1]));
    }

    #[test]
    fn known_addresses_stay_until_others_are_found() {
        let addresses = addresses();
        let failed = |why: &str| Update::Failed(why.to_owned());
        assert_eq!(addresses.update(Ok(list(&[1, 2]))), Update::Changed);
        let generation = addresses.generation();
        assert_eq!(addresses.update(Ok(list(&[2, 1, 2]))), Update::Unchanged, "another order");
        assert_eq!(addresses.update(Err("down".to_owned())), failed("down"));
        assert_eq!(addresses.update(Ok(Vec::new())), failed("it has no address"));
        assert_eq!(addresses.known.borrow().len(), 2);
        assert_eq!(addresses.generation(), generation);
        addresses.record(address(2), false, 0);
        assert_eq!(addresses.update(Ok(list(&[2, 3]))), Update::Changed);
        assert_eq!(addresses.in_turn(1), list(&[3, 2]), "a failure is remembered");
        assert_ne!(addresses.generation(), generation);
    }
}
