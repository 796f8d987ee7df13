//! The take home: what the data says in sentences, each computed. A sentence claims no difference
//! that the intervals do not show.

use super::Data;
use super::numbers::{listed, sensible};
use super::overview::held;
use super::rankings::close_pairs;
use super::scale::step_words;
use super::series::{ERROR_SHARE_MAX, HELD_P99_MS, Ladder, Measure, Row};

/// From how much deviation, in per cent, a contender is called unsteady.
const UNSTEADY_PERCENT: f64 = 10.0;

/// From how many times the median a contender stands out.
const STANDS_OUT: f64 = 2.0;

/// Close pairs that are named; the table shows all.
const PAIRS_MAX: usize = 6;

/// What there is to say of one ladder, or of the run.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    /// The ladder's title; empty for what concerns the run.
    pub(super) about: String,
    pub(super) sentences: Vec<String>,
}

/// Everything there is to say, ladder by ladder.
pub(super) fn take_home(data: Data<'_>) -> Vec<Said> {
    let ladders = data.ladders.iter().map(|ladder| Said {
        about: ladder.title(),
        sentences: [
            highest(data, ladder),
            limited(data, ladder),
            least(data, ladder, Measure::CpuPerRequest, "used the least CPU per request", "most"),
            least(data, ladder, Measure::P99, "had the shortest p99", "longest"),
            errors(data, ladder),
            unsteady(data, ladder),
            stands_out(data, ladder, Measure::Switches, "context switches"),
            stands_out(data, ladder, Measure::PagesFreed, "pages freed"),
            least(data, ladder, Measure::Resident, "kept the least memory", "most"),
            close(data, ladder),
        ]
        .into_iter()
        .flatten()
        .collect(),
    });
    let run = Said { about: String::new(), sentences: of_the_run(data) };
    ladders.chain([run]).filter(|said| !said.sentences.is_empty()).collect()
}

/// Who held the highest rate.
fn highest(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    if !ladder.steps.rates() {
        return None;
    }
    let names = ranked(data, ladder);
    let rate = |name: &str| held(ladder, name).map_or(0.0, |r| r.x);
    let most = names.iter().map(|name| rate(name)).fold(0.0, f64::max);
    let bounds = format!(
        "p99 within {} ms, at most {} % errors",
        sensible(HELD_P99_MS),
        100.0 * ERROR_SHARE_MAX
    );
    if most == 0.0 {
        return Some(format!("Nobody held even the lowest rate ({bounds})."));
    }
    let those = |which: &dyn Fn(f64) -> bool| {
        let those = names.iter().filter(|name| which(rate(name)));
        those.map(|name| data.run.title(name).to_owned()).collect::<Vec<_>>()
    };
    let first = those(&|r| r == most);
    let top = ladder.xs().last().is_some_and(|x| *x == most);
    let step = step_words(most, "/s");
    let end = if top { format!("the highest offered, {step}") } else { step };
    let mut sentence = format!("{} held the highest rate: {end} ({bounds}).", listed(&first));
    let least = names.iter().map(|name| rate(name)).fold(f64::INFINITY, f64::min);
    if least < most {
        let last = listed(&those(&|r| r == least));
        sentence += &match least > 0.0 {
            true => format!(" {last} held the lowest: {}.", step_words(least, "/s")),
            false => format!(" {last} held none."),
        };
    }
    Some(sentence)
}

/// For whom the generator was the limit.
fn limited(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let first = |name: &&str| {
        let row = ladder.of(name).find(|r| r.limited())?;
        let rate = sensible(row.middle(Measure::Replies)?);
        Some(format!("{} (≥ {rate}/s)", data.run.title(name)))
    };
    let names: Vec<String> = ladder.contenders().iter().filter_map(first).collect();
    let names = (!names.is_empty()).then(|| listed(&names))?;
    Some(format!("The generator was the limit for {names}: those rows are not ranked."))
}

/// Who is best by a measure of which less is better, at the highest step that all carried.
fn least(
    data: Data<'_>,
    ladder: &Ladder<'_>,
    measure: Measure,
    claim: &str,
    opposite: &str,
) -> Option<String> {
    let step = ladder.common()?;
    let mut rows: Vec<(&Row<'_>, f64)> = ranked(data, ladder)
        .into_iter()
        .filter_map(|name| ladder.at(name, step))
        .filter(|row| !row.limited() && !row.wrong())
        .filter_map(|row| Some((row, row.middle(measure)?)))
        .collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(first, value), .., (last, worst)] = rows[..] else { return None };
    let unit = measure.words().1;
    let title = |row: &Row<'_>| data.run.title(row.contender).to_owned();
    let tied: Vec<String> = rows
        .iter()
        .filter(|(r, _)| overlap(data, measure, first, r))
        .map(|(r, _)| title(r))
        .collect();
    let at = step_words(step, ladder.steps.words().2);
    let carried = match measure {
        Measure::CpuPerRequest if ladder.steps.rates() => ", the highest rate that all carried",
        _ => "",
    };
    if tied.len() == rows.len() {
        let all = listed(&tied);
        return Some(format!("At {at}{carried}, who {claim} is too close to call: {all}."));
    }
    let floor = ladder.at(&data.run.floor, step).and_then(|r| r.middle(measure));
    let floor = floor.map(|v| format!(" (the floor: {})", sensible(v))).unwrap_or_default();
    let times = worst / value;
    let times = match times >= 1.1 && times.is_finite() {
        true => format!(", {} times as much", sensible(times)),
        false => String::new(),
    };
    let close = if tied.len() > 1 { ", too close to call between them" } else { "" };
    Some(format!(
        "At {at}{carried}, {} {claim}: {} {unit}{floor}{close}; {} the {opposite}: {} {unit}{times}.",
        listed(&tied),
        sensible(value),
        title(last),
        sensible(worst),
    ))
}

/// Who had errors, and from where on.
fn errors(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let unit = ladder.steps.words().2;
    let first = |name: &&str| {
        let row = ladder.of(name).find(|r| r.failing())?;
        let worst = ladder.of(name).filter_map(|r| Some((r, r.middle(Measure::Errors)?)));
        let (at, share) = worst.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let where_ = match at.x == row.x {
            true => "there".to_owned(),
            false => format!("at {}", step_words(at.x, unit)),
        };
        let from = step_words(row.x, unit);
        Some(format!("{} from {from} on ({} % {where_})", data.run.title(name), sensible(share)))
    };
    let names = ladder.contenders();
    let failing: Vec<String> = names.iter().filter_map(first).collect();
    let total: u64 = ladder.rows.iter().map(|r| r.failed().0).sum();
    Some(match (failing.len(), total) {
        (0, 0) => "No request failed.".to_owned(),
        (0, some) => format!("Nobody failed more than 0.01 % of requests ({some} in all)."),
        _ => format!("Errors: {}; nobody else failed more than 0.01 %.", listed(&failing)),
    })
}

/// Whose replies came in fits and starts.
fn unsteady(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let first = |name: &str| {
        let rough = |r: &&Row<'_>| r.middle(Measure::Deviation) >= Some(UNSTEADY_PERCENT);
        let row = ladder.of(name).find(rough)?;
        let (title, unit) = (data.run.title(name), ladder.steps.words().2);
        let percent = sensible(row.middle(Measure::Deviation)?);
        Some(format!("{title} from {} on (± {percent} %)", step_words(row.x, unit)))
    };
    let names: Vec<String> = ranked(data, ladder).into_iter().filter_map(first).collect();
    (!names.is_empty())
        .then(|| format!("Unsteady from one second to the next: {}.", listed(&names)))
}

/// Who is far above the others by a measure.
fn stands_out(data: Data<'_>, ladder: &Ladder<'_>, measure: Measure, what: &str) -> Option<String> {
    let step = ladder.common()?;
    let value = |name: &str| Some((name.to_owned(), ladder.at(name, step)?.middle(measure)?));
    let mut values: Vec<(String, f64)> =
        ranked(data, ladder).into_iter().filter_map(value).collect();
    values.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (name, most) = values.last()?;
    let (_, median) = values.get(values.len() / 2)?;
    let out = values.len() > 2 && *most >= STANDS_OUT * median && *most > 0.0;
    out.then(|| {
        format!(
            "{} stands out with {} {what} a second at {}; the median contender has {}.",
            data.run.title(name),
            sensible(*most),
            step_words(step, ladder.steps.words().2),
            sensible(*median)
        )
    })
}

/// Which pairs are too close to call.
fn close(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let here = data.rankings.iter().filter(|r| ladder.rows.iter().any(|row| row.work == r.work));
    let pairs: Vec<String> = here
        .flat_map(|ranking| {
            let by = format!("{}, {}", ranking.measure.words().0, ranking.work);
            let pairs = close_pairs(data, ranking);
            pairs.into_iter().map(move |(a, b)| format!("{a} / {b} ({by})"))
        })
        .collect();
    let more = pairs.len().saturating_sub(PAIRS_MAX);
    let shown = pairs.iter().take(PAIRS_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(", and {more} more pairs") } else { String::new() };
    (!pairs.is_empty()).then(|| format!("Too close to call: {shown}{more}."))
}

/// Who did not run and who is disqualified.
fn of_the_run(data: Data<'_>) -> Vec<String> {
    let absent = data.run.contenders.iter().filter_map(|c| {
        let why = c.absent.as_ref()?.trim_end_matches('.');
        Some(format!("{} did not run: {why}.", data.run.title(&c.name)))
    });
    let mut wrong: Vec<String> = Vec::new();
    for row in data.ladders.iter().flat_map(|l| &l.rows).filter(|r| r.wrong()) {
        let sentence = format!("{} sent wrong bytes: disqualified.", data.run.title(row.contender));
        if !wrong.contains(&sentence) {
            wrong.push(sentence);
        }
    }
    absent.chain(wrong).collect()
}

/// Whether the intervals of two rows overlap: those of the statistics where there are any, else
/// from the smallest to the largest round.
fn overlap(data: Data<'_>, measure: Measure, a: &Row<'_>, b: &Row<'_>) -> bool {
    let ranking = data.rankings.iter().find(|r| r.work == a.work && r.measure == measure);
    let standing = |row: &Row<'_>| {
        let rows = &ranking?.rows;
        rows.iter().find(|s| s.contender == row.contender).map(|s| (s.low, s.high))
    };
    let spread = |row: &Row<'_>| row.spread(measure).map(|s| (s.low, s.high));
    let ends = standing(a).zip(standing(b)).or_else(|| spread(a).zip(spread(b)));
    ends.is_some_and(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
}

/// A ladder's contenders without the floor.
fn ranked<'a>(data: Data<'_>, ladder: &Ladder<'a>) -> Vec<&'a str> {
    ladder.contenders().into_iter().filter(|name| *name != data.run.floor).collect()
}
