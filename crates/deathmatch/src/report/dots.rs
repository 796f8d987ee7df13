//! A dot chart as SVG: a line for each contender, the best on top, for work that has one step only.

use std::fmt::Write as _;

use super::chart::{Line, Plot};
use super::numbers::{cut, escaped, sensible};

/// The drawing, in its own units; the page scales it.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 170.0;
/// Characters of a name that fit there.
const NAME_CHARS: usize = 21;
const RIGHT: f64 = 90.0;
const TOP: f64 = 10.0;
const ROW: f64 = 24.0;
const BOTTOM: f64 = 42.0;

/// Draws the last point of each line of a plot; its `y` runs from left to right.
pub(super) fn draw(plot: &Plot, more_is_better: bool) -> String {
    let mut lines: Vec<&Line> = plot.lines.iter().filter(|l| !l.points.is_empty()).collect();
    let value = |line: &Line| line.points.last().map_or(0.0, |p| p.y);
    lines.sort_by(|a, b| value(a).total_cmp(&value(b)));
    if more_is_better {
        lines.reverse();
    }
    let bottom = TOP + ROW * lines.len() as f64;
    let height = bottom + BOTTOM;
    let at = |y: f64| NAMES + plot.y.at(y) * (WIDTH - NAMES - RIGHT);
    let mut out = String::new();
    // Writing into a String does not fail; so it is with every line below.
    let _ = write!(
        out,
        "<svg class=\"chart whole\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">",
        escaped(&plot.title)
    );
    for (tick, label) in plot.y.ticks() {
        let x = at(*tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 17.0,
            escaped(label)
        );
    }
    for (row, line) in lines.iter().enumerate() {
        draw_row(&mut out, line, TOP + ROW * (row as f64 + 0.5), at);
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{NAMES} {TOP}V{bottom}H{:.1}\"/>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></svg>",
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        height - 6.0,
        escaped(&format!("{}{}", plot.y_label, plot.y.kind()))
    );
    out
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
        NAMES - 10.0,
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
