//! The grammar of nginx's configuration: words, quotes, comments, `;` and blocks. It knows no
//! directive and reads no file.

use std::fmt;
use std::sync::Arc;

/// Deepest nesting of blocks.
const DEPTH_MAX: usize = 32;

/// Position of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A directive with its arguments, and its block if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Name, as written.
    pub name: String,
    /// Arguments without their quotes.
    pub args: Vec<String>,
    /// Directives of its block; `None`: it ends with `;`.
    pub block: Option<Vec<Directive>>,
    /// Position of the name.
    pub at: At,
}

impl Directive {
    /// The argument at `index`, or an empty string.
    pub fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives of the block; none if there is no block.
    pub fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Shows a directive without its block.
impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Text that is not nginx's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Position of the defect.
    pub at: At,
    /// Description of the defect.
    pub message: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// Parses the text of a file.
///
/// # Errors
/// The first defect: an unbalanced brace or quote, or a missing `;`.
pub fn parse(text: &str, file: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, file: file.into() };
    block(&mut lexer, 0)
}

#[derive(Debug)]
enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

/// Parses directives up to the end of their block.
fn block(lexer: &mut Lexer<'_>, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
    let mut directives = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut at = lexer.at();
    loop {
        let token = lexer.token()?;
        match token {
            Token::Word(word) => {
                if words.is_empty() {
                    at = lexer.at();
                }
                words.push(word);
                continue;
            }
            Token::End | Token::Close if !words.is_empty() => {
                return Err(SyntaxError { at, message: "the directive does not end with ;" });
            }
            Token::End if depth > 0 => return Err(lexer.error("a block does not end with }")),
            Token::Close if depth == 0 => return Err(lexer.error("} closes no block")),
            Token::End | Token::Close => return Ok(directives),
            Token::Semicolon | Token::Open if words.is_empty() => {
                return Err(lexer.error("a directive's name is missing"));
            }
            Token::Open if depth == DEPTH_MAX => return Err(lexer.error("blocks nest too deeply")),
            Token::Semicolon | Token::Open => {}
        }
        let block = match token {
            Token::Open => Some(block(lexer, depth + 1)?),
            _ => None,
        };
        let name = words.remove(0);
        directives.push(Directive { name, args: std::mem::take(&mut words), block, at });
        at = lexer.at();
    }
}

struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    file: Arc<str>,
}

impl Lexer<'_> {
    fn at(&self) -> At {
        At { file: self.file.clone(), line: self.line }
    }

    fn error(&self, message: &'static str) -> SyntaxError {
        SyntaxError { at: self.at(), message }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        loop {
            match self.rest.peek() {
                None => return Ok(Token::End),
                Some(c) if c.is_ascii_whitespace() => {
                    self.next();
                }
                Some('#') => while self.next().is_some_and(|c| c != '\n') {},
                Some(_) => break,
            }
        }
        match self.rest.peek() {
            Some(';') => self.single(Token::Semicolon),
            Some('{') => self.single(Token::Open),
            Some('}') => self.single(Token::Close),
            Some(&quote @ ('"' | '\'')) => self.quoted(quote),
            _ => Ok(Token::Word(self.bare())),
        }
    }

    fn single(&mut self, token: Token) -> Result<Token, SyntaxError> {
        self.next();
        Ok(token)
    }

    fn quoted(&mut self, quote: char) -> Result<Token, SyntaxError> {
        let begun = self.at();
        self.next();
        let mut word = String::new();
        loop {
            match self.next() {
                None => return Err(SyntaxError { at: begun, message: "a quote does not end" }),
                Some('\\') => self.escape(&mut word),
                Some(c) if c == quote => break,
                Some(c) => word.push(c),
            }
        }
        match self.rest.peek() {
            None | Some(';' | '{' | '}' | ')') => Ok(Token::Word(word)),
            Some(c) if c.is_ascii_whitespace() => Ok(Token::Word(word)),
            Some(_) => Err(self.error("a quoted word goes on after its quote")),
        }
    }

    /// A word without quotes: up to a space, `;` or `{`. The braces of `${name}` belong to it.
    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek() {
            match c {
                ';' => break,
                '{' if !word.ends_with('$') => break,
                c if c.is_ascii_whitespace() => break,
                _ => {}
            }
            self.next();
            match c {
                '\\' => self.escape(&mut word),
                '{' => {
                    word.push('{');
                    while let Some(c) = self.next() {
                        word.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                c => word.push(c),
            }
        }
        word
    }

    /// Reads what follows a backslash. It stays before characters that need no escape, as in
    /// regular expressions.
    fn escape(&mut self, word: &mut String) {
        match self.next() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Directive, parse};

    fn shown(directives: &[Directive]) -> String {
        let shown = |d: &Directive| match &d.block {
            None => format!("{}:{:?}{:?};", d.at.line, d.name, d.args),
            Some(block) => format!("{}:{:?}{:?}{{{}}}", d.at.line, d.name, d.args, shown(block)),
        };
        directives.iter().map(shown).collect()
    }

    #[test]
    fn directives() {
        let rows = [
            ("nothing", " # a comment", ""),
            ("a directive", "root /srv;", r#"1:"root"["/srv"];"#),
            ("over lines", "index\n a\n b;", r#"1:"index"["a", "b"];"#),
            ("a block", "http {\n\tserver{} }", r#"1:"http"[]{2:"server"[]{}}"#),
            ("quotes", r#"a "b; {c}" 'd "e"';"#, r#"1:"a"["b; {c}", "d \"e\""];"#),
            ("escapes in a quote", r#"a "b\"c\\d\.";"#, r#"1:"a"["b\"c\\d\\."];"#),
            ("a regular expression", r"location ~ \.php$ {}", r#"1:"location"["~", "\\.php$"]{}"#),
            ("a variable in braces", "a ${b}c;", r#"1:"a"["${b}c"];"#),
            ("a # within a word", "a b#c;", r#"1:"a"["b#c"];"#),
        ];
        for (sentence, text, expected) in rows {
            assert_eq!(parse(text, "f").map(|d| shown(&d)).as_deref(), Ok(expected), "{sentence}");
        }
    }

    #[test]
    fn defects() {
        let deep = "a {".repeat(40);
        let rows = [
            ("no semicolon", "root /srv\n", "f:1: the directive does not end with ;"),
            ("no brace", "http {\n", "f:2: a block does not end with }"),
            ("one too many", "http {}\n}", "f:2: } closes no block"),
            ("no name", "\n;", "f:2: a directive's name is missing"),
            ("an open quote", "a 'b\n\n", "f:1: a quote does not end"),
            ("text after a quote", "a 'b'c;", "f:1: a quoted word goes on after its quote"),
            ("deep nesting", &deep, "f:1: blocks nest too deeply"),
        ];
        for (sentence, text, expected) in rows {
            let error = parse(text, "f").expect_err(sentence);
            assert_eq!(error.to_string(), expected, "{sentence}");
        }
    }
}
