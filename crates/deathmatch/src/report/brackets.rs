//! A range chart as SVG: a filled dot at the rate that each contender is known to carry, an open one
//! at the rate from which on it is known not to.

use maud::{Markup, html};

use super::Data;
use super::charts::line_style;
use super::lanes::Lanes;
use super::limit::{Limit, words};
use super::numbers::{cut, tenth};
use super::scale::Scale;

const LANES: Lanes = Lanes { width: 640.0, names: 176.0, right: 220.0, top: 4.0, row: 18.0 };
/// Characters of a name that fit there.
const NAME_CHARS: usize = 25;
/// Length of the arrow where no upper end is known.
const ARROW: f64 = 16.0;

/// Draws the limits of one file.
pub(super) fn draw(data: Data<'_>, file: &str, limits: &[&Limit]) -> Markup {
    let ends = limits.iter().flat_map(|l| [l.bracket.low, l.bracket.high.unwrap_or(0.0)]);
    let scale = Scale::log(&ends.collect::<Vec<_>>());
    let range = |(row, limit): (usize, &&Limit)| {
        range(data, limit, LANES.y(row), |rate| LANES.x(&scale, rate))
    };
    let ranges: Vec<Markup> = limits.iter().enumerate().map(range).collect();
    let title = format!("Highest rate carried: {file}");
    LANES.chart(&title, (&scale, "requests/s"), &Markup::default(), &ranges)
}

fn range(data: Data<'_>, limit: &Limit, y: f64, place: impl Fn(f64) -> f64) -> Markup {
    let title = data.run.title(&limit.contender);
    let known = words(&limit.bracket);
    let low = place(limit.bracket.low);
    let high = limit.bracket.high.map(&place);
    html! {
        g class={ "s " (line_style(data, &limit.contender).class()) } {
            title { (title) ": " (known) }
            text.name x=(tenth(LANES.names - 8.0)) y=(tenth(y + 4.0)) text-anchor="end" {
                (cut(title, NAME_CHARS))
            }
            @if limit.bracket.low > 0.0 { circle.dot cx=(tenth(low)) cy=(tenth(y)) r="4" {} }
            @if let Some(high) = high {
                path.span d=(format!("M{low:.1} {y:.1}H{high:.1}")) {}
                circle.dot.open cx=(tenth(high)) cy=(tenth(y)) r="4" {}
            } @else {
                path.end d=(format!("M{low:.1} {y:.1}h{ARROW}m-5 -4l5 4l-5 4")) {}
            }
            text.value x=(tenth(LANES.width - LANES.right + 22.0)) y=(tenth(y + 4.0)) { (known) }
        }
    }
}
