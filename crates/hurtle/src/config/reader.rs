//! A text being read and the problems found in it: where each is, in which order they are told, and
//! which only repeat another. Walking what was parsed is left to `table` and `value`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::bounds::PROBLEMS_MAX;
use super::problem::{Place, Problem, Wrong, shown};

/// A text being read, and what was found in it.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    file: &'t Path,
    /// What relative paths are relative to: absolute.
    base: PathBuf,
    found: Vec<Found>,
    /// Whether the TOML itself is broken, so that what seems missing may only have been lost.
    broken: bool,
    /// Directories that must exist, for those who may look.
    pub(super) directories: Vec<(Spot, PathBuf)>,
    /// Files of users that must be right, for the same.
    pub(super) users: Vec<(Spot, PathBuf)>,
    /// Where passwords are asked for that must not cross a network in clear.
    pub(super) needs_privacy: Vec<Spot>,
}

/// A problem and the byte where it is.
#[derive(Debug)]
struct Found {
    spot: Spot,
    wrong: Wrong,
    syntax: bool,
}

/// A key and where its value begins, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) key: String,
    pub(super) at: usize,
}

impl<'t> Reader<'t> {
    /// A reader of the text of a file; relative paths are relative to the file's directory.
    pub(super) fn new(text: &'t str, file: &'t Path) -> Reader<'t> {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        Reader {
            text,
            file,
            base,
            found: Vec::new(),
            broken: false,
            directories: Vec::new(),
            users: Vec::new(),
            needs_privacy: Vec::new(),
        }
    }

    /// Parses the TOML, as far as it can be understood.
    pub(super) fn parse(&mut self) -> DeTable<'t> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        self.broken = !errors.is_empty();
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            let spot = Spot { key: String::new(), at };
            let wrong = syntax_error(error.message(), self.text.get(at..).unwrap_or_default());
            self.found.push(Found { spot, wrong, syntax: true });
        }
        document.into_inner()
    }

    /// Notes a problem.
    pub(super) fn report(&mut self, spot: &Spot, wrong: Wrong) {
        self.found.push(Found { spot: spot.clone(), wrong, syntax: false });
    }

    /// Notes that something is missing; not in a broken text, where it may be there after all.
    pub(super) fn report_missing(&mut self, spot: &Spot, wrong: Wrong) {
        if !self.broken {
            self.report(spot, wrong);
        }
    }

    /// The absolute form of a written path.
    pub(super) fn absolute(&self, path: &str) -> Result<PathBuf, Wrong> {
        if path.is_empty() {
            return Err(Wrong::new("the path is empty").hint("\".\" is this file's directory"));
        }
        if path.contains('\0') {
            return Err(Wrong::new(format!("{} holds a NUL", shown(path))).hint("remove it"));
        }
        let joined = self.base.join(path);
        Ok(std::path::absolute(&joined).unwrap_or(joined))
    }

    /// The configuration if nothing was found, else every problem in the order of the text.
    pub(super) fn finish<T>(mut self, config: T) -> Result<T, Vec<Problem>> {
        if self.found.is_empty() {
            return Ok(config);
        }
        let lines = Lines::of(self.text);
        // A broken line says so itself: what was salvaged of it would only repeat it worse.
        let broken: HashSet<usize> =
            self.found.iter().filter(|f| f.syntax).map(|f| lines.index(f.spot.at)).collect();
        self.found.retain(|f| f.syntax || !broken.contains(&lines.index(f.spot.at)));
        self.found.sort_by(|a, b| (a.spot.at, &a.spot.key).cmp(&(b.spot.at, &b.spot.key)));
        self.found.dedup_by(|a, b| a.spot == b.spot && a.wrong == b.wrong);

        let surplus = self.found.len().saturating_sub(PROBLEMS_MAX);
        self.found.truncate(PROBLEMS_MAX);
        let file = self.file.to_owned();
        let mut problems: Vec<Problem> = (self.found.into_iter())
            .map(|found| Problem {
                file: file.clone(),
                place: Some(lines.place(found.spot.at)),
                key: found.spot.key,
                what: found.wrong.what,
                hint: found.wrong.hint,
            })
            .collect();
        if surplus > 0 {
            let what = format!("{surplus} more problems");
            problems.push(Problem { file, place: None, key: String::new(), what, hint: None });
        }
        Err(problems)
    }
}

/// What the parser says, put in words for its commonest complaints; `rest` begins at the place.
fn syntax_error(message: &str, rest: &str) -> Wrong {
    let word_end = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '#' | ']' | '}'));
    let word = &rest[..word_end.unwrap_or(rest.len())];
    if message.starts_with("string values must be quoted") {
        return match word.is_empty() {
            true => Wrong::new("the value is missing").hint("write one after the ="),
            false => Wrong::new("text is written in quotes").hint(format!("write {}", shown(word))),
        };
    }
    match message {
        "duplicate key" => Wrong::new("the key is already in this table").hint("remove one"),
        other => Wrong::new(other.replace('\n', " ")),
    }
}

/// Where the lines of a text begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Lines<'t> {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// The line a byte is in, from 0.
    fn index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    fn place(&self, at: usize) -> Place {
        let line = self.index(at);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or("");
        Place { line: line + 1, column: before.chars().count() + 1 }
    }
}
