//! The time of a read from a processor's first-level cache. Only the hardware threads of one core
//! share that cache, so it tells whether another of them is busy: in a virtual machine that may be
//! another guest, of which the guest's own counters (steal, load) show nothing.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use crate::load::pin;
use crate::stats::interval::median;

/// Lines that are read in turn: 24 KiB of the 32 KiB or more that first-level caches have.
const LINES: usize = 384;

/// Reads of one pass; a pass takes a few microseconds.
const STEPS: usize = 2_000;

/// Passes, of which the median counts: an interrupt spoils one.
const PASSES: usize = 9;

/// A line of the cache, with the number of the line that is read after it.
#[repr(align(64))]
struct Line {
    next: usize,
}

/// Returns the time of a read that depends on the read before it and finds its line in the
/// first-level cache of this processor, as a multiple of the time of a multiplication that depends
/// on the one before it: the processor's frequency changes both. About 1 on a core of its own.
/// `None`: no thread may run there.
pub(super) fn first_level_read(core: usize) -> Option<f64> {
    thread::spawn(move || pin(core).ok().map(|()| measure())).join().ok()?
}

fn measure() -> f64 {
    // Neighbours are not read one after another, which a prefetcher would foresee. 139 has no
    // factor in common with the number of lines.
    let lines: Vec<Line> = (0..LINES).map(|at| Line { next: (at + 139) % LINES }).collect();
    let (mut at, mut product) = (0, black_box(3_u64));
    let mut read_all = || {
        for _ in 0..STEPS {
            at = lines[at].next;
        }
        black_box(at);
    };
    let mut multiply_all = || {
        for _ in 0..STEPS {
            // A plain product of constants would be computed for many steps at once.
            product = (product ^ (product >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        black_box(product);
    };
    read_all();
    // Side by side, because the processor's frequency may change between passes.
    let mut ratios = [(); PASSES].map(|()| time_s(&mut read_all) / time_s(&mut multiply_all));
    median(&mut ratios).unwrap_or(f64::NAN)
}

/// Time of a pass, in seconds.
fn time_s(pass: &mut impl FnMut()) -> f64 {
    let begun = Instant::now();
    pass();
    begun.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_exists_has_a_time_and_another_has_none() {
        assert!(first_level_read(0).is_some_and(|read| read.is_finite() && read > 0.0));
        assert_eq!(first_level_read(usize::MAX), None);
    }
}
