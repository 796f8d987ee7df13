//! The result as text, for a terminal: a table for each ladder and the take home.

use super::Data;
use super::missing::Missing;
use super::takehome::take_home;
use super::{herds, overview, pages, pair, standings};

/// Columns of the take home.
const WIDTH: usize = 96;

/// The whole text.
pub(super) fn table(data: Data<'_>) -> String {
    let mut out = String::new();
    let machine = format!("Machine: {}", pair::short(data.run, &data.beside.pairs));
    let verdicts = standings::verdicts(data);
    let first = verdicts.into_iter().enumerate().map(|(at, sentence)| match at {
        0 => format!("Verdict: {sentence}"),
        _ => sentence,
    });
    for sentence in first.chain([machine]).chain(data.beside.disturbed.words()) {
        out += &wrapped(&clean(&sentence), "", "  ");
    }
    out.push('\n');
    for ladder in data.ladders {
        let overview = overview::table(data, ladder);
        let rows = overview.rows.into_iter().map(|(_, cells)| cells);
        let rows: Vec<Vec<String>> = [overview.head].into_iter().chain(rows).collect();
        out += &format!("{}\n\n{}\n", clean(&ladder.title()), aligned(&rows));
    }
    let tables = [(pages::HEADING, pages::table(data)), (herds::HEADING, herds::table(data))];
    for (heading, cells) in tables {
        if let Some(cells) = cells {
            out += &format!("{heading}\n\n{}\n", aligned(&cells));
        }
    }
    out += "Take home\n\n";
    for claims in take_home(data) {
        if data.ladders.len() > 1 {
            out += &format!("{}:\n", clean(&claims.about));
        }
        for sentence in claims.sentences {
            out += &wrapped(&clean(&sentence), "- ", "  ");
        }
    }
    let missing = Missing::of(data).sentences();
    if !missing.is_empty() {
        out.push('\n');
    }
    for sentence in missing {
        out += &wrapped(&clean(&sentence), "", "  ");
    }
    out
}

/// Rows as columns: names to the left, the rest to the right. A head of two lines keeps columns
/// narrow.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|c| clean(c)).collect();
        if at > 0 {
            lines.push(cells);
            continue;
        }
        let split =
            |c: &String| c.split_once(" at ").map(|(a, b)| (a.to_owned(), format!("at {b}")));
        let halves = cells.iter().map(|c| split(c).unwrap_or_else(|| (c.clone(), String::new())));
        let (upper, lower): (Vec<String>, Vec<String>) = halves.unzip();
        lines.extend([upper, lower]);
    }
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |line: &Vec<String>, at: usize| line.get(at).map_or(0, |c| c.chars().count());
    let widths: Vec<usize> =
        (0..columns).map(|at| lines.iter().map(|l| cell(l, at)).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (text, width))| match at {
            0 => format!("{text:<width$}"),
            _ => format!("  {text:>width$}"),
        });
        out += cells.collect::<String>().trim_end();
        out.push('\n');
    }
    out
}

/// Text broken between words.
fn wrapped(text: &str, first: &str, then: &str) -> String {
    let mut out = first.to_owned();
    let mut column = first.chars().count();
    for (at, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > WIDTH {
            out += &format!("\n{then}");
            column = then.chars().count();
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out.push('\n');
    out
}

/// Text in one line, without control characters, which would steer a terminal.
fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_lines_short() {
        let text = "word ".repeat(60);
        let wrapped = wrapped(text.trim(), "- ", "  ");
        assert!(wrapped.lines().all(|l| l.chars().count() <= WIDTH), "{wrapped}");
        assert_eq!(wrapped.matches("word").count(), 60);
        assert!(wrapped.lines().skip(1).all(|l| l.starts_with("  word")), "{wrapped}");
    }

    #[test]
    fn a_title_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2J"), "a\u{fffd}[2J");
        assert_eq!(clean("its log ends:\nno file"), "its log ends: no file");
    }
}
