//! Negative look-ahead in expressions, which those here do not have: `\.(?!well-known)` is written
//! with the characters that may follow instead.

/// Most texts of one look-ahead, and most characters of all.
const CHARACTERS_MAX: usize = 64;

/// Writes an expression without `(?!a|b)`. One that has look-around in another place stays as it
/// is.
pub(super) fn without(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("(?!") {
        let Some((texts, tail)) = after.split_once(')') else { return text.to_owned() };
        let is_class = |pair: &[u8]| pair[0] == b'\\' && pair[1].is_ascii_alphanumeric();
        if texts.as_bytes().windows(2).any(is_class) {
            return text.to_owned();
        }
        let texts: Vec<String> = texts.split('|').map(|one| one.replace('\\', "")).collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
        let count: usize = texts.iter().map(String::len).sum();
        let is_known = texts.iter().all(|one| !one.is_empty() && one.chars().all(is_plain));
        // The characters that follow are read here, so nothing behind may depend on them.
        let is_free = tail.is_empty()
            || tail == "$"
            || [")", "|", ".*"].iter().any(|free| tail.starts_with(free));
        if !is_known || count > CHARACTERS_MAX || !is_free {
            return text.to_owned();
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        out.push_str(before);
        out.push_str(&other_than(&texts));
        rest = tail;
    }
    out + rest
}

/// An expression of what does not begin with one of these texts.
fn other_than(texts: &[&str]) -> String {
    if texts.iter().any(|text| text.is_empty()) {
        return String::new();
    }
    let mut firsts: Vec<char> = texts.iter().filter_map(|text| text.chars().next()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let class: String =
        firsts.iter().map(|c| if *c == '-' { r"\-".to_owned() } else { c.to_string() }).collect();
    let mut parts = vec![format!("[^{class}]"), "$".to_owned()];
    for first in firsts {
        let rest: Vec<&str> = texts.iter().filter_map(|text| text.strip_prefix(first)).collect();
        let rest = other_than(&rest);
        if !rest.is_empty() {
            parts.push(format!("{first}{rest}"));
        }
    }
    format!("(?:{})", parts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::without;
    use hurtle_config::PathRegex;

    #[test]
    fn dots() {
        let rows = [
            (r"^/\.(?!well-known)", "/.git", true),
            (r"^/\.(?!well-known)", "/.well-known/x", false),
            (r"^/\.(?!well-known)", "/.well", true),
            (r"^/\.(?!well-known)", "/.welt", true),
            (r"^/\.(?!well-known).*$", "/.env", true),
            (r"^/a/(?!b|cd)", "/a/bx", false),
            (r"^/a/(?!b|cd)", "/a/ce", true),
            (r"^/a/(?!b|cd)", "/a/cd", false),
            (r"^/a/(?!b|cd)", "/a/", true),
        ];
        for (text, path, expected) in rows {
            let found = PathRegex::new(&without(text)).map(|regex| regex.is_in(path.as_bytes()));
            assert_eq!(found, Ok(expected), "{text} {path}");
        }
        assert_eq!(without("a(?!b)c"), "a(?!b)c");
        // Regression: a class was read as a letter.
        assert_eq!(without(r"a(?!\d)"), r"a(?!\d)");
        assert_eq!(without(r"a(?!x|\w)"), r"a(?!x|\w)");
    }
}
