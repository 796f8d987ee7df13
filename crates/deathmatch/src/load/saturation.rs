//! The highest rate a server carries: which rate to try next, given what passed. Runs nothing.

use crate::sample::Load;

/// Beyond the first failure rates lie this far apart.
const STEP: f64 = 1.25;

/// A rate carried: 99 of 100 responses within this many nanoseconds.
const P99_NS_MAX: u64 = 10_000_000;

/// A rate carried: at most this share of errors.
const ERROR_SHARE_MAX: f64 = 0.0001;

/// Samples of one rate; it passes if most do.
const TRIES: u32 = 3;

/// Doublings and halvings at most: from 1 to 10^9 requests a second.
const DOUBLINGS_MAX: u32 = 30;

/// Between which rates saturation lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The highest rate that passed; 0 if none did.
    pub low: f64,
    /// The lowest above it that failed; infinite if none did.
    pub high: f64,
}

/// Looks for the highest passing rate: doubles from `start` until a rate fails (or halves until one
/// passes), then goes up from the last that passed in steps of 1.25. Ends at `limit`, a rate beyond
/// which the generator is not to be trusted. `passes` judges one rate and may fail itself.
pub fn search<E>(
    start: f64,
    limit: f64,
    mut passes: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Bracket, E> {
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut rate = start.min(limit);
    for _ in 0..DOUBLINGS_MAX {
        if passes(rate)? {
            low = rate;
            if high.is_finite() || rate >= limit {
                break;
            }
            rate = (rate * 2.0).min(limit);
        } else {
            high = rate;
            if low > 0.0 {
                break;
            }
            rate /= 2.0;
        }
    }
    if low == 0.0 || high.is_infinite() {
        return Ok(Bracket { low, high });
    }
    // At most three: 1.25^3 < 2 < 1.25^4; the factor leaves a rate alone that all but equals high.
    while low * STEP < high * 0.999 {
        let rate = low * STEP;
        if !passes(rate)? {
            return Ok(Bracket { low, high: rate });
        }
        low = rate;
    }
    Ok(Bracket { low, high })
}

/// Whether one sample carried its rate.
pub fn carried(load: &Load) -> bool {
    let errors = load.errors.total() as f64 <= ERROR_SHARE_MAX * load.intended as f64;
    load.replies > 0 && errors && load.response.quantile(0.99) <= P99_NS_MAX
}

/// Two of three: samples until the rate's fate is sealed.
pub fn best_of_three<E>(mut sample: impl FnMut() -> Result<bool, E>) -> Result<bool, E> {
    let most = TRIES / 2 + 1;
    let (mut passed, mut failed) = (0, 0);
    while passed < most && failed < most {
        if sample()? { passed += 1 } else { failed += 1 }
    }
    Ok(passed == most)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_bracket_holds_the_invented_saturation() {
        let rows = [
            ("between two doublings", 1000.0, 1e6, 13_000.0, (12_500.0, 15_625.0)),
            ("just below a doubling", 1000.0, 1e6, 15_900.0, (15_625.0, 16_000.0)),
            ("on a doubling", 1000.0, 1e6, 8000.0, (8000.0, 10_000.0)),
            ("below the start", 1000.0, 1e6, 300.0, (250.0, 312.5)),
            ("beyond the limit", 1000.0, 5000.0, 1e9, (5000.0, f64::INFINITY)),
        ];
        for (name, start, limit, truth, (low, high)) in rows {
            let mut tried = Vec::new();
            let found = search(start, limit, |rate| {
                tried.push(rate);
                Ok::<_, Infallible>(rate <= truth)
            });
            assert_eq!(found, Ok(Bracket { low, high }), "{name}: {tried:?}");
            assert!(low <= truth && (truth < high) && tried.len() < 12, "{name}: {tried:?}");
        }
        let dead = search(1000.0, 1e6, |_| Ok::<_, Infallible>(false)).unwrap();
        assert!(dead.low == 0.0 && dead.high < 1e-4, "a server that never passes: {dead:?}");
        assert_eq!(search(1.0, 2.0, |_| Err("full disk")), Err("full disk"));
    }

    #[test]
    fn two_of_three_decide_and_no_more_are_taken_than_needed() {
        let rows: [(&[bool], bool, usize); 4] = [
            (&[true, true], true, 2),
            (&[false, false], false, 2),
            (&[true, false, true], true, 3),
            (&[false, true, false], false, 3),
        ];
        for (outcomes, want, taken) in rows {
            let mut left = outcomes.iter();
            let mut count = 0;
            let got = best_of_three(|| {
                count += 1;
                left.next().copied().ok_or("one too many")
            });
            assert_eq!((got, count), (Ok(want), taken), "{outcomes:?}");
        }
    }

    #[test]
    fn a_rate_is_carried_within_its_bounds() {
        let load = |ns, errors, replies| {
            let mut load = Load { intended: 10_000, replies, ..Load::default() };
            load.errors.refused = errors;
            load.response.record(ns);
            load
        };
        let rows = [
            ("fast", load(9_000_000, 0, 10_000), true),
            ("one error in ten thousand", load(9_000_000, 1, 9999), true),
            ("two", load(9_000_000, 2, 9998), false),
            ("slow", load(11_000_000, 0, 10_000), false),
            ("nothing", Load::default(), false),
        ];
        for (name, load, want) in rows {
            assert_eq!(carried(&load), want, "{name}");
        }
    }
}
