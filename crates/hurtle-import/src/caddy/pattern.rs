//! Patterns of paths, and placeholders, as Caddy writes them.

/// `true` if all paths of one pattern of Caddy are among those of another.
pub(super) fn holds(outer: &str, inner: &str) -> bool {
    let (outer, inner) = (&*outer.to_ascii_lowercase(), &*inner.to_ascii_lowercase());
    match outer.strip_suffix('*') {
        Some(prefix) => outer == "*" || (!prefix.contains('*') && inner.starts_with(prefix)),
        None => outer == inner,
    }
}

/// Translates a pattern of paths. In Caddy a `*` at either end is any text, and one in the middle
/// is text within a segment.
pub(super) fn pattern(path: &str) -> Result<String, String> {
    if path.contains(['?', '[', '\\', '%', '#']) || is_placeholder(path) {
        return Err(format!("of patterns it knows *, not {path}"));
    }
    if path == "*" {
        return Ok("**".to_owned());
    }
    let (begin, rest) = match path.strip_prefix('*') {
        Some(rest) => ("**", rest),
        None => ("", path),
    };
    let (rest, end) = match rest.strip_suffix('*') {
        Some(rest) => (rest, "**"),
        None => (rest, ""),
    };
    if rest.contains('*') && (!begin.is_empty() || !end.is_empty()) {
        return Err(format!("a * in the middle and at an end of {path}"));
    }
    let begin = match (begin, end) {
        _ if rest.contains('/') => begin,
        // A pattern of the last segment is as much as the end of the path.
        ("**", "") => "*",
        // One without a slash would be of the last segment alone.
        ("**", "**") => "/**",
        _ => begin,
    };
    Ok(format!("{begin}{rest}{end}"))
}

/// `true` if a text has a variable of the environment, or the text of a file.
pub(super) fn has_variable(text: &str) -> bool {
    text.contains("{env.") || text.contains("{file.")
}

/// Checks a path or a name of a condition. Paths are sorted and compared before the value of a
/// variable is known, and a name is no value.
///
/// # Errors
/// One with a variable.
pub(super) fn fixed(text: &str) -> Result<(), String> {
    match has_variable(text) {
        true => Err(format!("a path or name of a condition is fixed: write the value of {text}")),
        false => Ok(()),
    }
}

/// `true` for a first argument that Caddy takes for a matcher: a path, or a word that begins with a
/// variable whose value may be one.
pub(super) fn may_be_matcher(word: &str) -> bool {
    let variable = word.strip_prefix("{env.").and_then(|rest| rest.split_once('}'));
    let begins = |(name, end): (&str, &str)| {
        let default = name.split_once(':').map_or("", |(_, default)| default);
        default.starts_with(['/', '@', '*']) || end.ends_with('*')
    };
    word.starts_with('/') || variable.is_some_and(begins)
}

/// A pattern of hurtle as an expression.
pub(super) fn expression(pattern: &str) -> String {
    let mut out = String::new();
    if !pattern.contains('/') {
        // It is compared with the last segment.
        out.push_str(".*/");
    }
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (text, len) = match c {
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            c if c.is_ascii_punctuation() && !"/-_".contains(c) => (format!("\\{c}"), 1),
            c => (c.to_string(), c.len_utf8()),
        };
        out.push_str(&text);
        rest = &rest[len..];
    }
    out
}

/// `true` if a text has a placeholder of Caddy that is not of the environment or a file.
pub(super) fn is_placeholder(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, _)) = after.split_once('}') else { return false };
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-:/[]".contains(c));
        if is_name && !name.starts_with("env.") && !name.starts_with("file./") {
            return true;
        }
        rest = after;
    }
    false
}
