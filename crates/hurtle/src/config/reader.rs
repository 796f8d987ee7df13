//! Collects the problems of a text with their positions, sorts them and drops those that only
//! repeat another. `table` and `value` walk the parsed document.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::bounds::PROBLEMS_MAX;
use super::error::{ConfigError, Position, ValueError, shown};
use super::placeholder::{Placeholder, Placeholders, Resolve, resolve_empty};

/// A text being read, and the problems found in it.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    file: &'t Path,
    /// Base of relative paths: absolute.
    base: PathBuf,
    found: Vec<Finding>,
    /// `true`: the TOML has syntax errors, so a missing key may only have been lost.
    broken: bool,
    resolve: Resolve,
    /// The placeholders that have been replaced.
    pub(super) placeholders: Placeholders,
    /// Directories that must exist; `load` checks them.
    pub(super) directories: Vec<(KeyPosition, PathBuf)>,
    /// Certificates, keys and authorities; `load` checks that they exist.
    pub(super) files: Vec<(KeyPosition, PathBuf)>,
    /// Files that the server creates; `load` checks their directories.
    pub(super) logs: Vec<(KeyPosition, PathBuf)>,
    /// Names of accounts; `load` looks them up.
    pub(super) accounts: Vec<(KeyPosition, Account)>,
    /// Automatic certificates for names that no public authority signs; `acme` reports them.
    pub(super) private_names: Vec<(KeyPosition, ValueError)>,
    /// Files of users; `load` checks them.
    pub(super) users: Vec<(KeyPosition, PathBuf)>,
    /// Files of keys that verify tokens; `load` checks them.
    pub(super) jwks: Vec<(KeyPosition, PathBuf)>,
    /// Files of WebAssembly components; `load` checks them.
    pub(super) components: Vec<(KeyPosition, PathBuf)>,
    /// Files with secrets; `load` checks them.
    pub(super) secrets: Vec<(KeyPosition, PathBuf)>,
    /// Settings that require passwords or tokens and must not be exposed to a network in clear.
    pub(super) needs_privacy: Vec<KeyPosition>,
    /// Status pages that everybody may see.
    pub(super) status_pages: Vec<KeyPosition>,
}

/// A problem and its position in bytes.
#[derive(Debug)]
struct Finding {
    spot: KeyPosition,
    wrong: ValueError,
    /// `true`: other problems of the line are consequences of it.
    is_alone: bool,
}

/// A key and the byte offset of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPosition {
    pub(super) key: String,
    pub(super) at: usize,
}

/// The name of an account that the system must know.
#[derive(Clone, Debug)]
pub(super) enum Account {
    User(String),
    Group(String),
}

impl<'t> Reader<'t> {
    /// Reads the text of a file; relative paths are relative to the file's directory.
    pub(super) fn new(text: &'t str, file: &'t Path) -> Reader<'t> {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        Reader {
            text,
            file,
            base,
            found: Vec::new(),
            broken: false,
            resolve: resolve_empty,
            placeholders: Placeholders::default(),
            directories: Vec::new(),
            files: Vec::new(),
            logs: Vec::new(),
            accounts: Vec::new(),
            private_names: Vec::new(),
            users: Vec::new(),
            jwks: Vec::new(),
            components: Vec::new(),
            secrets: Vec::new(),
            needs_privacy: Vec::new(),
            status_pages: Vec::new(),
        }
    }

    /// Resolves placeholders by this function.
    pub(super) fn resolving_by(self, resolve: Resolve) -> Reader<'t> {
        Reader { resolve, ..self }
    }

    /// Returns the value of a placeholder.
    pub(super) fn resolve(&self, placeholder: Placeholder<'_>) -> Result<String, ValueError> {
        (self.resolve)(placeholder, &self.base)
    }

    /// The number of problems found so far.
    pub(super) fn problem_count(&self) -> usize {
        self.found.len()
    }

    /// Parses the TOML and recovers from syntax errors as far as possible.
    pub(super) fn parse(&mut self) -> DeTable<'t> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        self.broken = !errors.is_empty();
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            let spot = KeyPosition { key: String::new(), at };
            let wrong = syntax_error(error.message(), self.text.get(at..).unwrap_or_default());
            self.found.push(Finding { spot, wrong, is_alone: true });
        }
        document.into_inner()
    }

    /// `true`: the text has syntax errors.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Records a problem.
    pub(super) fn report(&mut self, spot: &KeyPosition, wrong: ValueError) {
        self.found.push(Finding { spot: spot.clone(), wrong, is_alone: false });
    }

    /// Records a problem of which others in its line are consequences.
    pub(super) fn report_alone(&mut self, spot: &KeyPosition, wrong: ValueError) {
        self.found.push(Finding { spot: spot.clone(), wrong, is_alone: true });
    }

    /// Records that a key is missing, unless the text has syntax errors and it may only be lost.
    pub(super) fn report_missing(&mut self, spot: &KeyPosition, wrong: ValueError) {
        if !self.broken {
            self.report(spot, wrong);
        }
    }

    /// Makes a path absolute.
    pub(super) fn absolute(&self, path: &str) -> Result<PathBuf, ValueError> {
        if path.is_empty() {
            return Err(ValueError::new("the path is empty").hint("\".\" is this file's directory"));
        }
        if path.contains('\0') {
            return Err(ValueError::new(format!("{} holds a NUL", shown(path))).hint("remove it"));
        }
        let joined = self.base.join(path);
        Ok(std::path::absolute(&joined).unwrap_or(joined))
    }

    /// Returns the configuration, or every problem in the order of the text.
    pub(super) fn finish<T>(mut self, config: T) -> Result<T, Vec<ConfigError>> {
        if self.found.is_empty() {
            return Ok(config);
        }
        let lines = Lines::of(self.text);
        // A syntax error, or a placeholder without a value.
        let broken: HashSet<usize> =
            self.found.iter().filter(|f| f.is_alone).map(|f| lines.index(f.spot.at)).collect();
        self.found.retain(|f| f.is_alone || !broken.contains(&lines.index(f.spot.at)));
        self.found.sort_by(|a, b| (a.spot.at, &a.spot.key).cmp(&(b.spot.at, &b.spot.key)));
        self.found.dedup_by(|a, b| a.spot == b.spot && a.wrong == b.wrong);

        let surplus = self.found.len().saturating_sub(PROBLEMS_MAX);
        self.found.truncate(PROBLEMS_MAX);
        let file = self.file.to_owned();
        let mut problems: Vec<ConfigError> = (self.found.into_iter())
            .map(|found| ConfigError {
                file: file.clone(),
                position: Some(lines.position(found.spot.at)),
                key: found.spot.key,
                what: self.placeholders.conceal(&found.wrong.what),
                hint: found.wrong.hint.map(|hint| self.placeholders.conceal(&hint)),
            })
            .collect();
        if surplus > 0 {
            let what = format!("{surplus} more problems");
            problems.push(ConfigError {
                file,
                position: None,
                key: String::new(),
                what,
                hint: None,
            });
        }
        Err(problems)
    }
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

/// The byte offsets of a text's lines.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Lines<'t> {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Index of the line that contains a byte, from 0.
    fn index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    fn position(&self, at: usize) -> Position {
        let line = self.index(at);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or("");
        Position { line: line + 1, column: before.chars().count() + 1 }
    }
}
