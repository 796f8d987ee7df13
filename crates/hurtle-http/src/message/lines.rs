//! Parses field lines (RFC 9112 section 5) in one pass that checks every byte. Line folding, space
//! before the colon and bare LF are refused.

use crate::request::ParseError;
use crate::semantics::fields::trim_ows;
use crate::semantics::set::TOKEN;
use crate::semantics::set::text_span;

/// A field line and the rest of the input.
pub(crate) struct FieldLine<'a> {
    pub(crate) name: &'a [u8],
    /// The value without surrounding whitespace.
    pub(crate) value: &'a [u8],
    pub(crate) rest: &'a [u8],
}

/// Parses the first line; `None` for the empty line that ends a section.
pub(crate) fn next(lines: &[u8]) -> Result<Option<FieldLine<'_>>, ParseError> {
    let colon = TOKEN.span(lines);
    if colon == 0 || lines.get(colon) != Some(&b':') {
        return match lines {
            [b'\r', b'\n', ..] => Ok(None),
            _ => Err(ParseError::FieldSyntax),
        };
    }
    let (name, value) = (&lines[..colon], &lines[colon + 1..]);
    let mut end = text_span(value);
    // RFC 9110 section 5.5: the only control character in a value is the tab.
    while value.get(end) == Some(&b'\t') {
        end += 1 + text_span(&value[end + 1..]);
    }
    match &value[end..] {
        [b'\r', b'\n', rest @ ..] => {
            Ok(Some(FieldLine { name, value: trim_ows(&value[..end]), rest }))
        }
        [b'\n', ..] => Err(ParseError::BareLineFeed),
        _ => Err(ParseError::FieldSyntax),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::semantics::set::is_name;

    type Pair = (Vec<u8>, Vec<u8>);

    /// Parses a whole section; also returns the rest.
    fn all(mut lines: &[u8]) -> Result<(Vec<Pair>, &[u8]), ParseError> {
        let mut fields = Vec::new();
        while let Some(FieldLine { name, value, rest }) = next(lines)? {
            fields.push((name.to_vec(), value.to_vec()));
            lines = rest;
        }
        Ok((fields, &lines[2..]))
    }

    #[test]
    fn refused() {
        for (lines, why) in [
            (&b"A : b\r\n\r\n"[..], "a space before the colon"),
            (b" A: b\r\n\r\n", "a space before the name"),
            (b"A: b\r\n c\r\n\r\n", "a folded line"),
            (b": b\r\n\r\n", "no name"),
            (b"A\r\n\r\n", "no colon"),
            (b"A(: b\r\n\r\n", "a name that is no token"),
            (b"A: b\0c\r\n\r\n", "a NUL"),
            (b"A: b\x7fc\r\n\r\n", "a DEL"),
            (b"A: b\rc\r\n\r\n", "a CR alone"),
            (b"A: b\nC: d\r\n\r\n", "a LF alone"),
            (b"A: b\r\n\n", "a LF alone at the end"),
            (b"A: b\r\r\n\r\n", "two CRs"),
            (b"A: b\r\n", "the empty line is missing"),
            (b"A: b", "all else, too"),
            (b"", "nothing"),
        ] {
            assert!(all(lines).is_err(), "{why}: {}", lines.escape_ascii());
        }
    }

    #[test]
    fn names_have_no_case() {
        for (name, want) in [("Keep-Alive", true), ("KEEP-ALIVE", true), ("keep_alive", false)] {
            assert_eq!(is_name(name.as_bytes(), b"keep-alive"), want, "{name}");
        }
        for byte in (0..=255).filter(|&byte| TOKEN.holds(byte)) {
            for known in (0..=255_u8).filter(|known| known.is_ascii_lowercase() || *known == b'-') {
                assert_eq!(
                    is_name(&[byte], &[known]),
                    byte.to_ascii_lowercase() == known,
                    "{byte}"
                );
            }
        }
    }

    proptest! {
        /// Parses with httparse, which is as strict except that it accepts a bare LF.
        #[test]
        fn lines_are_parsed_as_by_httparse(
            lines in "([a-zA-Z-]{1,20}:[ \t]{0,2}[ -~\t\u{e9}]{0,40}\r\n){0,5}\r\n",
            at: prop::sample::Index, byte: Option<u8>,
        ) {
            let mut lines = lines.into_bytes();
            if let Some(byte) = byte {
                let at = at.index(lines.len());
                lines[at] = byte;
            }
            let mut others = [httparse::EMPTY_HEADER; 16];
            let other = httparse::parse_headers(&lines, &mut others);
            let bare = lines.iter().enumerate().any(|(at, &b)| {
                b == b'\n' && (at == 0 || lines[at - 1] != b'\r')
            });
            match (all(&lines), other) {
                (Ok((fields, rest)), Ok(httparse::Status::Complete((len, others)))) => {
                    prop_assert_eq!(rest, &lines[len..]);
                    let others: Vec<Pair> = others.iter()
                        .map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec()))
                        .collect();
                    prop_assert_eq!(fields, others);
                }
                (Err(_), Ok(httparse::Status::Complete(_))) => prop_assert!(bare),
                (Err(_), _) => {}
                (Ok(_), _) => prop_assert!(false, "only this reader takes it"),
            }
        }
    }
}
