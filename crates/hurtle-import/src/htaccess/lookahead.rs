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
        if !is_known || count > CHARACTERS_MAX || !is_free(tail) {
            return text.to_owned();
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        out.push_str(before);
        out.push_str(&other_than(&texts));
        rest = tail;
    }
    out + rest
}

/// Returns whether nothing behind a look-ahead depends on the characters that are read in its
/// place: only any text follows, to the end of its alternative and behind all groups around it.
fn is_free(mut tail: &str) -> bool {
    loop {
        tail = tail.trim_start_matches(['$']);
        if let Some(rest) = tail.strip_prefix(".*") {
            tail = rest;
            continue;
        }
        tail = match tail.chars().next() {
            None => return true,
            Some(')') => &tail[1..],
            Some('|') => match behind_group(tail) {
                Some(rest) => rest,
                None => return true,
            },
            Some(_) => return false,
        };
        if tail.starts_with(['*', '+', '?', '{']) {
            return false;
        }
    }
}

/// The rest behind the group whose inside this is the end of; `None`: it is in no group.
fn behind_group(text: &str) -> Option<&str> {
    let (mut depth, mut is_class) = (0_u32, false);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => depth += 1,
            ')' if !is_class && depth == 0 => return Some(&text[at + 1..]),
            ')' if !is_class => depth -= 1,
            _ => {}
        }
    }
    None
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
        // Regression: characters were read that the rest needs.
        for text in [r"^(?!index).*\.php$", "((?!x))foo", "(a(?!b)|c)d", "a(?!b)*", "(a(?!b)){2}"] {
            assert_eq!(without(text), text);
        }
        assert_eq!(without("^a(?!b)|^c"), "^a(?:[^b]|$)|^c");
        // Those of Nextcloud and Drupal.
        let rows = [
            (r"^(?:\.(?!well-known)|occ|db_).*", r"^(?:\.(?:[^w]|$|w"),
            (r"\.(inc|sh)$|^(\.(?!well-known).*|Entries.*)$|~$", r"\.(inc|sh)$|^(\.(?:[^w]|$|w"),
        ];
        for (text, begin) in rows {
            let found = without(text);
            assert!(found.starts_with(begin) && !found.contains("(?!"), "{found}");
        }
        // Regression: a class was read as a letter.
        assert_eq!(without(r"a(?!\d)"), r"a(?!\d)");
        assert_eq!(without(r"a(?!x|\w)"), r"a(?!x|\w)");
    }
}
