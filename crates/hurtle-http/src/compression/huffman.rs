//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B), which RFC 9204 section 4.1.2
//! takes over. The code is canonical, so its
//! lengths determine it. All tables are computed from the lengths at compile time.

use super::CodingError;

/// Length in bits of each byte's code and of the end-of-string symbol's.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The end-of-string symbol, which no string may contain (RFC 7541 section 5.2).
const END: usize = 256;

const LENGTH_MAX: usize = 30;

/// Maximum length of a code that one table look-up decodes.
const SHORT_BITS: u32 = 8;

const CODES: [u32; 257] = CANON.codes;

/// The symbol and the length of the code at the start of these bits; length 0: a longer code.
const SHORT: [(u8, u8); 1 << SHORT_BITS] = short();

const CANON: Canon = canon();

/// The code in canonical order.
struct Canon {
    codes: [u32; 257],
    /// Symbols by length, then by value.
    symbols: [u16; 257],
    /// For each length: the first code and the index of its symbol.
    first: [u32; LENGTH_MAX + 1],
    offset: [u16; LENGTH_MAX + 1],
    /// For each length: the end of its codes, as the first 32 bits of a string.
    limit: [u64; LENGTH_MAX + 1],
}

const fn canon() -> Canon {
    let mut canon = Canon {
        codes: [0; 257],
        symbols: [0; 257],
        first: [0; LENGTH_MAX + 1],
        offset: [0; LENGTH_MAX + 1],
        limit: [0; LENGTH_MAX + 1],
    };
    let (mut code, mut at, mut length) = (0_u32, 0, 1);
    while length <= LENGTH_MAX {
        code <<= 1;
        canon.first[length] = code;
        canon.offset[length] = at as u16;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                canon.codes[symbol] = code;
                canon.symbols[at] = symbol as u16;
                code += 1;
                at += 1;
            }
            symbol += 1;
        }
        canon.limit[length] = (code as u64) << (32 - length);
        length += 1;
    }
    canon
}

const fn short() -> [(u8, u8); 1 << SHORT_BITS] {
    let mut short = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < END {
        let length = LENGTHS[symbol] as u32;
        if length <= SHORT_BITS {
            let free = SHORT_BITS - length;
            let begin = (CANON.codes[symbol] << free) as usize;
            let mut at = 0;
            while at < 1 << free {
                short[begin + at] = (symbol as u8, length as u8);
                at += 1;
            }
        }
        symbol += 1;
    }
    short
}

/// Length of the encoded `text` in bytes.
pub(crate) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        // The padding is the start of the end-of-string symbol, which is all 1s.
        out.push((bits << (8 - count)) as u8 | (0xff >> count));
    }
}

/// Appends the decoded bytes of `code`.
///
/// # Errors
/// The padding is longer than 7 bits or is not all 1s, or the code contains the end-of-string
/// symbol (RFC 7541 section 5.2).
pub(crate) fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), CodingError> {
    // The shortest codes have 5 bits.
    out.reserve(code.len() * 8 / 5);
    let mut rest = code;
    // The first `count` bits of `bits` are input; the rest are 0.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        if let Some(word) = rest.first_chunk::<8>() {
            bits |= u64::from_be_bytes(*word) >> count;
            let taken = (63 - count) / 8;
            rest = &rest[taken as usize..];
            count += taken * 8;
            bits &= !(u64::MAX >> count);
        } else {
            while let Some((&byte, behind)) = rest.split_first()
                && count <= 56
            {
                bits |= u64::from(byte) << (56 - count);
                count += 8;
                rest = behind;
            }
        }
        while count >= LENGTH_MAX as u32 || rest.is_empty() && count > 0 {
            let (symbol, length) = match SHORT[(bits >> (64 - SHORT_BITS)) as usize] {
                (_, 0) => long(bits),
                (symbol, length) => (usize::from(symbol), u32::from(length)),
            };
            if length > count {
                // Only the end-of-string symbol is all 1s, so this is padding or an error.
                let is_padding = count < 8 && bits == !(u64::MAX >> count);
                return if is_padding { Ok(()) } else { Err(CodingError::Huffman) };
            }
            let symbol = u8::try_from(symbol).map_err(|_| CodingError::Huffman)?;
            out.push(symbol);
            bits <<= length;
            count -= length;
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// The symbol and the length of the long code that `bits` begin with.
fn long(bits: u64) -> (usize, u32) {
    let begin = bits >> 32;
    let mut length = SHORT_BITS as usize + 1;
    // The last limit is 2^32, so the loop ends.
    while begin >= CANON.limit[length] {
        length += 1;
    }
    let code = (begin >> (32 - length)) as u32;
    let at = usize::from(CANON.offset[length]) + (code - CANON.first[length]) as usize;
    (usize::from(CANON.symbols[at]), length as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_the_rfc() {
        let rows: [(&str, &[u8]); 4] = [
            (
                "www.example.com",
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
            ),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
            ("302", &[0x64, 0x02]),
        ];
        for (text, code) in rows {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!((&out[..], encoded_len(text.as_bytes())), (code, code.len()), "{text}");
            let mut back = Vec::new();
            assert_eq!(decode(code, &mut back), Ok(()), "{text}");
            assert_eq!(back, text.as_bytes());
        }
    }

    #[test]
    fn invalid_padding_is_refused() {
        let rows: [(&str, &[u8]); 6] = [
            ("padded by 0s", &[0x18]),
            ("padded by a byte", &[0x1f, 0xff]),
            ("a byte of padding and nothing else", &[0xff]),
            ("the end-of-string symbol", &[0xff; 4]),
            ("the end-of-string symbol behind text", &[0x1f, 0xff, 0xff, 0xff, 0xff]),
            ("a long code that is cut", &[0xff, 0xc0]),
        ];
        for (why, code) in rows {
            assert_eq!(decode(code, &mut Vec::new()), Err(CodingError::Huffman), "{why}");
        }
    }

    proptest! {
        #[test]
        fn encoded_text_is_decoded_equal(text: Vec<u8>) {
            let (mut code, mut back) = (Vec::new(), Vec::new());
            encode(&text, &mut code);
            prop_assert_eq!(code.len(), encoded_len(&text));
            prop_assert_eq!(decode(&code, &mut back), Ok(()));
            prop_assert_eq!(back, text);
        }

        #[test]
        fn only_the_canonical_code_is_accepted(code: Vec<u8>) {
            let (mut text, mut again) = (Vec::new(), Vec::new());
            if decode(&code, &mut text).is_ok() {
                encode(&text, &mut again);
                prop_assert_eq!(again, code);
            }
        }
    }
}
