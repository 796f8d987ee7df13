//! The highest rates carried, before and after. Searches try rates of their own, so few rates are
//! the same in two runs; brackets can be compared. A search ends in steps of 1.25: smaller
//! differences are not seen, whatever the tolerance.

use super::row::{Figure, Outcome, Row};
use crate::sample::Sample;
use crate::stats::{Rounds, Saturation, percent, saturation};

/// The search's last step, as a factor; rates are rounded.
const STEP: f64 = 1.26;

/// A contender's limit for a file on one side; `None` if it was not searched.
pub(super) fn limit(samples: &[Sample], file: &str, contender: &str) -> Option<Saturation> {
    saturation(samples.iter().filter(|s| s.file == file && s.contender == contender))
}

/// The highest rate carried in each round, at least 1.
pub(super) fn lows(samples: &[Sample], file: &str, contender: &str) -> Rounds {
    let its = || samples.iter().filter(|s| s.file == file && s.contender == contender);
    let low = |round| Some((round, saturation(its().filter(|s| s.round == round))?.low.max(1.0)));
    let rounds: Rounds = its().map(|s| (s.round, 0.0)).collect();
    rounds.keys().filter_map(|round| low(*round)).collect()
}

/// Compares a limit: only brackets that lie apart by more than the tolerance differ, and only if
/// the rounds' own limits do (`p`).
pub(super) fn row(
    file: &str,
    contender: &str,
    before: Saturation,
    after: Saturation,
    p: f64,
    tolerance: f64,
) -> Row {
    let mut row = Row::new(&format!("{file}: highest rate carried"), contender);
    row.figure = Some(Figure::Saturation);
    (row.before, row.after, row.p) = (Some(before.low), Some(after.low), Some(p));
    row.ratio = (before.low > 0.0).then(|| after.low / before.low);
    let worst = after.high.unwrap_or(f64::INFINITY);
    let best = before.high.unwrap_or(f64::INFINITY);
    let is_near = |factor: f64| best <= after.low * factor && after.low <= best * factor;
    (row.outcome, row.why) = match () {
        () if worst < before.low / (1.0 + tolerance) => (Outcome::Regressed, String::new()),
        () if after.low > best * (1.0 + tolerance) => (Outcome::Improved, String::new()),
        () if is_near(STEP) => (Outcome::Fine, "within one step of the search (25 %)".to_owned()),
        () if is_near(1.0 + tolerance) => {
            (Outcome::Fine, format!("within the tolerance ({})", percent(tolerance)))
        }
        () => (Outcome::NotShown, "the brackets leave it open".to_owned()),
    };
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_differ_only_where_they_lie_apart() {
        let bracket = |low, high| Saturation { low, high, load_limited: high.is_none() };
        let before = bracket(20e3, Some(25e3));
        let rows = [
            (before, Outcome::Fine, "the same"),
            (bracket(16e3, Some(20e3)), Outcome::NotShown, "one step lower: they touch"),
            (bracket(10e3, Some(12.5e3)), Outcome::Regressed, "half"),
            (bracket(40e3, Some(50e3)), Outcome::Improved, "twice"),
            (bracket(20e3, None), Outcome::Fine, "nobody knows how much more"),
            (bracket(40e3, None), Outcome::Improved, "at least twice"),
            (bracket(0.0, Some(1e3)), Outcome::Regressed, "nothing any more"),
        ];
        let row = |before, after| row("10k", "nginx", before, after, 0.01, 0.05);
        for (after, want, why) in rows {
            assert_eq!(row(before, after).outcome, want, "{why}");
        }
        let open = bracket(20e3, None);
        assert_eq!(row(open, before).outcome, Outcome::NotShown, "it was open");
    }

    /// Regression: with a wide tolerance, limits two steps apart were said to be within one.
    #[test]
    fn the_reason_names_the_step_or_the_tolerance() {
        let bracket = |low: f64| Saturation { low, high: Some(low * 1.25), load_limited: false };
        let (step, tolerance) = ("within one step of the search (25 %)", "within the tolerance");
        for (low, allowed, outcome, why) in [
            (20e3, 0.05, Outcome::Fine, step.to_owned()),
            (20e3, 0.5, Outcome::Fine, step.to_owned()),
            (18e3, 0.05, Outcome::NotShown, "the brackets leave it open".to_owned()),
            (18e3, 0.5, Outcome::Fine, format!("{tolerance} (50 %)")),
            (36e3, 0.5, Outcome::Fine, format!("{tolerance} (50 %)")),
            (36e3, 0.4, Outcome::Improved, String::new()),
            (14e3, 0.5, Outcome::NotShown, "the brackets leave it open".to_owned()),
        ] {
            let row = row("10k", "nginx", bracket(20e3), bracket(low), 0.01, allowed);
            assert_eq!((row.outcome, row.why), (outcome, why), "{low} and {allowed}");
        }
    }
}
