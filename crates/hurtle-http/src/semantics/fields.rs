//! Comma-separated lists and tokens in field values. Lists whose elements may hold quoted strings
//! (entity-tags, media ranges) have their own parsers in `etag` and `accept`.

/// Removes optional whitespace (space, tab) from both ends (RFC 9110 section 5.6.3).
#[inline]
pub fn trim_ows(field: &[u8]) -> &[u8] {
    // Fast path: at most one leading space.
    let mut rest = field.strip_prefix(b" ").unwrap_or(field);
    if let [first, .., last] = rest
        && *first > b' '
        && *last > b' '
    {
        return rest;
    }
    while let [b' ' | b'\t', tail @ ..] = rest {
        rest = tail;
    }
    while let [head @ .., b' ' | b'\t'] = rest {
        rest = head;
    }
    rest
}

/// Splits a comma-separated list into trimmed elements. Empty elements are dropped (RFC 9110
/// section 5.6.1.2). Commas inside quoted strings are not recognised.
pub fn list(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|&byte| byte == b',').map(trim_ows).filter(|element| !element.is_empty())
}

/// True if a comma-separated list (Connection, TE, Transfer-Encoding) contains `token`, without
/// regard to case. An element with parameters does not match.
pub fn has_token(field: &[u8], token: &[u8]) -> bool {
    list(field).any(|element| element.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let rows: &[(&str, &str, &[&str])] = &[
            ("an empty field is an empty list", "", &[]),
            ("one element", "close", &["close"]),
            ("whitespace around elements is not theirs", " a ,\tb\t", &["a", "b"]),
            ("whitespace inside an element is kept", "a b, c", &["a b", "c"]),
            ("empty elements are dropped", ", a,, ,b ,", &["a", "b"]),
            ("nothing but commas", ", ,,", &[]),
            ("other whitespace than space and tab is not optional", "a\r, b", &["a\r", "b"]),
        ];
        for (why, field, expected) in rows {
            let elements: Vec<_> = list(field.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|element| element.as_bytes()).collect();
            assert_eq!(elements, expected, "{why}: {field:?}");
        }
    }

    #[test]
    fn tokens() {
        let rows = [
            ("case does not matter", "keep-alive, Close", true),
            ("alone", "close", true),
            ("part of a longer token", "closed", false),
            ("a token with parameters", "close;now", false),
            ("an empty field", "", false),
        ];
        for (why, field, expected) in rows {
            assert_eq!(has_token(field.as_bytes(), b"close"), expected, "{why}: {field:?}");
        }
    }
}
