//! A minimal Rust lexer: a file's words without comments, string literals and tests, and the paths
//! they name.

use std::iter::Peekable;
use std::str::Chars;

/// A file to check.
pub(crate) struct Source<'a> {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: &'a str,
    /// The whole text.
    pub(crate) text: &'a str,
    /// The words of its code: everything before its test module.
    pub(crate) words: Vec<Word>,
    /// The line on which its test module begins, if it has one.
    tests_from: Option<usize>,
}

/// An identifier, `::`, or one other character, and its line (from 1).
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A path named in the code: `use a::{b, c::*}` names `a::b` and `a::c::*`.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) line: usize,
    pub(crate) parts: Vec<String>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(path: &'a str, text: &'a str) -> Source<'a> {
        let mut words = words(text);
        let tests = (0..words.len()).find(|&at| opens_tests(&words[at..]));
        let tests_from = tests.map(|at| words[at].line);
        words.truncate(tests.unwrap_or(words.len()));
        Source { path, text, words, tests_from }
    }

    /// Lines of code: not blank, not a `//` comment, not tests.
    pub(crate) fn lines_of_code(&self) -> usize {
        let lines = self.text.lines().take(self.tests_from.map_or(usize::MAX, |line| line - 1));
        lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    }

    /// Every path the code names, in order.
    pub(crate) fn paths(&self) -> Vec<Named> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.words.len() {
            at = if self.words[at].is_name() { self.tree(at, &[], &mut found) } else { at + 1 };
        }
        found
    }

    /// Reads the path that begins at `at`, and the groups in it, beneath `prefix`; gives the index
    /// of the first word after it.
    fn tree(&self, mut at: usize, prefix: &[String], found: &mut Vec<Named>) -> usize {
        let line = self.words[at].line;
        let mut parts = prefix.to_vec();
        loop {
            parts.push(self.words[at].text.clone());
            at += 1;
            let is_path = self.is(at, "::");
            match self.words.get(at + 1) {
                Some(next) if is_path && (next.is_name() || next.text == "*") => at += 1,
                Some(next) if is_path && next.text == "{" => {
                    return self.group(at + 2, &parts, found);
                }
                _ => break,
            }
        }
        found.push(Named { line, parts });
        at
    }

    fn group(&self, mut at: usize, prefix: &[String], found: &mut Vec<Named>) -> usize {
        while at < self.words.len() && !self.is(at, "}") {
            let begins = self.is(at - 1, "{") || self.is(at - 1, ",");
            at = if begins && !self.is(at, ",") { self.tree(at, prefix, found) } else { at + 1 };
        }
        at + 1
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.words.get(at).is_some_and(|word| word.text == text)
    }
}

impl Word {
    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c == '_' || c.is_alphabetic())
    }
}

impl Named {
    /// `true` if the parts of `path` (`a::b`) occur in this path one after the other.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path: Vec<&str> = path.split("::").collect();
        self.parts.windows(path.len()).any(|parts| parts == path)
    }
}

/// `true` if these words open a module of tests. `#[cfg(test)]` on any other item does not end a
/// file's code.
fn opens_tests(words: &[Word]) -> bool {
    let pattern = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let matches =
        |pattern: &[&str]| words.iter().map(|word| &word.text).zip(pattern).all(|(a, b)| a == b);
    words.len() > pattern.len() + 1 && matches(&pattern) && words[pattern.len() + 1].text == "{"
}

fn words(text: &str) -> Vec<Word> {
    let mut reader = Reader { chars: text.chars().peekable(), line: 1 };
    let mut words = Vec::new();
    while let Some(c) = reader.next() {
        let line = reader.line;
        match c {
            '/' if reader.peek() == Some('/') => reader.skip_line(),
            '/' if reader.peek() == Some('*') => reader.skip_comment(),
            '"' => reader.skip_text(),
            '\'' => reader.skip_char_or_lifetime(),
            ':' if reader.peek() == Some(':') => {
                reader.next();
                words.push(Word { line, text: "::".into() });
            }
            c if c == '_' || c.is_alphanumeric() => {
                let text = reader.name(c);
                if !reader.skip_prefixed(&text) {
                    words.push(Word { line, text });
                }
            }
            c if c.is_whitespace() => {}
            c => words.push(Word { line, text: c.into() }),
        }
    }
    words
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().copied()
    }

    fn name(&mut self, first: char) -> String {
        let mut name = String::from(first);
        while let Some(c) = self.peek().filter(|&c| c == '_' || c.is_alphanumeric()) {
            name.push(c);
            self.next();
        }
        name
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.next();
        }
    }

    /// Skips a block comment after its first `/`. Block comments nest.
    fn skip_comment(&mut self) {
        let mut depth = 0;
        let mut last = '/';
        while let Some(c) = self.next() {
            match (last, c) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    last = c;
                    continue;
                }
            }
            last = ' ';
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips a string literal after its first quote.
    fn skip_text(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                '"' => return,
                _ => {}
            }
        }
    }

    /// Skips `'x'`, `'\n'` or `'static` after the `'`.
    fn skip_char_or_lifetime(&mut self) {
        let first = self.next();
        if first == Some('\\') {
            self.next();
            while self.next().is_some_and(|c| c != '\'') {}
        } else if self.peek() == Some('\'') {
            self.next();
        } else if let Some(first) = first {
            self.name(first);
        }
    }

    /// Skips the literal after `r`, `b`, `br`, `c` or `cr`; `false` if there is none.
    fn skip_prefixed(&mut self, prefix: &str) -> bool {
        if !["r", "b", "br", "c", "cr"].contains(&prefix) {
            return false;
        }
        let raw = prefix.ends_with('r');
        match self.peek() {
            Some('"') if !raw => {
                self.next();
                self.skip_text();
            }
            Some('\'') if prefix == "b" => {
                self.next();
                self.skip_char_or_lifetime();
            }
            Some('"' | '#') if raw => self.skip_raw(),
            _ => return false,
        }
        true
    }

    /// Skips `#"..."#` with any number of `#`, or the `#` of a raw identifier.
    fn skip_raw(&mut self) {
        let mut hashes = 0;
        while self.peek() == Some('#') {
            self.next();
            hashes += 1;
        }
        if self.peek() != Some('"') {
            return;
        }
        self.next();
        while let Some(c) = self.next() {
            let mut closing = 0;
            while c == '"' && closing < hashes && self.peek() == Some('#') {
                self.next();
                closing += 1;
            }
            if c == '"' && closing == hashes {
                return;
            }
        }
    }
}
