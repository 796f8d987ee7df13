//! Where some fields of a head are, for whoever comes back to them; and the fields as they are there.

use super::forward::line;

/// Places that are kept without touching the heap: more fields are rare.
const FEW: usize = 24;

/// A field that was read, and its whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub(super) name: &'a [u8],
    /// Without the white space around it.
    pub(super) value: &'a [u8],
    pub(super) line: &'a [u8],
}

impl Field<'_> {
    /// Appends it, with no other white space than one space.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let is_plain = self.line.len() == self.name.len() + 2 + self.value.len() + 2
            && self.line[self.name.len() + 1] == b' ';
        if is_plain {
            return out.extend_from_slice(self.line);
        }
        line(out, self.name, self.value);
    }
}

/// Where some fields are in the field lines of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    few: [Place; FEW],
    count: usize,
    /// All of them, once they are not few.
    many: Vec<Place>,
}

/// In bytes from the beginning of the first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    start: u16,
    name_end: u16,
    end: u16,
}

impl Places {
    /// Notes one from `start` to `end`; false: that is further than a head can be long.
    pub(super) fn note(&mut self, (start, end): (usize, usize), name: &[u8]) -> bool {
        let Ok(end) = u16::try_from(end) else { return false };
        // Both are before the end.
        let place = Place { start: start as u16, name_end: (start + name.len()) as u16, end };
        match self.few.get_mut(self.count) {
            Some(free) => *free = place,
            None => {
                if self.many.is_empty() {
                    self.many.extend_from_slice(&self.few);
                }
                self.many.push(place);
            }
        }
        self.count += 1;
        true
    }

    /// Those that were noted, of these lines.
    pub(super) fn fields<'a>(&self, lines: &'a [u8]) -> impl Iterator<Item = Field<'a>> {
        let places = self.few.get(..self.count).unwrap_or(&self.many);
        places.iter().map(|place| {
            let line = &lines[usize::from(place.start)..usize::from(place.end)];
            let (name, value) = line.split_at(usize::from(place.name_end - place.start));
            Field { name, value: value[1..].trim_ascii(), line }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn few_and_many_are_found_again() {
        for count in [0, 1, FEW, FEW + 1, 3 * FEW] {
            let written: Vec<String> = (0..count).map(|n| format!("A-{n}:  {n}\r\n")).collect();
            let text = [written.concat().as_str(), "\r\n"].concat();
            let mut places = Places::default();
            let mut rest = text.as_bytes();
            while let Some(field) = lines::next(rest).unwrap() {
                let place = (text.len() - rest.len(), text.len() - field.rest.len());
                assert!(places.note(place, field.name));
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
        assert!(!Places::default().note((65_530, 65_536), b"A"), "beyond any head");
    }

    #[test]
    fn white_space_around_values_is_one_space() {
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
