//! A bar chart as SVG: the rate up to which each contender is known to carry, and the rate from
//! which on it is known not to.

use maud::{Markup, html};

use super::Data;
use super::charts::line_style;
use super::lanes::Lanes;
use super::limit::{Limit, words};
use super::numbers::{cut, tenth};
use super::scale::Scale;

const LANES: Lanes = Lanes { names: 150.0, right: 178.0, top: 8.0, row: 25.0 };
/// Characters of a name that fit there.
const NAME_CHARS: usize = 18;
/// Half a bar's height.
const HALF: f64 = 6.0;
/// Length of the arrow where no upper end is known.
const ARROW: f64 = 16.0;

/// Draws the limits of one file.
pub(super) fn draw(data: Data<'_>, file: &str, limits: &[&Limit]) -> Markup {
    let ends = limits.iter().flat_map(|l| [l.bracket.low, l.bracket.high.unwrap_or(0.0)]);
    let scale = Scale::log(&ends.collect::<Vec<_>>());
    let bar = |(row, limit): (usize, &&Limit)| {
        bar(data, limit, LANES.y(row), |rate| LANES.x(&scale, rate))
    };
    let bars: Vec<Markup> = limits.iter().enumerate().map(bar).collect();
    LANES.chart(&format!("Highest rate carried: {file}"), (&scale, "requests/s"), &bars)
}

fn bar(data: Data<'_>, limit: &Limit, y: f64, place: impl Fn(f64) -> f64) -> Markup {
    let title = data.run.title(&limit.contender);
    let known = words(&limit.bracket);
    let (left, low) = (place(0.0), place(limit.bracket.low));
    let high = limit.bracket.high.map(&place);
    let (above, side) = (tenth(y - HALF), 2.0 * HALF);
    html! {
        g class={ "s " (line_style(data, &limit.contender).class()) } {
            title { (title) ": " (known) }
            text.name x=(tenth(LANES.names - 10.0)) y=(tenth(y + 4.5)) text-anchor="end" {
                (cut(title, NAME_CHARS))
            }
            rect.carried x=(tenth(left)) y=(above) width=(tenth((low - left).max(0.0))) height=(side) {}
            @if let Some(high) = high {
                rect.between x=(tenth(low)) y=(above) width=(tenth(high - low)) height=(side) {}
                path.end d=(format!("M{high:.1} {:.1}v{:.1}", y - HALF - 2.0, side + 4.0)) {}
            } @else {
                path.end d=(format!("M{low:.1} {y:.1}h{ARROW}m-5 -4l5 4l-5 4")) {}
            }
            text.value x=(tenth(high.unwrap_or(low + ARROW) + 8.0)) y=(tenth(y + 4.5)) { (known) }
        }
    }
}
