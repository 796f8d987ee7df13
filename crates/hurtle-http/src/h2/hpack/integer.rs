//! Integers with a prefix (RFC 7541 section 5.1).

use super::HpackError;

/// Maximum bytes after the prefix: 28 bits, more than any valid length or index.
const MORE_BYTES_MAX: u32 = 4;

/// Reads an integer with a prefix of `prefix` bits, and advances `bytes` beyond it.
///
/// # Errors
/// The block ends within the integer, or it has more than 28 bits.
#[inline]
pub(super) fn decode(input: &mut &[u8], prefix: u32) -> Result<usize, HpackError> {
    let (&first, mut rest) = input.split_first().ok_or(HpackError::Truncated)?;
    let mask = (1_u8 << prefix) - 1;
    let mut value = usize::from(first & mask);
    if value == usize::from(mask) {
        value += more(&mut rest)?;
    }
    *input = rest;
    Ok(value)
}

fn more(input: &mut &[u8]) -> Result<usize, HpackError> {
    let mut value = 0;
    for at in 0..MORE_BYTES_MAX {
        let (&byte, rest) = input.split_first().ok_or(HpackError::Truncated)?;
        *input = rest;
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::Integer)
}

/// Writes an integer; `bits` are the bits of the first byte before the prefix.
#[inline]
pub(super) fn encode(out: &mut Vec<u8>, bits: u8, prefix: u32, value: usize) {
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
            // HPACK has no prefix of 8 bits.
            let prefix = prefix.min(7);
            let mut out = Vec::new();
            encode(&mut out, 0, prefix, value);
            assert_eq!(out, bytes, "{why}");
            assert_eq!(decode(&mut &bytes[..], prefix), Ok(value), "{why}");
        }
    }

    #[test]
    fn integers_without_end_are_errors() {
        assert_eq!(decode(&mut &[0x7f, 0xff, 0xff][..], 7), Err(HpackError::Truncated));
        assert_eq!(decode(&mut &[0x7f; 1][..], 7), Err(HpackError::Truncated));
        assert_eq!(
            decode(&mut &[0x7f, 0x80, 0x80, 0x80, 0x80, 0][..], 7),
            Err(HpackError::Integer)
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0_usize..1 << 28, prefix in 4_u32..=7) {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix, value);
            prop_assert_eq!(decode(&mut &out[..], prefix), Ok(value));
        }
    }
}
