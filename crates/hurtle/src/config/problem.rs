//! A problem in a configuration: where it is, what is wrong, what to write instead. Finding them is
//! left to the other files of this folder.

use std::fmt;
use std::path::PathBuf;

/// Characters of a written value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// One thing wrong with a configuration, told so that it can be put right without a manual:
/// `hurtle.toml:12:3: site[0].mount[1].listting: unknown key; did you mean "listing"?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The configuration file, as the caller named it; empty where there is none.
    pub file: PathBuf,
    /// Where in the file; `None` where the value was not written in one.
    pub place: Option<Place>,
    /// The dotted key, such as `site[0].mount[1].files`; empty for a fault of the whole text.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.as_os_str().is_empty() {
            write!(f, "{}:", self.file.display())?;
            match self.place {
                Some(place) => write!(f, "{}:{}: ", place.line, place.column)?,
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

impl std::error::Error for Problem {}

/// What a value's parser knows of a problem: all but where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>) -> Wrong {
        Wrong { what: what.into(), hint: None }
    }

    /// Adds what to write instead.
    pub(super) fn hint(self, hint: impl Into<String>) -> Wrong {
        Wrong { hint: Some(hint.into()), ..self }
    }
}

/// A written value as a message repeats it: quoted, controls escaped (it may be shown on a
/// terminal), cut when long.
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
    fn a_problem_reads_as_one_line_with_whatever_is_known() {
        let full = Problem {
            file: PathBuf::from("hurtle.toml"),
            place: Some(Place { line: 12, column: 3 }),
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
                Problem { key: String::new(), hint: None, ..full.clone() },
                "hurtle.toml:12:3: unknown key",
            ),
            (
                "an unreadable file has no place",
                Problem { place: None, key: String::new(), hint: None, ..full.clone() },
                "hurtle.toml: unknown key",
            ),
            (
                "a value from the command line has no file",
                Problem {
                    file: PathBuf::new(),
                    place: None,
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
    fn what_is_shown_is_escaped_and_cut() {
        assert_eq!(shown("a\u{1b}[2J"), r#""a\u{1b}[2J""#);
        assert_eq!(shown(&"é".repeat(99)), format!("\"{}\"...", "é".repeat(60)));
    }
}
