//! The charts, in the order of the deck's slides, and their data.

use maud::Markup;

use super::Data;
use super::chart::{self, Line, LineStyle, Plot, Point};
use super::dots;
use super::measure::{Measure, percentile_ms};
use super::numbers::{counted, sensible};
use super::overview;
use super::scale::{Scale, nines, step_words};
use super::series::{Ladder, Row, Spread, Steps};
use super::stretch::Stretch;

/// Largest number of points of a distribution.
const DISTRIBUTION_POINTS_MAX: usize = 60;

/// The measures that are drawn for each work, in the deck's order.
pub(super) const MEASURES: [Measure; 13] = [
    Measure::Replies,
    Measure::CpuPerRequest,
    Measure::P99,
    Measure::P50,
    Measure::Errors,
    Measure::Deviation,
    Measure::Cpu,
    Measure::Resident,
    Measure::Runnable,
    Measure::LoadAverage,
    Measure::Interrupts,
    Measure::Switches,
    Measure::PagesFreed,
];

/// Notes on reading the charts: (measure, note).
pub(super) const NOTES: [(&str, &str); 8] = [
    (
        "Replies",
        "On the dotted line every request offered is answered. An arrow upward means “at \
         least”: the generator was the limit.",
    ),
    ("Unsteadiness", "The standard deviation of replies over whole seconds."),
    (
        "Response times and errors",
        "Timed from when a request should have been sent, so that a stall counts against \
         all it delayed. Percentiles come from all rounds' times together. p99.9 and the \
         maximum are shown, never ranked: an idle processor here pauses for milliseconds, \
         too; the floor shows how long.",
    ),
    (
        "CPU",
        "User and system time of all the server's processes. It compares only at equal \
         offered load; on loopback the kernel does some of the client's work in the \
         server's send call, for all contenders and the floor.",
    ),
    (
        "Runnable threads",
        "The server's own, running or waiting for a processor, on average; the load average \
         of a minute is that of all programs.",
    ),
    (
        "Interrupts and context switches",
        "Counts of the whole machine, including the generator's: the floor shows how many.",
    ),
    (
        "Pages freed",
        "A sign of processes that start and end. On loopback the pages of payload are \
         counted too: the excess over the floor is the server's.",
    ),
    (
        "Memory",
        "Resident at the sample's end, all of the server's processes together; pages they \
         share count in each.",
    ),
];

pub(super) struct Chart {
    pub(super) title: String,
    pub(super) svg: Markup,
    /// The chart as a table: a head and rows.
    pub(super) numbers: Vec<Vec<String>>,
}

/// A measure over a stretch's steps; `None` where it was not measured.
pub(super) fn over_steps(data: Data<'_>, stretch: &Stretch<'_>, measure: Measure) -> Option<Chart> {
    let all_out = stretch.all_out.filter(|_| measure == Measure::CpuPerRequest);
    let is_single = stretch.xs().len() == 1;
    let lines_max = if is_single { usize::MAX } else { chart::LINES_MAX };
    let lines = lines(data, stretch.contenders(), true, lines_max, |name| {
        let mut part = 0;
        let rated = stretch.drawn(name).filter_map(|(at, row)| {
            let anew = std::mem::replace(&mut part, at) != at;
            Some(Point { anew, ..point(data, stretch.steps(), row, measure)? })
        });
        let mut points: Vec<Point> = rated.collect();
        // A contender with free processor time has no cost at full load.
        let full = all_out.into_iter().flat_map(|l| l.of(name)).filter(|r| r.is_saturated());
        points.extend(full.filter_map(|row| {
            let point = point(data, Steps::Connections, row, measure)?;
            Some(Point { anew: true, x: stretch.all_out_x(), ..point })
        }));
        points
    });
    if lines.is_empty() {
        return None;
    }
    let (title, unit, _) = measure.words();
    let xs = stretch.xs();
    let values: Vec<f64> = lines.iter().flat_map(|l| &l.points).flat_map(ends).collect();
    let rates = stretch.steps().are_rates() && measure == Measure::Replies && xs.len() > 1;
    let same = || (xs.iter().map(|x| (*x, *x)).collect(), "as many as offered");
    let x = Scale::steps(&xs);
    let plot = Plot {
        title: title.to_owned(),
        x_label: stretch.steps().words().0.to_owned(),
        y_label: unit.to_owned(),
        x: match all_out {
            Some(_) if xs.len() > 1 => x.and(stretch.all_out_x(), "all out"),
            _ => x,
        },
        y: scale(measure, &values),
        lines,
        guide: rates.then(same),
        seams: stretch.seams(),
    };
    let svg = match xs.len() {
        1 => dots::draw(&plot, measure.more_is_better()),
        _ => chart::draw(&plot),
    };
    let numbers = numbers(data, stretch, measure);
    Some(Chart { title: plot.title, svg, numbers })
}

/// A row's point; `None` where it has no such measure.
pub(super) fn point(
    data: Data<'_>,
    steps: Steps,
    row: &Row<'_>,
    measure: Measure,
) -> Option<Point> {
    let spread = row.spread(measure)?;
    Some(Point {
        x: row.x,
        y: spread.middle,
        bar: (row.samples.len() > 1).then_some((spread.low, spread.high)),
        at_least: measure == Measure::Replies && row.is_limited(),
        anew: false,
        hint: hint(data, steps, row, spread, measure),
    })
}

/// The distribution of response times at the highest step that all carried.
pub(super) fn distribution(data: Data<'_>, ladder: &Ladder<'_>) -> Option<Chart> {
    let x = ladder
        .common()
        .or_else(|| ladder.widely_carried())
        .or_else(|| ladder.xs().first().copied())?;
    let most = ladder.rows.iter().filter(|r| r.x == x).map(|r| r.response.count()).max()?;
    let nines_max = (most.max(10) as f64).log10().ceil() + 0.5;
    let lines = lines(data, ladder.contenders(), false, chart::LINES_MAX, |name| {
        ladder.at(name, x).map(|row| quantiles(row, nines_max)).unwrap_or_default()
    });
    if lines.is_empty() {
        return None;
    }
    let values: Vec<f64> = lines.iter().flat_map(|l| &l.points).map(|p| p.y).collect();
    let plot = Plot {
        title: format!(
            "Distribution of response times at {}",
            step_words(x, ladder.steps.words().2)
        ),
        x_label: "percentile of the response times".to_owned(),
        y_label: "ms".to_owned(),
        x: Scale::percentiles(nines_max),
        y: Scale::log(&values),
        lines,
        guide: None,
        seams: Vec::new(),
    };
    let mut numbers = vec![["", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned).to_vec()];
    numbers.extend(ladder.rows.iter().filter(|r| r.x == x).map(|row| {
        let times = &row.response;
        let share = |q| percentile_ms(times, q).map_or_else(|| "–".to_owned(), sensible);
        let shares = [0.5, 0.9, 0.99, 0.999, 1.0].map(share);
        [data.run.title(row.contender).to_owned()].into_iter().chain(shares).collect()
    }));
    let svg = chart::draw(&plot);
    Some(Chart { title: plot.title, svg, numbers })
}

/// A contender's line style, the same in all charts.
pub(super) fn line_style(data: Data<'_>, name: &str) -> LineStyle {
    if name == data.run.floor {
        return LineStyle::Floor;
    }
    let order = &data.beside.order;
    let unknown = || {
        let strangers = data.ladders.iter().flat_map(Ladder::contenders);
        let mut strangers = strangers.filter(|n| order.iter().all(|known| known != n));
        order.len() + strangers.position(|n| n == name).unwrap_or(0)
    };
    let known = order.iter().position(|known| known == name);
    LineStyle::Nth(known.unwrap_or_else(unknown))
}

/// A line for each contender that has points, at most so many: the floor, the reference, and those
/// that carried most. The reference is first, the floor last; the tables have the others.
fn lines(
    data: Data<'_>,
    mut names: Vec<&str>,
    has_markers: bool,
    lines_max: usize,
    points: impl Fn(&str) -> Vec<Point>,
) -> Vec<Line> {
    let place = |name: &str| data.beside.order.iter().position(|known| known == name);
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    names.sort_by_key(|name| (*name == data.run.floor, *name != data.run.reference));
    let line = |name: &str| Line {
        title: data.run.title(name).to_owned(),
        style: line_style(data, name),
        points: points(name),
        has_markers,
    };
    let all = names.into_iter().map(line).filter(|line| !line.points.is_empty());
    let (floor, mut all): (Vec<Line>, Vec<Line>) = all.partition(|l| l.style == LineStyle::Floor);
    all.truncate(lines_max.saturating_sub(floor.len()));
    all.extend(floor);
    all
}

/// A row's distribution, thinned evenly over the axis, with the longest time at its end.
fn quantiles(row: &Row<'_>, nines_max: f64) -> Vec<Point> {
    let times = &row.response;
    let point = |x, ns: u64| {
        let (y, hint) = (ns as f64 / 1e6, String::new());
        Point { x, y, bar: None, at_least: false, anew: false, hint }
    };
    let apart = nines_max / DISTRIBUTION_POINTS_MAX as f64;
    let mut points: Vec<Point> = Vec::new();
    for (ns, share) in times.steps() {
        let x = nines(share).min(nines_max);
        // A staircase: times between two shares were no longer than the upper one's.
        match points.last().map(|last| last.x) {
            Some(last) if x - last >= apart => points.extend([point(last, ns), point(x, ns)]),
            Some(_) => {}
            None => points.push(point(x, ns)),
        }
    }
    if let Some(last) = points.last().map(|last| last.x) {
        points.extend([last, nines_max].map(|x| point(x, times.max())));
    }
    points
}

/// The axis for a measure: times span decades, shares begin at 0.
pub(super) fn scale(measure: Measure, values: &[f64]) -> Scale {
    match measure {
        Measure::P50 | Measure::P99 => Scale::log(values),
        Measure::Errors => Scale::linear(values),
        _ => Scale::fitting(values),
    }
}

/// All values of a point that must lie within the axis.
pub(super) fn ends(point: &Point) -> impl Iterator<Item = f64> {
    let (low, high) = point.bar.unwrap_or((point.y, point.y));
    [point.y, low, high].into_iter()
}

/// Text shown when a point is pointed at.
fn hint(data: Data<'_>, steps: Steps, row: &Row<'_>, spread: Spread, measure: Measure) -> String {
    let limited = if row.is_limited() { ", load-limited" } else { "" };
    let disturbed = if row.is_disturbed() { ", disturbed by other programs" } else { "" };
    format!(
        "{} at {}: {} {} ({} to {} in {}){limited}{disturbed}",
        data.run.title(row.contender),
        step_words(row.x, steps.words().2),
        sensible(spread.middle),
        measure.words().1,
        sensible(spread.low),
        sensible(spread.high),
        counted(row.samples.len(), if row.are_slices() { "cycle" } else { "round" }),
    )
}

/// All of a stretch's points as a table: a row for each contender, a column for each step of each
/// part.
fn numbers(data: Data<'_>, stretch: &Stretch<'_>, measure: Measure) -> Vec<Vec<String>> {
    let columns = stretch.parts.iter().enumerate();
    let columns = columns.flat_map(|(part, l)| l.xs().into_iter().map(move |x| (part, x)));
    let columns: Vec<(usize, f64)> = columns.collect();
    let head = columns.iter().map(|(part, x)| {
        let (_, kind, unit) = stretch.parts[*part].steps.words();
        match stretch.parts.len() {
            1 => step_words(*x, unit),
            _ => format!("{}, {kind}", step_words(*x, unit)),
        }
    });
    let mut rows = vec![[String::new()].into_iter().chain(head).collect()];
    rows.extend(stretch.contenders().into_iter().map(|name| {
        let cell = |(part, x): &(usize, f64)| {
            let row = stretch.parts[*part].at(name, *x);
            match row.and_then(|row| Some((row, row.middle(measure)?))) {
                Some((row, value)) if measure == Measure::Replies && row.is_limited() => {
                    format!("≥\u{202f}{}", sensible(value))
                }
                Some((row, value)) if row.is_disturbed() => sensible(value) + overview::DISTURBED,
                Some((_, value)) => sensible(value),
                None => "–".to_owned(),
            }
        };
        let title = data.run.title(name).to_owned();
        [title].into_iter().chain(columns.iter().map(cell)).collect()
    }));
    rows
}
