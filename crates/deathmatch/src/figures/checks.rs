//! Conditions under which a load has failed (`--fail-if`), and their outcome for continuous
//! integration: JUnit's XML, and a table in Markdown.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::text::{finer_amount, finer_milliseconds};
use super::{Figures, Latency, amount};

/// Decimal places that a figure may have beyond those it is usually shown with.
const PLACES_MORE_MAX: usize = 9;

/// A condition such as `p99 > 20ms`: if it holds, the load has failed.
#[derive(Clone, Debug)]
pub struct Condition {
    figure: Figure,
    relation: Relation,
    limit: f64,
    text: String,
}

/// A figure that a condition is about.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// A response time, in milliseconds.
    Time(fn(&Latency) -> f64),
    /// Share of failed requests, from 0 to 1.
    ErrorRate,
    Errors,
    Rate,
}

const FIGURES: [(&str, Figure); 11] = [
    ("mean", Figure::Time(|its| its.mean_ms)),
    ("p50", Figure::Time(|its| its.p50_ms)),
    ("p75", Figure::Time(|its| its.p75_ms)),
    ("p90", Figure::Time(|its| its.p90_ms)),
    ("p95", Figure::Time(|its| its.p95_ms)),
    ("p99", Figure::Time(|its| its.p99_ms)),
    ("p99.9", Figure::Time(|its| its.p99_9_ms)),
    ("max", Figure::Time(|its| its.max_ms)),
    ("error_rate", Figure::ErrorRate),
    ("errors", Figure::Errors),
    ("rate", Figure::Rate),
];

#[derive(Clone, Copy, Debug)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Relations by sign, the longer signs first.
const RELATIONS: [(&str, Relation); 4] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::Above),
    ("<", Relation::Below),
];

/// Outcome of a condition, or of another judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The condition, or the subject of the judgement.
    pub name: String,
    /// `true` if it was asked for; others are shown only if they fail.
    pub is_asked: bool,
    /// `true` if it is passed.
    pub is_passed: bool,
    /// The value it was decided by.
    pub found: String,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
        let known = || {
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            format!("write one such as 'p99 > 20ms', of {} or {last}", others.join(", "))
        };
        let relation = RELATIONS.iter().find(|(sign, _)| text.contains(sign));
        let (sign, relation) = *relation.ok_or_else(known)?;
        let (name, limit) = text.split_once(sign).ok_or_else(known)?;
        let (name, limit) = (name.trim(), limit.trim());
        let figure = FIGURES.iter().find(|(known, _)| *known == name);
        let figure = figure.ok_or_else(|| format!("{name:?} is no figure: {}", known()))?.1;
        let limit = figure.limit(limit)?;
        Ok(Condition { figure, relation, limit, text: text.trim().to_owned() })
    }
}

impl Figure {
    /// A limit in its unit.
    fn limit(self, text: &str) -> Result<f64, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        // A product may differ from the number that is written: 0.7 * 0.01 is less than 0.007.
        let scaled = |text: &str, power: i32| {
            let written = number(&format!("{}e{power}", text.trim()));
            written.or_else(|| Some(number(text)? * 10_f64.powi(power)))
        };
        let of_unit = |units: &[(&str, i32)]| {
            units.iter().find_map(|(unit, power)| scaled(text.strip_suffix(unit)?, *power))
        };
        match self {
            // "ms" and "us" end with "s" too.
            Figure::Time(_) => of_unit(&[("ms", 0), ("us", -3), ("µs", -3), ("s", 3)])
                .ok_or_else(|| format!("{text:?} is no time: write one such as 20ms or 1.5s")),
            Figure::ErrorRate => of_unit(&[("%", -2)])
                .or_else(|| number(text))
                .ok_or_else(|| format!("{text:?} is no share: write one such as 0.1%")),
            Figure::Errors | Figure::Rate => {
                number(text).ok_or_else(|| format!("{text:?} is no number"))
            }
        }
    }

    fn value(self, of: &Figures) -> Option<f64> {
        match self {
            Figure::Time(ms) => of.latency.as_ref().map(ms),
            Figure::ErrorRate => (of.requests > 0).then(|| of.failed as f64 / of.requests as f64),
            Figure::Errors => Some(of.failed as f64),
            Figure::Rate => Some(of.responses_per_s),
        }
    }

    /// The value with as many decimal places as show it on its side of the limit.
    fn shown(self, value: f64, limit: f64) -> String {
        let is_on_its_side = |text: &String| {
            let read = self.limit(text.replace(',', "").trim_end_matches("/s"));
            read.is_ok_and(|read| read.partial_cmp(&limit) == value.partial_cmp(&limit))
        };
        let shown = (0..=PLACES_MORE_MAX).map(|more| self.finer(value, more)).find(is_on_its_side);
        shown.unwrap_or_else(|| self.finer(value, 0))
    }

    /// The value with so many decimal places more than usual.
    fn finer(self, value: f64, more: usize) -> String {
        match self {
            Figure::Time(_) => finer_milliseconds(value, more),
            Figure::ErrorRate => {
                let scale = 10_f64.powi(3 + more as i32);
                format!("{} %", (value * 1e2 * scale).round() / scale)
            }
            Figure::Errors => finer_amount(value, more),
            Figure::Rate => format!("{}/s", finer_amount(value, more)),
        }
    }

    fn is_of_errors(self) -> bool {
        matches!(self, Figure::ErrorRate | Figure::Errors)
    }
}

impl Condition {
    /// The outcome. A figure that is not known fails.
    fn check(&self, figures: &Figures) -> Check {
        let value = self.figure.value(figures);
        let shown = |value| self.figure.shown(value, self.limit);
        let holds = |value: f64| match self.relation {
            Relation::Above => value > self.limit,
            Relation::AtLeast => value >= self.limit,
            Relation::Below => value < self.limit,
            Relation::AtMost => value <= self.limit,
        };
        Check {
            name: format!("fails if {}", self.text),
            is_asked: true,
            is_passed: value.is_some_and(|value| !holds(value)),
            found: value.map_or_else(|| "not known".to_owned(), shown),
        }
    }
}

/// The outcomes of these conditions. Without one on errors, every failed request is a failure;
/// without a response the load has failed.
pub fn checks(conditions: &[Condition], figures: &Figures) -> Vec<Check> {
    let mut all: Vec<Check> = conditions.iter().map(|one| one.check(figures)).collect();
    if !conditions.iter().any(|one| one.figure.is_of_errors()) {
        all.push(Check {
            name: "no request fails".to_owned(),
            is_asked: false,
            is_passed: figures.failed == 0,
            found: format!("{} failed", amount(figures.failed as f64)),
        });
    }
    if figures.responses == 0 {
        let (name, found) = ("there is a response".to_owned(), "none".to_owned());
        all.push(Check { name, is_asked: false, is_passed: false, found });
    }
    all
}

/// Writes the outcomes as JUnit's XML.
///
/// # Errors
/// The file system's.
pub fn write_junit(file: &Path, subject: &str, checks: &[Check]) -> io::Result<()> {
    let failures = checks.iter().filter(|check| !check.is_passed).count();
    let suite = html! {
        testsuites {
            testsuite name=(subject) tests=(checks.len()) failures=(failures) {
                @for check in checks { (case(subject, check)) }
            }
        }
    };
    let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", suite.into_string());
    fs::write(file, text).map_err(|e| named(file, &e))
}

fn case(subject: &str, check: &Check) -> Markup {
    html! {
        testcase classname=(subject) name=(check.name) {
            @if check.is_passed { (PreEscaped("<system-out>")) (check.found) (PreEscaped("</system-out>")) }
            @else { failure message=(check.found) {} }
        }
    }
}

/// Appends the outcomes to a file as a table in Markdown, as GitHub's step summaries are.
///
/// # Errors
/// The file system's.
pub fn append_summary(file: &Path, subject: &str, checks: &[Check]) -> io::Result<()> {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut table =
        format!("### {}\n\n| check | outcome | value |\n|---|---|---|\n", cell(subject));
    for check in checks {
        let outcome = if check.is_passed { "passed" } else { "**failed**" };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {} | {outcome} | {} |", cell(&check.name), cell(&check.found));
    }
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.and_then(|mut file| writeln!(file, "{table}")).map_err(|e| named(file, &e))
}

fn named(file: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_a_figure_a_relation_and_a_limit() {
        let latency = Latency { p99_ms: 20.0, p99_9_ms: 30.0, ..Latency::default() };
        let figures = Figures {
            requests: 1_000,
            responses: 999,
            responses_per_s: 500.0,
            failed: 1,
            latency: Some(latency),
            ..Figures::default()
        };
        for (text, is_passed) in [
            ("p99 > 20ms", true),
            ("p99>=20 ms", false),
            ("p99.9 > 0.02s", false),
            ("p99.9 > 31000us", true),
            ("error_rate > 0.1%", true),
            ("error_rate >= 0.001", false),
            ("errors > 0", false),
            ("rate < 500", true),
            ("rate <= 500", false),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.check(&figures).is_passed, is_passed, "{text}");
        }
        let condition: Condition = "p50 > 1s".parse().unwrap();
        let check = condition.check(&Figures::default());
        assert!(!check.is_passed && check.found == "not known", "{check:?}");
        for (text, why) in [
            ("p98 > 1ms", "is no figure"),
            ("p99 20ms", "such as 'p99 > 20ms'"),
            ("p99 > 20", "is no time"),
            ("error_rate > x", "is no share"),
            ("rate > 5ms", "is no number"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// Regression: `rate < 1000` failed at `1,000/s`, which was 999.6.
    #[test]
    fn the_value_that_is_shown_is_on_its_side_of_the_limit() {
        let of = |p99_ms: f64, failed: u64, responses_per_s: f64| Figures {
            requests: 100_000,
            responses: 100_000 - failed,
            responses_per_s,
            failed,
            latency: Some(Latency { p99_ms, ..Latency::default() }),
            ..Figures::default()
        };
        let figures = of(20.04, 1_700, 999.6);
        let others = of(1_000.2, 700, 1_234_567.04);
        let least = of(0.0124, 0, 12.04);
        for (figures, text, is_passed, found) in [
            (&figures, "rate < 1000", false, "999.6/s"),
            (&figures, "rate < 999.6", true, "999.6/s"),
            (&figures, "rate < 900", true, "1,000/s"),
            (&figures, "p99 > 20ms", false, "20.04 ms"),
            (&figures, "p99 > 20.04ms", true, "20.04 ms"),
            (&figures, "p99 > 10ms", false, "20.0 ms"),
            (&figures, "error_rate > 1.7%", true, "1.7 %"),
            (&figures, "error_rate > 1.6999999%", false, "1.7 %"),
            (&figures, "errors > 1699", false, "1,700"),
            (&others, "p99 > 1s", false, "1.0002 s"),
            (&others, "rate > 1234567", false, "1,234,567.04/s"),
            // Regression: 7 of 1,000 were more than 0.7 %.
            (&others, "error_rate > 0.7%", true, "0.7 %"),
            (&others, "error_rate >= 0.7%", false, "0.7 %"),
            (&least, "p99 > 12us", false, "12.4 us"),
            (&least, "p99 > 1.3e1us", true, "12 us"),
            (&least, "rate <= 12", true, "12.04/s"),
            (&least, "error_rate > 0", true, "0 %"),
        ] {
            let condition: Condition = text.parse().unwrap();
            let check = condition.check(figures);
            assert_eq!((check.is_passed, check.found.as_str()), (is_passed, found), "{text}");
        }
    }

    #[test]
    fn a_failed_request_fails_unless_a_condition_is_about_errors() {
        let figures = Figures { requests: 9, responses: 8, failed: 1, ..Figures::default() };
        let passes = |words: &[&str], figures: &Figures| {
            let conditions: Vec<Condition> = words.iter().map(|w| w.parse().unwrap()).collect();
            checks(&conditions, figures).iter().all(|check| check.is_passed)
        };
        assert!(!passes(&[], &figures) && !passes(&["rate < 0"], &figures));
        assert!(passes(&["errors > 1"], &figures));
        let none = Figures { responses: 0, failed: 0, ..figures };
        assert!(!passes(&["errors > 1"], &none), "no response");
    }
}
