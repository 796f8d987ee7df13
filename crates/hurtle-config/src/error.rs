//! Errors in a configuration: position, message and hint.

use std::fmt;
use std::path::PathBuf;

/// Most characters of a value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// One problem of a configuration, displayed as
/// `hurtle.toml:12:3: site[0].mount[1].listting: unknown key; did you mean "listing"?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The configuration file, as the caller named it; empty if there is none.
    pub file: PathBuf,
    /// Position in the file; `None` if the value is not from a file.
    pub position: Option<Position>,
    /// The dotted key, such as `site[0].mount[1].files`; empty for an error of the whole text.
    pub key: String,
    /// The error in words, without its place and its hint.
    pub what: String,
    /// The correction to make.
    pub hint: Option<String>,
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.as_os_str().is_empty() {
            write!(f, "{}:", self.file.display())?;
            match self.position {
                Some(position) => write!(f, "{}:{}: ", position.line, position.column)?,
                None => f.write_str(" ")?,
            }
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// An error found by the parser of a value, without its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueError {
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

impl ValueError {
    pub(super) fn new(what: impl Into<String>) -> ValueError {
        ValueError { what: what.into(), hint: None }
    }

    /// Adds a hint how to correct it.
    pub(super) fn hint(self, hint: impl Into<String>) -> ValueError {
        ValueError { hint: Some(hint.into()), ..self }
    }
}

/// Quotes a value for a message: control characters are escaped (it may be shown on a terminal),
/// and a long value is cut.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_displayed_on_one_line() {
        let full = ConfigError {
            file: PathBuf::from("hurtle.toml"),
            position: Some(Position { line: 12, column: 3 }),
            key: "site[0].mount[1].listting".into(),
            what: "unknown key".into(),
            hint: Some("did you mean \"listing\"?".into()),
        };
        let table = [
            (
                "all of it",
                full.clone(),
                "hurtle.toml:12:3: site[0].mount[1].listting: unknown key; did you mean \"listing\"?",
            ),
            (
                "a syntax error has no key",
                ConfigError { key: String::new(), hint: None, ..full.clone() },
                "hurtle.toml:12:3: unknown key",
            ),
            (
                "an unreadable file has no place",
                ConfigError { position: None, key: String::new(), hint: None, ..full.clone() },
                "hurtle.toml: unknown key",
            ),
            (
                "a value from the command line has no file",
                ConfigError {
                    file: PathBuf::new(),
                    position: None,
                    key: "root".into(),
                    hint: None,
                    ..full
                },
                "root: unknown key",
            ),
        ];
        for (sentence, problem, line) in table {
            assert_eq!(problem.to_string(), line, "{sentence}");
        }
    }

    #[test]
    fn values_in_messages_are_escaped_and_cut() {
        assert_eq!(shown("a\u{1b}[2J"), r#""a\u{1b}[2J""#);
        assert_eq!(shown(&"é".repeat(99)), format!("\"{}\"...", "é".repeat(60)));
    }
}
