//! Entity-tags of files (RFC 9110 section 8.8.3).

use std::fmt::Write as _;

use hurtle_http::semantics::accept::Coding;

use crate::body::Stamp;

/// Room for an entity-tag, in bytes; more is allocated if it needs it.
const TAG_BYTES: usize = 40;

/// End of the entity-tags of a coding's representations.
pub(crate) fn tag_suffix(coding: Coding) -> &'static str {
    match coding {
        Coding::Identity => "",
        Coding::Br => "-br",
        Coding::Zstd => "-zst",
        Coding::Gzip => "-gz",
        Coding::Dcz => "-dcz",
    }
}

/// The opaque part of a file's entity-tag: size and time in nanoseconds, so that two edits within a
/// second differ. The inode is not part of it: two hosts with the same files must agree. With
/// `hash`, the tag is the hash of the content.
pub(crate) fn tag(stamp: &Stamp, hash: Option<u128>) -> String {
    let mut tag = String::with_capacity(TAG_BYTES);
    match (hash, u64::try_from(stamp.modified_ns)) {
        (None, Ok(modified_ns)) => {
            push_hexadecimal(modified_ns, &mut tag);
            tag.push('-');
            push_hexadecimal(stamp.len, &mut tag);
        }
        // Writing to a String cannot fail.
        (None, Err(_)) => drop(write!(tag, "{:x}-{:x}", stamp.modified_ns, stamp.len)),
        (Some(hash), _) => drop(write!(tag, "{hash:032x}")),
    }
    tag
}

/// Appends a number. `write!` takes several times as long.
fn push_hexadecimal(mut number: u64, out: &mut String) {
    let mut digits = [0; 16];
    let mut start = digits.len();
    while start == digits.len() || number > 0 {
        start -= 1;
        digits[start] = b"0123456789abcdef"[number as usize & 15];
        number >>= 4;
    }
    // Digits are UTF-8.
    out.push_str(std::str::from_utf8(&digits[start..]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_time_and_length_in_hexadecimal() {
        for modified_ns in [0, 1, 15, 16, 1_764_000_000_123_456_789, u64::MAX.into(), -1, i128::MAX]
        {
            for len in [0, 10, 255, 256, u64::MAX] {
                let stamp = Stamp { modified_ns, len, ..Stamp::default() };
                assert_eq!(tag(&stamp, None), format!("{modified_ns:x}-{len:x}"));
            }
        }
        assert_eq!(tag(&Stamp::default(), Some(10)), format!("{:032x}", 10));
    }
}
