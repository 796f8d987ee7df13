//! The frame of charts that give each contender a line of its own: a scale from left to right
//! beneath, names on the left.

use std::fmt::Write as _;

use super::numbers::escaped;
use super::scale::Scale;

/// The drawing's width, in its own units; the page scales it.
const WIDTH: f64 = 720.0;
/// Beneath the lines, for the ticks and the label.
const BOTTOM: f64 = 42.0;

/// How such a chart is laid out.
pub(super) struct Lanes {
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
    /// Where a value lies, from left to right.
    pub(super) fn x(&self, scale: &Scale, value: f64) -> f64 {
        self.names + scale.at(value) * (WIDTH - self.names - self.right)
    }

    /// The middle of a line, from 0.
    pub(super) fn y(&self, line: usize) -> f64 {
        self.top + self.row * (line as f64 + 0.5)
    }

    /// The whole chart: `draw` adds what is on the lines.
    pub(super) fn chart(
        &self,
        title: &str,
        (scale, label): (&Scale, &str),
        lines: usize,
        draw: impl FnOnce(&mut String),
    ) -> String {
        let (top, bottom) = (self.top, self.top + self.row * lines as f64);
        let (height, end) = (bottom + BOTTOM, WIDTH - self.right);
        let mut out = String::new();
        // Writing into a String does not fail; so it is with every line below.
        let _ = write!(
            out,
            "<svg class=\"chart whole\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{}\">",
            escaped(title)
        );
        for (tick, label) in scale.ticks() {
            let x = self.x(scale, *tick);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                escaped(label)
            );
        }
        draw(&mut out);
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{} {top}V{bottom}H{end:.1}\"/>\
             <text class=\"label\" x=\"{end:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></svg>",
            self.names,
            height - 6.0,
            escaped(&format!("{label}{}", scale.kind()))
        );
        out
    }
}
