//! Draws the figures of `hurtle top`, in a terminal or as plain text.

use std::env;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::App;
use crate::metrics::report::{Group, Report, Table, Text, Tone};
use crate::metrics::units;

/// Width of the names of groups.
const NAME_WIDTH: usize = 13;

/// Least width of the first column of a table.
const FIRST_WIDTH_MIN: usize = 8;

const HELP: &str = "q quit   sort by: r requests  l latency  e errors  b bytes   arrows scroll";

/// The use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    On,
    Off,
}

impl Colours {
    /// Off if `NO_COLOR` is set and not empty (no-color.org).
    pub(super) fn of_environment() -> Colours {
        match env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Colours::Off,
            _ => Colours::On,
        }
    }

    fn style(self, look: Look) -> Style {
        let style = Style::default();
        match (look, self) {
            (Look::Title, Colours::On) => style.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            (Look::Title, Colours::Off) => style.add_modifier(Modifier::BOLD),
            (Look::Head | Look::Tone(Tone::Faint), _) => style.add_modifier(Modifier::DIM),
            (Look::Tone(Tone::Bad), Colours::On) => {
                style.fg(Color::Red).add_modifier(Modifier::BOLD)
            }
            (Look::Tone(Tone::Bad), Colours::Off) => style.add_modifier(Modifier::BOLD),
            (Look::Sorted, _) => style.add_modifier(Modifier::UNDERLINED),
            (Look::Tone(Tone::Plain), _) => style,
        }
    }
}

/// The look of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// The name of a group or table.
    Title,
    /// The name of a figure or column.
    Head,
    /// The head of the column that rows are sorted by.
    Sorted,
    Tone(Tone),
}

/// A line as pieces of text.
type Pieces = Vec<(String, Look)>;

/// Draws the state. It bounds the scroll position.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, colours: Colours) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let width = usize::from(middle.width);
    let report = app.rates.as_ref().map(|rates| Report::new(rates, app.sort));
    let lines = report.map(|report| lines(&report, width)).unwrap_or_default();
    app.scroll = app.scroll.min(lines.len().saturating_sub(usize::from(middle.height)));
    let shown = lines.into_iter().skip(app.scroll).map(|pieces| {
        let spans = pieces.into_iter().map(|(text, look)| Span::styled(text, colours.style(look)));
        Line::from_iter(spans)
    });
    let (state, look) = match (&app.outage, &app.rates) {
        (Some((reason, time)), _) => {
            let time = units::time(time.as_secs_f64().round());
            (format!("no answer for {time}, trying again: {reason}"), Look::Tone(Tone::Bad))
        }
        (None, Some(_)) => ("hurtle top".to_owned(), Look::Title),
        (None, None) => ("waiting for the server".to_owned(), Look::Head),
    };
    frame.render_widget(Line::styled(fit(&state, width), colours.style(look)), top);
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), middle);
    frame.render_widget(Line::styled(HELP, colours.style(Look::Head)), bottom);
}

/// Writes the figures as text with lines of at most this many columns.
pub(super) fn plain(report: &Report, width: usize) -> String {
    let mut text = String::new();
    for pieces in lines(report, width) {
        let line: String = pieces.into_iter().map(|(piece, _)| piece).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn lines(report: &Report, width: usize) -> Vec<Pieces> {
    let mut lines: Vec<Pieces> =
        report.groups.iter().flat_map(|group| group_lines(group, width)).collect();
    for table in &report.tables {
        lines.push(Pieces::new());
        lines.extend(table_lines(table, width));
    }
    lines
}

/// A group as lines: its name, then its figures, which wrap.
fn group_lines(group: &Group, width: usize) -> Vec<Pieces> {
    let mut lines = vec![vec![(format!("{:NAME_WIDTH$}", group.name), Look::Title)]];
    let mut used = NAME_WIDTH;
    for (name, Text { text, tone }) in &group.figures {
        let len = chars(name) + 1 + chars(text) + 2;
        if used > NAME_WIDTH && used + len > width + 2 {
            lines.push(vec![(" ".repeat(NAME_WIDTH), Look::Head)]);
            used = NAME_WIDTH;
        }
        used += len;
        if let Some(line) = lines.last_mut() {
            line.push((format!("{name} "), Look::Head));
            line.push((format!("{text}  "), Look::Tone(*tone)));
        }
    }
    lines
}

/// A table as lines. A first column that is too wide is cut.
fn table_lines(table: &Table, width: usize) -> Vec<Pieces> {
    let widest = |at: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(at)).map(|cell| chars(&cell.text));
        cells.chain([chars(table.heads[at])]).max().unwrap_or(0)
    };
    let others: Vec<usize> = (1..table.heads.len()).map(widest).collect();
    let rest: usize = others.iter().map(|width| width + 2).sum();
    let first = widest(0).min(width.saturating_sub(rest)).max(FIRST_WIDTH_MIN);
    let line = |cells: Vec<(&str, Look)>| -> Pieces {
        let mut pieces = Pieces::new();
        for (at, (text, look)) in cells.into_iter().enumerate() {
            match at {
                0 => pieces.push((format!("{:first$}", fit(text, first)), look)),
                _ => {
                    let pad = (others[at - 1] + 2).saturating_sub(chars(text));
                    pieces.push((" ".repeat(pad), Look::Tone(Tone::Plain)));
                    pieces.push((text.to_owned(), look));
                }
            }
        }
        pieces
    };
    let heads = table.heads.iter().enumerate().map(|(at, head)| {
        let look = match at {
            0 => Look::Title,
            at if Some(at) == table.sorted_by => Look::Sorted,
            _ => Look::Head,
        };
        (*head, look)
    });
    let rows = table.rows.iter().map(|row| {
        line(row.iter().map(|cell| (cell.text.as_str(), Look::Tone(cell.tone))).collect())
    });
    [line(heads.collect())].into_iter().chain(rows).collect()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Cuts a text to this many characters.
fn fit(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
