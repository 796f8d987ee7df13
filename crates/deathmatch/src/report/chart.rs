//! A line chart as SVG: axes, lines with markers and error bars, and each line's name at its end.
//! Colours are the page's (`page.css`); every line also has its own marker, and every seventh its
//! own dash, so that colour never tells alone.

use std::fmt::Write as _;

use super::numbers::{cut, escaped};
use super::scale::Scale;

/// The drawing, in its own units; the page scales it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 386.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 42.0;
const BOTTOM: f64 = 50.0;

/// Room for names on the right; the page cuts it off on small screens, where the legend below says
/// the same.
const NAMES: f64 = 168.0;

/// Characters of a name that fit there.
const NAME_CHARS: usize = 18;

/// Between two names' lines, at most.
const NAME_GAP: f64 = 17.0;

/// Half a marker.
const MARKER: f64 = 4.2;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The machine's own line.
    Floor,
    /// The so-manieth contender.
    Nth(usize),
}

impl Look {
    /// Colours there are.
    const COLOURS: usize = 7;

    /// The classes that the page's style gives a colour and a dash.
    pub(super) fn class(self) -> String {
        match self {
            Look::Floor => "floor".to_owned(),
            Look::Nth(n) => format!("c{} d{}", n % Look::COLOURS, (n / Look::COLOURS).min(2)),
        }
    }

    /// The marker at a place.
    pub(super) fn marker(self, x: f64, y: f64) -> String {
        let r = MARKER;
        let polygon = |points: &[(f64, f64)]| {
            let at = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + dx * r, y + dy * r);
            let points: Vec<String> = points.iter().map(at).collect();
            format!("<polygon class=\"m\" points=\"{}\"/>", points.join(" "))
        };
        let shape = match self {
            Look::Floor => 7,
            Look::Nth(n) => n % Look::COLOURS,
        };
        match shape {
            0 => format!("<circle class=\"m\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>"),
            1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => polygon(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]),
            3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
            4 => polygon(&[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)]),
            5 => polygon(&[(0.0, -1.2), (1.2, -0.3), (0.7, 1.1), (-0.7, 1.1), (-1.2, -0.3)]),
            6 => polygon(&[
                (-1.1, 0.0),
                (-0.5, -1.1),
                (0.5, -1.1),
                (1.1, 0.0),
                (0.5, 1.1),
                (-0.5, 1.1),
            ]),
            _ => format!("<circle class=\"m\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>"),
        }
    }

    /// A small drawing of the line and its marker, for a legend.
    pub(super) fn key(self) -> String {
        let class = self.class();
        let marker = self.marker(14.0, 7.0);
        format!(
            "<svg class=\"key\" viewBox=\"0 0 28 14\" aria-hidden=\"true\"><g class=\"s {class}\">\
             <path class=\"l\" d=\"M1 7H27\"/>{marker}</g></svg>"
        )
    }
}

/// A point of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The ends of its error bar, if it has one.
    pub(super) bar: Option<(f64, f64)>,
    /// No line leads to it from the point before: what lies there was another kind of load.
    pub(super) anew: bool,
    /// The value is at least this much: the generator was the limit.
    pub(super) at_least: bool,
    /// Shown when pointed at.
    pub(super) hint: String,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) title: String,
    pub(super) look: Look,
    pub(super) points: Vec<Point>,
    /// Whether points have markers; a distribution's are too many.
    pub(super) markers: bool,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) lines: Vec<Line>,
    /// Values for a faint line to compare with, and its name.
    pub(super) guide: Option<(Vec<(f64, f64)>, &'static str)>,
    /// Places where one kind of load ends and another begins, and their names.
    pub(super) seams: Vec<(f64, &'static str, &'static str)>,
}

/// Draws it.
pub(super) fn draw(plot: &Plot) -> String {
    let mut out = String::new();
    let title = escaped(&plot.title);
    // Writing into a String does not fail; so it is with every line below.
    let _ = write!(
        out,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
    );
    axes(&mut out, plot);
    seams(&mut out, plot);
    if let Some((points, name)) = &plot.guide {
        guide(&mut out, plot, points, name);
    }
    let ends = name_places(plot);
    // The first is the most important, so it lies on top.
    for (line, place) in plot.lines.iter().zip(&ends).rev() {
        draw_line(&mut out, plot, line, *place);
    }
    out.push_str("</svg>");
    out
}

/// Where the plot ends on the right.
fn right() -> f64 {
    WIDTH - NAMES
}

fn place_x(plot: &Plot, x: f64) -> f64 {
    LEFT + plot.x.at(x) * (right() - LEFT)
}

fn place_y(plot: &Plot, y: f64) -> f64 {
    HEIGHT - BOTTOM - plot.y.at(y) * (HEIGHT - BOTTOM - TOP)
}

fn axes(out: &mut String, plot: &Plot) {
    let (right, bottom) = (right(), HEIGHT - BOTTOM);
    for (value, label) in plot.y.ticks() {
        let y = place_y(plot, *value);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 7.0,
            y + 4.0,
            escaped(label)
        );
    }
    for (value, label) in plot.x.ticks() {
        let x = place_x(plot, *value);
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 19.0,
            escaped(label)
        );
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
         <text class=\"label\" x=\"4\" y=\"14\">{}</text>\
         <text class=\"label\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        escaped(&format!("{}{}", plot.y_label, plot.y.kind())),
        HEIGHT - 6.0,
        escaped(&format!("{}{}", plot.x_label, plot.x.kind())),
    );
}

fn seams(out: &mut String, plot: &Plot) {
    for (x, left, right) in &plot.seams {
        let (x, y) = (place_x(plot, *x), TOP - 8.0);
        let _ = write!(
            out,
            "<path class=\"seam\" d=\"M{x:.1} {:.1}V{:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{left}</text>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\">{right}</text>",
            TOP - 18.0,
            HEIGHT - BOTTOM,
            x - 7.0,
            x + 7.0,
        );
    }
}

fn guide(out: &mut String, plot: &Plot, points: &[(f64, f64)], name: &str) {
    let path = path(points.iter().map(|(x, y)| (place_x(plot, *x), place_y(plot, *y), false)));
    let _ = write!(out, "<path class=\"guide\" d=\"{path}\"><title>{name}</title></path>");
}

fn draw_line(out: &mut String, plot: &Plot, line: &Line, name_y: f64) {
    let at = |p: &Point| (place_x(plot, p.x), place_y(plot, p.y));
    let title = escaped(&line.title);
    let _ = write!(
        out,
        "<g class=\"s {}\"><title>{title}</title><path class=\"l\" d=\"{}\"/>",
        line.look.class(),
        path(line.points.iter().map(|p| (at(p).0, at(p).1, p.anew)))
    );
    for point in &line.points {
        let (x, y) = at(point);
        if let Some((low, high)) = point.bar {
            let (low, high) = (place_y(plot, low), place_y(plot, high));
            let _ = write!(
                out,
                "<path class=\"bar\" d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6m-6 {:.1}h6\"/>",
                x - 3.0,
                high - low
            );
        }
        if point.at_least {
            let _ = write!(out, "<path class=\"bar\" d=\"M{x:.1} {y:.1}v-17m-4 5l4 -5l4 5\"/>");
        }
        if line.markers {
            let marker = line.look.marker(x, y);
            let _ = write!(out, "<g>{marker}<title>{}</title></g>", escaped(&point.hint));
        }
    }
    if let Some((x, y)) = line.points.last().map(at) {
        let edge = right() + 6.0;
        let _ = write!(
            out,
            "<path class=\"lead\" d=\"M{x:.1} {y:.1}L{edge} {y:.1}L{:.1} {name_y:.1}\"/>{}\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            edge + 12.0,
            line.look.marker(edge + 18.0, name_y),
            edge + 28.0,
            name_y + 4.5,
            escaped(&cut(&line.title, NAME_CHARS)),
        );
    }
    out.push_str("</g>");
}

/// A path through points: (x, y, whether it begins anew there).
fn path(points: impl Iterator<Item = (f64, f64, bool)>) -> String {
    let mut out = String::new();
    for (at, (x, y, anew)) in points.enumerate() {
        let _ = write!(out, "{}{x:.1} {y:.1}", if at == 0 || anew { 'M' } else { 'L' });
    }
    out
}

/// Where each line's name stands: at its end's height, moved as little as keeps names apart.
fn name_places(plot: &Plot) -> Vec<f64> {
    let wanted = |line: &Line| line.points.last().map_or(TOP, |p| place_y(plot, p.y));
    spread(&plot.lines.iter().map(wanted).collect::<Vec<_>>(), TOP, HEIGHT - 8.0)
}

/// Moves heights apart within bounds, keeping their order.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let gap = NAME_GAP.min((bottom - top) / wanted.len().max(1) as f64);
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut places = wanted.to_vec();
    let mut least = top;
    for at in &order {
        places[*at] = places[*at].max(least);
        least = places[*at] + gap;
    }
    let mut most = bottom;
    for at in order.iter().rev() {
        places[*at] = places[*at].min(most);
        most = places[*at] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_apart_and_in_order() {
        let rows: [(&[f64], &[f64], &str); 4] = [
            (&[50.0, 100.0], &[50.0, 100.0], "those apart stay where they are"),
            (&[50.0, 50.0], &[50.0, 67.0], "those on one place move down"),
            (&[300.0, 299.0], &[300.0, 283.0], "at the bottom they move up"),
            (&[], &[], "none"),
        ];
        for (wanted, want, why) in rows {
            assert_eq!(spread(wanted, 30.0, 300.0), want, "{why}");
        }
        let many = spread(&[40.0; 60], 30.0, 300.0);
        assert!(many.iter().all(|y| (25.0..=300.0).contains(y)), "too many stay inside");
    }

    #[test]
    fn no_two_of_twenty_look_alike() {
        let looks: Vec<(String, String)> =
            (0..20).map(|n| (Look::Nth(n).class(), Look::Nth(n).marker(0.0, 0.0))).collect();
        for (n, look) in looks.iter().enumerate() {
            assert!(!looks[..n].contains(look), "{n} looks like one before");
        }
        let seven: Vec<&String> = looks[..7].iter().map(|(_, marker)| marker).collect();
        for (n, marker) in seven.iter().enumerate() {
            assert!(!seven[..n].contains(marker), "without colour {n} looks like one before");
        }
    }
}
