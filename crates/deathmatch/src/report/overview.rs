//! The overview: one line for each contender of a ladder.

use super::Data;
use super::limit::{Limit, words};
use super::measure::Measure;
use super::numbers::sensible;
use super::scale::step_words;
use super::series::{Ladder, Row, Steps};
use crate::stats::Saturation;

/// Shown for proxies, since a proxy can make its upstream more expensive; after the proxies' own
/// cost.
const UPSTREAM: Measure = Measure::UpstreamCpuPerRequest;
const UPSTREAM_AT: usize = 3;

/// Flag of a figure whose samples were all disturbed by other programs.
pub(super) const DISTURBED: &str = "*";

/// A table: a head and rows, the first column names.
pub(super) struct Table {
    pub(super) head: Vec<String>,
    /// (contender's name, cells).
    pub(super) rows: Vec<(String, Vec<String>)>,
}

/// Contenders by the highest rate they held, then by cost; the floor first.
pub(super) fn table(data: Data<'_>, ladder: &Ladder<'_>) -> Table {
    let step = ladder.common().or_else(|| ladder.widely_carried());
    let step = step.or_else(|| ladder.xs().first().copied()).unwrap_or_default();
    let at = step_words(step, ladder.steps.words().2);
    let unit = |measure: Measure| measure.words().1;
    let has_upstreams = ladder.rows.iter().any(|r| r.middle(UPSTREAM).is_some());
    let mut head = vec![
        "".to_owned(),
        if ladder.steps.are_rates() { "holds" } else { "best" }.to_owned(),
        format!("CPU/request, {} at {at}", unit(Measure::CpuPerRequest)),
        format!("p50, ms at {at}"),
        format!("p99, ms at {at}"),
        "errors from".to_owned(),
        "memory, MiB".to_owned(),
    ];
    if has_upstreams {
        head.insert(UPSTREAM_AT, format!("upstream's, {}", unit(UPSTREAM)));
    }
    let mut names = ladder.contenders();
    let cost = |name: &str| {
        let row = ladder.at(name, step);
        row.and_then(|r| r.middle(Measure::CpuPerRequest)).unwrap_or(f64::INFINITY)
    };
    let key = |name: &&str| (*name != data.run.floor, -best(data, ladder, name), cost(name));
    names.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    let rows = names.into_iter().map(|name| {
        // At a rate that it did not carry its figures belong to another load.
        let row = ladder.at(name, step).filter(|r| r.is_carried() || !ladder.steps.are_rates());
        let show = |measure| {
            let value = row.and_then(|r| r.middle(measure));
            let flag = if row.is_some_and(Row::is_disturbed) { DISTURBED } else { "" };
            value.map_or_else(|| "–".to_owned(), |value| sensible(value) + flag)
        };
        let mut cells = vec![
            data.run.title(name).to_owned(),
            held_words(data, ladder, name),
            show(Measure::CpuPerRequest),
            show(Measure::P50),
            show(Measure::P99),
            errors_from(ladder, name),
            show(Measure::Resident),
        ];
        if has_upstreams {
            cells.insert(UPSTREAM_AT, show(UPSTREAM));
        }
        (name.to_owned(), cells)
    });
    Table { head, rows: rows.collect() }
}

/// The highest step a contender held, without a gap from the first step on.
pub(super) fn last_held<'l>(ladder: &'l Ladder<'_>, name: &'l str) -> Option<&'l Row<'l>> {
    ladder.of(name).take_while(|r| r.is_held()).last()
}

/// A contender's limit as found by this ladder's search.
fn bracket<'a>(data: Data<'a>, ladder: &Ladder<'_>, name: &str) -> Option<&'a Saturation> {
    let its = |l: &&Limit| l.contender == name && l.file == ladder.file;
    let alone = ladder.steps == Steps::Even && ladder.beside.is_none();
    let limit = data.beside.limits.iter().find(its).filter(|_| alone)?;
    Some(&limit.bracket)
}

/// Sort key of a contender.
fn best(data: Data<'_>, ladder: &Ladder<'_>, name: &str) -> f64 {
    if ladder.of(name).any(Row::is_wrong) {
        return 0.0;
    }
    if let Some(bracket) = bracket(data, ladder, name) {
        return bracket.low;
    }
    if ladder.steps.are_rates() {
        return last_held(ladder, name).map_or(0.0, |r| r.x);
    }
    ladder.of(name).filter_map(|r| r.middle(Measure::Replies)).fold(0.0, f64::max)
}

/// The highest rate held; "at least" if the generator was the limit above it.
fn held_words(data: Data<'_>, ladder: &Ladder<'_>, name: &str) -> String {
    let limited = ladder.of(name).find(|r| r.is_limited());
    if ladder.of(name).any(Row::is_wrong) {
        return "wrong bytes".to_owned();
    }
    if let Some(bracket) = bracket(data, ladder, name) {
        return words(bracket);
    }
    if !ladder.steps.are_rates() {
        let sign = if limited.is_some() { "≥\u{202f}" } else { "" };
        let flag = if ladder.of(name).any(Row::is_disturbed) { DISTURBED } else { "" };
        return format!("{sign}{}/s{flag}", sensible(best(data, ladder, name)));
    }
    let known = last_held(ladder, name);
    let next = ladder.of(name).find(|r| r.x > known.map_or(0.0, |k| k.x));
    match (known, next) {
        (_, Some(next)) if next.is_limited() => {
            let rate = next.middle(Measure::Replies).unwrap_or_default();
            format!("≥\u{202f}{}/s, load-limited", sensible(rate))
        }
        (Some(row), Some(_)) => step_words(row.x, "/s"),
        // It held the highest step there was, and may hold more.
        (Some(row), None) => format!("≥\u{202f}{}", step_words(row.x, "/s")),
        (None, _) => "none".to_owned(),
    }
}

/// The first step with too many errors.
fn errors_from(ladder: &Ladder<'_>, name: &str) -> String {
    let first = ladder.of(name).find(|r| r.is_failing());
    first.map_or_else(|| "–".to_owned(), |r| step_words(r.x, ladder.steps.words().2))
}
