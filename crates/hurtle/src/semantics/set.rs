//! Sets of bytes, such as the grammars of tokens and hosts are made of. A look into a table is several
//! times as fast as comparing each byte with every range.

/// A set of bytes.
pub struct Set([bool; 256]);

impl Set {
    /// Letters and digits of ASCII, and these.
    pub const fn alphanumeric_and(others: &[u8]) -> Set {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < set.len() {
            set[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        Set(set).with(others, true)
    }

    /// What ASCII can print, without the space and these.
    pub const fn printable_but(others: &[u8]) -> Set {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < set.len() {
            set[byte] = (byte as u8).is_ascii_graphic();
            byte += 1;
        }
        Set(set).with(others, false)
    }

    const fn with(mut self, bytes: &[u8], held: bool) -> Set {
        let mut at = 0;
        while at < bytes.len() {
            self.0[bytes[at] as usize] = held;
            at += 1;
        }
        self
    }

    /// Whether it holds this byte.
    pub const fn holds(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }

    /// How many bytes at the front it holds.
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

/// How many bytes at the front are no control characters: text, of whatever charset.
#[inline]
pub fn text_span(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(block) = bytes[at..].first_chunk::<16>() {
        // All are looked at together: without a way out of the loop, that is a few instructions.
        if block.iter().fold(false, |any, &byte| any | byte.is_ascii_control()) {
            return at + first_control(*block);
        }
        at += 16;
    }
    let end = bytes[at..].iter().position(u8::is_ascii_control);
    end.map_or(bytes.len(), |end| at + end)
}

/// Where the first control character is, of a block that has one: in one calculation with all bytes.
fn first_control(block: [u8; 16]) -> usize {
    const EACH: u128 = u128::MAX / 0xff;
    let bytes = u128::from_le_bytes(block);
    // Seven bits of each are added to, so that each sum stays in its byte: the eighth says whether
    // they came to 0x20, and to 0x7f.
    let low = bytes & (EACH * 0x7f);
    let (not_below_space, is_del) = (low + EACH * 0x60, low + EACH);
    let control = (!not_below_space | is_del) & !bytes & (EACH * 0x80);
    control.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SET: Set = Set::alphanumeric_and(b"-_\xff");

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
