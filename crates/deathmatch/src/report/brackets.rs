//! A bar chart as SVG: up to which rate each contender is known to carry, and from which on known not
//! to.

use std::fmt::Write as _;

use super::Data;
use super::charts::look;
use super::lanes::Lanes;
use super::limit::{Limit, words};
use super::numbers::{cut, escaped};
use super::scale::Scale;

const LANES: Lanes = Lanes { names: 150.0, right: 178.0, top: 8.0, row: 25.0 };
/// Characters of a name that fit there.
const NAME_CHARS: usize = 18;
/// Half a bar's height.
const HALF: f64 = 6.0;

/// Draws one file's.
pub(super) fn draw(data: Data<'_>, file: &str, limits: &[&Limit]) -> String {
    let ends = limits.iter().flat_map(|l| [l.bracket.low, l.bracket.high.unwrap_or(0.0)]);
    let scale = Scale::log(&ends.collect::<Vec<_>>());
    let title = format!("Highest rate carried: {file}");
    LANES.chart(&title, (&scale, "requests/s"), limits.len(), |out| {
        for (row, limit) in limits.iter().enumerate() {
            bar(out, data, limit, LANES.y(row), |rate| LANES.x(&scale, rate));
        }
    })
}

fn bar(out: &mut String, data: Data<'_>, limit: &Limit, y: f64, at: impl Fn(f64) -> f64) {
    let title = data.run.title(&limit.contender);
    let known = words(&limit.bracket);
    let (left, low) = (at(0.0), at(limit.bracket.low));
    let high = limit.bracket.high.map(&at);
    let (above, side) = (y - HALF, 2.0 * HALF);
    let _ = write!(
        out,
        "<g class=\"s {}\"><title>{}: {}</title>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <rect class=\"carried\" x=\"{left:.1}\" y=\"{above:.1}\" width=\"{:.1}\" height=\"{side}\"/>",
        look(data, &limit.contender).class(),
        escaped(title),
        escaped(&known),
        LANES.names - 10.0,
        y + 4.5,
        escaped(&cut(title, NAME_CHARS)),
        (low - left).max(0.0),
    );
    let end = match high {
        Some(high) => {
            let _ = write!(
                out,
                "<rect class=\"between\" x=\"{low:.1}\" y=\"{above:.1}\" width=\"{:.1}\" \
                 height=\"{side}\"/><path class=\"end\" d=\"M{high:.1} {:.1}v{:.1}\"/>",
                high - low,
                above - 2.0,
                side + 4.0
            );
            high
        }
        None => {
            let _ = write!(out, "<path class=\"end\" d=\"M{low:.1} {y:.1}h16m-5 -4l5 4l-5 4\"/>");
            low + 16.0
        }
    };
    let _ = write!(
        out,
        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        end + 8.0,
        y + 4.5,
        escaped(&known)
    );
}
