//! A dot chart as SVG for work with a single step: a line for each contender, the best on top.

use maud::{Markup, html};

use super::chart::{Line, Plot, Point};
use super::lanes::{Lanes, NAME_CHARS};
use super::numbers::{cut, sensible, tenth};
use super::scale::Scale;

/// Widths of the scale, and right of it.
const SCALE: f64 = 260.0;
const RIGHT: f64 = 76.0;

/// Draws the last point of each line of a plot; its `y` runs from left to right.
pub(super) fn draw(plot: &Plot, more_is_better: bool) -> Markup {
    let lanes = Lanes::fitting(plot.lines.iter().map(|l| l.title.as_str()), SCALE, RIGHT);
    let lines = sorted(&plot.lines, more_is_better).into_iter().enumerate();
    let rows: Vec<Markup> =
        lines.map(|(row, (line, point))| draw_row(&lanes, &plot.y, line, point, row)).collect();
    lanes.chart(&plot.title, &plot.y, &plot.y_label, &Markup::default(), &rows)
}

/// Lines that have points, each with its last point, the best first.
pub(super) fn sorted(lines: &[Line], more_is_better: bool) -> Vec<(&Line, &Point)> {
    let lines = lines.iter().filter_map(|line| Some((line, line.points.last()?)));
    let mut lines: Vec<(&Line, &Point)> = lines.collect();
    lines.sort_by(|a, b| a.1.y.total_cmp(&b.1.y));
    if more_is_better {
        lines.reverse();
    }
    lines
}

/// A row of a chart: the line's name, the point with its bar, and its value.
pub(super) fn draw_row(
    lanes: &Lanes,
    scale: &Scale,
    line: &Line,
    point: &Point,
    row: usize,
) -> Markup {
    let place = |value| lanes.x(scale, value);
    let (x, y) = (place(point.y), lanes.y(row));
    let bar = point.bar.map(|(low, high)| (place(low), place(high)));
    let end = bar.map_or(x, |(_, high)| high.max(x));
    let bar = bar.map(|(low, high)| {
        let (above, width) = (y - 3.0, high - low);
        format!("M{low:.1} {y:.1}H{high:.1}M{low:.1} {above:.1}v6m{width:.1} -6v6")
    });
    html! {
        g class={ "s " (line.style.class()) } {
            title { (point.hint) }
            text.name x=(tenth(lanes.names - 10.0)) y=(tenth(y + 4.5)) text-anchor="end" {
                (cut(&line.title, NAME_CHARS))
            }
            @if let Some(bar) = bar { path.bar d=(bar) {} }
            (line.style.marker(x, y))
            text.value x=(tenth(end + 9.0)) y=(tenth(y + 4.5)) {
                @if point.at_least { "≥\u{202f}" } (sensible(point.y))
            }
        }
    }
}
