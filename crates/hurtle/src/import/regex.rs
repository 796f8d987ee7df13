//! The regular expressions of nginx that have a counterpart: endings of names, dot files, scripts,
//! and the patterns of simple rewrites.

/// A regular expression of a location.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Regex {
    /// Scripts: `\.php$`.
    Scripts(String),
    /// Extensions without their dot: `\.(css|js)$`.
    Extensions(Vec<String>),
    /// Names that begin with a dot: `/\.`, `/\.ht`.
    DotFiles {
        /// `.well-known`, too, which hurtle always serves (RFC 8615).
        has_well_known: bool,
    },
    /// Any other.
    Other,
}

/// Recognises the expression of a location.
pub(super) fn location(text: &str) -> Regex {
    let simple = text.strip_prefix("[^/]").unwrap_or(text);
    if matches!(simple, r"\.php$" | r"\.php(/|$)" | r"\.php(?:/|$)" | r"^(.+\.php)(.*)$" | r"\.php")
    {
        return Regex::Scripts(".php".to_owned());
    }
    match text {
        r"/\." | r"(^|/)\." => return Regex::DotFiles { has_well_known: true },
        r"/\.ht" | r"/\.(?!well-known)" | r"/\.(?!well-known).*" => {
            return Regex::DotFiles { has_well_known: false };
        }
        _ => {}
    }
    match extensions(text) {
        Some(list) => Regex::Extensions(list),
        None => Regex::Other,
    }
}

/// Extensions of `\.css$` and `\.(css|js|jpe?g)$`.
fn extensions(text: &str) -> Option<Vec<String>> {
    let text = text.strip_prefix(".*").or_else(|| text.strip_prefix("^.+")).unwrap_or(text);
    let text = text.strip_prefix(r"\.")?.strip_suffix('$')?;
    let group = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let list = group.map_or(text, |group| group.strip_prefix("?:").unwrap_or(group));
    let mut extensions = Vec::new();
    for item in list.split('|') {
        match item.split_once('?') {
            // `jpe?g`, `woff2?`: with the optional character and without.
            Some((before, after)) if is_plain(before) && (after.is_empty() || is_plain(after)) => {
                let mut shorter = before.to_owned();
                shorter.pop()?;
                extensions.extend([format!("{shorter}{after}"), format!("{before}{after}")]);
            }
            None if is_plain(item) => extensions.push(item.to_owned()),
            _ => return None,
        }
    }
    Some(extensions)
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Translates the expression of a rewrite to a pattern: `^/old/(.*)$` to `/old/**`. An expression
/// without `$` must end with a group.
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
    use super::{Regex, location, pattern, replacement};

    #[test]
    fn locations() {
        let list = |items: &[&str]| Regex::Extensions(items.iter().map(|&i| i.into()).collect());
        let rows = [
            (r"\.php$", Regex::Scripts(".php".into())),
            (r"[^/]\.php(/|$)", Regex::Scripts(".php".into())),
            (r"/\.ht", Regex::DotFiles { has_well_known: false }),
            (r"(^|/)\.", Regex::DotFiles { has_well_known: true }),
            (r"/\.well-known", Regex::Other),
            (r"\.css$", list(&["css"])),
            (r"\.(css|js)$", list(&["css", "js"])),
            (r".*\.(?:jpe?g|woff2?)$", list(&["jpg", "jpeg", "woff", "woff2"])),
            (r"\.(css|j.s)$", Regex::Other),
            (r"\.?$", Regex::Other),
            (r"^/a(b|c)", Regex::Other),
        ];
        for (text, expected) in rows {
            assert_eq!(location(text), expected, "{text}");
        }
    }

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
        assert_eq!(replacement("/new/$1/$2").as_deref(), Some("/new/{1}/{2}"));
        assert_eq!((replacement("/$host"), replacement("/a$")), (None, None));
    }
}
