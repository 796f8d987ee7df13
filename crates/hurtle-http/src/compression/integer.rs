//! Integers with a prefix (RFC 7541 section 5.1, RFC 9204 section 4.1.1).

use super::CodingError;

/// Maximum bytes after the prefix in HPACK: 28 bits, more than any valid length or index.
const MORE_BYTES_MAX: u32 = 4;

/// Maximum bytes after the prefix in QPACK, whose integers have up to 62 bits.
const LONG_MORE_BYTES_MAX: u32 = 9;

/// Maximum integer of QPACK.
const LONG_MAX: u64 = (1 << 62) - 1;

/// Reads an integer with a prefix of `prefix` bits, and advances `input` beyond it.
///
/// # Errors
/// The block ends within the integer, or it has more than 28 bits.
#[inline]
pub(crate) fn decode(input: &mut &[u8], prefix: u32) -> Result<usize, CodingError> {
    let (&first, mut rest) = input.split_first().ok_or(CodingError::Truncated)?;
    let mask = 0xff >> (8 - prefix);
    let mut value = usize::from(first & mask);
    if value == usize::from(mask) {
        value += more(&mut rest, MORE_BYTES_MAX)? as usize;
    }
    *input = rest;
    Ok(value)
}

/// Reads an integer of up to 62 bits like `decode`.
///
/// # Errors
/// The input ends within the integer, or it has more than 62 bits.
#[inline]
pub(crate) fn decode_long(input: &mut &[u8], prefix: u32) -> Result<u64, CodingError> {
    let (&first, mut rest) = input.split_first().ok_or(CodingError::Truncated)?;
    let mask = 0xff >> (8 - prefix);
    let mut value = u64::from(first & mask);
    if value == u64::from(mask) {
        value += more(&mut rest, LONG_MORE_BYTES_MAX)?;
        if value > LONG_MAX {
            return Err(CodingError::Integer);
        }
    }
    *input = rest;
    Ok(value)
}

fn more(input: &mut &[u8], bytes_max: u32) -> Result<u64, CodingError> {
    let mut value = 0;
    for at in 0..bytes_max {
        let (&byte, rest) = input.split_first().ok_or(CodingError::Truncated)?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(CodingError::Integer)
}

/// Writes an integer; `bits` are the bits of the first byte before the prefix.
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, bits: u8, prefix: u32, value: usize) {
    let mask = (1_usize << prefix) - 1;
    if value < mask {
        out.push(bits | value as u8);
        return;
    }
    encode_long(out, bits, mask, value);
}

fn encode_long(out: &mut Vec<u8>, bits: u8, mask: usize, value: usize) {
    out.push(bits | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_the_rfc() {
        let rows: [(&str, u32, usize, &[u8]); 3] = [
            ("C.1.1: 10 with a prefix of 5 bits", 5, 10, &[10]),
            ("C.1.2: 1337 with a prefix of 5 bits", 5, 1_337, &[31, 154, 10]),
            ("C.1.3: 42 at a byte's begin", 8, 42, &[42]),
        ];
        for (why, prefix, value, bytes) in rows {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix, value);
            assert_eq!(out, bytes, "{why}");
            assert_eq!(decode(&mut &bytes[..], prefix), Ok(value), "{why}");
            assert_eq!(decode_long(&mut &bytes[..], prefix), Ok(value as u64), "{why}");
        }
    }

    #[test]
    fn integers_without_end_are_errors() {
        assert_eq!(decode(&mut &[0x7f, 0xff, 0xff][..], 7), Err(CodingError::Truncated));
        assert_eq!(decode(&mut &[0x7f; 1][..], 7), Err(CodingError::Truncated));
        assert_eq!(
            decode(&mut &[0x7f, 0x80, 0x80, 0x80, 0x80, 0][..], 7),
            Err(CodingError::Integer)
        );
    }

    #[test]
    fn long_integers_have_up_to_62_bits() {
        let rows: [(&str, u64, bool); 4] = [
            ("29 bits", 1 << 28, true),
            ("the largest", LONG_MAX, true),
            ("one more", LONG_MAX + 1, false),
            ("64 bits", u64::MAX, false),
        ];
        for (why, value, is_valid) in rows {
            let mut out = Vec::new();
            encode(&mut out, 0, 8, value as usize);
            let expected = if is_valid { Ok(value) } else { Err(CodingError::Integer) };
            assert_eq!(decode_long(&mut &out[..], 8), expected, "{why}");
            let cut = &out[..out.len() - 1];
            assert!(decode_long(&mut &cut[..], 8).is_err(), "{why}, cut");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            value in 0_usize..1 << 28,
            long in 0..=LONG_MAX,
            prefix in 3_u32..=8,
        ) {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix, value);
            prop_assert_eq!(decode(&mut &out[..], prefix), Ok(value));
            out.clear();
            encode(&mut out, 0, prefix, long as usize);
            prop_assert_eq!(decode_long(&mut &out[..], prefix), Ok(long));
        }
    }
}
