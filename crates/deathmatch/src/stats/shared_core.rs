//! Slices during which another hardware thread of the server's core was busy. A request takes up to
//! twice the processor time then, and the ratio of two servers is another one.

use super::interval::median;
use crate::sample::Sample;

/// A read from the first-level cache that takes this many times the usual is slowed by another
/// thread. On a core of its own its time varies by less than a tenth.
const SLOWED_FROM: f64 = 1.2;

/// Returns which of these slices had a slow first-level cache. The usual time is that of the faster
/// half.
pub fn on_shared_core(slices: &[&Sample]) -> Vec<bool> {
    let read = |slice: &&Sample| slice.slice?.first_level_read;
    let mut reads: Vec<f64> = slices.iter().filter_map(read).collect();
    reads.sort_unstable_by(f64::total_cmp);
    reads.truncate(reads.len().div_ceil(2));
    let usual = median(&mut reads).unwrap_or(f64::INFINITY);
    slices.iter().map(|s| read(s).is_some_and(|read| read >= SLOWED_FROM * usual)).collect()
}

/// Returns which of these slices are left out of ratios: those on a shared core, unless they are
/// more than half, because the other state is the rare one then.
pub fn left_out(slices: &[&Sample]) -> Vec<bool> {
    let shared = on_shared_core(slices);
    match shared.iter().filter(|shared| **shared).count() * 2 > slices.len() {
        true => vec![false; slices.len()],
        false => shared,
    }
}

/// The slices whose core was not shared, or all if most were.
pub fn without_left_out<'a>(slices: &[&'a Sample]) -> Vec<&'a Sample> {
    let kept = slices.iter().zip(left_out(slices)).filter(|(_, left_out)| !left_out);
    kept.map(|(slice, _)| *slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Slice;

    #[test]
    fn slices_with_a_slow_cache_are_left_out_unless_they_are_most() {
        // (times of reads; 0: not measured, slices on a shared core, slices left out)
        let rows: [(&[f64], usize, usize); 7] = [
            (&[], 0, 0),
            (&[0.0, 0.0], 0, 0),
            (&[1.0, 1.1, 0.9, 1.05], 0, 0),
            (&[1.0, 1.0, 1.5, 1.02], 1, 1),
            (&[2.0, 2.0, 2.0, 2.5], 1, 1),
            (&[1.0, 1.0, 0.0, 1.9], 1, 1),
            (&[1.0, 1.0, 1.8, 1.9, 2.1], 3, 0),
        ];
        for (reads, shared, left) in rows {
            let slices: Vec<Sample> = reads.iter().map(|read| slice(*read)).collect();
            let slices: Vec<&Sample> = slices.iter().collect();
            let count = |of: Vec<bool>| of.into_iter().filter(|one| *one).count();
            let found = (count(on_shared_core(&slices)), count(left_out(&slices)));
            assert_eq!(found, (shared, left), "{reads:?}");
            assert_eq!(without_left_out(&slices).len(), slices.len() - left, "{reads:?}");
        }
    }

    fn slice(read: f64) -> Sample {
        let first_level_read = Some(read).filter(|read| *read > 0.0);
        let slice = Some(Slice { first_level_read, ..Slice::default() });
        Sample { slice, ..crate::stats::fit::tests::sample(&[], 1) }
    }
}
