//! Conditions under which a load has failed (`--fail-if`), and their outcome for continuous
//! integration: JUnit's XML, and a table in Markdown.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::{Figures, Latency, amount, milliseconds};

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
        let of_unit = |units: &[(&str, f64)]| {
            units.iter().find_map(|(unit, factor)| Some(number(text.strip_suffix(unit)?)? * factor))
        };
        match self {
            // "ms" and "us" end with "s" too.
            Figure::Time(_) => of_unit(&[("ms", 1.0), ("us", 1e-3), ("µs", 1e-3), ("s", 1e3)])
                .ok_or_else(|| format!("{text:?} is no time: write one such as 20ms or 1.5s")),
            Figure::ErrorRate => of_unit(&[("%", 0.01)])
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

    fn shown(self, value: f64) -> String {
        match self {
            Figure::Time(_) => milliseconds(value),
            Figure::ErrorRate => format!("{} %", (value * 1e5).round() / 1e3),
            Figure::Errors => amount(value),
            Figure::Rate => format!("{}/s", amount(value)),
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
            found: value.map_or_else(|| "not known".to_owned(), |value| self.figure.shown(value)),
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
