//! Variable-length integers (RFC 9000 section 16).

/// Maximum value: 62 bits.
pub const MAX: u64 = (1 << 62) - 1;

/// Maximum length in bytes.
pub const BYTES_MAX: usize = 8;

/// Length in bytes of the integer that begins with this byte.
pub(super) fn len_of(first: u8) -> usize {
    1 << (first >> 6)
}

/// Reads an integer, in any of its encodings, and advances `input` beyond it; `None` if the input
/// ends within it.
#[inline]
pub fn read(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    let (more, rest) = rest.split_at_checked(len_of(first) - 1)?;
    let begin = u64::from(first & 0x3f);
    *input = rest;
    Some(more.iter().fold(begin, |value, &byte| value << 8 | u64::from(byte)))
}

/// Appends an integer, at most `MAX`, in its shortest encoding.
pub fn write(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value.min(MAX) | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Length of the shortest encoding in bytes.
pub fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn examples_of_the_rfc() {
        let rows: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in rows {
            let mut input = bytes;
            assert_eq!((read(&mut input), input), (Some(value), &[][..]), "{bytes:x?}");
            for end in 0..bytes.len() {
                assert_eq!(read(&mut &bytes[..end]), None, "{bytes:x?} cut at {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=MAX, shift in 0_u32..62) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, value);
            prop_assert_eq!(out.len(), len(value));
            prop_assert_eq!(read(&mut &out[..]), Some(value));
        }
    }
}
