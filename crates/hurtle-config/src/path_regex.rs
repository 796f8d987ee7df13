//! Regular expressions of paths, compiled once.

use std::borrow::Cow;
use std::fmt;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde::{Serialize, Serializer};

use super::error::{ValueError, shown};

/// Largest compiled expression, in bytes.
const COMPILED_BYTES_MAX: usize = 256 << 10;

/// A regular expression of decoded paths, which are bytes: `.` is any byte, and classes such as
/// `\w` are of ASCII. It takes time proportional to the path's length.
#[derive(Clone)]
pub struct PathRegex(Regex);

impl PathRegex {
    /// Parses an expression of another server's configuration. The error is the reason for which it
    /// is refused, such as look-ahead, or more than 256 KiB when compiled.
    pub fn new(text: &str) -> Result<PathRegex, String> {
        PathRegex::parse(&PathRegex::imported(text)).map_err(|wrong| wrong.what)
    }

    /// The expression of another server's configuration as it is written here: there `\<` and `\>`
    /// are characters, here the begin and the end of a word.
    pub fn imported(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, chars.peek()) {
                ('\\', Some('<' | '>')) => {}
                ('\\', Some(&next)) => {
                    chars.next();
                    out.extend(['\\', next]);
                }
                _ => out.push(c),
            }
        }
        out
    }

    pub(super) fn parse(text: &str) -> Result<PathRegex, ValueError> {
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).dot_matches_new_line(true).size_limit(COMPILED_BYTES_MAX);
        builder.build().map(PathRegex).map_err(|error| problem(text, &error))
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether a path contains a match.
    pub fn is_in(&self, path: &[u8]) -> bool {
        self.0.is_match(path)
    }

    /// Returns what each group has matched in a text; none if it does not match.
    pub fn groups(&self, text: &str) -> Vec<String> {
        let parts = self.captures(text.as_bytes()).unwrap_or_default();
        parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    }

    /// Returns what each group has matched; one that took no part in the match is empty.
    pub(super) fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<Cow<'p, [u8]>>> {
        let found = self.0.captures(path)?;
        let part =
            |group: Option<regex::bytes::Match<'p>>| group.map_or(&b""[..], |m| m.as_bytes());
        Some(found.iter().skip(1).map(|group| Cow::Borrowed(part(group))).collect())
    }

    /// The names of the groups, in their order.
    pub(super) fn names(&self) -> Vec<Option<String>> {
        self.0.capture_names().skip(1).map(|name| name.map(str::to_owned)).collect()
    }

    /// Returns a path that may contain a match, for messages.
    pub(super) fn example(&self) -> Option<String> {
        let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
        let parsed = parser.parse(self.text()).ok();
        parsed.and_then(|hir| String::from_utf8(example(&hir)).ok())
    }
}

/// Returns the problem with an expression.
fn problem(text: &str, error: &regex::Error) -> ValueError {
    if let regex::Error::CompiledTooBig(_) = error {
        let wrong = ValueError::new(format!("{} is too large", shown(text)));
        return wrong.hint("write smaller repetitions, or path = with several patterns");
    }
    // The last line has the reason; those before point into the expression.
    let whole = error.to_string();
    let reason = whole.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let hint = match reason.contains("look-") {
        true => "write what must not match as not = { regex = ... }",
        false => "see https://docs.rs/regex/latest/regex/#syntax",
    };
    ValueError::new(format!("{} is not a regular expression: {reason}", shown(text))).hint(hint)
}

/// Returns a short text that the expression matches, as far as its assertions allow one.
fn example(hir: &Hir) -> Vec<u8> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Vec::new(),
        HirKind::Literal(literal) => literal.0.to_vec(),
        HirKind::Class(class) => match class {
            Class::Bytes(class) => {
                // A letter reads better than the first byte of a class.
                let holds = |byte: &u8| {
                    class.ranges().iter().any(|range| (range.start()..=range.end()).contains(byte))
                };
                let first = class.ranges().first().map(regex_syntax::hir::ClassBytesRange::start);
                b"x0a".iter().copied().find(holds).or(first).into_iter().collect()
            }
            Class::Unicode(class) => {
                let first = class.ranges().first().map(|range| range.start().to_string());
                first.unwrap_or_default().into_bytes()
            }
        },
        HirKind::Repetition(repetition) => {
            let times = repetition.min.max(u32::from(repetition.max != Some(0))).min(64);
            example(&repetition.sub).repeat(times as usize)
        }
        HirKind::Capture(capture) => example(&capture.sub),
        HirKind::Concat(parts) => parts.iter().flat_map(example).collect(),
        HirKind::Alternation(parts) => parts.first().map(example).unwrap_or_default(),
    }
}

/// Expressions are equal if they are written alike.
impl PartialEq for PathRegex {
    fn eq(&self, other: &PathRegex) -> bool {
        self.text() == other.text()
    }
}

impl Eq for PathRegex {}

impl fmt::Debug for PathRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl Serialize for PathRegex {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.text())
    }
}
