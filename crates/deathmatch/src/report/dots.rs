//! A dot chart as SVG: a line for each contender, the best on top, for work that has one step only.

use std::fmt::Write as _;

use super::chart::{Line, Plot};
use super::lanes::Lanes;
use super::numbers::{cut, escaped, sensible};

const LANES: Lanes = Lanes { names: 170.0, right: 90.0, top: 10.0, row: 24.0 };
/// Characters of a name that fit there.
const NAME_CHARS: usize = 21;

/// Draws the last point of each line of a plot; its `y` runs from left to right.
pub(super) fn draw(plot: &Plot, more_is_better: bool) -> String {
    let mut lines: Vec<&Line> = plot.lines.iter().filter(|l| !l.points.is_empty()).collect();
    let value = |line: &Line| line.points.last().map_or(0.0, |p| p.y);
    lines.sort_by(|a, b| value(a).total_cmp(&value(b)));
    if more_is_better {
        lines.reverse();
    }
    LANES.chart(&plot.title, (&plot.y, &plot.y_label), lines.len(), |out| {
        for (row, line) in lines.iter().enumerate() {
            draw_row(out, line, LANES.y(row), |y| LANES.x(&plot.y, y));
        }
    })
}

fn draw_row(out: &mut String, line: &Line, y: f64, at: impl Fn(f64) -> f64) {
    let Some(point) = line.points.last() else { return };
    let x = at(point.y);
    let _ = write!(
        out,
        "<g class=\"s {}\"><title>{}</title>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        line.look.class(),
        escaped(&point.hint),
        LANES.names - 10.0,
        y + 4.5,
        escaped(&cut(&line.title, NAME_CHARS))
    );
    let mut end = x;
    if let Some((low, high)) = point.bar {
        let (low, high) = (at(low), at(high));
        end = end.max(high);
        let _ = write!(
            out,
            "<path class=\"bar\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {:.1}v6m{:.1} -6v6\"/>",
            y - 3.0,
            high - low
        );
    }
    let sign = if point.at_least { "≥\u{202f}" } else { "" };
    let _ = write!(
        out,
        "{}<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{sign}{}</text></g>",
        line.look.marker(x, y),
        end + 9.0,
        y + 4.5,
        sensible(point.y)
    );
}
