//! The grammar of .htaccess files: lines of words, quotes, comments, and sections in `<...>`. It
//! knows no directive but those of mod_rewrite, whose words keep their backslashes.

use std::sync::Arc;

use crate::syntax::{At, Directive, SyntaxError};

/// Deepest nesting of sections.
const DEPTH_MAX: usize = 16;

/// Parses a file. A section is a directive with a block and a name such as `<Files>`.
///
/// # Errors
/// The first defect: a section that does not end, or ends twice.
pub(super) fn parse(text: &str, file: &str) -> Result<Vec<Directive>, SyntaxError> {
    let file: Arc<str> = file.into();
    // The sections that are open, each with what it holds; the first one is the file.
    let mut open: Vec<(Option<Directive>, Vec<Directive>)> = vec![(None, Vec::new())];
    for (line, text) in logical_lines(text) {
        let at = At { file: file.clone(), line };
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(name) = text.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim();
            let closed = open.pop();
            let Some((Some(mut section), block)) = closed else {
                return Err(SyntaxError { at, message: "this section was not begun" });
            };
            if !section.name.trim_matches(['<', '>']).eq_ignore_ascii_case(name) {
                return Err(SyntaxError { at, message: "another section is to end first" });
            }
            section.block = Some(block);
            push(&mut open, section);
        } else if let Some(head) = text.strip_prefix('<') {
            let Some(head) = head.strip_suffix('>') else {
                return Err(SyntaxError { at, message: "a section's begin has no >" });
            };
            if open.len() > DEPTH_MAX {
                return Err(SyntaxError { at, message: "sections nest too deeply" });
            }
            let mut words = words(head, false);
            if words.is_empty() {
                return Err(SyntaxError { at, message: "a section has no name" });
            }
            let name = format!("<{}>", words.remove(0));
            open.push((Some(Directive { name, args: words, block: None, at }), Vec::new()));
        } else {
            let name = text.split_whitespace().next().unwrap_or_default();
            let is_rewrite = name.len() >= 7 && name.is_char_boundary(7);
            let is_rewrite = is_rewrite && name[..7].eq_ignore_ascii_case("rewrite");
            let mut words = words(text, is_rewrite);
            let name = words.remove(0);
            push(&mut open, Directive { name, args: words, block: None, at });
        }
    }
    match (open.pop(), open.len()) {
        (Some((None, directives)), 0) => Ok(directives),
        (Some((Some(section), _)), _) => {
            Err(SyntaxError { at: section.at, message: "a section does not end" })
        }
        _ => Ok(Vec::new()),
    }
}

fn push(open: &mut [(Option<Directive>, Vec<Directive>)], directive: Directive) {
    if let Some((_, block)) = open.last_mut() {
        block.push(directive);
    }
}

/// Joins lines that end with a backslash. Each has the number of its first line, from 1.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    let text = text.trim_start_matches('\u{feff}');
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let (line, continues) = match line.strip_suffix('\\') {
            // An escaped backslash ends no line.
            Some(rest) if !rest.ends_with('\\') => (rest, true),
            _ => (line, false),
        };
        match lines.last_mut() {
            Some((_, last)) if goes_on => last.push_str(line),
            _ => lines.push((at + 1, line.to_owned())),
        }
        goes_on = continues;
    }
    lines
}

/// Splits a line, which has a word. `keeps_escapes`: a backslash before a space is no end of a
/// word, and backslashes stay.
fn words(line: &str, keeps_escapes: bool) -> Vec<String> {
    let mut rest = line.chars().peekable();
    let mut words = Vec::new();
    loop {
        while rest.peek().is_some_and(|c| c.is_whitespace()) {
            rest.next();
        }
        let Some(&first) = rest.peek() else { return words };
        let quote = matches!(first, '"' | '\'').then_some(first);
        if quote.is_some() {
            rest.next();
        }
        let mut word = String::new();
        while let Some(c) = rest.next() {
            let next = rest.peek().copied();
            match (c, quote) {
                (c, Some(quote)) if c == quote => break,
                (c, None) if c.is_whitespace() => break,
                ('\\', _) if keeps_escapes => {
                    word.push(c);
                    word.extend(rest.next());
                }
                ('\\', quote) if next == Some('\\') || (quote.is_some() && next == quote) => {
                    word.extend(rest.next());
                }
                (c, _) => word.push(c),
            }
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(directives: &[Directive]) -> String {
        let shown = |d: &Directive| match &d.block {
            None => format!("{}:{}{:?};", d.at.line, d.name, d.args),
            Some(block) => format!("{}:{}{:?}{{{}}}", d.at.line, d.name, d.args, shown(block)),
        };
        directives.iter().map(shown).collect()
    }

    #[test]
    fn files() {
        let rows = [
            (
                "comments and blanks",
                "# a\n\n  # b\nOptions -Indexes # c",
                r##"4:Options["-Indexes", "#", "c"];"##,
            ),
            ("a section", "<Files \"a b\">\nDeny\n</files>", r#"1:<Files>["a b"]{2:Deny[];}"#),
            ("a line that goes on", "A b \\\n c\nD", r#"1:A["b", "c"];3:D[];"#),
            (
                "a quote in a quote",
                r#"Header set A "b \"c\" \\d""#,
                r#"1:Header["set", "A", "b \"c\" \\d"];"#,
            ),
            (
                "escapes of mod_rewrite",
                r"RewriteRule ^a\ b\.c$ - [F]",
                r#"1:RewriteRule["^a\\ b\\.c$", "-", "[F]"];"#,
            ),
            ("an open section", "<Files a>\n", "a section does not end"),
            ("an end too many", "</Files>", "this section was not begun"),
            ("crossed ends", "<Files a>\n</If>", "another section is to end first"),
            ("no >", "<Files a", "a section's begin has no >"),
            ("no name", "<>", "a section has no name"),
        ];
        for (sentence, text, expected) in rows {
            let found = match parse(text, ".htaccess") {
                Ok(directives) => shown(&directives),
                Err(e) => e.message.to_owned(),
            };
            assert_eq!(found, expected, "{sentence}");
        }
    }
}
