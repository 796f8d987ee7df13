//! The texts of a configuration: the file, and the files that it includes. Offsets count through
//! all of them, so one number is a position in one of the files. `include` finds the files.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::{Position, ValueError, shown};

/// The texts in the order in which they are read; the first one is the file itself.
#[derive(Debug)]
pub(super) struct Sources(Vec<Source>);

/// The text of one file.
#[derive(Debug)]
pub(super) struct Source {
    /// The file, as it is named in messages.
    pub(super) file: PathBuf,
    /// Base of relative paths: absolute.
    pub(super) base: PathBuf,
    text: String,
    /// Offset of its first byte.
    begin: usize,
    /// Offsets of its lines.
    lines: Vec<usize>,
}

/// A syntax error and the offset of its position.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) wrong: ValueError,
}

impl Sources {
    /// The text of a file that includes no others.
    pub(super) fn new(text: &str, file: &Path) -> Sources {
        let mut sources = Sources(Vec::new());
        sources.add(text.to_owned(), file.to_owned());
        sources
    }

    /// Adds the text of an included file.
    pub(super) fn add(&mut self, text: String, file: PathBuf) {
        // A position behind the end of a text is one in this text.
        let begin = self.0.last().map_or(0, |last| last.begin + last.text.len() + 1);
        let absolute = std::path::absolute(&file).unwrap_or_else(|_| file.clone());
        let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        let after_breaks = text.match_indices('\n').map(|(at, _)| begin + at + 1);
        let lines = std::iter::once(begin).chain(after_breaks).collect();
        self.0.push(Source { file, base, text, begin, lines });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The file itself, which includes the others.
    pub(super) fn main(&self) -> &Source {
        &self.0[0]
    }

    pub(super) fn get(&self, number: usize) -> Option<&Source> {
        self.0.get(number)
    }

    /// The text that contains an offset.
    pub(super) fn source(&self, at: usize) -> &Source {
        let after = self.0.partition_point(|source| source.begin <= at);
        &self.0[after.saturating_sub(1)]
    }

    /// The file and the position in it.
    pub(super) fn position(&self, at: usize) -> (&Path, Position) {
        let source = self.source(at);
        let (line, start) = source.line(at);
        let before = source.text.get(start - source.begin..at - source.begin).unwrap_or("");
        (&source.file, Position { line, column: before.chars().count() + 1 })
    }

    /// The offset at which the line of `at` begins.
    pub(super) fn line_start(&self, at: usize) -> usize {
        self.source(at).line(at).1
    }
}

impl Source {
    /// Parses the TOML and recovers from syntax errors as far as possible. The positions in it are
    /// those among all texts.
    pub(super) fn parse(&self) -> (DeTable<'_>, Vec<SyntaxError>) {
        let (document, errors) = DeTable::parse_recoverable(&self.text);
        let errors = errors.iter().map(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let wrong = syntax_error(error.message(), self.text.get(at..).unwrap_or_default());
            SyntaxError { at: self.begin + at, wrong }
        });
        let errors = errors.collect();
        let document = document.into_inner();
        match self.begin {
            0 => (document, errors),
            begin => (moved_table(document, begin), errors),
        }
    }

    /// The number of the line that contains an offset, from 1, and the offset at which it begins.
    fn line(&self, at: usize) -> (usize, usize) {
        let number = self.lines.partition_point(|start| *start <= at);
        (number.max(1), self.lines.get(number.saturating_sub(1)).copied().unwrap_or(self.begin))
    }
}

/// Adds `by` to the positions in a table.
fn moved_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    table.into_iter().map(|(name, value)| (moved(name, by), moved_value(value, by))).collect()
}

fn moved<T>(spanned: Spanned<T>, by: usize) -> Spanned<T> {
    let span = spanned.span();
    Spanned::new(span.start + by..span.end + by, spanned.into_inner())
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved_table(table, by)),
        DeValue::Array(items) => {
            let moved = items.into_iter().map(|item| moved_value(item, by));
            DeValue::Array(moved.collect::<DeArray<'_>>())
        }
        plain => plain,
    };
    moved(Spanned::new(span, value), by)
}

/// Rewords the commonest messages of the TOML parser; `rest` is the text from the error on.
fn syntax_error(message: &str, rest: &str) -> ValueError {
    let word_end = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '#' | ']' | '}'));
    let word = &rest[..word_end.unwrap_or(rest.len())];
    if message.starts_with("string values must be quoted") {
        return match word.is_empty() {
            true => ValueError::new("the value is missing").hint("write one after the ="),
            false => {
                ValueError::new("a string needs quotes").hint(format!("write {}", shown(word)))
            }
        };
    }
    match message {
        "duplicate key" => ValueError::new("the key is already in this table").hint("remove one"),
        other => ValueError::new(other.replace('\n', " ")),
    }
}
