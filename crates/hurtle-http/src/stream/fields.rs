//! The fields of a request, a response or trailers, in order, in one buffer.

use std::fmt;

/// Bytes in front of each field: the lengths of its name and its value.
pub(crate) const LENGTHS_BYTES: usize = 8;

/// Received fields. Names are in lower case.
#[derive(Clone, Default)]
pub struct FieldSection {
    /// The pseudo-fields' values, then each field: its lengths, its name, its value.
    pub(crate) bytes: Vec<u8>,
    pub(crate) pseudo: [Span; 6],
    /// The offset of the fields.
    pub(crate) begin: u32,
}

/// Offset and length of a pseudo-field's value; `None` if there is none.
pub(crate) type Span = Option<(u32, u32)>;

/// Indices into `FieldSection::pseudo`.
pub(crate) const METHOD: usize = 0;
pub(crate) const SCHEME: usize = 1;
pub(crate) const AUTHORITY: usize = 2;
pub(crate) const PATH: usize = 3;
pub(crate) const PROTOCOL: usize = 4;
pub(crate) const STATUS: usize = 5;

const NAMES: [&str; 6] = [":method", ":scheme", ":authority", ":path", ":protocol", ":status"];

impl FieldSection {
    /// `:method`; empty in trailers.
    pub fn method(&self) -> &[u8] {
        self.pseudo(METHOD).unwrap_or_default()
    }

    /// `:scheme`; empty in trailers and for CONNECT without `:protocol`.
    pub fn scheme(&self) -> &[u8] {
        self.pseudo(SCHEME).unwrap_or_default()
    }

    /// `:authority`, if there is one.
    pub fn authority(&self) -> Option<&[u8]> {
        self.pseudo(AUTHORITY)
    }

    /// `:path`; empty in trailers and for CONNECT without `:protocol`.
    pub fn path(&self) -> &[u8] {
        self.pseudo(PATH).unwrap_or_default()
    }

    /// `:protocol` of an extended CONNECT (RFC 8441 section 4, RFC 9220).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.pseudo(PROTOCOL)
    }

    /// `:status` of a response, 100 to 599; 0 in other sections.
    pub fn status(&self) -> u16 {
        let digits = self.pseudo(STATUS).unwrap_or_default();
        digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'))
    }

    fn pseudo(&self, which: usize) -> Option<&[u8]> {
        let (at, len) = self.pseudo[which]?;
        self.bytes.get(at as usize..)?.get(..len as usize)
    }

    /// The bytes that hold the fields; see `Fields::of`.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.begin as usize..).unwrap_or_default()
    }

    /// The names and values in order, without pseudo-fields. There is at most one `cookie` (RFC
    /// 9113 section 8.2.3).
    pub fn iter(&self) -> Fields<'_> {
        Fields::of(self.as_bytes())
    }

    /// The first value of a field. `name` is in lower case.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }
}

impl<'a> IntoIterator for &'a FieldSection {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Fields<'a>;

    fn into_iter(self) -> Fields<'a> {
        self.iter()
    }
}

/// An iterator over the fields of a section.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields in a copy of `FieldSection::as_bytes`.
    pub fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[a, b, c, d, e, f, g, h], rest) = self.rest.split_first_chunk::<LENGTHS_BYTES>()?;
        let (name, rest) = rest.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes([e, f, g, h]) as usize)?;
        self.rest = rest;
        Some((name, value))
    }
}

impl fmt::Debug for FieldSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (at, name) in NAMES.iter().enumerate() {
            if let Some(value) = self.pseudo(at) {
                map.entry(name, &value.escape_ascii().to_string());
            }
        }
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        map.entries(self.iter().map(|(name, value)| (text(name), text(value)))).finish()
    }
}

impl PartialEq for FieldSection {
    fn eq(&self, other: &FieldSection) -> bool {
        (0..NAMES.len()).all(|at| self.pseudo(at) == other.pseudo(at))
            && self.iter().eq(other.iter())
    }
}

impl Eq for FieldSection {}
