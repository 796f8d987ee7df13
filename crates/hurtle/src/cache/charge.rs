//! Accounting of a bounded space. Dropping a charge releases it. Bytes have theirs with them, so a
//! response that is evicted while it is being sent counts until it was sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

/// A bounded space: bytes, or a number of descriptors.
#[derive(Debug)]
pub(super) struct Space {
    used: AtomicU64,
    max: u64,
}

/// A part of a space that is in use.
#[derive(Debug)]
pub(crate) struct Charge {
    space: Arc<Space>,
    amount: u64,
}

impl Space {
    pub(super) fn new(max: u64) -> Arc<Space> {
        Arc::new(Space { used: AtomicU64::new(0), max })
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Charges an amount, even beyond the bound. `None`: the amount alone exceeds the bound.
    pub(super) fn charge(self: &Arc<Space>, amount: u64) -> Option<Charge> {
        if amount > self.max {
            return None;
        }
        self.used.fetch_add(amount, Relaxed);
        Some(Charge { space: Arc::clone(self), amount })
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used() > self.max
    }
}

/// Bytes of memory that is charged.
struct ChargedBytes {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Charge {
    /// Returns the same bytes. They are charged until the last slice of them is dropped.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(ChargedBytes { bytes, _charge: self })
    }

    pub(super) fn amount(&self) -> u64 {
        self.amount
    }

    /// Adds another charge of this space.
    pub(super) fn merge(&mut self, mut other: Charge) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Reduces the charge to `to` and releases the rest.
    pub(super) fn shrink(&mut self, to: u64) {
        let over = self.amount.saturating_sub(to);
        self.amount -= over;
        self.space.used.fetch_sub(over, Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.amount, Relaxed);
    }
}
