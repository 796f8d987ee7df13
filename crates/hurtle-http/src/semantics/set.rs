//! Sets of bytes for the grammars of tokens, hosts and paths. A table look-up is several times as
//! fast as comparing each byte with ranges.

/// A set of bytes.
pub struct ByteSet([bool; 256]);

impl ByteSet {
    /// The ASCII letters and digits, and `others`.
    pub const fn alphanumeric_and(others: &[u8]) -> ByteSet {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < set.len() {
            set[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        ByteSet(set).with(others, true)
    }

    /// The printable ASCII characters, without the space and without `others`.
    pub const fn printable_but(others: &[u8]) -> ByteSet {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < set.len() {
            set[byte] = (byte as u8).is_ascii_graphic();
            byte += 1;
        }
        ByteSet(set).with(others, false)
    }

    const fn with(mut self, bytes: &[u8], held: bool) -> ByteSet {
        let mut at = 0;
        while at < bytes.len() {
            self.0[bytes[at] as usize] = held;
            at += 1;
        }
        self
    }

    /// True if the set contains `byte`.
    pub const fn holds(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }

    /// Length of the longest prefix whose bytes are all in the set.
    #[inline]
    pub fn span(&self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(eight) = bytes[at..].first_chunk::<8>() {
            match eight.iter().position(|&byte| !self.holds(byte)) {
                Some(n) => return at + n,
                None => at += 8,
            }
        }
        let end = bytes[at..].iter().position(|&byte| !self.holds(byte));
        end.map_or(bytes.len(), |end| at + end)
    }
}

/// Length of the longest prefix without ASCII control characters.
#[inline]
pub fn text_span(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(block) = bytes[at..].first_chunk::<16>() {
        // The fold has no early exit, so that it compiles to a few vector instructions.
        if block.iter().fold(false, |any, &byte| any | byte.is_ascii_control()) {
            return at + first_control(*block);
        }
        at += 16;
    }
    let end = bytes[at..].iter().position(u8::is_ascii_control);
    end.map_or(bytes.len(), |end| at + end)
}

/// Index of the first control character in a block that has one. All bytes are compared in one
/// calculation.
fn first_control(block: [u8; 16]) -> usize {
    const EACH: u128 = u128::MAX / 0xff;
    let bytes = u128::from_le_bytes(block);
    // Additions use the low seven bits of each byte, so sums stay within their byte. The eighth bit
    // then says whether the sum reached 0x20 (`not_below_space`) or 0x7f (`is_del`).
    let low = bytes & (EACH * 0x7f);
    let (not_below_space, is_del) = (low + EACH * 0x60, low + EACH);
    let control = (!not_below_space | is_del) & !bytes & (EACH * 0x80);
    control.trailing_zeros() as usize / 8
}

/// The bytes of a token (RFC 9110 section 5.6.2).
pub static TOKEN: ByteSet = ByteSet::alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// True if a token may contain `byte`.
pub fn is_token(byte: u8) -> bool {
    TOKEN.holds(byte)
}

/// Compares a field name (a token) with a name in lower case. Setting bit 0x20 turns capital
/// letters into small ones and no other token byte into a letter, digit or `-`.
#[inline]
pub fn is_name<const N: usize>(name: &[u8], known: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else { return false };
    name.iter().zip(known).fold(0, |differ, (byte, known)| differ | ((byte | 0x20) ^ known)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SET: ByteSet = ByteSet::alphanumeric_and(b"-_\xff");

    proptest! {
        #[test]
        fn spans_end_where_the_first_other_byte_is(
            front in "[a-z0-9_-]{0,40}", byte: u8, back: Vec<u8>,
        ) {
            let bytes = [front.as_bytes(), &[byte], &back].concat();
            let naive = |belongs: fn(u8) -> bool| {
                bytes.iter().position(|&b| !belongs(b)).unwrap_or(bytes.len())
            };
            let belongs = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | 0xff);
            prop_assert_eq!(SET.span(&bytes), naive(belongs));
            prop_assert_eq!(text_span(&bytes), naive(|b| b >= 0x20 && b != 0x7f));
        }
    }
}
