//! The take home: what the data says in sentences, each computed. A sentence claims no difference
//! that the intervals do not show.

use super::Data;
use super::measure::Measure;
use super::numbers::{listed, round, sensible};
use super::overview::held;
use super::rankings::close_pairs;
use super::scale::step_words;
use super::series::{ERROR_SHARE_MAX, HELD_P99_MS, Ladder, Row};

/// From how much deviation, in per cent, a contender is called unsteady.
const UNSTEADY_PERCENT: f64 = 10.0;

/// From how many times the median a contender stands out.
const STANDS_OUT: f64 = 2.0;

/// From how many times the best's a worst value's multiple is worth a word.
const TIMES_MIN: f64 = 1.1;

/// A gap between intervals smaller than this share is no difference worth a name.
const SAME_WITHIN: f64 = 0.02;

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
            least_of_all(data, ladder, &MOST).filter(|_| !ladder.steps.rates()),
            least_of_all(data, ladder, &CPU),
            least_of_half(data, ladder),
            least_of_all(data, ladder, &SOONEST),
            errors(data, ladder),
            unsteady(data, ladder),
            stands_out(data, ladder, Measure::Switches, "context switches"),
            stands_out(data, ladder, Measure::PagesFreed, "pages freed"),
            least_of_all(data, ladder, &SMALLEST),
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
        round(HELD_P99_MS),
        round(100.0 * ERROR_SHARE_MAX)
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
        Some(format!("{} (≥\u{202f}{rate}/s)", data.run.title(name)))
    };
    let names: Vec<String> = ladder.contenders().iter().filter_map(first).collect();
    let names = (!names.is_empty()).then(|| listed(&names))?;
    Some(format!("The generator was the limit for {names}: those rows are not ranked."))
}

/// What a sentence on the best and the worst says.
struct Claim {
    measure: Measure,
    best: &'static str,
    worst: &'static str,
}

const MOST: Claim = Claim { measure: Measure::Replies, best: "answered most", worst: "fewest" };
const CPU: Claim = Claim {
    measure: Measure::CpuPerRequest,
    best: "used the least CPU per request",
    worst: "most",
};
const SOONEST: Claim =
    Claim { measure: Measure::P99, best: "had the shortest p99", worst: "longest" };
const SMALLEST: Claim =
    Claim { measure: Measure::Resident, best: "kept the least memory", worst: "most" };

/// Who is best at the highest step that all carried.
fn least_of_all(data: Data<'_>, ladder: &Ladder<'_>, claim: &Claim) -> Option<String> {
    let step = ladder.common()?;
    let limited = ladder.rows.iter().any(|r| r.x == step && r.limited());
    let note = match ladder.steps.rates() {
        true if claim.measure == CPU.measure => ", the highest rate that all carried",
        false if limited => ", of those that the generator did not limit",
        _ => "",
    };
    least(data, ladder, step, note, claim)
}

/// Who uses the least processor time where only the better half still carries the rate: one slow
/// contender must not keep the others from being compared under load.
fn least_of_half(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let names = ranked(data, ladder);
    let carried =
        |x: f64| names.iter().filter(|name| ladder.at(name, x).is_some_and(Row::carried)).count();
    let enough = |x: &f64| carried(*x) >= 2 && 2 * carried(*x) >= names.len();
    let step = ladder.xs().into_iter().rev().find(enough)?;
    if !ladder.steps.rates() || ladder.common().is_some_and(|common| common >= step) {
        return None;
    }
    let note = format!(", which {} of {} carried", carried(step), names.len());
    least(data, ladder, step, &note, &CPU)
}

/// Who is best of those that carried a step.
fn least(
    data: Data<'_>,
    ladder: &Ladder<'_>,
    step: f64,
    note: &str,
    claim: &Claim,
) -> Option<String> {
    let fits = |row: &&Row<'_>| match ladder.steps.rates() {
        true => row.carried(),
        false => !row.limited() && !row.wrong(),
    };
    let mut rows: Vec<(&Row<'_>, f64)> = ranked(data, ladder)
        .into_iter()
        .filter_map(|name| ladder.at(name, step))
        .filter(fits)
        .filter_map(|row| Some((row, row.middle(claim.measure)?)))
        .collect();
    let more = claim.measure.more_is_better();
    rows.sort_by(|a, b| if more { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let [(first, value), .., (last, worst)] = rows[..] else { return None };
    let tied = rows.iter().filter(|(row, _)| overlap(data, claim.measure, first, row));
    let title = |row: &Row<'_>| data.run.title(row.contender).to_owned();
    let tied: Vec<String> = tied.map(|(row, _)| title(row)).collect();
    let (at, best) = (step_words(step, ladder.steps.words().2), claim.best);
    if tied.len() == rows.len() {
        return Some(format!("At {at}{note}, who {best} is too close to call: {}.", listed(&tied)));
    }
    let unit = claim.measure.words().1;
    let floor = ladder.at(&data.run.floor, step).and_then(|r| r.middle(claim.measure));
    let floor = floor.map(|v| format!(" (the floor: {})", sensible(v))).unwrap_or_default();
    let times = worst / value;
    let times = match times >= TIMES_MIN && times.is_finite() {
        true => format!(", {} times that", sensible(times)),
        false => String::new(),
    };
    let close = if tied.len() > 1 { ", too close to call between them" } else { "" };
    Some(format!(
        "At {at}{note}, {} {best}: {} {unit}{floor}{close}; {} the {}: {} {unit}{times}.",
        listed(&tied),
        sensible(value),
        title(last),
        claim.worst,
        sensible(worst),
    ))
}

/// Who had errors, and from where on.
fn errors(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let total: u64 = ladder.rows.iter().map(|r| r.failed().0).sum();
    let mut froms: Vec<String> = Vec::new();
    for step in ladder.xs() {
        let begins = |name: &&str| ladder.of(name).find(|r| r.failing()).map(|r| r.x) == Some(step);
        let names = ladder.contenders().into_iter().filter(begins).map(|name| {
            let shares = ladder.of(name).filter_map(|r| r.middle(Measure::Errors));
            let most = sensible(shares.fold(0.0, f64::max));
            format!("{} (up to {most} %)", data.run.title(name))
        });
        let names = listed(&names.collect::<Vec<_>>());
        if !names.is_empty() {
            froms.push(format!("from {} on {names}", step_words(step, ladder.steps.words().2)));
        }
    }
    if ladder.rows.is_empty() {
        return None;
    }
    let most = round(100.0 * ERROR_SHARE_MAX);
    Some(match (froms.is_empty(), total) {
        (true, 0) => "No request failed.".to_owned(),
        (true, some) => format!("Nobody failed more than {most} % of requests ({some} in all)."),
        _ => format!("Errors: {}; nobody else failed more than {most} %.", froms.join("; ")),
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

/// Which pairs are too close to call, ranking by ranking.
fn close(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let here = data.rankings.iter().filter(|r| ladder.rows.iter().any(|row| row.work == r.work));
    let by = here.filter_map(|ranking| {
        let pairs = close_pairs(data, ranking);
        let more = pairs.len().saturating_sub(PAIRS_MAX);
        let mut names: Vec<String> =
            pairs.into_iter().take(PAIRS_MAX).map(|(a, b)| format!("{a} / {b}")).collect();
        if more > 0 {
            names.push(format!("{more} more pairs"));
        }
        let by = format!("by {}, {}", ranking.measure.words().0, ranking.work);
        (!names.is_empty()).then(|| format!("{by}: {}", listed(&names)))
    });
    let by: Vec<String> = by.collect();
    (!by.is_empty()).then(|| format!("Too close to call {}.", by.join("; ")))
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
    let mut rows = data.ladders.iter().flat_map(|l| &l.rows).peekable();
    let once = rows.peek().is_some() && rows.all(|r| r.samples.len() == 1);
    let once = once.then(|| "Everything was measured once: differences may be chance.".to_owned());
    absent.chain(wrong).chain(once).collect()
}

/// Whether the intervals of two rows overlap or nearly do: those of the statistics where there are any, else
/// from the smallest to the largest round.
fn overlap(data: Data<'_>, measure: Measure, a: &Row<'_>, b: &Row<'_>) -> bool {
    let ranking = data.rankings.iter().find(|r| r.work == a.work && r.measure == measure);
    let standing = |row: &Row<'_>| {
        let rows = &ranking?.rows;
        rows.iter().find(|s| s.contender == row.contender).map(|s| (s.low, s.high))
    };
    let spread = |row: &Row<'_>| row.spread(measure).map(|s| (s.low, s.high));
    let ends = standing(a).zip(standing(b)).or_else(|| spread(a).zip(spread(b)));
    let near = 1.0 + SAME_WITHIN;
    ends.is_some_and(|(a, b)| a.0 <= b.1 * near && b.0 <= a.1 * near)
}

/// A ladder's contenders without the floor.
fn ranked<'a>(data: Data<'_>, ladder: &Ladder<'a>) -> Vec<&'a str> {
    ladder.contenders().into_iter().filter(|name| *name != data.run.floor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Ranking, Run, invented};
    use crate::sample::{Errors, Mark, Sample};

    fn said(run: &Run, samples: &[Sample], rankings: &[Ranking]) -> String {
        let ladders = crate::report::series::ladders(samples);
        let all = take_home(Data { run, ladders: &ladders, rankings });
        let text: Vec<String> = all.into_iter().flat_map(|said| said.sentences).collect();
        text.join("\n").replace('\u{202f}', " ")
    }

    #[test]
    fn sentences_follow_from_the_samples() {
        let (run, samples, rankings) = invented::run();
        let text = said(&run, &samples, &rankings);
        let rows = [
            ("held the highest rate: 40 000/s", "whoever carried it in time"),
            ("Erlang inets held none", "44 ms are too late"),
            ("The generator was the limit for", "what the generator could not offer is told"),
            (
                "At 2 000/s, the highest rate that all carried, Hurtle used the least CPU",
                "one best",
            ),
            ("At 20 000/s, which 11 of 14 carried, Hurtle", "one slow contender hides nothing"),
            ("Hurtle and lighttpd had the shortest p99", "a tie names both"),
            ("too close to call between them", "and says that it is one"),
            (
                "At 50 connections, of those that the generator did not limit, Apache worker answered",
                "most",
            ),
            ("from 3 000/s on Erlang inets", "errors begin somewhere"),
            ("MochiWeb from 4 000/s on", "and so does unsteadiness"),
            ("Yaws stands out", "by context switches, as in the deck"),
            ("lighttpd / h2o", "pairs that overlap"),
            ("Swazoo did not run: gst", "who is missing, and why"),
        ];
        for (part, why) in rows {
            assert!(text.contains(part), "{why}: {part} is not in\n{text}");
        }
    }

    #[test]
    fn sentences_change_with_the_samples() {
        let (mut run, all, _) = invented::run();
        run.contenders.retain(|c| c.absent.is_none());
        let of = |names: &[&str]| -> Vec<Sample> {
            let low = |s: &&Sample| s.work == "10k at 1000/s" && names.contains(&&*s.contender);
            all.iter().filter(low).cloned().collect()
        };
        let with = |change: fn(&mut Sample)| {
            let mut samples = of(&["hurtle", "nginx"]);
            samples.iter_mut().filter(|s| s.contender == "nginx").for_each(change);
            samples
        };
        let rows: [(Vec<Sample>, &str, &str); 7] = [
            (of(&["hurtle", "nginx"]), "No request failed.", "none did"),
            (of(&["hurtle", "nginx"]), "nginx held the highest rate: the highest offered", "both"),
            (of(&["inets"]), "Nobody held even the lowest rate", "nobody did"),
            (
                with(|s| s.load.errors = Errors { reset: 900, ..Errors::default() }),
                "nginx (up to 18.0 %)",
                "errors",
            ),
            (
                with(|s| s.marks.push(Mark::WrongBytes)),
                "nginx sent wrong bytes: disqualified.",
                "bytes",
            ),
            (with(|s| s.marks.push(Mark::GeneratorLate)), "nginx (≥ 1 000/s)", "a late generator"),
            (
                of(&["lighttpd", "h2o"]),
                "who used the least CPU per request is too close to call",
                "a tie",
            ),
        ];
        for (samples, part, why) in rows {
            let text = said(&run, &samples, &[]);
            assert!(text.contains(part), "{why}: {part} is not in\n{text}");
        }
    }
}
