//! Many tests at once. A regression ends a build, so the probability that any row of an unchanged
//! server is called a regression is held at 5 % over all rows (Holm, A simple sequentially
//! rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979)); Benjamini and
//! Hochberg's procedure would only hold the share of false ones among those called. That all rows
//! are fine needs no correction: it is claimed only if each row shows it (the intersection-union
//! test: Berger and Hsu, Bioequivalence trials, intersection-union tests and equivalence confidence
//! sets, Statistical Science 11 (1996)).

/// Largest probability of a false regression or improvement among all rows.
pub(super) const ALPHA: f64 = 0.05;

/// The p of each test, adjusted for the number of tests; in the same order.
pub(super) fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|a, b| ps[*a].total_cmp(&ps[*b]));
    let mut adjusted = vec![1.0; ps.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max((ps.len() - rank) as f64 * ps[at]).min(1.0);
        adjusted[at] = least;
    }
    adjusted
}

/// Two-sided p of the hypothesis that a ratio is as often above 1 as below: the sign test. Rounds
/// in which it is exactly 1 say nothing and are left out.
pub(super) fn sign_test(ratios: impl Iterator<Item = f64> + Clone) -> f64 {
    let above = ratios.clone().filter(|ratio| *ratio > 1.0).count();
    let below = ratios.filter(|ratio| *ratio < 1.0).count();
    let n = above + below;
    let mut term_ln = n as f64 * 0.5_f64.ln(); // P(Bin(n, 1/2) = 0), too small for many rounds
    let mut tail = 0.0;
    for k in 0..=above.min(below) {
        tail += term_ln.exp();
        term_ln += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

/// The smallest number of rounds in which this many tests at once can show a difference within one
/// run: half of 2^rounds is at least tests / `ALPHA`.
pub(super) fn rounds_needed(tests: usize) -> u32 {
    (2.0 * tests.max(1) as f64 / ALPHA).log2().ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_multiplies_by_the_number_of_hypotheses_left() {
        // The example of Holm's procedure: 0.01 * 4, then 0.013 * 3, ... never falling.
        let adjusted = holm(&[0.014, 0.01, 0.2, 0.013]);
        for (found, want) in adjusted.iter().zip([0.04, 0.04, 0.2, 0.04]) {
            assert!((found - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn the_sign_test_counts_rounds() {
        let many = [[0.9; 1_000], [1.1; 1_000]].concat();
        let rows: [(&[f64], f64, &str); 6] = [
            (&many, 1.0, "1,000 of 2,000, whose first terms are below the smallest number"),
            (&[0.9; 6], 0.03125, "six of six: 2 / 64"),
            (&[0.9, 0.9, 0.9, 0.9, 0.9, 1.1], 0.21875, "five of six: 2 * 7 / 64"),
            (&[1.0; 6], 1.0, "ties say nothing"),
            (&[0.9, 1.1], 1.0, "one each"),
            (&[], 1.0, "no round"),
        ];
        for (ratios, want, why) in rows {
            let found = sign_test(ratios.iter().copied());
            assert!((found - want).abs() < 1e-12, "{why}: {found}");
        }
        assert_eq!((rounds_needed(1), rounds_needed(20)), (6, 10));
    }
}
