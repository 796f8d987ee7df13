//! The search for the highest rate a server carries: chooses the next rate from the results so far.
//! Runs nothing.

use crate::sample::{Load, Mark, Sample};

/// Factor between rates beyond the first failure.
const STEP: f64 = 1.25;

/// Largest p99 of a carried rate, in nanoseconds.
const P99_NS_MAX: u64 = 10_000_000;

/// Largest share of errors of a carried rate.
const ERROR_SHARE_MAX: f64 = 0.0001;

/// A server that answers less than this share of the offered requests is overwhelmed.
const OVERWHELMED_SHARE: f64 = 0.9;

/// Digits of a rate: 977, not 976.5625.
const DIGITS: i32 = 3;

/// The search stops below this rate, in requests a second.
const RATE_MIN: f64 = 10.0;

/// One thread cannot offer more than this rate, in requests a second.
const RATE_MAX: f64 = 1e6;

/// Bracket of the saturation rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The highest rate that passed; 0 if none did.
    pub low: f64,
    /// The lowest rate above it that failed; infinite if none did.
    pub high: f64,
}

/// Verdict on one sample, or one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// The server carried it.
    Carried,
    /// The server did not carry it.
    Overloaded,
    /// Unknown, since the generator was the limit.
    Unknown,
}

/// Searches the highest passing rate: doubles from `start` until a rate fails (or halves until one
/// passes), then goes up from the last that passed in steps of 1.25. It ends at the generator's
/// limit; then `high` is infinite. `measure` measures one rate and may fail.
pub fn search<E>(
    start: f64,
    mut measure: impl FnMut(f64) -> Result<RateVerdict, E>,
) -> Result<Bracket, E> {
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut rate = start;
    while (RATE_MIN..=RATE_MAX).contains(&rate) {
        match measure(rate)? {
            RateVerdict::Unknown => return Ok(Bracket { low, high }),
            RateVerdict::Carried => {
                low = rate;
                if high.is_finite() {
                    break;
                }
                rate = tidy(rate * 2.0);
            }
            RateVerdict::Overloaded => {
                high = rate;
                if low > 0.0 {
                    break;
                }
                rate = tidy(rate / 2.0);
            }
        }
    }
    if low == 0.0 || high.is_infinite() {
        return Ok(Bracket { low, high });
    }
    // At most three: 1.25^3 < 2 < 1.25^4; the factor skips a rate almost equal to high.
    while low * STEP < high * 0.999 {
        let rate = tidy(low * STEP);
        match measure(rate)? {
            RateVerdict::Carried => low = rate,
            RateVerdict::Overloaded => return Ok(Bracket { low, high: rate }),
            RateVerdict::Unknown => break,
        }
    }
    Ok(Bracket { low, high })
}

/// A rate rounded to three digits.
pub fn tidy(rate: f64) -> f64 {
    let unit = 10_f64.powi(rate.log10().floor() as i32 + 1 - DIGITS);
    // Divided if the unit is less than 1, so that 78.1 is not 78.10000000000001.
    if unit < 1.0 {
        (rate / unit).round() / (1.0 / unit).round()
    } else {
        (rate / unit).round() * unit
    }
}

/// `true` if one sample carried its rate.
pub fn carried(load: &Load) -> bool {
    let errors = load.errors.total() as f64 <= ERROR_SHARE_MAX * load.intended as f64;
    load.replies > 0 && errors && load.response.quantile(0.99) <= P99_NS_MAX
}

/// `true` if a server was so far behind that no disturbance of the machine explains it: a tenth of
/// the requests of the sample's whole seconds was not answered in them.
pub fn is_overwhelmed(load: &Load) -> bool {
    let seconds = load.replies_per_second.len() as f64;
    let answered = load.replies_per_second.iter().sum::<u64>() as f64;
    let intended = load.intended as f64 / load.seconds * seconds;
    seconds > 0.0 && answered < OVERWHELMED_SHARE * intended
}

/// Verdict on a sample's rate. A carried rate counts even if the generator was late: the server can
/// only have been better.
pub fn verdict(sample: &Sample) -> RateVerdict {
    let gave_out = |mark: &Mark| matches!(mark, Mark::GeneratorLate | Mark::GeneratorBusy);
    if carried(&sample.load) {
        RateVerdict::Carried
    } else if sample.marks.iter().any(gave_out) {
        RateVerdict::Unknown
    } else {
        RateVerdict::Overloaded
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_bracket_holds_the_invented_saturation() {
        let none = f64::INFINITY;
        let rows = [
            ("between two doublings", 1000.0, none, 13_000.0, (12_500.0, 15_600.0)),
            ("just below a doubling", 1000.0, none, 15_900.0, (15_600.0, 16_000.0)),
            ("on a doubling", 1000.0, none, 8000.0, (8000.0, 10_000.0)),
            ("below the start", 1000.0, none, 300.0, (250.0, 313.0)),
            ("far below the start", 1000.0, none, 90.0, (78.1, 97.6)),
            ("beyond the generator", 1000.0, 5000.0, 1e9, (4000.0, none)),
            ("the generator gives out at a step", 1000.0, 9000.0, 10_500.0, (8000.0, 16_000.0)),
        ];
        for (name, start, limit, truth, (low, high)) in rows {
            let mut tried = Vec::new();
            let found = search(start, |rate| {
                tried.push(rate);
                Ok::<_, Infallible>(match rate {
                    rate if rate <= truth && rate <= limit => RateVerdict::Carried,
                    // Far beyond its capacity a server fails before the generator does.
                    rate if rate > limit && rate <= 1.5 * truth => RateVerdict::Unknown,
                    _ => RateVerdict::Overloaded,
                })
            });
            assert_eq!(found, Ok(Bracket { low, high }), "{name}: {tried:?}");
            assert!(tried.len() < 12, "{name}: {tried:?}");
        }
        let dead = search(1000.0, |_| Ok::<_, Infallible>(RateVerdict::Overloaded)).unwrap();
        assert!(dead.low == 0.0 && dead.high < 20.0, "a server that never passes: {dead:?}");
        let endless = search(1000.0, |_| Ok::<_, Infallible>(RateVerdict::Carried)).unwrap();
        assert!(
            endless.low > 5e5 && endless.high.is_infinite(),
            "one that always does: {endless:?}"
        );
        assert_eq!(
            search(1.0, |_| Err("full disk")).ok(),
            Some(Bracket { low: 0.0, high: f64::INFINITY })
        );
        assert_eq!(search(100.0, |_| Err("full disk")), Err("full disk"));
    }

    #[test]
    fn a_server_that_falls_behind_is_overwhelmed() {
        let load = |per_second: &[u64]| Load {
            seconds: 2.0,
            intended: 2000,
            replies_per_second: per_second.to_vec(),
            ..Load::default()
        };
        let rows: [(&str, &[u64], bool); 4] = [
            ("all in time", &[1000, 1000], false),
            ("a stall, made up for", &[500, 1400], false),
            ("half of it", &[500, 500], true),
            ("too short to tell", &[], false),
        ];
        for (name, per_second, want) in rows {
            assert_eq!(is_overwhelmed(&load(per_second)), want, "{name}");
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
