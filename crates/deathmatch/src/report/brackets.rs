//! A bar chart as SVG: up to which rate each contender is known to carry, and from which on known not
//! to.

use std::fmt::Write as _;

use super::Data;
use super::charts::look;
use super::limit::{Limit, words};
use super::numbers::{cut, escaped};
use super::scale::Scale;

/// The drawing, in its own units; the page scales it.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 150.0;
/// Characters of a name that fit there.
const NAME_CHARS: usize = 18;
const RIGHT: f64 = 178.0;
const TOP: f64 = 8.0;
const ROW: f64 = 25.0;
const BOTTOM: f64 = 42.0;
/// Half a bar's height.
const HALF: f64 = 6.0;

/// Draws one file's.
pub(super) fn draw(data: Data<'_>, file: &str, limits: &[&Limit]) -> String {
    let ends = limits.iter().flat_map(|l| [l.bracket.low, l.bracket.high.unwrap_or(0.0)]);
    let scale = Scale::log(&ends.collect::<Vec<_>>());
    let at = |rate: f64| NAMES + scale.at(rate) * (WIDTH - NAMES - RIGHT);
    let bottom = TOP + ROW * limits.len() as f64;
    let height = bottom + BOTTOM;
    let mut out = String::new();
    // Writing into a String does not fail; so it is with every line below.
    let _ = write!(
        out,
        "<svg class=\"chart whole\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Highest rate carried: {}\">",
        escaped(file)
    );
    for (tick, label) in scale.ticks() {
        let x = at(*tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 17.0,
            escaped(label)
        );
    }
    for (row, limit) in limits.iter().enumerate() {
        bar(&mut out, data, limit, TOP + ROW * (row as f64 + 0.5), at);
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{NAMES} {TOP}V{bottom}H{:.1}\"/>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></svg>",
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        height - 6.0,
        escaped(&format!("requests/s{}", scale.kind()))
    );
    out
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
        NAMES - 10.0,
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
