//! One field line of a head (RFC 9112 5), read strictly: what another reader could take for something
//! else is none. And where some of them are, for whoever comes back to them.

use super::line::is_token;

/// Places that are kept without touching the heap: more fields are rare.
const FEW: usize = 24;

/// A field line, with its CRLF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub(super) name: &'a [u8],
    /// Without the white space around it.
    pub(super) value: &'a [u8],
    pub(super) line: &'a [u8],
}

impl<'a> Field<'a> {
    /// Reads the line at the front of these bytes; `None`: it is malformed.
    pub(super) fn first(bytes: &'a [u8]) -> Option<Field<'a>> {
        let colon = name_len(bytes);
        if colon == 0 || bytes.get(colon) != Some(&b':') {
            return None;
        }
        let after = &bytes[colon + 1..];
        let end = value_len(after);
        if !after[end..].starts_with(b"\r\n") {
            return None;
        }
        let line = &bytes[..colon + 1 + end + 2];
        Some(Field { name: &bytes[..colon], value: after[..end].trim_ascii(), line })
    }

    /// Appends it, with no other white space than one space.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let is_plain = self.line.len() == self.name.len() + 2 + self.value.len() + 2
            && self.line[self.name.len() + 1] == b' ';
        if is_plain {
            return out.extend_from_slice(self.line);
        }
        super::forward::line(out, self.name, self.value);
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
    /// Notes one that begins at `start`; false: that is further than a head can be long.
    pub(super) fn note(&mut self, start: usize, field: &Field<'_>) -> bool {
        let (name_end, end) = (start + field.name.len(), start + field.line.len());
        let Ok(end) = u16::try_from(end) else { return false };
        // Both are before the end.
        let place = Place { start: start as u16, name_end: name_end as u16, end };
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

/// How many bytes at the front may stand in a name: RFC 9110 5.6.2.
fn name_len(bytes: &[u8]) -> usize {
    let is_token = |byte: &u8| IS_TOKEN[usize::from(*byte)];
    let fours = bytes.chunks_exact(4).take_while(|four| four.iter().all(is_token)).count();
    4 * fours + bytes[4 * fours..].iter().take_while(|byte| is_token(byte)).count()
}

const IS_TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_token(byte as u8);
        byte += 1;
    }
    table
};

/// How many bytes at the front may stand in a value: RFC 9110 5.5: visible ones, those beyond ASCII,
/// space and tab.
fn value_len(bytes: &[u8]) -> usize {
    let mut len = 0;
    // Eight at a time. What is below a space or DEL has the highest bit of its byte set by this, and
    // below the first such byte no bit is.
    while let Some(eight) = bytes[len..].first_chunk() {
        let (eight, each) = (u64::from_le_bytes(*eight), u64::MAX / 0xff);
        let not_del = eight ^ 0x7f * each;
        let below = eight.wrapping_sub(0x20 * each) & !eight;
        let odd = (below | not_del.wrapping_sub(each) & !not_del) & 0x80 * each;
        if odd == 0 {
            len += 8;
            continue;
        }
        len += odd.trailing_zeros() as usize / 8;
        if bytes[len] != b'\t' {
            return len;
        }
        len += 1;
    }
    let is_value = |byte: &&u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    len + bytes[len..].iter().take_while(is_value).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (sentence, line, expected) in [
            ("the usual", "A: b\r\n", Some(("A", "b"))),
            ("white space around a value is not its", "A:\t b c \t\r\n", Some(("A", "b c"))),
            ("none", "A:b\r\n", Some(("A", "b"))),
            ("an empty value", "A:\r\n", Some(("A", ""))),
            ("white space alone", "A: \r\n", Some(("A", ""))),
            ("bytes beyond ASCII", "A: \u{e9}\r\n", Some(("A", "\u{e9}"))),
            ("a line behind it", "A: b\r\nC: d\r\n", Some(("A", "b"))),
            ("the line that ends a head", "\r\n", None),
            ("no name", ": b\r\n", None),
            ("white space before the colon", "A : b\r\n", None),
            ("a folded line", " b\r\n", None),
            ("no colon", "A\r\n", None),
            ("a NUL", "A: b\0\r\n", None),
            ("DEL", "A: \x7f\r\n", None),
            ("LF alone", "A: b\n", None),
            ("CR alone", "A: b\rC: d\r\n", None),
            ("not whole", "A: b\r", None),
            ("nothing", "", None),
        ] {
            let field = Field::first(line.as_bytes());
            let parts = field.map(|field| (field.name, field.value));
            let expected = expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert_eq!(parts, expected, "{sentence}");
            if let (Some(field), Some((name, value))) = (field, expected) {
                let mut out = Vec::new();
                field.write(&mut out);
                assert_eq!(out, [name, b": ", value, b"\r\n"].concat(), "{sentence}");
            }
        }
    }

    #[test]
    fn every_byte_anywhere() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[at] = byte;
                let value = matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
                assert_eq!(value_len(&bytes), if value { 20 } else { at }, "{byte} at {at}");
                assert_eq!(name_len(&bytes), if is_token(byte) { 20 } else { at }, "{byte}");
            }
        }
    }

    #[test]
    fn few_and_many_are_found_again() {
        for count in [0, 1, FEW, FEW + 1, 3 * FEW] {
            let lines: Vec<String> = (0..count).map(|n| format!("Name-{n}:  {n}\r\n")).collect();
            let text = lines.concat();
            let (mut places, mut start) = (Places::default(), 0);
            while let Some(field) = Field::first(&text.as_bytes()[start..]) {
                assert!(places.note(start, &field));
                start += field.line.len();
            }
            let found = places.fields(text.as_bytes()).map(|field| field.line);
            assert!(found.eq(lines.iter().map(String::as_bytes)), "{count}");
        }
        let field = Field::first(b"A: b\r\n").unwrap();
        assert!(!Places::default().note(usize::from(u16::MAX) - 5, &field), "beyond any head");
    }
}
