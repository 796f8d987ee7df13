//! A range chart as SVG: a filled dot at the rate that each contender is known to carry, an open
//! one at the rate from which on it is known not to.

use maud::{Markup, html};

use super::Data;
use super::charts::line_style;
use super::lanes::{Lanes, NAME_CHARS};
use super::limit::{Limit, words};
use super::numbers::{cut, tenth};
use super::scale::Scale;

/// Widths of the scale, and right of it.
const SCALE: f64 = 240.0;
const RIGHT: f64 = 230.0;
/// Length of the arrow where no upper end is known.
const ARROW: f64 = 16.0;

/// Draws the limits of one file.
pub(super) fn draw(data: Data<'_>, file: &str, limits: &[&Limit]) -> Markup {
    let ends = limits.iter().flat_map(|l| [l.bracket.low, l.bracket.high.unwrap_or(0.0)]);
    let scale = Scale::log(&ends.collect::<Vec<_>>());
    let titles = limits.iter().map(|limit| data.run.title(&limit.contender));
    let lanes = Lanes::fitting(titles, SCALE, RIGHT);
    let range = |(row, limit): (usize, &&Limit)| {
        range(data, &lanes, row, limit, |rate| lanes.x(&scale, rate))
    };
    let ranges: Vec<Markup> = limits.iter().enumerate().map(range).collect();
    let title = format!("Highest rate carried: {file}");
    lanes.chart(&title, &scale, "requests/s", &Markup::default(), &ranges)
}

fn range(
    data: Data<'_>,
    lanes: &Lanes,
    row: usize,
    limit: &Limit,
    place: impl Fn(f64) -> f64,
) -> Markup {
    let y = lanes.y(row);
    let title = data.run.title(&limit.contender);
    let known = words(&limit.bracket);
    let low = place(limit.bracket.low);
    let high = limit.bracket.high.map(&place);
    html! {
        g class={ "s " (line_style(data, &limit.contender).class()) } {
            title { (title) ": " (known) }
            text.name x=(tenth(lanes.names - 8.0)) y=(tenth(y + 4.0)) text-anchor="end" {
                (cut(title, NAME_CHARS))
            }
            @if limit.bracket.low > 0.0 { circle.dot cx=(tenth(low)) cy=(tenth(y)) r="4" {} }
            @if let Some(high) = high {
                path.span d=(format!("M{low:.1} {y:.1}H{high:.1}")) {}
                circle.dot.open cx=(tenth(high)) cy=(tenth(y)) r="4" {}
            } @else {
                path.end d=(format!("M{low:.1} {y:.1}h{ARROW}m-5 -4l5 4l-5 4")) {}
            }
            text.value x=(tenth(lanes.width - lanes.right + 22.0)) y=(tenth(y + 4.0)) { (known) }
        }
    }
}
