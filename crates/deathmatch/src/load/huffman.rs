//! The Huffman code of HPACK and QPACK (RFC 7541, appendix B). It is canonical (5.2): shorter codes
//! first, codes of one length in the order of their symbols. So the lengths define it.

use std::sync::OnceLock;

/// Length of the longest code.
const BITS_MAX: usize = 30;

/// Length of each symbol's code; the end of a string (30) is missing, since it must not occur.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

struct Code {
    /// By length: the first code, the number of codes, and the index of their first symbol.
    first: [(u32, u32, u32); BITS_MAX + 1],
    symbols: Vec<u8>,
}

/// Decodes Huffman-coded bytes; `None` if they are malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let code = code();
    let mut text = Vec::with_capacity(bytes.len() * 2);
    let (mut value, mut length) = (0u32, 0);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| (byte >> at) & 1)) {
        value = (value << 1) | u32::from(bit);
        length += 1;
        let (first, count, from) = *code.first.get(length)?;
        if let Some(at) = value.checked_sub(first).filter(|at| *at < count) {
            text.push(*code.symbols.get((from + at) as usize)?);
            (value, length) = (0, 0);
        }
    }
    // Padded with ones, by less than a byte.
    (length < 8 && value == (1 << length) - 1).then_some(text)
}

fn code() -> &'static Code {
    static CODE: OnceLock<Code> = OnceLock::new();
    CODE.get_or_init(|| {
        let mut first = [(0, 0, 0); BITS_MAX + 1];
        let (mut symbols, mut next) = (Vec::new(), 0);
        for (length, entry) in first.iter_mut().enumerate().skip(1) {
            let from = symbols.len();
            let of_length = |symbol: &u8| usize::from(LENGTHS[usize::from(*symbol)]) == length;
            symbols.extend((0..=u8::MAX).filter(of_length));
            let count = (symbols.len() - from) as u32;
            *entry = (next, count, from as u32);
            next = (next + count) << 1;
        }
        Code { first, symbols }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_the_rfc_are_read() {
        let rows: [(&str, &[u8]); 5] = [
            ("www.example.com", b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
            ("no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            ("302", b"\x64\x02"),
            (
                "Mon, 21 Oct 2013 20:13:21 GMT",
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\
                  \x1b\xff",
            ),
            (
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
                b"\x94\xe7\x82\x1d\xd7\xf2\xe6\xc7\xb3\x35\xdf\xdf\xcd\x5b\x39\x60\xd5\xaf\x27\x08\
                  \x7f\x36\x72\xc1\xab\x27\x0f\xb5\x29\x1f\x95\x87\x31\x60\x65\xc0\x03\xed\x4e\xe5\
                  \xb1\x06\x3d\x50\x07",
            ),
        ];
        for (text, bytes) in rows {
            assert_eq!(decode(bytes).as_deref(), Some(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn invalid_codes_are_refused() {
        let rows: [(&str, &[u8]); 3] = [
            ("filled up with zeros", b"\x60"),
            ("filled up with a byte", b"\x64\x02\xff"),
            ("the end of a string", b"\xff\xff\xff\xff"),
        ];
        for (name, bytes) in rows {
            assert_eq!(decode(bytes), None, "{name}");
        }
    }
}
