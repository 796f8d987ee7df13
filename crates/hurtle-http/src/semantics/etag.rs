//! Entity-tags (RFC 9110 section 8.8.3), and lists of them in If-Match and If-None-Match. The
//! caller makes the tag of a representation.

use super::fields::trim_ows;

/// An entity-tag, borrowed from its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// True with the prefix `W/`: equal tags then mean equivalent content, not identical bytes.
    pub weak: bool,
    /// The bytes between the quotes.
    pub opaque: &'a [u8],
}

/// Comparison function of entity-tags (RFC 9110 section 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The tags are equal and both are strong.
    Strong,
    /// The tags are equal; either may be weak.
    Weak,
}

impl EntityTag<'_> {
    /// True if both tags match under `comparison`.
    pub fn matches(self, other: EntityTag<'_>, comparison: Comparison) -> bool {
        let strong_enough = comparison == Comparison::Weak || !(self.weak || other.weak);
        strong_enough && self.opaque == other.opaque
    }
}

/// Parses a field value that is exactly one entity-tag; surrounding whitespace is ignored.
pub fn parse(value: &[u8]) -> Option<EntityTag<'_>> {
    let (tag, rest) = split_first(trim_ows(value))?;
    rest.is_empty().then_some(tag)
}

/// True if the value of If-Match or If-None-Match matches the current representation.
///
/// `current` is `None` for a representation without a tag; only `*` matches it. A malformed value
/// matches nothing: If-Match then fails and If-None-Match sends the whole response, the safe result
/// for both.
pub fn list_matches(field: &[u8], current: Option<EntityTag<'_>>, comparison: Comparison) -> bool {
    let mut rest = trim_ows(field);
    if rest == b"*" {
        return true;
    }
    let mut found = false;
    while !rest.is_empty() {
        // RFC 9110 section 5.6.1.2: empty elements are ignored.
        if let [b',', tail @ ..] = rest {
            rest = trim_ows(tail);
            continue;
        }
        let Some((tag, tail)) = split_first(rest) else { return false };
        rest = trim_ows(tail);
        if !matches!(rest, [] | [b',', ..]) {
            return false;
        }
        found |= current.is_some_and(|current| tag.matches(current, comparison));
    }
    found
}

/// Parses the entity-tag at the front of `value`; also returns the rest.
fn split_first(value: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    // RFC 9110 section 8.8.3: `W/` is case-sensitive.
    let (weak, quoted) = match value {
        [b'W', b'/', quoted @ ..] => (true, quoted),
        quoted => (false, quoted),
    };
    let [b'"', inner @ ..] = quoted else { return None };
    let end = inner.iter().position(|&byte| !is_etagc(byte))?;
    let (opaque, [b'"', rest @ ..]) = inner.split_at(end) else { return None };
    Some((EntityTag { weak, opaque }, rest))
}

/// `etagc`: visible characters except the quote, and obs-text. It includes the comma; a backslash
/// is literal.
fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one() {
        let tag = |weak, opaque| Some(EntityTag { weak, opaque });
        let rows: &[(&str, &[u8], Option<EntityTag<'_>>)] = &[
            ("a strong tag", b"\"abc\"", tag(false, b"abc")),
            ("a weak tag", b"W/\"abc\"", tag(true, b"abc")),
            ("an empty tag is one", b"\"\"", tag(false, b"")),
            ("a comma belongs to the tag", b"\"a,b\"", tag(false, b"a,b")),
            ("a backslash is itself", b"\"a\\\"", tag(false, b"a\\")),
            ("obs-text is allowed", b"\"\xff\"", tag(false, b"\xff")),
            ("whitespace around it", b" \"a\"\t", tag(false, b"a")),
            ("a small w is no mark", b"w/\"a\"", None),
            ("no quotes", b"abc", None),
            ("no closing quote", b"\"abc", None),
            ("a space inside", b"\"a b\"", None),
            ("a control byte inside", b"\"a\x7f\"", None),
            ("something after it", b"\"a\"b", None),
            ("a list is not one", b"\"a\", \"b\"", None),
            ("an asterisk is no tag", b"*", None),
            ("nothing", b"", None),
        ];
        for (why, value, expected) in rows {
            assert_eq!(parse(value), *expected, "{why}: {}", value.escape_ascii());
        }
    }

    #[test]
    fn lists() {
        use Comparison::{Strong, Weak};
        let rows = [
            ("the tag itself", "\"a\"", "\"a\"", Strong, true),
            ("another tag", "\"b\"", "\"a\"", Weak, false),
            ("the last of a list", "\"b\", W/\"c\",\"a\"", "\"a\"", Strong, true),
            ("a weak tag in the field, strongly", "W/\"a\"", "\"a\"", Strong, false),
            ("a weak tag in the field, weakly", "W/\"a\"", "\"a\"", Weak, true),
            ("a weak current tag, strongly", "\"a\"", "W/\"a\"", Strong, false),
            ("both weak, strongly", "W/\"a\"", "W/\"a\"", Strong, false),
            ("both weak, weakly", "W/\"a\"", "W/\"a\"", Weak, true),
            ("tags are case-sensitive", "\"A\"", "\"a\"", Weak, false),
            ("a comma inside a tag ends nothing", "\"x,\", \"a,b\"", "\"a,b\"", Strong, true),
            ("half of a tag with a comma", "\"a,b\"", "\"a\"", Weak, false),
            ("empty elements", ", ,\"a\",,", "\"a\"", Strong, true),
            ("an asterisk", " * ", "\"a\"", Strong, true),
            ("an asterisk in a list is malformed", "\"a\", *", "\"a\"", Weak, false),
            ("a match before a malformed element", "\"a\", b", "\"a\"", Weak, false),
            ("no comma between", "\"a\" \"b\"", "\"a\"", Weak, false),
            ("unquoted", "a", "\"a\"", Weak, false),
            ("an empty list", "", "\"a\"", Weak, false),
            ("no current tag", "\"a\"", "", Weak, false),
            ("no current tag, but a representation", "*", "", Strong, true),
        ];
        for (why, field, current, comparison, expected) in rows {
            let matched = list_matches(field.as_bytes(), parse(current.as_bytes()), comparison);
            assert_eq!(matched, expected, "{why}: {field}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(field: Vec<u8>, current: Vec<u8>) {
            list_matches(&field, parse(&current), Comparison::Weak);
        }

        #[test]
        fn a_tag_is_found_wherever_it_stands(
            before in "((W/)?\"[!#-~]{0,4}\" ?, ?){0,4}",
            opaque in "[!#-~]{0,8}",
            after in "( ?, ?(W/)?\"[!#-~]{0,4}\"){0,4}",
        ) {
            let current = EntityTag { weak: false, opaque: opaque.as_bytes() };
            let field = format!("{before}\"{opaque}\"{after}");
            prop_assert!(list_matches(field.as_bytes(), Some(current), Comparison::Strong));
        }
    }
}
