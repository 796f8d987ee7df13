//! Checks targets of requests and redirects: absolute paths within a site, and Locations.

use super::error::{ValueError, shown};

/// Allowed schemes of a redirect.
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// Parses an absolute path in decoded form, such as a mount's.
pub(super) fn url_path(text: &str) -> Result<String, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    if !text.starts_with('/') {
        return Err(
            wrong("does not begin with /").hint(format!("write {}", shown(&format!("/{text}"))))
        );
    }
    check_decoded(text)?;
    if text.contains("//") {
        return Err(wrong("has an empty segment").hint("write one / for two"));
    }
    if text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(wrong("has a . or .. segment").hint("write the path it leads to"));
    }
    Ok(text.to_owned())
}

/// Refuses characters that a decoded path or a pattern for one never holds.
pub(super) fn check_decoded(text: &str) -> Result<(), ValueError> {
    let wrong = |what: String| ValueError::new(format!("{} holds {what}", shown(text)));
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(wrong(format!("the control character {control:?}")).hint("remove it"));
    }
    if let Some(mark) = text.chars().find(|c| matches!(c, '?' | '#')) {
        return Err(
            wrong(format!("{mark:?}")).hint("the query is not part of a path: leave it out")
        );
    }
    for (at, _) in text.match_indices('%') {
        if let Some(byte) = hex_pair(text, at) {
            let plain = shown(&char::from(byte).to_string());
            let hint = match byte.is_ascii() {
                true => format!("paths are written decoded: {plain} for %{byte:02X}"),
                false => "paths are written decoded, in UTF-8".to_owned(),
            };
            return Err(wrong(format!("the encoding %{byte:02X}")).hint(hint));
        }
    }
    Ok(())
}

/// Checks a Location: an http or https URL, or an absolute path (RFC 9110 section 10.2.2; RFC
/// 3986). Refuses text that could end the field or name another host than it seems to.
pub(super) fn location(text: &str) -> Result<(), ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    for (at, c) in text.char_indices() {
        if c == '%' && hex_pair(text, at).is_none() {
            return Err(wrong("has a % without two hexadecimal digits").hint("write %25"));
        }
        if !c.is_ascii_alphanumeric() && !"-._~:/?#[]@!$&'()*+,;=%".contains(c) {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes).bytes();
            let encoded: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
            return Err(ValueError::new(format!("{} holds {c:?}, which no URL may", shown(text)))
                .hint(if c.is_control() {
                    "remove it".into()
                } else {
                    format!("write {encoded}")
                }));
        }
    }
    // "//host" names another host, so a browser would leave the site.
    if text.starts_with("//") {
        return Err(
            wrong("has no scheme").hint(format!("write {}", shown(&format!("https:{text}"))))
        );
    }
    if text.starts_with('/') {
        return Ok(());
    }
    match authority(text) {
        Some("") => Err(wrong("has no host").hint("write \"https://example.org/\"")),
        Some(_) => Ok(()),
        None => Err(wrong("is neither an http or https URL nor an absolute path")
            .hint(format!("write {}", shown(&format!("/{text}"))))),
    }
}

/// Host and port of an http or https URL.
pub(super) fn authority(url: &str) -> Option<&str> {
    let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme))?;
    rest.split(['/', '?', '#']).next()
}

/// Decodes the percent-encoding at this offset.
fn hex_pair(text: &str, at: usize) -> Option<u8> {
    let digits = text.get(at + 1..at + 3)?;
    let both = digits.bytes().all(|b| b.is_ascii_hexdigit());
    both.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_plain_and_decoded() {
        let table = [
            ("the root", "/", None),
            ("a path", "/docs/a b", None),
            ("a percent sign", "/100%", None),
            ("relative", "docs", Some("write \"/docs\"")),
            ("empty", "", Some("write \"/\"")),
            ("two slashes", "/a//b", Some("write one / for two")),
            ("dots", "/a/../b", Some("write the path it leads to")),
            ("a query", "/a?b", Some("the query is not part of a path: leave it out")),
            ("encoded", "/a%2Fb", Some("paths are written decoded: \"/\" for %2F")),
            ("a NUL", "/a\0", Some("remove it")),
        ];
        for (sentence, text, hint) in table {
            let found = url_path(text).err().and_then(|wrong| wrong.hint);
            assert_eq!(found.as_deref(), hint, "{sentence}");
        }
    }

    #[test]
    fn locations_name_their_host_and_cannot_end_the_field() {
        let table = [
            ("a path", "/new?x=1#y", None),
            ("a URL", "https://example.org:8443/%C3%A9", None),
            ("a host alone", "http://example.org", None),
            ("a line break", "/a\r\nSet-Cookie: b", Some("remove it")),
            ("scheme-relative", "//evil.example/", Some("write \"https://evil.example/\"")),
            ("a backslash that browsers take for a slash", "/\\evil", Some("write %5C")),
            ("a space", "/a b", Some("write %20")),
            ("not ASCII", "/é", Some("write %C3%A9")),
            ("a lone percent sign", "/100%", Some("write %25")),
            ("a percent sign before a letter of two bytes", "/%é", Some("write %25")),
            ("no host", "https:///x", Some("write \"https://example.org/\"")),
            ("relative", "new", Some("write \"/new\"")),
            ("another scheme", "javascript:alert(1)", Some("write \"/javascript:alert(1)\"")),
            ("empty", "", Some("write \"/\"")),
        ];
        for (sentence, text, hint) in table {
            let found = location(text).err().and_then(|wrong| wrong.hint);
            assert_eq!(found.as_deref(), hint, "{sentence}");
        }
    }
}
