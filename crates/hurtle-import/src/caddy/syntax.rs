//! The grammar of a Caddyfile: words, quotes, comments, blocks that a `{` at the end of a line
//! opens, and `{$NAME:default}`, which becomes hurtle's `{env.NAME:default}`. It knows no
//! directive.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use crate::syntax::{At, Directive, SyntaxError};

/// Deepest nesting of blocks.
const DEPTH_MAX: usize = 32;

/// Parses a file to its blocks. The name of a site is its first address, and its arguments are the
/// others; that of the global options is empty, and that of a snippet is in parentheses.
///
/// # Errors
/// The first defect: an unbalanced brace or quote.
pub(super) fn parse(text: &str, file: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut lines = lines(text, file)?.into_iter().peekable();
    let mut blocks = Vec::new();
    while let Some(mut line) = lines.next() {
        // Addresses may go on after a comma at the end of the line.
        while line.words.last().is_some_and(|word| word.text.ends_with(',')) {
            match lines.next() {
                Some(next) => line.words.extend(next.words),
                None => break,
            }
        }
        let Line { at, mut words } = line;
        let opens = words.last().is_some_and(|word| word.is("{"));
        if opens {
            words.pop();
        }
        if words.iter().any(|word| word.is("}")) {
            return Err(SyntaxError { at, message: "} closes no block" });
        }
        let addresses = words.iter().map(|word| word.text.trim_end_matches(','));
        let mut names: Vec<String> =
            addresses.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let name = if names.is_empty() { String::new() } else { names.remove(0) };
        if opens {
            let block = Some(directives(&mut lines, &at, 1)?);
            blocks.push(Directive { name, args: names, block, at });
        } else if name == "import" {
            blocks.push(Directive { name, args: names, block: None, at });
        } else {
            // A file of one site needs no braces.
            let rest = rest_of(&mut lines)?;
            blocks.push(Directive { name, args: names, block: Some(rest), at });
        }
    }
    Ok(blocks)
}

/// Parses directives without a block around them, as in a file of `import`.
///
/// # Errors
/// The first defect, as for `parse`.
pub(super) fn parse_part(text: &str, file: &str) -> Result<Vec<Directive>, SyntaxError> {
    rest_of(&mut lines(text, file)?.into_iter().peekable())
}

fn rest_of(lines: &mut Lines) -> Result<Vec<Directive>, SyntaxError> {
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        if line.words.iter().any(|word| word.is("}")) {
            return Err(SyntaxError { at: line.at, message: "} closes no block" });
        }
        all.push(directive(line, lines, 0)?);
    }
    Ok(all)
}

/// Parses the directives of a block up to its end.
fn directives(lines: &mut Lines, begun: &At, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        match line.words.as_slice() {
            [word] if word.is("}") => return Ok(all),
            words if words.iter().any(|word| word.is("}")) => {
                return Err(SyntaxError { at: line.at, message: "} must stand alone on its line" });
            }
            _ => all.push(directive(line, lines, depth)?),
        }
    }
    Err(SyntaxError { at: begun.clone(), message: "a block does not end with }" })
}

fn directive(line: Line, lines: &mut Lines, depth: usize) -> Result<Directive, SyntaxError> {
    let Line { at, mut words } = line;
    let opens = words.last().is_some_and(|word| word.is("{"));
    if opens {
        words.pop();
    }
    let block = match opens {
        true if depth >= DEPTH_MAX => {
            return Err(SyntaxError { at, message: "blocks nest too deeply" });
        }
        true => Some(directives(lines, &at, depth + 1)?),
        false => None,
    };
    let mut words = words.into_iter().map(|word| word.text);
    let name = words.next().unwrap_or_default();
    Ok(Directive { name, args: words.collect(), block, at })
}

type Lines = Peekable<std::vec::IntoIter<Line>>;

struct Line {
    at: At,
    words: Vec<Word>,
}

struct Word {
    text: String,
    is_quoted: bool,
}

impl Word {
    /// `true` for this text without quotes.
    fn is(&self, text: &str) -> bool {
        !self.is_quoted && self.text == text
    }
}

/// Splits a text into lines of words; those without a word are left out.
fn lines(text: &str, file: &str) -> Result<Vec<Line>, SyntaxError> {
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, file: file.into() };
    let (mut lines, mut line): (Vec<Line>, Option<Line>) = (Vec::new(), None);
    loop {
        let at = lexer.at();
        match lexer.token()? {
            Token::Word(word) => {
                line.get_or_insert_with(|| Line { at, words: Vec::new() }).words.push(word);
            }
            Token::NewLine => lines.extend(line.take()),
            Token::End => {
                lines.extend(line.take());
                return Ok(lines);
            }
        }
    }
}

enum Token {
    Word(Word),
    NewLine,
    End,
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    file: Arc<str>,
}

impl Lexer<'_> {
    fn at(&self) -> At {
        At { file: self.file.clone(), line: self.line }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        loop {
            match self.rest.peek().copied() {
                None => return Ok(Token::End),
                Some('\n') => {
                    self.next();
                    return Ok(Token::NewLine);
                }
                Some('#') => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.next();
                    }
                }
                Some('\\') if self.continues() => {}
                Some(c) if c.is_whitespace() => {
                    self.next();
                }
                Some(_) => break,
            }
        }
        match self.rest.peek() {
            Some(&quote @ ('"' | '`')) => self.quoted(quote).map(Token::Word),
            _ => self.bare().map(Token::Word),
        }
    }

    /// Skips a backslash at the end of a line, with the line break.
    fn continues(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next();
        let is_end = match ahead.next() {
            Some('\r') => ahead.next() == Some('\n'),
            next => next == Some('\n'),
        };
        if is_end {
            while self.next().is_some_and(|c| c != '\n') {}
        }
        is_end
    }

    fn quoted(&mut self, quote: char) -> Result<Word, SyntaxError> {
        let begun = self.at();
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(SyntaxError { at: begun, message: "a quote does not end" }),
                Some('\\') if quote == '"' && self.rest.peek() == Some(&'"') => {
                    text.extend(self.next());
                }
                Some('{') if self.rest.peek() == Some(&'$') => self.variable(&mut text)?,
                Some(c) if c == quote => break,
                Some(c) => text.push(c),
            }
        }
        Ok(Word { text, is_quoted: true })
    }

    fn bare(&mut self) -> Result<Word, SyntaxError> {
        let mut text = String::new();
        while let Some(&c) = self.rest.peek() {
            if c.is_whitespace() {
                break;
            }
            self.next();
            match c {
                '{' if self.rest.peek() == Some(&'$') => self.variable(&mut text)?,
                '\\' if self.rest.peek() == Some(&'"') => text.extend(self.next()),
                c => text.push(c),
            }
        }
        match text.strip_prefix("<<") {
            Some(mark) if !mark.is_empty() => self.heredoc(mark),
            _ => Ok(Word { text, is_quoted: false }),
        }
    }

    /// Reads a variable of the environment behind its brace.
    fn variable(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let begun = self.at();
        self.next();
        text.push_str("{env.");
        loop {
            match self.next() {
                Some('}') => break,
                Some('\n') | None => {
                    return Err(SyntaxError { at: begun, message: "{$ has no }" });
                }
                Some(c) => text.push(c),
            }
        }
        text.push('}');
        Ok(())
    }

    /// Reads lines up to the one with the mark, whose indentation is taken off all.
    fn heredoc(&mut self, mark: &str) -> Result<Word, SyntaxError> {
        let begun = self.at();
        while self.next().is_some_and(|c| c != '\n') {}
        let mut lines: Vec<String> = Vec::new();
        loop {
            let mut line = String::new();
            let is_ended = loop {
                let next = self.rest.peek();
                // Words may follow the mark.
                if line.trim_start() == mark && next.is_some_and(|c| *c == ' ' || *c == '\t') {
                    break false;
                }
                match next {
                    None => break true,
                    Some('\n') => break false,
                    Some('{') => {
                        self.next();
                        match self.rest.peek() {
                            Some('$') => self.variable(&mut line)?,
                            _ => line.push('{'),
                        }
                    }
                    Some(_) => line.extend(self.next()),
                }
            };
            let line = line.trim_end_matches('\r').to_owned();
            if line.trim() == mark {
                let indent = &line[..line.len() - line.trim_start().len()];
                let lines: Vec<&str> =
                    lines.iter().map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
                return Ok(Word { text: lines.join("\n"), is_quoted: true });
            }
            if is_ended {
                return Err(SyntaxError { at: begun, message: "a heredoc does not end" });
            }
            self.next();
            lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(directives: &[Directive]) -> String {
        let shown = |d: &Directive| match &d.block {
            None => format!("{}:{:?}{:?};", d.at.line, d.name, d.args),
            Some(block) => format!("{}:{:?}{:?}{{{}}}", d.at.line, d.name, d.args, shown(block)),
        };
        directives.iter().map(shown).collect()
    }

    #[test]
    fn blocks() {
        let rows = [
            ("nothing", " # a comment\n", ""),
            (
                "a site without braces",
                "a.test\n\nroot * /srv\n",
                r#"1:"a.test"[]{3:"root"["*", "/srv"];}"#,
            ),
            ("global options", "{\n\temail a@b\n}\n", r#"1:""[]{2:"email"["a@b"];}"#),
            (
                "addresses over lines",
                "a.test,\nb.test {\n\tlog\n}",
                r#"1:"a.test"["b.test"]{3:"log"[];}"#,
            ),
            ("a snippet", "(x) {\n\tlog\n}", r#"1:"(x)"[]{2:"log"[];}"#),
            (
                "an import between sites",
                "import sites/*\na {\n}",
                r#"1:"import"["sites/*"];2:"a"[]{}"#,
            ),
            (
                "quotes",
                "a {\n\tb \"c \\\"d\\\" {\" `e \\f`\n}",
                r#"1:"a"[]{2:"b"["c \"d\" {", "e \\f"];}"#,
            ),
            (
                "the environment",
                "{$HOST:localhost} {\n\tb \"{$X}\"\n}",
                r#"1:"{env.HOST:localhost}"[]{2:"b"["{env.X}"];}"#,
            ),
            ("a line that goes on", "a {\n\tb c \\\n d\n}", r#"1:"a"[]{2:"b"["c", "d"];}"#),
            (
                "a comment behind words, and a # within",
                "a {\n\tb c#d # e\n}",
                r#"1:"a"[]{2:"b"["c#d"];}"#,
            ),
            (
                "a heredoc",
                "a {\n\tb <<X\n\t\tone\n\t\t two\n\t\tX 200\n}",
                r#"1:"a"[]{2:"b"["one\n two", "200"];}"#,
            ),
            (
                "a heredoc with a variable",
                "a {\n\tb <<X\n\t\t{$V} {x}\n\t\tX\n}",
                r#"1:"a"[]{2:"b"["{env.V} {x}"];}"#,
            ),
            (
                "its end alone",
                "a {\n\tb <<X\n\t\tone\n\t\t two\n\t\tX\n}",
                r#"1:"a"[]{2:"b"["one\n two"];}"#,
            ),
            ("an open block", "a {\n\tb\n", "a block does not end with }"),
            ("an open quote", "a {\n\tb \"c\n}", "a quote does not end"),
            ("a brace too many", "a {\n}\n}", "} closes no block"),
            ("a brace behind a word", "a {\n\tb }\n}", "} must stand alone on its line"),
        ];
        for (sentence, text, expected) in rows {
            let found = match parse(text, "f") {
                Ok(blocks) => shown(&blocks),
                Err(e) => e.message.to_owned(),
            };
            assert_eq!(found, expected, "{sentence}");
        }
    }
}
