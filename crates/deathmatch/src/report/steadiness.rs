//! Steadiness of the machine: the floor probes before and after each round, against the median of
//! all.

use std::collections::BTreeMap;

use super::Data;
use super::chart::{self, Line, LineStyle, Plot, Point};
use super::charts::Chart;
use super::measure::Measure;
use super::numbers::{listed, round, sensible};
use super::scale::Scale;
use crate::sample::{Mark, Sample};
use crate::stats::FLOOR_OFF_MAX;

struct FloorProbe<'a> {
    work: &'a str,
    round: u32,
    attempt: u32,
    replies: f64,
    /// Its round was measured again.
    set_aside: bool,
}

/// The chart; `None` without probes.
pub(super) fn chart(data: Data<'_>) -> Option<Chart> {
    let probes: Vec<FloorProbe<'_>> = data.beside.looks.iter().filter_map(|s| probe(s)).collect();
    let mut all: Vec<f64> = probes.iter().filter(|g| !g.set_aside).map(|g| g.replies).collect();
    let median = crate::stats::interval::median(&mut all)?;
    let off = |probe: &FloorProbe<'_>| 100.0 * (probe.replies / median - 1.0);
    let rounds = probes.iter().map(|g| g.round + 1).max()?;
    let mut by_line: BTreeMap<(bool, &str), Vec<&FloorProbe<'_>>> = BTreeMap::new();
    for probe in &probes {
        by_line.entry((probe.set_aside, probe.work)).or_default().push(probe);
    }
    let line =
        |(at, ((set_aside, work), probes)): (usize, ((bool, &str), Vec<&FloorProbe<'_>>))| Line {
            title: if set_aside { format!("{work} (1st)") } else { work.to_owned() },
            style: LineStyle::Nth(at),
            points: upward(probes.into_iter().map(|g| point(g, off(g))).collect()),
            has_markers: true,
        };
    let lines: Vec<Line> = by_line.into_iter().enumerate().map(line).collect();
    let margin = 100.0 * FLOOR_OFF_MAX;
    let (first, last) = (0.6, f64::from(rounds) + 0.4);
    let band =
        [(first, margin), (last, margin), (last, -margin), (first, -margin), (first, margin)];
    let offs: Vec<f64> = probes.iter().map(off).chain([margin]).collect();
    let plot = Plot {
        title: format!("The floor beside each round, against its median of {}/s", sensible(median)),
        x_label: "round".to_owned(),
        y_label: "% off the median".to_owned(),
        x: Scale::counted(rounds),
        y: Scale::about_nought(&offs),
        guide: Some((band.to_vec(), "within 5 % of the median")),
        seams: Vec::new(),
        lines,
    };
    let mut numbers =
        vec![["round", "attempt", "look", "replies/s", "% off"].map(str::to_owned).into()];
    numbers.extend(probes.iter().map(|g| {
        let work = if g.set_aside { format!("{}, set aside", g.work) } else { g.work.to_owned() };
        let off = format!("{:+.1}", off(g));
        vec![(g.round + 1).to_string(), (g.attempt + 1).to_string(), work, sensible(g.replies), off]
    }));
    Some(Chart { svg: chart::draw(&plot), title: plot.title, numbers })
}

/// Points from left to right: a round that was repeated, or continued, is measured out of order.
fn upward(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// Sentences on the steadiness.
pub(super) fn sentences(data: Data<'_>) -> Vec<String> {
    let beside = data.beside;
    let margin = round(100.0 * FLOOR_OFF_MAX);
    let mut sentences = Vec::new();
    for (round, count) in &beside.repeated {
        sentences.push(format!(
            "Round {} was repeated: the floor beside it was more than {margin}\u{202f}% off the \
             other rounds'. Its first {count} samples are kept in samples.jsonl and count for nothing.",
            round + 1
        ));
    }
    let rounds: Vec<String> = beside.restless.iter().map(|r| (r + 1).to_string()).collect();
    sentences.push(match (rounds.len(), beside.looks.is_empty()) {
        (0, true) => return sentences,
        (0, false) => format!(
            "In every round that counts the floor was within {margin}\u{202f}% of its median."
        ),
        (1, _) => format!(
            "In round {} the floor was more than {margin}\u{202f}% off its median all the same: the \
             machine had another speed then, and that round counts.",
            listed(&rounds)
        ),
        _ => format!(
            "In rounds {} the floor was more than {margin}\u{202f}% off its median all the same: \
             the machine had another speed then, and those rounds count.",
            listed(&rounds)
        ),
    });
    sentences
}

fn probe(sample: &Sample) -> Option<FloorProbe<'_>> {
    Some(FloorProbe {
        work: &sample.work,
        round: sample.round,
        attempt: sample.attempt,
        replies: Measure::Replies.of(sample)?,
        set_aside: sample.marks.contains(&Mark::FloorMoved),
    })
}

fn point(probe: &FloorProbe<'_>, off: f64) -> Point {
    Point {
        x: f64::from(probe.round + 1),
        y: off,
        bar: None,
        at_least: false,
        // Probes that count are joined by a line; those set aside are not.
        anew: probe.set_aside,
        hint: format!(
            "Round {}, {}: {}/s, {off:+.1}\u{202f}%",
            probe.round + 1,
            probe.work,
            sensible(probe.replies)
        ),
    }
}
