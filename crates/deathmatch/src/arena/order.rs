//! The order in which many files are requested: drawn once, so that it is the same for every
//! contender.

use crate::plan::File;
use crate::random::SplitMix;

/// Requests until the order repeats: many times the size of any cache of file names.
const DRAWN: usize = 1 << 17;

/// A fixed seed, for the same order in every run.
const SEED: u64 = 0x7a69_7066;

/// Numbers of files; empty if there is only one. `zipf`: the kth is requested in proportion to k to
/// the power of minus this (0: all alike).
pub(super) fn order(file: &File, zipf: f64) -> Vec<u32> {
    if file.count < 2 {
        return Vec::new();
    }
    let mut total = 0.0;
    let weight = |k: u32| f64::from(k).powf(-zipf);
    let sums: Vec<f64> = (1..=file.count)
        .map(|k| {
            total += weight(k);
            total
        })
        .collect();
    let mut random = SplitMix(SEED);
    let mut draw = || {
        let at = random.unit() * total;
        // The last sum is the total, which no drawn number reaches.
        sums.partition_point(|sum| *sum <= at).min(sums.len() - 1) as u32
    };
    (0..DRAWN).map(|_| draw()).collect()
}

/// Each of so many files once, in a random order that is the same for all contenders.
pub(super) fn each_once(count: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    SplitMix(SEED).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_asked_for_as_often_as_they_are_popular() {
        let file = |count| File {
            name: "{}".to_owned(),
            bytes: 1,
            bytes_max: None,
            log_uniform: false,
            count,
            app: None,
        };
        assert!(order(&file(1), 1.0).is_empty(), "one file needs no order");
        // (files, exponent, share of the first by definition)
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for (count, zipf, share) in
            [(4, 0.0, 0.25), (100, 1.0, 1.0 / harmonic), (2, 1.0, 2.0 / 3.0)]
        {
            let drawn = order(&file(count), zipf);
            let first = drawn.iter().filter(|at| **at == 0).count() as f64 / drawn.len() as f64;
            assert!((first - share).abs() < 0.01, "{count} files, {zipf}: {first} and not {share}");
            assert!(drawn.iter().all(|at| *at < count), "no file that is not there");
            assert_eq!(drawn, order(&file(count), zipf), "the same for everybody");
        }
    }
}
