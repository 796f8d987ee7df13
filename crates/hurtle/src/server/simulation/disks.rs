//! The disks of the simulation: jobs take time, pieces of files are not in the page cache, and a
//! disk is full from some write to another.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Conditions;
use crate::rt::simulated::Disks;
use crate::transport::memory::Random;

/// Writes to the files of kept bodies in all seeds, and those of them that found the disk full.
pub(super) static WRITES: AtomicU64 = AtomicU64::new(0);
pub(super) static REFUSED_WRITES: AtomicU64 = AtomicU64::new(0);

/// The disks of one seed.
pub(super) struct SimulatedDisks {
    random: Random,
    conditions: Conditions,
    writes: u64,
    /// Numbers of the writes that find the disk full.
    full: Range<u64>,
}

impl SimulatedDisks {
    /// Chooses the behaviour of disks. A full disk is no fault for a client: bodies are passed on.
    pub(super) fn new(mut random: Random, conditions: Conditions) -> SimulatedDisks {
        let full = match random.is_one_in(2) {
            true => random.within(0, 3),
            false => u64::MAX,
        };
        let end = full.saturating_add(random.within(1, 5));
        SimulatedDisks { random, conditions, writes: 0, full: full..end }
    }
}

impl Disks for SimulatedDisks {
    fn delay(&mut self) -> Duration {
        let delays = self.conditions != Conditions::Instant && self.random.is_one_in(2);
        if delays { Duration::from_millis(self.random.within(1, 50)) } else { Duration::ZERO }
    }

    fn is_cold(&mut self) -> bool {
        self.random.is_one_in(3)
    }

    fn is_full(&mut self) -> bool {
        let is_full = self.full.contains(&self.writes);
        self.writes += 1;
        WRITES.fetch_add(1, Relaxed);
        REFUSED_WRITES.fetch_add(u64::from(is_full), Relaxed);
        is_full
    }
}
