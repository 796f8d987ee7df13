//! ASN.1 as it is written (DER, X.690), read element by element.

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    /// The next element's contents, if it has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.skip()
    }

    /// The elements within the next one, if it has this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Der<'a>> {
        self.take(tag).map(Der)
    }

    /// The next element's contents, whatever it is.
    pub(super) fn skip(&mut self) -> Option<&'a [u8]> {
        let (&[_, first], rest) = self.0.split_first_chunk()?;
        // X.690 8.1.3; longer ones than these do not fit.
        let (len, rest) = match first {
            0x00..=0x7f => (usize::from(first), rest),
            0x81 => {
                let (&[len], rest) = rest.split_first_chunk()?;
                (usize::from(len), rest)
            }
            0x82 => {
                let (&len, rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_be_bytes(len)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(contents)
    }
}
