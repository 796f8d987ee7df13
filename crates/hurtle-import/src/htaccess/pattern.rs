//! Regular expressions of Apache as those of paths here. Apache compares names of files, or paths
//! without their first slash; here an expression is compared with the whole path.

use std::fmt::Write as _;

use super::lookahead;
use hurtle_config::PathRegex;

/// Most texts of a finite expression.
const TEXTS_MAX: usize = 16;

/// Ends of a name in an expression of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameEnd {
    /// The path ends with the name.
    Last,
    /// More may follow the name, as behind a script's.
    Any,
}

/// Makes an expression of the last name of a path one of the whole path.
pub(super) fn of_name(text: &str, end: NameEnd) -> Result<String, String> {
    let text = &lookahead::without(text);
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    let mut class: Option<usize> = None;
    while let Some(c) = chars.next() {
        match (c, class) {
            ('\\', _) => {
                match chars.next() {
                    Some('S') if class.is_none() => out.push_str(r"[^\s/]"),
                    Some('W') if class.is_none() => out.push_str(r"[^\w/]"),
                    Some('D') if class.is_none() => out.push_str(r"[^\d/]"),
                    Some(next) => out.extend(['\\', next]),
                    None => return Err("its expression ends with a backslash".to_owned()),
                }
                class = class.map(|held| held + 1);
            }
            ('[', None) => {
                class = Some(0);
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push_str("^/");
                }
            }
            (']', Some(held)) if held > 0 => {
                class = None;
                out.push(']');
            }
            (c, Some(held)) => {
                class = Some(held + 1);
                out.push(c);
            }
            ('^', None) => out.push('/'),
            ('$', None) if end == NameEnd::Any => out.push_str("(/|$)"),
            ('.', None) => out.push_str("[^/]"),
            (c, None) => out.push(c),
        }
    }
    if end == NameEnd::Last && !text.ends_with('$') {
        out = format!("(?:{out})[^/]*$");
    }
    checked(&out)
}

/// Makes an expression of a path without its first slash one of the whole path. `None`: no path
/// matches it.
pub(super) fn of_path(text: &str) -> Result<Option<String>, String> {
    let text = &lookahead::without(text);
    let mut parts = Vec::new();
    for part in alternatives(text) {
        let (begin, rest) = match segment(part) {
            Some(known) => known,
            None if part.starts_with("^/?") => ("^/", &part[3..]),
            None if part.starts_with("^/") => continue,
            None if part.starts_with('^') => ("^/", &part[1..]),
            None if begins_with_letter(part) => ("", part),
            None => ("^/.*?", part),
        };
        if has_begin(rest) {
            return Err("write ^ at the begin of its expression".to_owned());
        }
        parts.push(format!("{begin}{rest}"));
    }
    match parts.is_empty() {
        true => Ok(None),
        false => checked(&parts.join("|")).map(Some),
    }
}

/// The counterpart of the begin of an expression that is the begin of a segment, and the rest.
fn segment(text: &str) -> Option<(&'static str, &str)> {
    const FORMS: [(&str, &str); 4] =
        [("(^|/)", "(/)"), ("(/|^)", "(/)"), ("(?:^|/)", "/"), ("(?:/|^)", "/")];
    FORMS.iter().find_map(|(form, begin)| Some((*begin, text.strip_prefix(form)?)))
}

/// `true`: an expression has `^` outside of classes.
fn has_begin(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    let mut is_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' if !is_class => {
                is_class = true;
                // A bracket that is the first character of a class does not close it.
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            ']' => is_class = false,
            '^' if !is_class => return true,
            _ => {}
        }
    }
    false
}

/// The glob of an expression of whole paths; `None`: there is none.
pub(super) fn glob(text: &str) -> Option<String> {
    // A run of a glob may be empty.
    let found = crate::regex::pattern(text).filter(|_| !crate::regex::needs_text(text));
    found.filter(|glob| glob.starts_with('/'))
}

/// `true`: it matches every path, and is no more than that.
pub(super) fn is_everything(text: &str) -> bool {
    const ALL: [&str; 26] = [
        "",
        "^",
        "$",
        ".",
        ".*",
        "(.*)",
        "^.*",
        "^.*$",
        ".*$",
        "^(.*)",
        "^(.*)$",
        "(.*)$",
        "^(.+)$",
        "(.+)",
        ".+",
        "^.+$",
        "^/?(.*)$",
        "^/?(.*)",
        "/?(.*)",
        "^/?.*$",
        "^.",
        "^(.+)",
        "^([^?]*)",
        "^([^?]*)$",
        "([^?]*)",
        r"^([^\?]*)$",
    ];
    ALL.contains(&text)
}

/// Returns an expression that can be used, or the reason why not.
pub(super) fn checked(text: &str) -> Result<String, String> {
    PathRegex::new(text).map(|_| text.to_owned())
}

/// Writes a text as an expression of it alone.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c.is_ascii_punctuation() && !"-_/~".contains(c) {
            true => drop(write!(out, "\\{c}")),
            false => out.push(c),
        }
    }
    out
}

/// The texts of an expression that has few, without its `^` and `$`; `None`: it has many.
pub(super) fn texts(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in alternatives(text) {
        let mut found = vec![String::new()];
        let mut rest = part;
        while let Some(c) = rest.chars().next() {
            let (mut choices, after) = match c {
                '(' => {
                    let end = closing(rest)?;
                    let inner = rest[1..end].strip_prefix("?:").unwrap_or(&rest[1..end]);
                    (texts(inner)?, &rest[end + 1..])
                }
                '\\' => {
                    let next = rest[1..].chars().next()?;
                    if next.is_alphanumeric() {
                        return None;
                    }
                    (vec![next.to_string()], &rest[1 + next.len_utf8()..])
                }
                '.' | '*' | '+' | '[' | ']' | '{' | '}' | ')' | '^' | '$' | '?' => return None,
                c => (vec![c.to_string()], &rest[c.len_utf8()..]),
            };
            rest = after;
            if let Some(after) = rest.strip_prefix('?') {
                rest = after;
                choices.push(String::new());
            }
            found = found
                .iter()
                .flat_map(|begin| choices.iter().map(move |end| format!("{begin}{end}")))
                .collect();
            if found.len() > TEXTS_MAX {
                return None;
            }
        }
        all.extend(found);
    }
    (all.len() <= TEXTS_MAX).then_some(all)
}

/// Splits an expression at the `|` outside of groups and classes.
pub(super) fn alternatives(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_i32);
    let (mut is_escaped, mut is_class) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => {
                is_escaped = false;
                continue;
            }
            '\\' => is_escaped = true,
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => depth += 1,
            ')' if !is_class => depth -= 1,
            '|' if depth == 0 && !is_class => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// The place of the parenthesis that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut is_escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `true`: its first character is one, so it cannot be the first slash of a path.
fn begins_with_letter(text: &str) -> bool {
    let text = text.strip_prefix(r"\.").map_or(text, |_| "x");
    let mut chars = text.chars();
    let is_plain = chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_plain && !matches!(chars.next(), Some('?' | '*' | '{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let rows = [
            (r"\.(env|log)$", r"\.(env|log)(/|$)", r"\.(env|log)$"),
            (r"^wp-config\.php$", r"/wp-config\.php(/|$)", r"/wp-config\.php$"),
            (r"^\.ht", r"/\.ht", r"(?:/\.ht)[^/]*$"),
            (r"a.b[^c]", r"a[^/]b[^/c]", r"(?:a[^/]b[^/c])[^/]*$"),
            (r"[.]bak$", r"[.]bak(/|$)", r"[.]bak$"),
            // Regression: a class of escapes had no end.
            (r"[\.]bak$|^a", r"[\.]bak(/|$)|/a", r"(?:[\.]bak$|/a)[^/]*$"),
            (r"[^\-]x$", r"[^/\-]x(/|$)", r"[^/\-]x$"),
        ];
        for (text, any, last) in rows {
            assert_eq!(of_name(text, NameEnd::Any).as_deref(), Ok(any), "{text}");
            assert_eq!(of_name(text, NameEnd::Last).as_deref(), Ok(last), "{text}");
        }
        assert!(of_name("(", NameEnd::Any).is_err() && of_name("a\\", NameEnd::Any).is_err());
    }

    #[test]
    fn paths() {
        let rows = [
            ("^old$", Some("^/old$")),
            ("^/old$", None),
            ("^/?old$", Some("^/old$")),
            ("^a|^b", Some("^/a|^/b")),
            (r"\.php$", Some(r"\.php$")),
            ("admin", Some("admin")),
            (r"(^|/)\.git", Some(r"(/)\.git")),
            ("/admin", Some("^/.*?/admin")),
            ("(a|b)", Some("^/.*?(a|b)")),
            (r"(?:^|/)[^/]+\.bak$", Some(r"/[^/]+\.bak$")),
            (r"[^/]+\.bak$", Some(r"^/.*?[^/]+\.bak$")),
            (r"[]^]\^", Some(r"^/.*?[]^]\^")),
        ];
        for (text, expected) in rows {
            let found = of_path(text).expect(text);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        for text in ["[^/]*(^|/)a", "(^a|[^b])c", "^a/(?:^|[^/])b"] {
            assert!(of_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn finite_texts() {
        let rows = [
            ("example\\.org", Some("example.org")),
            ("(www\\.)?a\\.org", Some("www.a.org a.org")),
            ("a|b(c|d)", Some("a bc bd")),
            ("a.b", None),
            ("a+", None),
        ];
        for (text, expected) in rows {
            let found = texts(text).map(|texts| texts.join(" "));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
