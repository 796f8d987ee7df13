//! Take-home sentences on the search for limits: the contenders that carry most and least, and
//! their behaviour in overload.

use super::Data;
use super::limit::{Limit, Overload, rate, words};
use super::numbers::{listed, round, sensible, subject};
use super::series::{HELD_P99_MS, Ladder};
use crate::stats::interval::median;

/// Number of groups named between the first and the last.
const GROUPS_MAX: usize = 3;

/// Share of the rate it carries that a contender must still answer in overload.
const KEPT_SHARE: f64 = 0.9;

/// Share of requests, in per cent, from which errors in overload are mentioned.
const ERRORS_PERCENT: f64 = 5.0;

/// p99 in overload, in milliseconds, from which it is mentioned: queued requests wait.
const SOON_MS: f64 = 100.0;

/// A file's competitors, best first.
fn ranked<'a>(data: Data<'a>, file: &str) -> Vec<&'a Limit> {
    data.beside.limits.iter().filter(|l| l.file == file && l.place.is_some()).collect()
}

/// Sentence on the rates carried; `None` if no limit was searched for.
pub(super) fn carried(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let limits = ranked(data, ladder.file);
    let mut groups: Vec<Vec<&Limit>> = Vec::new();
    for limit in limits {
        match groups.last_mut() {
            Some(group) if group[0].place == limit.place => group.push(limit),
            _ => groups.push(vec![limit]),
        }
    }
    let Some(first) = groups.first() else {
        let any = data.beside.limits.iter().any(|l| l.file == ladder.file && !l.wrong);
        let why = "The machine was unfit, and a bracket has no interval: the rates carried are not \
                   ranked.";
        return any.then(|| why.to_owned());
    };
    let names = |group: &[&Limit]| {
        listed(&group.iter().map(|l| data.run.title(&l.contender).to_owned()).collect::<Vec<_>>())
    };
    if first[0].bracket.low == 0.0 {
        return Some(format!(
            "No contender carried a rate with p99 within {} ms.",
            round(HELD_P99_MS)
        ));
    }
    let least = first.iter().map(|l| l.bracket.low).fold(f64::INFINITY, f64::min);
    let close = if first.len() > 1 { " (their limits cannot be distinguished)" } else { "" };
    let open = first.iter().any(|l| l.bracket.load_limited);
    let open = if open { ", where the generator was the limit" } else { "" };
    let mut sentence = format!(
        "{} carried most, at least {}/s with p99 within {} ms{close}{open}",
        names(first),
        rate(least),
        round(HELD_P99_MS)
    );
    let between = groups.len().saturating_sub(2).min(GROUPS_MAX);
    for group in &groups[1..1 + between] {
        sentence += &format!("; then {} ({})", names(group), range(group));
    }
    if let Some(last) = groups.last().filter(|_| groups.len() > 1) {
        sentence += &format!("; least of all {} ({})", names(last), range(last));
    }
    let floor =
        data.beside.limits.iter().find(|l| {
            l.file == ladder.file && l.contender == data.run.floor && l.bracket.low > 0.0
        });
    let floor =
        floor.map(|l| format!(" The floor, which only receives and sends: {}.", words(&l.bracket)));
    Some(format!("{sentence}.{}", floor.unwrap_or_default()))
}

/// The brackets of a group as one.
fn range(group: &[&Limit]) -> String {
    if let [one] = group {
        return words(&one.bracket);
    }
    let low = group.iter().map(|l| l.bracket.low).fold(f64::INFINITY, f64::min);
    let high = group.iter().map(|l| l.bracket.high.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    match high.is_finite() {
        true if low == 0.0 => format!("below {}/s", rate(high)),
        true => format!("between {} and {}/s", rate(low), rate(high)),
        false => format!("≥\u{202f}{}/s", rate(low)),
    }
}

/// Sentence on contenders offered more than they carry; `None` if there were none.
pub(super) fn overloaded(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let over: Vec<_> =
        ranked(data, ladder.file).into_iter().filter_map(|l| Some((l, l.overload?))).collect();
    let times = |(limit, over): &(&Limit, Overload)| over.offered / limit.bracket.low;
    let mut times: Vec<f64> = over.iter().map(times).filter(|t| t.is_finite()).collect();
    let times = round((10.0 * median(&mut times)?).round() / 10.0);
    let title = |limit: &Limit| data.run.title(&limit.contender).to_owned();
    let fell: Vec<String> = over
        .iter()
        .filter(|(limit, over)| over.replies < KEPT_SHARE * limit.bracket.low)
        .map(|(limit, over)| {
            let share = 100.0 * over.replies / limit.bracket.low;
            format!("{} to {}\u{202f}% of it", title(limit), sensible(share))
        })
        .collect();
    let failed: Vec<String> = over
        .iter()
        .filter(|(_, over)| over.errors_percent >= ERRORS_PERCENT)
        .map(|(limit, o)| format!("{} ({}\u{202f}%)", title(limit), sensible(o.errors_percent)))
        .collect();
    let is_soon = |over: &Overload| over.p99_ms.is_some_and(|ms| ms < SOON_MS);
    let (soon, late): (Vec<_>, Vec<_>) = over.iter().partition(|(_, over)| is_soon(over));
    let titles = |some: Vec<&(&Limit, Overload)>| some.into_iter().map(|(l, _)| title(l)).collect();
    let (soon, late): (Vec<String>, Vec<String>) = (titles(soon), titles(late));
    let mut sentence = match fell.is_empty() {
        true => {
            format!("Offered {times} times what it carries, every contender kept its throughput.")
        }
        false => format!(
            "Offered {times} times what each carries, these fell below that rate: {}.",
            listed(&fell)
        ),
    };
    let percent = round(ERRORS_PERCENT);
    if !failed.is_empty() {
        sentence += &format!(" More than {percent}\u{202f}% failed with {}.", listed(&failed));
    }
    if !soon.is_empty() {
        let within = round(SOON_MS);
        sentence += &format!(" {} kept p99 within {within} ms then.", subject(&soon, &late));
    }
    Some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::beside::Beside;
    use crate::report::{invented, ladders};

    #[test]
    fn limits_are_reported_in_groups() {
        let (run, samples) = invented::full::run();
        let (ladders, beside) = (ladders(&run, &samples), Beside::of(&run, &samples));
        let data = Data { run: &run, ladders: &ladders, rankings: &[], beside: &beside };
        let sentences = [carried(data, &ladders[0]), overloaded(data, &ladders[0])];
        let text = sentences.map(Option::unwrap).join("\n").replace('\u{202f}', " ");
        let rows = [
            ("Hurtle", "somebody is first"),
            ("with p99 within 10 ms", "by which bound"),
            ("least of all", "somebody is last"),
            ("The floor, which only receives and sends: ≥", "the machine's own limit"),
            ("Offered 1.5 times what each carries, these fell below", "beyond the limit"),
            ("Caddy to 4", "who collapses"),
        ];
        for (part, why) in rows {
            assert!(text.contains(part), "{why}: {part} is not in\n{text}");
        }
        for (part, why) in [("once more", "the twin"), ("Evil", "who is disqualified")] {
            assert!(!text.contains(part), "{why} is no competitor:\n{text}");
        }
    }
}
