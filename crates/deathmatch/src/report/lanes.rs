//! The frame of charts with a line for each contender: a scale from left to right beneath, names on
//! the left.

use maud::{Markup, html};

use super::numbers::tenth;
use super::scale::Scale;

/// Characters of a name, at most.
pub(super) const NAME_CHARS: usize = 25;
/// Width of a character of a name, on average in names of wide characters, and between names and
/// scale.
const CHAR: f64 = 8.0;
const GAP: f64 = 14.0;

/// Height beneath the lines, for the ticks and the label.
const BOTTOM: f64 = 42.0;

/// Layout of such a chart.
pub(super) struct Lanes {
    /// The drawing's width, in its own units; the page scales it.
    pub(super) width: f64,
    /// Width left of the scale.
    pub(super) names: f64,
    /// Width right of it.
    pub(super) right: f64,
    /// Height above the first line.
    pub(super) top: f64,
    /// A line's height.
    pub(super) row: f64,
}

impl Lanes {
    /// As wide on the left as the longest of these names needs.
    pub(super) fn fitting<'t>(
        titles: impl Iterator<Item = &'t str>,
        scale: f64,
        right: f64,
    ) -> Lanes {
        let longest = titles.map(|title| title.chars().count()).max().unwrap_or(0);
        let names = longest.min(NAME_CHARS) as f64 * CHAR + GAP;
        Lanes { width: names + scale + right, names, right, top: 4.0, row: 19.0 }
    }

    /// Horizontal place of a value.
    pub(super) fn x(&self, scale: &Scale, value: f64) -> f64 {
        self.names + scale.at(value) * (self.width - self.names - self.right)
    }

    /// The middle of a line, from 0.
    pub(super) fn y(&self, line: usize) -> f64 {
        self.top + self.row * (line as f64 + 0.5)
    }

    /// The height of a chart with this number of lines.
    pub(super) fn height(&self, lines: usize) -> f64 {
        self.top + self.row * lines as f64 + BOTTOM
    }

    /// The whole chart around its `lines`, with a drawing `behind` them.
    pub(super) fn chart(
        &self,
        title: &str,
        scale: &Scale,
        label: &str,
        behind: &Markup,
        lines: &[Markup],
    ) -> Markup {
        let (top, bottom) = (self.top, self.top + self.row * lines.len() as f64);
        let (height, end) = (self.height(lines.len()), self.width - self.right);
        html! {
            svg.chart viewBox={ "0 0 " (self.width) " " (height) } role="img" aria-label=(title) {
                @for (tick, label) in scale.ticks_within(end - self.names) {
                    @let x = tenth(self.x(scale, tick));
                    path.grid d={ "M" (x) " " (top) "V" (bottom) } {}
                    text.tick x=(x) y=(tenth(bottom + 17.0)) text-anchor="middle" { (label) }
                }
                (behind)
                @for line in lines { (line) }
                path.axis d={ "M" (self.names) " " (top) "V" (bottom) "H" (tenth(end)) } {}
                text.label x=(tenth(end)) y=(tenth(height - 6.0)) text-anchor="end" {
                    (label) (scale.kind())
                }
            }
        }
    }
}
