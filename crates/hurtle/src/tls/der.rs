//! A reader of ASN.1 DER (X.690), element by element.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const IA5_STRING: u8 = 0x16;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Consecutive elements in DER; `take` removes the first if it has the tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next element if it has this tag; returns its contents.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.skip()
    }

    /// Takes the next element if it has this tag; returns a reader of its contents.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Der<'a>> {
        self.take(tag).map(Der)
    }

    /// Takes the next element with any tag; returns its contents.
    pub(super) fn skip(&mut self) -> Option<&'a [u8]> {
        // X.690 section 8.1.3. Files of 1 MiB have no elements of 16 MiB or more.
        let (len, rest) = match *self.0.get(1..)? {
            [len @ 0..=0x7f, ref rest @ ..] | [0x81, len, ref rest @ ..] => (len.into(), rest),
            [0x82, high, low, ref rest @ ..] => (u16::from_be_bytes([high, low]).into(), rest),
            [0x83, high, mid, low, ref rest @ ..] => {
                (usize::try_from(u32::from_be_bytes([0, high, mid, low])).ok()?, rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(contents)
    }
}
