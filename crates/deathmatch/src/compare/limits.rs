//! The highest rates carried, before and after. Searches try rates of their own, so few rates are
//! the same in two runs; brackets can be compared.

use super::row::{Figure, Outcome, Row};
use crate::sample::Sample;
use crate::stats::{Saturation, saturation};

/// A contender's limit for a file on one side; `None` if it was not searched.
pub(super) fn limit(samples: &[Sample], file: &str, contender: &str) -> Option<Saturation> {
    saturation(samples.iter().filter(|s| s.file == file && s.contender == contender))
}

/// Compares a limit: only brackets that lie apart by more than the tolerance differ.
pub(super) fn row(
    file: &str,
    contender: &str,
    before: Saturation,
    after: Saturation,
    tolerance: f64,
) -> Row {
    let mut row = Row::new(&format!("{file}: highest rate carried"), contender);
    row.figure = Some(Figure::Saturation);
    (row.before, row.after) = (Some(before.low), Some(after.low));
    row.ratio = (before.low > 0.0).then(|| after.low / before.low);
    let worst = after.high.unwrap_or(f64::INFINITY);
    let best = before.high.unwrap_or(f64::INFINITY);
    (row.outcome, row.why) = match () {
        () if worst < before.low * (1.0 - tolerance) => (Outcome::Regressed, String::new()),
        () if after.low > best * (1.0 + tolerance) => (Outcome::Improved, String::new()),
        () if after.overlaps(&before) => (Outcome::Fine, "the brackets overlap".to_owned()),
        () => (Outcome::Fine, String::new()),
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
            (bracket(16e3, Some(20e3)), Outcome::Fine, "one step lower: they touch"),
            (bracket(10e3, Some(12.5e3)), Outcome::Regressed, "half"),
            (bracket(40e3, Some(50e3)), Outcome::Improved, "twice"),
            (bracket(20e3, None), Outcome::Fine, "nobody knows how much more"),
            (bracket(40e3, None), Outcome::Improved, "at least twice"),
            (bracket(0.0, Some(1e3)), Outcome::Regressed, "nothing any more"),
        ];
        for (after, want, why) in rows {
            assert_eq!(row("10k", "nginx", before, after, 0.05).outcome, want, "{why}");
        }
        let open = bracket(20e3, None);
        assert_eq!(row("10k", "nginx", open, before, 0.05).outcome, Outcome::Fine, "it was open");
    }
}
