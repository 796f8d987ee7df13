//! One plot of a whole run as an SVG file of its own: a line for each contender at each work, with
//! the median over rounds and a bar from the smallest to the largest round.

use maud::{Markup, PreEscaped, html};

use super::Data;
use super::chart::{self, Line};
use super::charts::{ends, line_style, point, scale};
use super::dots;
use super::lanes::Lanes;
use super::measure::Measure;
use super::numbers::{cut, printable, tenth};
use super::series::Ladder;

const LANES: Lanes = Lanes { width: 720.0, names: 170.0, right: 90.0, top: 8.0, row: 16.0 };

/// Characters of a work's name that fit into the width.
const WORK_CHARS: usize = 100;

/// Draws a measure of all works; `None` where it was not measured.
pub(super) fn draw(data: Data<'_>, measure: Measure) -> Option<String> {
    let works: Vec<(&str, Vec<Line>)> = data
        .ladders
        .iter()
        .flat_map(|ladder| steps(ladder).into_iter().map(move |x| work(data, ladder, x, measure)))
        .flatten()
        .collect();
    let points = works.iter().flat_map(|(_, lines)| lines).flat_map(|line| &line.points);
    let scale = scale(measure, &points.flat_map(ends).collect::<Vec<_>>());
    let mut rows: Vec<Markup> = Vec::new();
    for (name, lines) in &works {
        rows.push(html! {
            text.label x="4" y=(tenth(LANES.y(rows.len()) + 4.0)) { (cut(name, WORK_CHARS)) }
        });
        for (line, point) in dots::sorted(lines, measure.more_is_better()) {
            rows.push(dots::draw_row(&LANES, &scale, line, point, rows.len()));
        }
    }
    let (title, unit, _) = measure.words();
    let label = format!("{title}, {unit}");
    let plot = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(LANES.width) height=(LANES.height(rows.len())) {
            style { (PreEscaped(chart::STYLE)) }
            rect width="100%" height="100%" fill="var(--card)" {}
            (LANES.chart(&format!("{}: {label}", data.run.plan), &scale, &label, &Markup::default(), &rows))
        }
    };
    (!works.is_empty()).then(|| printable(&plot.into_string()))
}

/// Steps of a ladder that are drawn. Of rates: the highest that all carried and the highest that
/// half of the contenders carried, or else the lowest. Of connections: all.
fn steps(ladder: &Ladder<'_>) -> Vec<f64> {
    let xs = ladder.xs();
    if !ladder.steps.are_rates() {
        return xs;
    }
    let carried = [ladder.common(), ladder.widely_carried()];
    let drawn: Vec<f64> = xs.iter().copied().filter(|x| carried.contains(&Some(*x))).collect();
    if drawn.is_empty() { xs.into_iter().take(1).collect() } else { drawn }
}

/// The work's name and a line of one point for each contender that did it.
fn work<'a>(
    data: Data<'_>,
    ladder: &Ladder<'a>,
    x: f64,
    measure: Measure,
) -> Option<(&'a str, Vec<Line>)> {
    let rows: Vec<_> = ladder.rows.iter().filter(|row| row.x == x).collect();
    let line = |row| {
        let point = point(data, ladder.steps, row, measure)?;
        let title = data.run.title(row.contender).to_owned();
        let style = line_style(data, row.contender);
        Some(Line { title, style, points: vec![point], has_markers: true })
    };
    let lines: Vec<Line> = rows.iter().filter_map(|row| line(row)).collect();
    let name = rows.first()?.work;
    (!lines.is_empty()).then_some((name, lines))
}
