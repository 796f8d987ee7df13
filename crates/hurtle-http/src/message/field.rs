//! Offsets of selected fields in a head, so that they can be copied later without parsing again.

use std::ops::Range;

use super::field_lines::line;

/// Number of fields stored without heap allocation. Few heads have more.
const FEW: usize = 24;

/// A parsed field with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) name: &'a [u8],
    /// The value without surrounding whitespace.
    pub(super) value: &'a [u8],
    pub(super) line: &'a [u8],
}

impl Field<'_> {
    /// Appends the field line with exactly one space after the colon.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let is_plain = self.line.len() == self.name.len() + 2 + self.value.len() + 2
            && self.line[self.name.len() + 1] == b' ';
        if is_plain {
            return out.extend_from_slice(self.line);
        }
        line(out, self.name, self.value);
    }
}

/// The offsets of selected fields within the field lines of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldIndex {
    few: [FieldOffsets; FEW],
    count: usize,
    /// All offsets, once there are more than `FEW`.
    many: Vec<FieldOffsets>,
}

/// Offsets in bytes from the first field line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FieldOffsets {
    start: u16,
    name_end: u16,
    end: u16,
}

impl FieldIndex {
    /// Adds the field whose line is in these bytes. `false` means that the offset is beyond any
    /// head.
    pub(super) fn push(&mut self, line: Range<usize>, name: &[u8]) -> bool {
        let Ok(end) = u16::try_from(line.end) else { return false };
        // Both are less than `end`, which fits.
        let (start, name_end) = (line.start as u16, (line.start + name.len()) as u16);
        let offsets = FieldOffsets { start, name_end, end };
        match self.few.get_mut(self.count) {
            Some(free) => *free = offsets,
            None => {
                if self.many.is_empty() {
                    self.many.extend_from_slice(&self.few);
                }
                self.many.push(offsets);
            }
        }
        self.count += 1;
        true
    }

    /// Returns the selected fields of `lines`.
    pub(super) fn fields<'a>(&self, lines: &'a [u8]) -> impl Iterator<Item = Field<'a>> {
        let all = self.few.get(..self.count).unwrap_or(&self.many);
        all.iter().map(|field| {
            let line = &lines[usize::from(field.start)..usize::from(field.end)];
            let (name, value) = line.split_at(usize::from(field.name_end - field.start));
            Field { name, value: value[1..].trim_ascii(), line }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn few_and_many_fields_are_returned() {
        for count in [0, 1, FEW, FEW + 1, 3 * FEW] {
            let written: Vec<String> = (0..count).map(|n| format!("A-{n}:  {n}\r\n")).collect();
            let text = [written.concat().as_str(), "\r\n"].concat();
            let mut places = FieldIndex::default();
            let mut rest = text.as_bytes();
            while let Some(field) = lines::next(rest).unwrap() {
                let place = text.len() - rest.len()..text.len() - field.rest.len();
                assert!(places.push(place, field.name));
                rest = field.rest;
            }
            let found: Vec<_> = places.fields(text.as_bytes()).collect();
            assert_eq!(found.len(), count);
            for (n, (field, line)) in found.iter().zip(&written).enumerate() {
                let (name, value) = (format!("A-{n}"), n.to_string());
                assert_eq!((field.name, field.value), (name.as_bytes(), value.as_bytes()));
                assert_eq!(field.line, line.as_bytes());
            }
        }
        assert!(!FieldIndex::default().push(65_530..65_536, b"A"), "beyond any head");
    }

    #[test]
    fn whitespace_around_values_is_normalized() {
        for (whole, value, expected) in [
            ("A: b\r\n", "b", "A: b\r\n"),
            ("A:b\r\n", "b", "A: b\r\n"),
            ("A:b \r\n", "b", "A: b\r\n"),
            ("A:\tb\r\n", "b", "A: b\r\n"),
            ("A:  b\t\r\n", "b", "A: b\r\n"),
            ("A:\r\n", "", "A: \r\n"),
            ("A: \r\n", "", "A: \r\n"),
            ("A:\t\r\n", "", "A: \r\n"),
        ] {
            let mut out = Vec::new();
            Field { name: b"A", value: value.as_bytes(), line: whole.as_bytes() }.write(&mut out);
            assert_eq!(out, expected.as_bytes(), "{}", whole.escape_default());
        }
    }
}
