//! The figures as one page without JavaScript. Every bar and point says its numbers when the
//! pointer is on it (SVG titles), and a table beneath each chart has them too.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Figures, Latency, Part, amount, kinds, milliseconds};

pub(crate) const STYLES: [&str; 2] =
    [include_str!("../report/chart.css"), include_str!("../report/page.css")];

/// Additions to the report's style.
pub(crate) const OWN_STYLE: &str = "
.hit { fill: transparent; } .fill { fill: var(--c); opacity: .85; }
h1 { overflow-wrap: anywhere; font-size: clamp(1.4rem, 4vw, 2.2rem); }
.big { font-size: 2.6rem; font-weight: 700; line-height: 1.1; }
@media (max-width: 640px) { svg.chart .tick { font-size: 20px; } svg.chart .odd { display: none; } }
svg.key { width: 28px; } figure { margin: 1.2rem 0; }
";

/// Size of a chart, and of the space left and beneath it for numbers.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 78.0;
const BELOW: f64 = 26.0;
const ABOVE: f64 = 12.0;

pub(super) fn page(its: &Figures) -> String {
    let title = format!("{} {}", its.method, its.url);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { @for style in STYLES { (PreEscaped(style)) } (PreEscaped(OWN_STYLE)) }
            }
            body { main { (content(its, &title)) } }
        }
    };
    page.into_string()
}

fn content(its: &Figures, title: &str) -> Markup {
    let count = |n: u64| amount(n as f64);
    let counted = its.offered.counted();
    html! {
        p.kicker { "deathmatch" }
        h1 { (title) }
        p.lead-in {
            (its.protocol) ", " (its.address) ": " (its.offer()) ", " (format!("{:.1} s", its.seconds))
            @if its.is_interrupted { ", interrupted" }
        }
        p.big { (amount(its.responses_per_s)) " " (counted) "/s" }
        ul.facts {
            li { b { (count(its.responses)) } " " (counted) }
            li { b { (count(its.failed)) } " failed" }
            @if let Some(latency) = &its.latency {
                li { "median " b { (milliseconds(latency.p50_ms)) } }
                li { "p99 " b { (milliseconds(latency.p99_ms)) } }
                li { "longest " b { (milliseconds(latency.max_ms)) } }
            }
            li { b { (amount(its.bytes as f64 / 1e6)) } " MB" }
        }
        ul.verdict {
            @for check in its.shown_checks() {
                li.bad[!check.is_passed] {
                    b { (if check.is_passed { "Passed" } else { "Failed" }) }
                    span { (check.name) ": " (check.found) }
                }
            }
        }
        h2 { "Response times" }
        @if let Some(latency) = &its.latency { (latencies(its, latency)) } @else {
            p { "No request has a response time." }
        }
        (histogram(&its.bars()))
        @if !its.warnings.is_empty() {
            h2 { "Notes" } ul { @for warning in &its.warnings { li { (warning) } } }
        }
        h2 { "Course" }
        @if its.course.len() > 1 {
            (throughput(&its.course, counted))
            (times(&its.course))
            (course_table(&its.course, counted))
        } @else {
            p { "A load of " (format!("{:.1} s", its.seconds)) " has no course." }
        }
        h2 { "Responses" }
        (outcomes(its))
        @if !its.by_request.is_empty() {
            h2 { "Requests" }
            (requests(its))
        }
        h2 { "Generator" }
        (generator(its))
        footer { "Made by deathmatch " (env!("CARGO_PKG_VERSION")) "." }
    }
}

fn latencies(its: &Figures, latency: &Latency) -> Markup {
    let row = |name: &str, its: &Latency| {
        let all = [
            its.mean_ms,
            its.p50_ms,
            its.p75_ms,
            its.p90_ms,
            its.p95_ms,
            its.p99_ms,
            its.p99_9_ms,
            its.max_ms,
        ];
        html! { tr { td { (name) } @for ms in all { td { (milliseconds(ms)) } } } }
    };
    let measured = match its.offered.rate {
        Some(_) => "from the intended start",
        None => "as measured",
    };
    html! {
        div.scroll { table {
            thead { tr { th {} @for name in ["mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "longest"] {
                th { (name) }
            } } }
            tbody {
                (row(measured, latency))
                @if let Some(corrected) = &its.corrected_latency {
                    (row("with requests held back by stalls", corrected))
                }
            }
        } }
        @if its.offered.rate.is_none() {
            p.note {
                "In a closed loop each connection waits for its response, so a stall hides the requests that \
                 it held back. An open loop (-r) counts them."
            }
        }
    }
}

/// A bar of a chart: its label beneath, height, title.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) title: String,
}

/// Draws the bars of response times: (longest time in milliseconds, count), as `Figures::bars` has
/// them.
pub(crate) fn histogram(bars: &[(f64, u64)]) -> Markup {
    let responses: u64 = bars.iter().map(|&(_, count)| count).sum();
    let mut from = 0.0;
    let bars: Vec<Bar> = bars
        .iter()
        .map(|&(upto, count)| {
            let share = count as f64 / responses.max(1) as f64 * 100.0;
            let title = format!(
                "{} to {}: {} requests, {share:.2} %",
                milliseconds(from),
                milliseconds(upto),
                amount(count as f64)
            );
            from = upto;
            Bar { label: milliseconds(upto), value: count as f64, title }
        })
        .collect();
    if bars.is_empty() {
        return html! { p { "There were no responses." } };
    }
    html! {
        figure {
            figcaption { "Requests by their response time; each bar ends at the time beneath it" }
            (bar_chart(&bars, "c0", 2))
            details { summary { "Table" } table {
                thead { tr { th { "up to" } th { "requests" } } }
                tbody { @for bar in &bars { tr { td { (bar.label) } td { (amount(bar.value)) } } } }
            } }
        }
    }
}

fn throughput(course: &[Part], counted: &str) -> Markup {
    let bars: Vec<Bar> = course
        .iter()
        .map(|part| Bar {
            label: format!("{:.0} s", part.from_s),
            value: part.responses_per_s,
            title: format!(
                "{:.1} s: {} {counted}/s, {} failed",
                part.from_s,
                amount(part.responses_per_s),
                part.failed
            ),
        })
        .collect();
    html! {
        figure {
            figcaption { (if counted == "steps" { "Steps" } else { "Responses" }) " a second" }
            (bar_chart(&bars, "c2", course.len().div_ceil(10)))
        }
    }
}

fn times(course: &[Part]) -> Markup {
    let ends = || course.iter().flat_map(|part| [part.p50_ms, part.max_ms]).flatten();
    let most = ends().fold(1e-3, f64::max);
    let least = ends().fold(most / 10.0, f64::min).max(1e-4);
    let place = |at: usize| LEFT + (at as f64 + 0.5) / course.len() as f64 * (WIDTH - LEFT);
    // By powers of ten: one stall must not press the medians onto the axis.
    let share = |ms: f64| (ms.max(least) / least).ln() / (most / least).ln();
    let height = |ms: f64| ABOVE + (1.0 - share(ms)) * (HEIGHT - ABOVE - BELOW);
    let lines: [(&str, &str, fn(&Part) -> Option<f64>); 3] = [
        ("median", "c0", |part| part.p50_ms),
        ("p99", "c1", |part| part.p99_ms),
        ("longest", "c3", |part| part.max_ms),
    ];
    html! {
        figure {
            figcaption {
                "Response times: "
                @for (name, colour, _) in &lines {
                    svg.key viewBox="0 0 28 14" { g class={ "s " (colour) } { path.l d="M0 7H28" {} } }
                    (name) " "
                }
                span { "log scale" }
            }
            svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Response times" {
                @for ms in [least, (least * most).sqrt(), most] {
                    (grid_line(height(ms), &milliseconds(ms)))
                }
                @for (name, colour, value) in &lines {
                    g class={ "s " (colour) } {
                        path.l d=(line(course, |at, part| Some((place(at), height(value(part)?))))) {}
                        @for (at, part) in course.iter().enumerate() {
                            @if let Some(ms) = value(part) {
                                circle.m cx=(format!("{:.1}", place(at))) cy=(format!("{:.1}", height(ms)))
                                    r="3" { title { (format!("{:.1} s: {name} {}", part.from_s, milliseconds(ms))) } }
                            }
                        }
                    }
                }
                (labels(course.iter().map(|part| format!("{:.0} s", part.from_s)), course.len(), course.len().div_ceil(10)))
            }
        }
    }
}

/// The path of a line, with a gap where a part has no value.
fn line(course: &[Part], point: impl Fn(usize, &Part) -> Option<(f64, f64)>) -> String {
    let mut path = String::new();
    let mut is_joined = false;
    for (at, part) in course.iter().enumerate() {
        let point = point(at, part);
        if let Some((x, y)) = point {
            path += &format!("{}{x:.1} {y:.1}", if is_joined { "L" } else { "M" });
        }
        is_joined = point.is_some();
    }
    path
}

/// A chart of bars; every so many-th has its label.
pub(crate) fn bar_chart(bars: &[Bar], colour: &str, every: usize) -> Markup {
    let most = bars.iter().map(|bar| bar.value).fold(1e-9, f64::max);
    let step = (WIDTH - LEFT) / bars.len() as f64;
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Bars" {
            (scale(most, amount))
            @for (at, bar) in bars.iter().enumerate() {
                @let x = LEFT + at as f64 * step;
                @let high = bar.value / most * (HEIGHT - ABOVE - BELOW);
                g class={ "s " (colour) } {
                    title { (bar.title) }
                    rect.fill x=(format!("{:.1}", x + step * 0.08)) y=(format!("{:.1}", HEIGHT - BELOW - high))
                        width=(format!("{:.1}", step * 0.84)) height=(format!("{high:.1}")) {}
                    rect.hit x=(format!("{x:.1}")) y=(ABOVE) width=(format!("{step:.1}"))
                        height=(HEIGHT - ABOVE - BELOW) {}
                }
            }
            (labels(bars.iter().map(|bar| bar.label.clone()), bars.len(), every))
        }
    }
}

/// Lines at nothing, the half and the most, with their numbers.
fn scale(most: f64, number: fn(f64) -> String) -> Markup {
    html! {
        @for share in [0.0, 0.5, 1.0] {
            @let y = HEIGHT - BELOW - share * (HEIGHT - ABOVE - BELOW);
            (grid_line(y, &if share > 0.0 { number(most * share) } else { "0".to_owned() }))
        }
    }
}

fn grid_line(y: f64, label: &str) -> Markup {
    html! {
        path.grid d=(format!("M{LEFT} {y:.1}H{WIDTH}")) {}
        text.tick x=(LEFT - 8.0) y=(format!("{:.1}", y + 4.0)) text-anchor="end" { (label) }
    }
}

fn labels(names: impl Iterator<Item = String>, count: usize, every: usize) -> Markup {
    let step = (WIDTH - LEFT) / count as f64;
    html! {
        @for (at, name) in names.enumerate().step_by(every.max(1)) {
            // Narrow screens have room for every second one.
            @let odd = if at / every.max(1) % 2 == 1 { " odd" } else { "" };
            text class={ "tick" (odd) } x=(format!("{:.1}", LEFT + (at as f64 + 0.5) * step)) y=(HEIGHT - 8.0)
                text-anchor="middle" { (name) }
        }
    }
}

fn course_table(course: &[Part], counted: &str) -> Markup {
    let rate = format!("{counted}/s");
    html! {
        details { summary { "Table" } div.scroll { table {
            thead { tr { @for name in ["from", &rate, "failed", "p50", "p99", "longest"] { th { (name) } } } }
            tbody { @for part in course { tr {
                td { (format!("{:.1} s", part.from_s)) }
                td { (amount(part.responses_per_s)) }
                td { (part.failed) }
                @for ms in [part.p50_ms, part.p99_ms, part.max_ms] {
                    td { (ms.map_or_else(|| "–".to_owned(), milliseconds)) }
                }
            } } }
        } } }
    }
}

fn outcomes(its: &Figures) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "outcome" } th { "requests" } } }
            tbody {
                @for (status, count) in &its.statuses { tr {
                    td { "status " (status) } td { (amount(*count as f64)) }
                } }
                @for (kind, count) in kinds(&its.errors) { tr { td { (kind) } td { (amount(count as f64)) } } }
                @if its.unfinished > 0 { tr { td { "under way at the end" } td { (amount(its.unfinished as f64)) } } }
            }
        } }
        p {
            (amount(its.connections as f64)) " connections were opened, "
            (amount(its.reconnections as f64)) " of them in place of closed ones."
        }
    }
}

/// The figures of each of several requests.
fn requests(its: &Figures) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { @for name in ["request", its.offered.counted(), "failed", "p50", "p99", "longest"] { th { (name) } } } }
            tbody { @for one in &its.by_request { tr {
                td { (one.request) }
                td { (amount(one.responses as f64)) }
                td { (amount(one.failed as f64)) }
                @let ms = one.latency.as_ref().map(|its| [its.p50_ms, its.p99_ms, its.max_ms]);
                @for at in 0..3 {
                    td { (ms.map_or_else(|| "–".to_owned(), |ms| milliseconds(ms[at]))) }
                }
            } } }
        } }
    }
}

fn generator(its: &Figures) -> Markup {
    let own = &its.generator;
    html! {
        p { "One thread made the load; it worked " (format!("{:.0} %", own.busy_share * 100.0)) " of the time." }
        @if its.offered.rate.is_some() {
            p {
                "It sent requests " (milliseconds(own.lateness_p50_ms)) " (median), "
                (milliseconds(own.lateness_p99_ms)) " (p99) and at most " (milliseconds(own.lateness_max_ms))
                " later than it could have."
            }
        }
    }
}
