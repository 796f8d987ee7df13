//! The shift between two runs without common rounds, exact and without assuming a distribution
//! (Hodges and Lehmann's estimator; the Mann-Whitney test turned into an interval: Hollander, Wolfe
//! and Chicken, Nonparametric Statistical Methods, 3rd ed., 4.2 and 4.3).

use super::CONFIDENCE;
use super::interval::median;

/// Largest number of values on one side: counting arrangements takes time with the fourth power.
pub const SIDE_MAX: usize = 60;

/// Shift of the second group above the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of all differences.
    pub median: f64,
    /// (low, high, confidence); `None` where there are too few values for 95 %.
    pub interval: Option<(f64, f64, f64)>,
}

/// The shift from `first` to `second`; `None` if either is empty or longer than `SIDE_MAX`.
pub fn shift(first: &[f64], second: &[f64]) -> Option<Shift> {
    if first.len().max(second.len()) > SIDE_MAX {
        return None;
    }
    let mut differences: Vec<f64> =
        first.iter().flat_map(|one| second.iter().map(move |two| two - one)).collect();
    let middle = median(&mut differences)?; // which sorts them
    let bound = critical(first.len(), second.len());
    let interval = bound.map(|(outside, confidence)| {
        (differences[outside], differences[differences.len() - 1 - outside], confidence)
    });
    Some(Shift { median: middle, interval })
}

/// Two-sided p of the hypothesis that the two groups do not differ: Mann and Whitney's exact test
/// (tied pairs count half, rounded toward no difference). `None` where `shift` gives `None`.
pub fn shift_p(first: &[f64], second: &[f64]) -> Option<f64> {
    let (m, n) = (first.len(), second.len());
    if m == 0 || n == 0 || m.max(n) > SIDE_MAX {
        return None;
    }
    let pairs = || first.iter().flat_map(|one| second.iter().map(move |two| (one, two)));
    let above = pairs().filter(|(one, two)| two > one).count();
    let ties = pairs().filter(|(one, two)| two == one).count();
    let u = (above.min(m * n - ties - above) + ties.div_ceil(2)).min(m * n / 2);
    let counts = arrangements(m, n);
    let tail: f64 = counts.iter().take(u + 1).sum();
    Some((2.0 * tail / counts.iter().sum::<f64>()).min(1.0))
}

/// Number of the m * n sorted differences outside the 95 % interval on each side, and its
/// confidence: the largest u with 2 P(U <= u) <= 5 %, U being Mann and Whitney's.
fn critical(m: usize, n: usize) -> Option<(usize, f64)> {
    let counts = arrangements(m, n);
    let all: f64 = counts.iter().sum();
    let mut tail = 0.0;
    let mut best = None;
    for (u, count) in counts.iter().enumerate() {
        tail += count / all;
        let confidence = 1.0 - 2.0 * tail;
        if confidence < CONFIDENCE {
            break;
        }
        best = Some((u, confidence));
    }
    best
}

/// The number of orders of m and n values in which U is 0, 1, ... m * n: the ways to choose the
/// ranks of the m among 1 ..= m + n, by their sum minus the smallest sum.
fn arrangements(m: usize, n: usize) -> Vec<f64> {
    let least = m * (m + 1) / 2;
    let mut ways = vec![vec![0.0; least + m * n + 1]; m + 1]; // ways[chosen][sum of ranks]
    ways[0][0] = 1.0;
    for rank in 1..=m + n {
        for chosen in (1..=m.min(rank)).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            let from = &fewer[chosen - 1];
            for (sum, way) in more[0].iter_mut().enumerate().skip(rank) {
                *way += from[sum - rank];
            }
        }
    }
    ways[m].split_off(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_published_table() {
        // Mann and Whitney's critical values, two-sided 5 % (e.g. Hollander and Wolfe, table A.6;
        // Siegel, Nonparametric Statistics, table K): reject at or below u.
        let rows = [
            ((4, 4), Some(0)),
            ((5, 5), Some(2)),
            ((5, 8), Some(6)),
            ((6, 6), Some(5)),
            ((8, 8), Some(13)),
            ((10, 10), Some(23)),
            ((12, 12), Some(37)),
            ((20, 20), Some(127)),
            ((3, 3), None),
            ((1, 19), None),
        ];
        for ((m, n), right) in rows {
            assert_eq!(critical(m, n).map(|(u, _)| u), right, "{m} and {n}");
        }
        // 19 of the 924 orders of six and six have U <= 5.
        let (_, confidence) = critical(6, 6).unwrap();
        assert!((confidence - (1.0 - 38.0 / 924.0)).abs() < 1e-12, "{confidence}");
    }

    #[test]
    fn p_is_twice_the_tail_of_the_orders() {
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let rows: [(&[f64], &[f64], f64, &str); 5] = [
            (&six, &[7.0, 8.0, 9.0, 10.0, 11.0, 12.0], 2.0 / 924.0, "all of one above the other"),
            (&six, &[0.5, 7.0, 8.0, 9.0, 10.0, 11.0], 38.0 / 924.0 + 22.0 / 924.0, "U of 6"),
            (&six, &six, 1.0, "the same values"),
            (&[1.0], &[2.0], 1.0, "two orders"),
            (&[1.0, 1.0], &[1.0, 1.0], 1.0, "ties alone"),
        ];
        for (first, second, want, why) in rows {
            let p = shift_p(first, second).unwrap();
            assert!((p - want).abs() < 1e-12, "{why}: {p}");
            assert_eq!(shift_p(second, first), Some(p), "{why}, swapped");
        }
        assert_eq!(shift_p(&[], &six), None);
    }

    #[test]
    fn a_shift_is_negated_by_swapping_and_zero_for_equal_samples() {
        let (one, two) = ([1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 9.0, 11.0]);
        let (there, back) = (shift(&one, &two).unwrap(), shift(&two, &one).unwrap());
        assert_eq!(there.median, -back.median);
        let ((a, b, _), (c, d, _)) = (there.interval.unwrap(), back.interval.unwrap());
        assert_eq!((a, b), (-d, -c));
        assert_eq!((a, b), (-5.0, 10.0), "four and four: all differences, 3 - 8 to 11 - 1");
        assert_eq!(shift(&one, &one).unwrap().median, 0.0);
        assert_eq!(shift(&[], &one), None, "nothing");
        assert_eq!(shift(&[1.0], &[2.5]).unwrap(), Shift { median: 1.5, interval: None });
    }
}
