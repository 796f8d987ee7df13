//! The QUIC handshakes in flight of one worker. A client can hold one open without a packet until
//! its deadline, so a full table drops the oldest handshake of the address that has most.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::transport::address_key;
use crate::transport::quic::Connection;

/// Handshakes in flight in one worker from which clients must show that they receive packets at
/// their address (RFC 9000 section 8.1).
pub(super) const HANDSHAKES_UNVALIDATED_MAX: usize = 32;

/// Handshakes in flight in one worker and in the process. One takes about 35 KiB.
const HANDSHAKES_MAX: usize = 1_024;
const PROCESS_HANDSHAKES_MAX: usize = 4_096;

/// The handshakes of one worker. An IPv6 /64 counts as one address.
#[derive(Debug)]
pub(super) struct Handshakes(Rc<RefCell<Table>>);

#[derive(Debug)]
struct Table {
    /// By address, the oldest first.
    in_flight: HashMap<u128, VecDeque<InFlight>>,
    count: usize,
    max: usize,
    next_number: u64,
}

#[derive(Debug)]
struct InFlight {
    number: u64,
    connection: Rc<Connection>,
}

/// A handshake in the table; dropped at its end.
#[derive(Debug)]
pub(super) struct HandshakeEntry {
    table: Rc<RefCell<Table>>,
    address: u128,
    number: u64,
}

impl Clone for Handshakes {
    fn clone(&self) -> Handshakes {
        Handshakes(Rc::clone(&self.0))
    }
}

impl Handshakes {
    /// Creates an empty table of one of `workers` workers.
    pub(super) fn new(workers: usize) -> Handshakes {
        let share = PROCESS_HANDSHAKES_MAX / workers.max(1);
        let max = share.clamp(2 * HANDSHAKES_UNVALIDATED_MAX, HANDSHAKES_MAX);
        let in_flight = HashMap::new();
        Handshakes(Rc::new(RefCell::new(Table { in_flight, count: 0, max, next_number: 0 })))
    }

    /// The number of handshakes in flight.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `true`: one must end before another begins.
    pub(super) fn is_full(&self) -> bool {
        let table = self.0.borrow();
        table.count >= table.max
    }

    /// Enters a handshake until the entry is dropped.
    pub(super) fn begin(&self, connection: &Rc<Connection>) -> HandshakeEntry {
        let address = address_key(connection.peer().ip());
        let mut table = self.0.borrow_mut();
        let number = table.next_number;
        table.next_number += 1;
        table.count += 1;
        let in_flight = InFlight { number, connection: Rc::clone(connection) };
        table.in_flight.entry(address).or_default().push_back(in_flight);
        HandshakeEntry { table: Rc::clone(&self.0), address, number }
    }

    /// Drops the oldest handshake of the address that has most. `false`: there is none.
    pub(super) fn evict(&self) -> bool {
        let mut table = self.0.borrow_mut();
        let rank = |of: &VecDeque<InFlight>| {
            (of.len(), std::cmp::Reverse(of.front().map_or(u64::MAX, |oldest| oldest.number)))
        };
        let most = table.in_flight.iter().max_by_key(|(_, of)| rank(of));
        let Some((&address, _)) = most else { return false };
        let Some(evicted) = table.take(address, |_| true) else { return false };
        drop(table);
        evicted.connection.discard();
        true
    }
}

impl Table {
    /// Removes the first handshake of an address that is wanted.
    fn take(&mut self, address: u128, is_wanted: impl Fn(&InFlight) -> bool) -> Option<InFlight> {
        let of_address = self.in_flight.get_mut(&address)?;
        let at = of_address.iter().position(is_wanted)?;
        let taken = of_address.remove(at)?;
        if of_address.is_empty() {
            self.in_flight.remove(&address);
        }
        self.count -= 1;
        Some(taken)
    }
}

impl Drop for HandshakeEntry {
    fn drop(&mut self) {
        // An evicted handshake is no longer there.
        let taken = self.table.borrow_mut().take(self.address, |one| one.number == self.number);
        drop(taken);
    }
}
