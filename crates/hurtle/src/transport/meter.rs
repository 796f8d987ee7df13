//! Rate limits for one response and for all responses to a client address. A sender without a limit
//! has no meter.
//!
//! A meter stores the time until which bytes are booked. A sender books its bytes after those, then
//! waits until they are due. Senders that share a meter thus take turns, and each waits only for
//! its own timer. Pieces are small, so that bytes leave evenly.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Progress;
use crate::{clock, rt};

/// Pieces per second, within the size limits below.
const PIECES_PER_SECOND: u64 = 8;
const PIECE_BYTES_MIN: u64 = 1 << 10;
const PIECE_BYTES_MAX: u64 = 256 << 10;

/// Credit of a meter that was unused, in nanoseconds of its rate.
const CREDIT_NS: u64 = 125_000_000;

/// Resolution of timers, in nanoseconds; shorter waits are skipped.
const WAIT_NS_MIN: u64 = 1_000_000;

/// Maximum number of addresses with a meter; clients of other addresses share one meter.
const ADDRESSES_MAX: usize = 65_536;

/// Time between two checks of a full table, in nanoseconds.
const FULL_PAUSE_NS: u64 = 1_000_000_000;

/// A rate limit and its bookings.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Bytes per second.
    rate: u64,
    /// Time until which bytes are booked, in nanoseconds on the scale of `clock`.
    booked_ns: AtomicU64,
}

impl Meter {
    /// Creates a meter; `rate` is in bytes per second, at least 1.
    pub(crate) fn new(rate: u64) -> Meter {
        Meter { rate: rate.max(1), booked_ns: AtomicU64::new(0) }
    }

    /// Returns the number of bytes to book together.
    pub(crate) fn piece_bytes(&self) -> u64 {
        (self.rate / PIECES_PER_SECOND).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Books bytes and waits until they may leave.
    pub(crate) async fn pass(&self, bytes: u64) {
        let wait_ns = self.book(bytes, now_ns());
        if wait_ns >= WAIT_NS_MIN {
            rt::sleep(Duration::from_nanos(wait_ns)).await;
        }
    }

    /// Books bytes; returns the nanoseconds until they may leave.
    fn book(&self, bytes: u64, now_ns: u64) -> u64 {
        let cost_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        let earliest_ns = now_ns.saturating_sub(CREDIT_NS);
        let mut booked_ns = self.booked_ns.load(Relaxed);
        loop {
            let due_ns = booked_ns.max(earliest_ns);
            let until_ns = due_ns.saturating_add(cost_ns);
            match self.booked_ns.compare_exchange_weak(booked_ns, until_ns, Relaxed, Relaxed) {
                Ok(_) => return due_ns.saturating_sub(now_ns),
                Err(now) => booked_ns = now,
            }
        }
    }

    /// Returns whether the meter has its full credit, like a new one.
    fn is_rested(&self, now_ns: u64) -> bool {
        self.booked_ns.load(Relaxed) <= now_ns.saturating_sub(CREDIT_NS)
    }
}

fn now_ns() -> u64 {
    clock::now_ms().saturating_mul(1_000_000)
}

/// The rate limits of one response.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    own: Option<Meter>,
    progress: &'a Progress,
}

impl<'a> Hold<'a> {
    /// Creates the limits of a response. `rate` is its own limit in bytes per second; 0: none.
    /// `None`: no limit applies.
    pub(crate) fn new(rate: u64, progress: &'a Progress) -> Option<Box<Hold<'a>>> {
        if rate == 0 && progress.share.is_none() {
            return None;
        }
        Some(Box::new(Hold { own: (rate > 0).then(|| Meter::new(rate)), progress }))
    }

    /// Waits until some of `bytes` may leave; returns their number.
    pub(crate) async fn pass(&self, bytes: u64) -> u64 {
        let meters = || self.own.iter().chain(self.progress.share.as_deref());
        let bytes = meters().map(Meter::piece_bytes).fold(bytes, u64::min);
        // The stall deadline must not count this wait against the peer.
        self.progress.held.set(true);
        for meter in meters() {
            meter.pass(bytes).await;
        }
        self.progress.held.set(false);
        bytes
    }
}

/// The meters of all client addresses, shared by all workers.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(Arc<SharedMeter>);

#[derive(Debug)]
struct SharedMeter {
    rate: u64,
    /// Locked once for each connection.
    meters: Mutex<Table>,
    /// The meter of addresses beyond `ADDRESSES_MAX`.
    crowd: Arc<Meter>,
}

#[derive(Debug, Default)]
struct Table {
    meters: HashMap<u128, Arc<Meter>>,
    /// Size at which unused meters are removed.
    clear_at: usize,
    /// The time when they were last removed.
    cleared_ns: Option<u64>,
}

impl Addresses {
    /// Creates the table; `rate` is in bytes per second for each address.
    pub(crate) fn new(rate: u64) -> Addresses {
        let crowd = Arc::new(Meter::new(rate));
        Addresses(Arc::new(SharedMeter { rate, meters: Mutex::default(), crowd }))
    }

    /// Returns the meter of a client; its connections share it.
    pub(crate) fn meter(&self, client: IpAddr) -> Arc<Meter> {
        let SharedMeter { rate, meters, crowd } = &*self.0;
        // Code under this lock cannot panic, so poisoning is harmless.
        let mut table = meters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = table.meters.get(&address_key(client)) {
            return Arc::clone(meter);
        }
        let now_ns = now_ns();
        if table.is_due(now_ns) {
            table.clear(now_ns);
        }
        if table.meters.len() >= ADDRESSES_MAX {
            return Arc::clone(crowd);
        }
        let meter = Arc::new(Meter::new(*rate));
        table.meters.insert(address_key(client), Arc::clone(&meter));
        meter
    }
}

impl Table {
    /// Returns whether unused meters are to be removed. The cost is amortised: each entry pays for
    /// one check. A full table may have none that is unused, so it is checked once in a while.
    fn is_due(&self, now_ns: u64) -> bool {
        let is_full = self.meters.len() >= ADDRESSES_MAX;
        let was_lately =
            self.cleared_ns.is_some_and(|then| now_ns.saturating_sub(then) < FULL_PAUSE_NS);
        self.meters.len() >= self.clear_at && !(is_full && was_lately)
    }

    fn clear(&mut self, now_ns: u64) {
        let in_use = |meter: &Arc<Meter>| Arc::strong_count(meter) > 1 || !meter.is_rested(now_ns);
        self.meters.retain(|_, meter| in_use(meter));
        self.meters.shrink_to(2 * self.meters.len());
        self.clear_at = (2 * self.meters.len()).clamp(1_024, ADDRESSES_MAX);
        self.cleared_ns = Some(now_ns);
    }
}

/// Returns the key under which limits count an address. IPv6 uses the first 64 bits, because a
/// client usually has a whole /64 (RFC 6177).
pub(crate) fn address_key(client: IpAddr) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn senders_of_a_meter_share_its_rate() {
        let (meter, start_ns) = (Meter::new(1_000), 50 * SECOND_NS);
        assert_eq!(meter.book(125, start_ns), 0, "the credit");
        assert_eq!(meter.book(1_000, start_ns), 0, "the first piece");
        assert_eq!(meter.book(500, start_ns), SECOND_NS, "after the first piece");
        assert_eq!(meter.book(500, start_ns + SECOND_NS / 2), SECOND_NS, "after the second piece");
        assert_eq!(meter.book(1, start_ns + 60 * SECOND_NS), 0, "the credit after a pause");
        assert_eq!(meter.book(124, start_ns + 60 * SECOND_NS), 0, "the credit is limited");
        assert_eq!(meter.book(1_000, start_ns + 60 * SECOND_NS), 0);
        assert_eq!(meter.book(1, start_ns + 60 * SECOND_NS), SECOND_NS);
        assert_eq!(Meter::new(1).book(u64::MAX, 0), 0, "no overflow");
    }

    #[test]
    fn an_address_has_one_meter_and_a_network_of_ipv6_too() {
        let addresses = Addresses::new(1_000);
        let meter = |text: &str| addresses.meter(text.parse().unwrap());
        let rows = [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::1", "0.0.0.1", false),
        ];
        for (one, other, same) in rows {
            assert_eq!(Arc::ptr_eq(&meter(one), &meter(other)), same, "{one} {other}");
        }
    }

    #[test]
    fn the_table_is_bounded_and_keeps_meters_with_bookings() {
        let addresses = Addresses::new(1);
        let debtor = addresses.meter(Ipv4Addr::LOCALHOST.into());
        debtor.book(1 << 40, now_ns());
        let debtor = Arc::downgrade(&debtor);
        let client = |n: usize| IpAddr::from(Ipv4Addr::from_bits(n as u32));
        for n in 0..10_000 {
            addresses.meter(client(n));
        }
        assert!(addresses.0.meters.lock().unwrap().meters.len() < 3_000);
        assert!(debtor.upgrade().is_some(), "a meter with bookings is kept");
        let all: Vec<_> = (0..ADDRESSES_MAX + 10).map(|n| addresses.meter(client(n))).collect();
        assert_eq!(addresses.0.meters.lock().unwrap().meters.len(), ADDRESSES_MAX);
        let last = &all[ADDRESSES_MAX + 9];
        assert!(
            Arc::ptr_eq(last, &all[ADDRESSES_MAX + 8]),
            "addresses beyond the limit share a meter"
        );
        drop(all);
        addresses.0.meters.lock().unwrap().cleared_ns = None;
        let later = [1, 2].map(|n| addresses.meter(client(2 * ADDRESSES_MAX + n)));
        assert!(!Arc::ptr_eq(&later[0], &later[1]), "they have their own when others are gone");
    }
}
