//! The take home: sentences computed from the data. A sentence claims no difference that the
//! intervals do not show.

use super::Data;
use super::capacity;
use super::claims::{CPU, MOST, SMALLEST, SOONEST, best_of_all, best_of_half, ranked};
use super::measure::Measure;
use super::missing::is_missing;
use super::numbers::{listed, round, sensible, subject};
use super::overview::last_held;
use super::rankings::{close_pairs, is_decisive};
use super::scale::step_words;
use super::series::{ERROR_SHARE_MAX, HELD_P99_MS, Ladder, Row, Steps};

/// The heading of sentences on the run as a whole.
pub(super) const THE_RUN: &str = "The run";

/// Deviation, in per cent, from which a contender is called unsteady.
const UNSTEADY_PERCENT: f64 = 10.0;

/// Multiple of the median from which a contender stands out.
const STANDS_OUT: f64 = 2.0;

/// Share of the processors taken by a virtual machine's host from which it is mentioned.
const STOLEN_MIN: f64 = 0.01;

/// Number of close pairs that are named; the table shows all.
const PAIRS_MAX: usize = 6;

/// Sentences on one ladder, or on the run.
#[derive(Debug, PartialEq)]
pub(super) struct Findings {
    /// The ladder's title, or "The run".
    pub(super) about: String,
    pub(super) sentences: Vec<String>,
}

/// All sentences, ladder by ladder.
pub(super) fn take_home(data: Data<'_>) -> Vec<Findings> {
    let ladders = data.ladders.iter().map(|ladder| Findings {
        about: ladder.title(),
        sentences: [
            capacity::carried(data, ladder).filter(|_| is_search(data, ladder)),
            highest(data, ladder),
            capacity::overloaded(data, ladder).filter(|_| is_search(data, ladder)),
            limited(data, ladder),
            best_of_all(data, ladder, &MOST).filter(|_| !ladder.steps.are_rates()),
            best_of_all(data, ladder, &CPU),
            best_of_half(data, ladder),
            best_of_all(data, ladder, &SOONEST).filter(|_| ladder.steps.are_rates()),
            errors(data, ladder),
            unsteady(data, ladder),
            outliers(data, ladder, Measure::Switches),
            outliers(data, ladder, Measure::PagesFreed),
            best_of_all(data, ladder, &SMALLEST).filter(|_| ladder.steps.are_rates()),
            close(data, ladder),
        ]
        .into_iter()
        .flatten()
        .collect(),
    });
    let run = Findings { about: THE_RUN.to_owned(), sentences: of_the_run(data) };
    ladders.chain([run]).filter(|claims| !claims.sentences.is_empty()).collect()
}

/// `true` if a ladder is the search for limits, whose results the brackets show.
fn is_search(data: Data<'_>, ladder: &Ladder<'_>) -> bool {
    let alone = ladder.steps == Steps::Even && ladder.beside.is_none();
    alone && data.beside.limits.iter().any(|l| l.file == ladder.file)
}

/// Sentence on the highest rate held.
fn highest(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    if !ladder.steps.are_rates() || is_search(data, ladder) {
        return None;
    }
    // A contender whose lowest missed rate was missed by the generator may hold more.
    let is_open = |name: &&str| {
        let held = last_held(ladder, name).map_or(0.0, |r| r.x);
        ladder.of(name).find(|r| r.x > held).is_some_and(Row::is_limited)
    };
    let (open, names): (Vec<&str>, Vec<&str>) = ranked(data, ladder).into_iter().partition(is_open);
    if names.is_empty() {
        return (!open.is_empty()).then(|| "The generator was the limit for all.".to_owned());
    }
    let rate = |name: &str| last_held(ladder, name).map_or(0.0, |r| r.x);
    let most = names.iter().map(|name| rate(name)).fold(0.0, f64::max);
    let bounds = format!(
        "p99 within {} ms, at most {}\u{202f}% errors",
        round(HELD_P99_MS),
        round(100.0 * ERROR_SHARE_MAX)
    );
    if most == 0.0 {
        return Some(format!("No contender held even the lowest rate ({bounds})."));
    }
    let those = |which: &dyn Fn(f64) -> bool| {
        let those = |not: bool| {
            let those = names.iter().filter(|name| which(rate(name)) != not);
            those.map(|name| data.run.title(name).to_owned()).collect::<Vec<_>>()
        };
        subject(&those(false), &those(true))
    };
    let first = those(&|r| r == most);
    let top = ladder.xs().last().is_some_and(|x| *x == most);
    let step = step_words(most, "/s");
    let end = if top { format!("the highest offered, {step}") } else { step };
    let mut sentence = format!("{first} held the highest rate: {end} ({bounds}).");
    let least = names.iter().map(|name| rate(name)).fold(f64::INFINITY, f64::min);
    if least < most {
        let last = those(&|r| r == least);
        sentence += &match least > 0.0 {
            true => format!(" {last} held the lowest: {}.", step_words(least, "/s")),
            false => format!(" {last} held none."),
        };
    }
    if !open.is_empty() {
        let titles: Vec<String> = open.iter().map(|n| data.run.title(n).to_owned()).collect();
        sentence += &format!(" Unknown for {}: the generator was the limit.", listed(&titles));
    }
    Some(sentence)
}

/// Sentence on contenders for which the generator was the limit.
fn limited(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let first = |name: &&str| {
        let row = ladder.of(name).find(|r| r.is_limited())?;
        let rate = sensible(row.middle(Measure::Replies)?);
        Some(format!("{} (≥\u{202f}{rate}/s)", data.run.title(name)))
    };
    let names: Vec<String> = ladder.contenders().iter().filter_map(first).collect();
    // In a search the brackets show it.
    let names = if is_search(data, ladder) { Vec::new() } else { names };
    let names = (!names.is_empty()).then(|| listed(&names))?;
    Some(format!("The generator was the limit for {names}: those rows are not ranked."))
}

/// Sentence on contenders with errors, and from which rate on.
fn errors(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let total: u64 = ladder.rows.iter().map(|r| r.failed().0).sum();
    let mut froms: Vec<String> = Vec::new();
    for step in ladder.xs() {
        let begins =
            |name: &&str| ladder.of(name).find(|r| r.is_failing()).map(|r| r.x) == Some(step);
        let names = ladder.contenders().into_iter().filter(begins).map(|name| {
            let shares = ladder.of(name).filter_map(|r| r.middle(Measure::Errors));
            let most = sensible(shares.fold(0.0, f64::max));
            format!("{} (up to {most}\u{202f}%)", data.run.title(name))
        });
        let names = listed(&names.collect::<Vec<_>>());
        if !names.is_empty() {
            froms.push(format!("from {} on {names}", step_words(step, ladder.steps.words().2)));
        }
    }
    // A search looks for errors beyond the limits.
    if ladder.rows.is_empty() || is_search(data, ladder) && total > 0 {
        return None;
    }
    let most = round(100.0 * ERROR_SHARE_MAX);
    Some(match (froms.is_empty(), total) {
        (true, 0) => "No request failed.".to_owned(),
        (true, some) => {
            format!("No contender failed more than {most}\u{202f}% of requests ({some} in all).")
        }
        _ => format!(
            "Errors: {}; no other contender failed more than {most}\u{202f}%.",
            froms.join("; ")
        ),
    })
}

/// Sentence on contenders with unsteady replies.
fn unsteady(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let first = |name: &str| {
        let rough = |r: &&Row<'_>| r.middle(Measure::Deviation) >= Some(UNSTEADY_PERCENT);
        let row = ladder.of(name).find(rough)?;
        let (title, unit) = (data.run.title(name), ladder.steps.words().2);
        let percent = sensible(row.middle(Measure::Deviation)?);
        Some(format!("{title} from {} on (± {percent}\u{202f}%)", step_words(row.x, unit)))
    };
    let names: Vec<String> = ranked(data, ladder).into_iter().filter_map(first).collect();
    (!names.is_empty())
        .then(|| format!("Unsteady from one second to the next: {}.", listed(&names)))
}

/// Sentence on contenders far above the others by a measure, at a rate all carried.
fn outliers(data: Data<'_>, ladder: &Ladder<'_>, measure: Measure) -> Option<String> {
    let step = ladder.common().filter(|_| ladder.steps.are_rates())?;
    let value = |name: &str| {
        let value = ladder.at(name, step)?.middle(measure)?;
        Some((data.run.title(name).to_owned(), value))
    };
    let mut values: Vec<(String, f64)> =
        ranked(data, ladder).into_iter().filter_map(value).collect();
    values.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (_, median) = *values.get(values.len() / 2)?;
    let out = values.iter().filter(|(_, value)| *value > 0.0 && *value >= STANDS_OUT * median);
    let out: Vec<String> =
        out.map(|(title, value)| format!("{title} ({}/s)", sensible(*value))).collect();
    (values.len() > 2 && !out.is_empty()).then(|| {
        format!(
            "{} at {}: {} {} far above the others; the median contender has {}/s.",
            measure.words().0,
            step_words(step, ladder.steps.words().2),
            listed(&out),
            if out.len() == 1 { "is" } else { "are" },
            sensible(median)
        )
    })
}

/// Pairs that are too close to call, by ranking. Of two contenders the other sentences say it.
fn close(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    if ranked(data, ladder).len() < 3 {
        return None;
    }
    let here = data.rankings.iter().filter(|r| ladder.rows.iter().any(|row| row.work == r.work));
    let here = here.filter(|r| is_decisive(data, r));
    let by = here.filter_map(|ranking| {
        let pairs = close_pairs(data, ranking);
        let more = pairs.len().saturating_sub(PAIRS_MAX);
        let mut names: Vec<String> =
            pairs.into_iter().take(PAIRS_MAX).map(|(a, b)| format!("{a} / {b}")).collect();
        if more > 0 {
            names.push(format!("{more} more pairs"));
        }
        let by = format!("by {}, {}", ranking.measure.in_a_sentence(), ranking.work);
        (!names.is_empty()).then(|| format!("{by}: {}", listed(&names)))
    });
    let by: Vec<String> = by.collect();
    (!by.is_empty()).then(|| format!("Too close to call {}.", by.join("; ")))
}

/// Sentences on contenders that did not finish or are disqualified, and on the machine.
fn of_the_run(data: Data<'_>) -> Vec<String> {
    let failed = data.run.contenders.iter().filter(|c| !is_missing(data, c));
    let failed = failed.filter_map(|c| {
        let why = c.absent.as_ref()?.trim_end_matches('.');
        Some(format!("{} did not finish: {why}.", data.run.title(&c.name)))
    });
    let mut wrong: Vec<String> = Vec::new();
    for row in data.ladders.iter().flat_map(|l| &l.rows).filter(|r| r.is_wrong()) {
        let sentence = format!("{} sent wrong bytes: disqualified.", data.run.title(row.contender));
        if !wrong.contains(&sentence) {
            wrong.push(sentence);
        }
    }
    let mut rows = data.ladders.iter().flat_map(|l| &l.rows).peekable();
    let once = rows.peek().is_some() && rows.all(|r| r.samples.len() == 1);
    let once = once.then(|| "There is one sample of each: differences may be chance.".to_owned());
    failed.chain(wrong).chain(once).chain(stolen(data)).collect()
}

/// Sentence on the processor time that the host of a virtual machine took away. It takes
/// milliseconds at once, so the slowest responses show it and other figures hardly do.
fn stolen(data: Data<'_>) -> Option<String> {
    let samples = data.ladders.iter().flat_map(|ladder| &ladder.rows).flat_map(|row| &row.samples);
    let (mut all, mut stolen) = (0, 0);
    for machine in samples.filter_map(|sample| sample.machine.as_ref()) {
        all += 1;
        stolen += usize::from(machine.steal > STOLEN_MIN);
    }
    (stolen > 0).then(|| {
        format!(
            "This machine's host took more than 1 % of the processors in {stolen} of {all} samples: \
             that is part of their p99."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::beside::Beside;
    use crate::report::{Ranking, Run, invented};
    use crate::sample::{Errors, Mark, Offered, Sample};

    fn text_of(run: &Run, samples: &[Sample], rankings: &[Ranking]) -> String {
        let ladders = crate::report::ladders(run, samples);
        let beside = Beside::of(run, samples);
        let all = take_home(Data { run, ladders: &ladders, rankings, beside: &beside });
        let text: Vec<String> = all.into_iter().flat_map(|claims| claims.sentences).collect();
        text.join("\n").replace('\u{202f}', " ")
    }

    #[test]
    fn sentences_follow_from_the_samples() {
        let (run, samples, rankings) = invented::run();
        let text = text_of(&run, &samples, &rankings);
        let rows = [
            ("held the highest rate: 40 000/s", "whoever carried it in time"),
            ("Erlang inets held none", "44 ms are too late"),
            ("The generator was the limit for", "what the generator could not offer is told"),
            (
                "At 2 000/s, the highest rate that all carried, Hurtle used the least CPU",
                "one best",
            ),
            ("At 20 000/s, which 13 of 17 carried, Hurtle", "one slow contender hides nothing"),
            ("Hurtle and lighttpd had the shortest p99", "a tie names both"),
            ("too close to call between them", "and says that it is one"),
            (
                "At 50 connections, of those that the generator did not limit, Swift answered",
                "most",
            ),
            ("from 3 000/s on Erlang inets", "errors begin somewhere"),
            ("MochiWeb from 4 000/s on", "and so does unsteadiness"),
            ("Context switches at 2 000/s: Yaws", "by context switches, as in the deck"),
            ("in too few rounds to be sure; ", "fewer than six rounds prove nothing"),
            ("lighttpd / h2o", "pairs that overlap"),
        ];
        for (part, why) in rows {
            assert!(text.contains(part), "{why}: {part} is not in\n{text}");
        }
    }

    #[test]
    fn the_least_cpu_of_a_closed_loop_is_said_of_busy_servers_alone() {
        let (run, all, _) = invented::run();
        let of = |s: &&Sample| ["swift", "caddy", "go"].contains(&&*s.contender);
        let closed = all.iter().filter(|s| matches!(s.offered, Offered::Closed { .. })).filter(of);
        let mut samples: Vec<Sample> = closed.cloned().collect();
        let note = "of those that had no idle time";
        let before = text_of(&run, &samples, &[]);
        for server in samples.iter_mut().filter(|s| s.contender == "swift") {
            server.server.as_mut().unwrap().cpu_s *= 0.8;
        }
        let after = text_of(&run, &samples, &[]);
        assert_eq!((before.contains(note), after.contains(note)), (false, true), "{after}");
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
        let rows: [(Vec<Sample>, &str, &str); 8] = [
            (of(&["hurtle", "nginx"]), "No request failed.", "none did"),
            (of(&["hurtle", "nginx"]), "nginx held the highest rate: the highest offered", "both"),
            (of(&["inets"]), "No contender held even the lowest rate", "nobody did"),
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
            (
                with(|s| s.machine.as_mut().unwrap().steal = 0.02),
                "took more than 1 % of the processors in ",
                "a host",
            ),
            (with(invented::give_out), "nginx (≥ 1 000/s)", "a busy generator"),
            (
                of(&["lighttpd", "h2o"]),
                "it is too close to call which contender used the least CPU per request",
                "a tie",
            ),
        ];
        for (samples, part, why) in rows {
            let text = text_of(&run, &samples, &[]);
            assert!(text.contains(part), "{why}: {part} is not in\n{text}");
        }
    }
}
