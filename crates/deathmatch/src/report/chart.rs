//! A line chart as SVG: axes, lines with markers and error bars, and each line's name at its end.
//! Colours are in `chart.css`. Every line also has its own marker, and every seventh its own dash,
//! so that colour is never the only difference.

use maud::{Markup, html};

use super::numbers::{cut, tenth};
use super::scale::Scale;

/// Colours, lines and markers of all charts.
pub(super) const STYLE: &str = include_str!("chart.css");

/// The drawing, in its own units; the page scales it.
const WIDTH: f64 = 490.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 46.0;

/// Room for names on the right.
const NAMES: f64 = 156.0;

/// Characters of a name that fit there.
const NAME_CHARS: usize = 17;

/// Largest distance between two names.
const NAME_GAP: f64 = 16.0;

/// Largest number of lines.
pub(super) const LINES_MAX: usize = 6;

/// Half the size of a marker, in the drawing's units.
const MARKER: f64 = 3.6;

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineStyle {
    Floor,
    /// The line of the nth contender.
    Nth(usize),
}

impl LineStyle {
    const COLOURS: usize = 7;

    /// The classes that the page's style gives a colour and a dash.
    pub(super) fn class(self) -> String {
        match self {
            LineStyle::Floor => "floor".to_owned(),
            LineStyle::Nth(n) => {
                format!("c{} d{}", n % LineStyle::COLOURS, (n / LineStyle::COLOURS).min(2))
            }
        }
    }

    /// The marker at a place.
    pub(super) fn marker(self, x: f64, y: f64) -> Markup {
        let corners: &[(f64, f64)] = match self {
            LineStyle::Floor => return circle(x, y, 2.0),
            LineStyle::Nth(n) => match n % LineStyle::COLOURS {
                0 => return circle(x, y, MARKER),
                1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
                2 => &[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
                3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
                4 => &[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)],
                5 => &[(0.0, -1.2), (1.2, -0.3), (0.7, 1.1), (-0.7, 1.1), (-1.2, -0.3)],
                _ => &[(-1.1, 0.0), (-0.5, -1.1), (0.5, -1.1), (1.1, 0.0), (0.5, 1.1), (-0.5, 1.1)],
            },
        };
        let at = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + dx * MARKER, y + dy * MARKER);
        let points: Vec<String> = corners.iter().map(at).collect();
        html! { polygon.m points=(points.join(" ")) {} }
    }

    /// Its colour as a dot, for tables.
    pub(super) fn key(self) -> Markup {
        html! { i class={ "key s " (self.class()) } {} }
    }
}

fn circle(x: f64, y: f64, radius: f64) -> Markup {
    html! { circle.m cx=(tenth(x)) cy=(tenth(y)) r=(radius) {} }
}

/// A point of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The ends of its error bar, if it has one.
    pub(super) bar: Option<(f64, f64)>,
    /// `true`: the line starts anew here, because the point before belongs to another kind of load.
    pub(super) anew: bool,
    /// The value is at least this much: the generator was the limit.
    pub(super) at_least: bool,
    /// Text shown when the point is pointed at.
    pub(super) hint: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) title: String,
    pub(super) style: LineStyle,
    pub(super) points: Vec<Point>,
    /// `true` if points have markers; a distribution has too many points.
    pub(super) has_markers: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) lines: Vec<Line>,
    /// Points of a faint line for comparison, and its name.
    pub(super) guide: Option<(Vec<(f64, f64)>, &'static str)>,
    /// Places where one kind of load ends and another begins, and their names.
    pub(super) seams: Vec<(f64, &'static str, &'static str)>,
}

pub(super) fn draw(plot: &Plot) -> Markup {
    // The first is the most important, so it lies on top.
    let lines = plot.lines.iter().zip(name_places(plot)).rev();
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(plot.title) {
            (axes(plot))
            (seams(plot))
            @if let Some((points, name)) = &plot.guide { (guide(plot, points, name)) }
            @for (line, name_y) in lines { (draw_line(plot, line, name_y)) }
        }
    }
}

/// Right end of the plot.
fn right() -> f64 {
    WIDTH - NAMES
}

fn place_x(plot: &Plot, x: f64) -> f64 {
    LEFT + plot.x.at(x) * (right() - LEFT)
}

fn place_y(plot: &Plot, y: f64) -> f64 {
    HEIGHT - BOTTOM - plot.y.at(y) * (HEIGHT - BOTTOM - TOP)
}

fn axes(plot: &Plot) -> Markup {
    let (right, bottom) = (right(), HEIGHT - BOTTOM);
    html! {
        @for (value, label) in plot.y.ticks() {
            @let y = place_y(plot, *value);
            path.grid d={ "M" (LEFT) " " (tenth(y)) "H" (right) } {}
            text.tick x=(tenth(LEFT - 7.0)) y=(tenth(y + 4.0)) text-anchor="end" { (label) }
        }
        @for (value, label) in plot.x.ticks_within(right - LEFT) {
            @let x = tenth(place_x(plot, value));
            path.axis d={ "M" (x) " " (bottom) "v5" } {}
            text.tick x=(x) y=(tenth(bottom + 19.0)) text-anchor="middle" { (label) }
        }
        path.axis d={ "M" (LEFT) " " (TOP) "V" (bottom) "H" (right) } {}
        text.label x="4" y="14" { (plot.y_label) (plot.y.kind()) }
        text.label x=(right) y=(tenth(HEIGHT - 6.0)) text-anchor="end" {
            (plot.x_label) (plot.x.kind())
        }
    }
}

fn seams(plot: &Plot) -> Markup {
    let y = tenth(TOP - 8.0);
    html! {
        @for (x, left, right) in &plot.seams {
            @let x = place_x(plot, *x);
            path.seam d=(format!("M{x:.1} {:.1}V{:.1}", TOP - 18.0, HEIGHT - BOTTOM)) {}
            text.tick x=(tenth(x - 7.0)) y=(y) text-anchor="end" { (left) }
            text.tick x=(tenth(x + 7.0)) y=(y) { (right) }
        }
    }
}

fn guide(plot: &Plot, points: &[(f64, f64)], name: &str) -> Markup {
    let path = path(points.iter().map(|(x, y)| (place_x(plot, *x), place_y(plot, *y), false)));
    html! { path.guide d=(path) { title { (name) } } }
}

fn draw_line(plot: &Plot, line: &Line, name_y: f64) -> Markup {
    let at = |p: &Point| (place_x(plot, p.x), place_y(plot, p.y));
    html! {
        g class={ "s " (line.style.class()) } {
            title { (line.title) }
            path.l d=(path(line.points.iter().map(|p| (at(p).0, at(p).1, p.anew)))) {}
            @for point in &line.points { (draw_point(plot, line, point, at(point))) }
            @if let Some(end) = line.points.last().map(at) { (draw_name(line, end, name_y)) }
        }
    }
}

fn draw_point(plot: &Plot, line: &Line, point: &Point, (x, y): (f64, f64)) -> Markup {
    let bar = point.bar.map(|(low, high)| (place_y(plot, low), place_y(plot, high)));
    let bar = bar.map(|(low, high)| {
        let (left, height) = (x - 3.0, high - low);
        format!("M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h6m-6 {height:.1}h6")
    });
    html! {
        @if let Some(bar) = bar { path.bar d=(bar) {} }
        @if point.at_least { path.bar d=(format!("M{x:.1} {y:.1}v-17m-4 5l4 -5l4 5")) {} }
        @if line.has_markers { g { (line.style.marker(x, y)) title { (point.hint) } } }
    }
}

/// The line's name on the right, and the connection to the line's end.
fn draw_name(line: &Line, (x, y): (f64, f64), name_y: f64) -> Markup {
    let edge = right() + 6.0;
    let lead = format!("M{x:.1} {y:.1}L{edge} {y:.1}L{:.1} {name_y:.1}", edge + 12.0);
    html! {
        path.lead d=(lead) {}
        (line.style.marker(edge + 18.0, name_y))
        text.name x=(tenth(edge + 28.0)) y=(tenth(name_y + 4.5)) { (cut(&line.title, NAME_CHARS)) }
    }
}

/// A path through points: (x, y, whether it begins anew there).
fn path(points: impl Iterator<Item = (f64, f64, bool)>) -> String {
    let step = |(at, (x, y, anew)): (usize, (f64, f64, bool))| {
        format!("{}{x:.1} {y:.1}", if at == 0 || anew { 'M' } else { 'L' })
    };
    points.enumerate().map(step).collect()
}

/// Places of the lines' names: at the height of the line's end, moved as little as keeps names
/// apart.
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
            (&[50.0, 50.0], &[50.0, 66.0], "those on one place move down"),
            (&[300.0, 299.0], &[300.0, 284.0], "at the bottom they move up"),
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
        let looks: Vec<(String, String)> = (0..20)
            .map(|n| (LineStyle::Nth(n).class(), LineStyle::Nth(n).marker(0.0, 0.0).into_string()))
            .collect();
        for (n, look) in looks.iter().enumerate() {
            assert!(!looks[..n].contains(look), "{n} looks like one before");
        }
        let seven: Vec<&String> = looks[..7].iter().map(|(_, marker)| marker).collect();
        for (n, marker) in seven.iter().enumerate() {
            assert!(!seven[..n].contains(marker), "without colour {n} looks like one before");
        }
    }
}
