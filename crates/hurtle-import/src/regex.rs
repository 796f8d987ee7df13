//! The regular expressions of nginx that have a special counterpart: scripts, and the patterns of
//! simple rewrites.

/// The scripts that a location runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptNames {
    /// All scripts beneath the root.
    All,
    /// The one of this name in the root.
    One(String),
}

/// Returns the scripts of an expression such as `\.php$` or `^/index\.php(/|$)`; `None`: it is
/// another one.
pub(super) fn script_names(text: &str) -> Option<ScriptNames> {
    let ends = ["$", "(/|$)", "(?:/|$)", "(?:$|/)", "($|/)", "(/.*)?$", ""];
    let head = ends.iter().find_map(|end| text.strip_suffix(end)?.strip_suffix(r"\.php"));
    match head {
        Some("" | "[^/]" | ".+" | "^/.+" | "^(.+)" | "^.+") => return Some(ScriptNames::All),
        None if text == r"^(.+\.php)(.*)$" || text == r"^(.+\.php)(/.+)$" => {
            return Some(ScriptNames::All);
        }
        _ => {}
    }
    let name = head?.strip_prefix("^/")?;
    let name = name.strip_prefix('(').and_then(|name| name.strip_suffix(')')).unwrap_or(name);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    is_name.then(|| ScriptNames::One(format!("{name}.php")))
}

/// `true` if every path that an expression matches has the name of a script at its end, or before
/// a slash.
pub(super) fn has_scripts(text: &str) -> bool {
    let ends = ["$", "(/|$)", "(?:/|$)", "(?:$|/)", "($|/)", "(/.*)?$", ")$"];
    let head = ends.iter().find_map(|end| text.strip_suffix(end)?.strip_suffix(r"\.php"));
    // A choice outside of groups has another end.
    head.is_some() && !has_choice(text)
}

/// `true` if an expression has alternatives outside of groups.
pub(super) fn has_choice(text: &str) -> bool {
    // Names within classes have brackets of their own.
    if text.contains("[:") {
        return text.contains('|');
    }
    let (mut depth, mut is_escaped) = (0_i32, false);
    // `Some(true)`: a class has begun, whose first character is text, even if it is `]`.
    let mut class_begins: Option<bool> = None;
    text.chars().any(|c| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match (class_begins, c) {
            _ if was_escaped => class_begins = class_begins.map(|_| false),
            (_, '\\') => is_escaped = true,
            (Some(true), '^') => {}
            (Some(false), ']') => class_begins = None,
            (Some(_), _) => class_begins = Some(false),
            (None, '[') => class_begins = Some(true),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, '|') => return depth == 0,
            (None, _) => {}
        }
        false
    })
}

/// Translates the expression of a rewrite to a pattern: `^/old/(.*)$` to `/old/**`. An expression
/// without `$` must end with a group. If a group needs text, the pattern has paths without it, too.
pub(super) fn pattern(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('^')?;
    let mut out = String::new();
    while !rest.is_empty() {
        if rest == "$" {
            return Some(out);
        }
        let groups = [("(.*)", "**"), ("(.+)", "**"), ("([^/]*)", "*"), ("([^/]+)", "*")];
        if let Some((group, wild)) = groups.iter().find(|(group, _)| rest.starts_with(group)) {
            // Two runs without a character between them cannot be told apart.
            if out.ends_with('*') {
                return None;
            }
            out.push_str(wild);
            rest = &rest[group.len()..];
            continue;
        }
        let (c, tail) = split_first(rest)?;
        match c {
            '\\' => {
                let (escaped, tail) = split_first(tail)?;
                if !matches!(escaped, '.' | '-' | '/' | '_' | '+') {
                    return None;
                }
                out.push(escaped);
                rest = tail;
                continue;
            }
            '/' | '-' | '_' | '~' | '@' | ':' | ',' => out.push(c),
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ => return None,
        }
        rest = tail;
    }
    // The expression ends without `$`: what follows is not compared.
    out.ends_with("**").then_some(out)
}

/// `true` if a group of an expression that has a pattern matches some text only: `(.+)`.
pub(super) fn needs_text(text: &str) -> bool {
    text.contains("+)")
}

/// Returns the text with which each path begins that an expression matches.
pub(super) fn beginning(text: &str) -> String {
    let Some(text) = text.strip_prefix('^') else { return String::new() };
    // Each alternative has a begin of its own.
    if has_choice(text) {
        return String::new();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_~@:,".contains(c);
    let end = text.find(|c| !is_plain(c)).unwrap_or(text.len());
    let plain = &text[..end];
    // The character before a quantifier may be missing.
    match text[end..].chars().next() {
        Some('?' | '*' | '{') => plain[..plain.len().saturating_sub(1)].to_owned(),
        _ => plain.to_owned(),
    }
}

fn split_first(text: &str) -> Option<(char, &str)> {
    let c = text.chars().next()?;
    Some((c, &text[c.len_utf8()..]))
}

/// Translates `$1` in a replacement to `{1}`; `None` if there are other variables.
pub(super) fn replacement(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let digit = after.chars().next().filter(char::is_ascii_digit)?;
        out.push_str(before);
        out.push_str(&format!("{{{digit}}}"));
        rest = &after[1..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{beginning, pattern, replacement};

    #[test]
    fn patterns() {
        let rows = [
            ("^/old/(.*)$", Some("/old/**")),
            ("^/old/([^/]+)/(.*)", Some("/old/*/**")),
            (r"^/a\.html$", Some("/a.html")),
            ("^/old", None),
            ("/old$", None),
            ("^/(a|b)$", None),
            ("^/(.*)([^/]+)$", None),
        ];
        for (text, expected) in rows {
            assert_eq!(pattern(text).as_deref(), expected, "{text}");
        }
        let rows = [
            (r"^/wiki/(\w+)$", "/wiki/"),
            ("^/ab?/", "/a"),
            ("^/a(b|c)", "/a"),
            ("^/a|/b", ""),
            ("^/a(b)?|^/c", ""),
            (r"^/a\(|^/c\)", ""),
            ("^/a[(]|^/c[)]", ""),
            ("^/a[^](]|^/c", ""),
            ("^/a[|]", "/a"),
            ("^/a(b|c)?/", "/a"),
            ("/a", ""),
            ("^/a.b", "/a"),
            ("^", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(beginning(text), expected, "{text}");
        }
        assert_eq!(replacement("/new/$1/$2").as_deref(), Some("/new/{1}/{2}"));
        assert_eq!((replacement("/$host"), replacement("/a$")), (None, None));
    }
}
