//! Field lines (RFC 9112 5) as they come: one walk, in which every byte is checked. Nothing is
//! repaired: no folded line, no space before the colon, no line that ends in LF alone.

use super::Sin;
use super::line::TOKEN;
use crate::semantics::fields::trim_ows;
use crate::semantics::set::text_span;

/// A field line, and what follows it.
pub(super) struct Field<'a> {
    pub(super) name: &'a [u8],
    /// Without the whitespace around it.
    pub(super) value: &'a [u8],
    pub(super) rest: &'a [u8],
}

/// Reads the line at the front; `None`: it is the empty one that ends a section.
pub(super) fn next(lines: &[u8]) -> Result<Option<Field<'_>>, Sin> {
    let colon = TOKEN.span(lines);
    if colon == 0 || lines.get(colon) != Some(&b':') {
        return match lines {
            [b'\r', b'\n', ..] => Ok(None),
            _ => Err(Sin::FieldSyntax),
        };
    }
    let (name, value) = (&lines[..colon], &lines[colon + 1..]);
    let mut end = text_span(value);
    // RFC 9110 5.5: of control characters, a value may hold tabs.
    while value.get(end) == Some(&b'\t') {
        end += 1 + text_span(&value[end + 1..]);
    }
    match &value[end..] {
        [b'\r', b'\n', rest @ ..] => Ok(Some(Field { name, value: trim_ows(&value[..end]), rest })),
        [b'\n', ..] => Err(Sin::BareLineFeed),
        _ => Err(Sin::FieldSyntax),
    }
}

/// Whether a field's name, which is a token, is this one in lower case. Of the bytes that a token
/// may hold, this one bit makes none but a capital letter a byte of such a name.
#[inline]
pub(super) fn is<const N: usize>(name: &[u8], known: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else { return false };
    name.iter().zip(known).fold(0, |differ, (byte, known)| differ | ((byte | 0x20) ^ known)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pair = (Vec<u8>, Vec<u8>);

    /// All of a section, and what is behind it.
    fn all(mut lines: &[u8]) -> Result<(Vec<Pair>, &[u8]), Sin> {
        let mut fields = Vec::new();
        while let Some(Field { name, value, rest }) = next(lines)? {
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
            assert_eq!(is(name.as_bytes(), b"keep-alive"), want, "{name}");
        }
        for byte in (0..=255).filter(|&byte| TOKEN.holds(byte)) {
            for known in (0..=255_u8).filter(|known| known.is_ascii_lowercase() || *known == b'-') {
                assert_eq!(is(&[byte], &[known]), byte.to_ascii_lowercase() == known, "{byte}");
            }
        }
    }

    proptest! {
        /// What another reader, which is as strict but for lines that end in LF alone, makes of it.
        #[test]
        fn as_another_reads_them(
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
