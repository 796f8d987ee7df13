//! The table and the plot of a simulation.

use std::fmt::Write as _;

use super::Row;

const BEGIN: &str = "<!-- simulation -->\n";
const END: &str = "<!-- end of simulation -->";

/// A Markdown table.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table =
        "| choice | hits | with churn | copies | busiest server | 99 of 100 | most in flight |\n\
                     |---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for Row { name, steady, churning } in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {name} | {:.1} % | {:.1} % | {:.1} | {:.2} | {:.2} | {:.2} |",
            100.0 * steady.hits,
            100.0 * churning.hits,
            steady.copies,
            steady.busiest,
            steady.p99,
            steady.peak,
        );
    }
    table
}

/// The document with another table between its marks; `None`: it has no marks.
pub(super) fn with_table(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, table, END, after].concat())
}

const STYLE: &str = ":root { color-scheme: light dark; --ink: #1b1d20; --soft: #5a6068; --grid: #e9ebee; \
--a: #0072b2; --b: #5aa9d6; --c: #d55e00; }\n\
@media (prefers-color-scheme: dark) { :root { --ink: #e8e9ea; --soft: #a3abb4; --grid: #272c32; \
--a: #4aa3df; --b: #1f6a9c; --c: #f0823a; } }\n\
text { font: 13px system-ui, sans-serif; fill: var(--ink); } .soft { fill: var(--soft); }\n\
.head { font-weight: 600; } .grid { stroke: var(--grid); }";

/// Height of a policy's bars.
const ROW: usize = 34;
const TOP: usize = 64;
/// The left edge and the width of the two panels.
const LEFT: [usize; 2] = [230, 560];
const WIDTH: usize = 270;
/// The right edge of the second panel, as a multiple of the mean.
const LOAD_MAX: f64 = 4.0;

/// An SVG: hits on the left, load on the right.
pub(super) fn plot(rows: &[Row]) -> String {
    let bottom = TOP + rows.len() * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 {height}\" width=\"900\" \
         height=\"{height}\"><style>{STYLE}</style>\n",
        height = bottom + 40
    );
    let mut text = |x: usize, y: usize, class: &str, anchor: &str, text: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    };
    text(LEFT[0], 22, "head", "start", "Hits; below, with churn");
    text(LEFT[1], 22, "head", "start", "Most requests in flight at one server");
    for part in 0..=4 {
        let x = |panel: usize| LEFT[panel] + WIDTH * part / 4;
        text(x(0), 48, "soft", "middle", &format!("{} %", 25 * part));
        text(x(1), 48, "soft", "middle", &format!("{part} x"));
    }
    for (at, row) in rows.iter().enumerate() {
        text(LEFT[0] - 12, TOP + at * ROW + 20, "name", "end", row.name);
    }
    text(LEFT[1], bottom + 24, "soft", "start", "times the mean of all servers");
    for part in 0..=4 {
        for left in LEFT {
            let x = left + WIDTH * part / 4;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{bottom}\"/>",
                TOP - 8
            );
        }
    }
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at * ROW;
        let load = row.steady.peak.min(LOAD_MAX) / LOAD_MAX;
        bar(&mut svg, LEFT[0], y + 4, 12, row.steady.hits, "--a");
        bar(&mut svg, LEFT[0], y + 18, 8, row.churning.hits, "--b");
        bar(&mut svg, LEFT[1], y + 6, 16, load, "--c");
        if row.steady.peak > LOAD_MAX {
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.1} x</text>",
                LEFT[1] + WIDTH - 6,
                y + 19,
                row.steady.peak
            );
        }
    }
    svg + "</svg>\n"
}

/// A bar of this share of a panel's width, 0 to 1.
fn bar(svg: &mut String, x: usize, y: usize, height: usize, share: f64, colour: &str) {
    let width = share * WIDTH as f64;
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" rx=\"2\" fill=\"var({colour})\"/>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_a_place_for_the_table() {
        let page = crate::command::root().join("docs/fleet.md");
        let text = std::fs::read_to_string(page).expect("the document is there");
        let changed = with_table(&text, "new\n").expect("the marks are there");
        assert_eq!(with_table(&changed, "new\n"), Some(changed.clone()));
        assert_eq!(with_table("no marks", "new\n"), None);
    }
}
