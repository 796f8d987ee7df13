//! What is taken of a bounded space, given back when it is dropped: what is evicted while it is
//! still being sent counts until it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A space and what is taken of it.
#[derive(Debug)]
pub(super) struct Space {
    used: AtomicU64,
    max: u64,
}

/// A part of it that is taken.
#[derive(Debug)]
pub struct Charge {
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

    /// Takes a part before it is known to be free; `None`: it could never be.
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

impl Charge {
    pub(super) fn amount(&self) -> u64 {
        self.amount
    }

    /// Adds another of the same space.
    pub(super) fn merge(&mut self, mut other: Charge) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Gives back what is more than this.
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
