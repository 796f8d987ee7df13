//! Slices during which another hardware thread of the server's core was busy. A request takes up to
//! twice the processor time then, and the ratio of two servers is another one.

use std::collections::BTreeSet;

use super::cycles::{BURSTS_MIN, CYCLES_MIN, bursts};
use super::interval::median;
use crate::sample::Sample;

/// A read from the first-level cache that takes this many times the usual is slowed by another
/// thread. On a core of its own its time varies by less than a tenth.
const SLOWED_FROM: f64 = 1.2;

/// Returns which of these slices of one work are left out of its ratios: those with a slow
/// first-level cache, where the usual time is that of the faster half. None are if they are more
/// than half, or if fewer than `CYCLES_MIN` cycles in `BURSTS_MIN` bursts would remain whole.
pub fn left_out(slices: &[&Sample]) -> Vec<bool> {
    let shared = on_shared_core(slices);
    let count = shared.iter().filter(|shared| **shared).count();
    let with_shared = slices.iter().zip(&shared).filter(|(_, shared)| **shared);
    let spoilt: BTreeSet<u32> = with_shared.map(|(slice, _)| slice.round).collect();
    let mut whole = bursts(slices.iter().copied());
    whole.retain(|cycle, _| !spoilt.contains(cycle));
    let remaining: BTreeSet<u32> = whole.values().copied().collect();
    let are_few = whole.len() < CYCLES_MIN || remaining.len() < BURSTS_MIN;
    match count * 2 > slices.len() || are_few {
        true => vec![false; slices.len()],
        false => shared,
    }
}

/// The slices of one work that are not left out.
pub fn without_left_out<'a>(slices: &[&'a Sample]) -> Vec<&'a Sample> {
    let kept = slices.iter().zip(left_out(slices)).filter(|(_, left_out)| !left_out);
    kept.map(|(slice, _)| *slice).collect()
}

fn on_shared_core(slices: &[&Sample]) -> Vec<bool> {
    let read = |slice: &&Sample| slice.slice?.first_level_read;
    let mut reads: Vec<f64> = slices.iter().filter_map(read).collect();
    reads.sort_unstable_by(f64::total_cmp);
    reads.truncate(reads.len().div_ceil(2));
    let usual = median(&mut reads).unwrap_or(f64::INFINITY);
    slices.iter().map(|s| read(s).is_some_and(|read| read >= SLOWED_FROM * usual)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Slice;

    #[test]
    fn slices_with_a_slow_cache_are_left_out_while_enough_remain() {
        let cycles = |count: usize| vec![1.0; 2 * count];
        // (times of reads of slices, two in a cycle; 0: not measured; slices left out; why)
        let rows: [(Vec<f64>, usize, &str); 9] = [
            (vec![], 0, "none"),
            (vec![0.0; 40], 0, "a server elsewhere"),
            (cycles(20), 0, "a core of its own"),
            ([cycles(13), vec![1.0, 1.5]].concat(), 1, "one of them"),
            ([cycles(13), vec![2.0, 1.19, 1.9, 1.9]].concat(), 3, "most of two cycles"),
            ([cycles(11), vec![1.5, 1.5]].concat(), 0, "too few cycles would remain"),
            ([vec![1.5; 8], cycles(13)].concat(), 8, "one of five bursts"),
            ([vec![1.5; 8], cycles(12)].concat(), 0, "too few bursts would remain"),
            ([cycles(13), vec![1.5; 28]].concat(), 0, "the other state is the rare one"),
        ];
        for (reads, expected, why) in rows {
            let rounds = (0..).flat_map(|round| [round; 2]);
            let slices: Vec<Sample> =
                rounds.zip(&reads).map(|(round, read)| slice(round, *read)).collect();
            let slices: Vec<&Sample> = slices.iter().collect();
            let count = left_out(&slices).into_iter().filter(|one| *one).count();
            assert_eq!(count, expected, "{why}");
            assert_eq!(without_left_out(&slices).len(), slices.len() - expected, "{why}");
        }
    }

    fn slice(round: u32, read: f64) -> Sample {
        let first_level_read = Some(read).filter(|read| *read > 0.0);
        let slice = Some(Slice { burst: round / 4, first_level_read, ..Slice::default() });
        Sample { slice, round, ..crate::stats::fit::tests::sample(&[], 1) }
    }
}
