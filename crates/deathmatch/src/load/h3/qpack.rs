//! QPACK (RFC 9204), as far as a generator without a dynamic table needs it: requests are written
//! with the static table, and of responses the status is read. Pure.

use super::frame::{HEADERS, put_integer};
use crate::load::h2::Fields;
use crate::load::huffman;

/// Entries of the static table.
const ENTRIES: u64 = 99;

/// The statuses of the static table (appendix A), from two indices on.
const STATUSES: [(u64, &[u16]); 2] =
    [(24, &[103, 200, 304, 404, 503]), (63, &[100, 204, 206, 302, 400, 403, 421, 425, 500])];

/// Static indices of names and fields of requests.
const AUTHORITY: u64 = 0;
const PATH: u64 = 1;
const METHOD: u64 = 15;
const METHOD_GET: u64 = 17;
const SCHEME_HTTPS: u64 = 23;
const USER_AGENT: u64 = 95;

/// A malformed section: a connection error (2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QpackError;

/// The HEADERS frame of a request over HTTPS.
pub fn request(fields: &Fields<'_>) -> Vec<u8> {
    let mut section = vec![0, 0];
    match fields.method {
        "GET" => number(&mut section, 0xc0, 6, METHOD_GET),
        method => literal(&mut section, METHOD, method),
    }
    number(&mut section, 0xc0, 6, SCHEME_HTTPS);
    literal(&mut section, AUTHORITY, fields.authority);
    literal(&mut section, PATH, fields.path);
    for (name, value) in fields.fields {
        if name == "user-agent" {
            literal(&mut section, USER_AGENT, value);
            continue;
        }
        number(&mut section, 0x20, 3, name.len() as u64);
        section.extend_from_slice(name.as_bytes());
        text(&mut section, value);
    }
    let mut frame = Vec::new();
    put_integer(&mut frame, HEADERS);
    put_integer(&mut frame, section.len() as u64);
    frame.extend_from_slice(&section);
    frame
}

/// A field with the name of a static entry (4.5.4).
fn literal(section: &mut Vec<u8>, name: u64, value: &str) {
    number(section, 0x50, 4, name);
    text(section, value);
}

fn text(section: &mut Vec<u8>, value: &str) {
    number(section, 0, 7, value.len() as u64);
    section.extend_from_slice(value.as_bytes());
}

/// A number with a prefix of so many bits (RFC 7541, 5.1).
fn number(section: &mut Vec<u8>, first: u8, bits: u32, number: u64) {
    let most = (1 << bits) - 1;
    if number < most {
        return section.push(first | number as u8);
    }
    section.push(first | most as u8);
    let mut rest = number - most;
    while rest >= 128 {
        section.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    section.push(rest as u8);
}

/// The status in a section; `None` if it has none, as in trailers.
pub(super) fn status(mut section: &[u8]) -> Result<Option<u16>, QpackError> {
    // A required insertion is impossible, for this client has no dynamic table.
    if read_number(&mut section, 8)? != 0 {
        return Err(QpackError);
    }
    read_number(&mut section, 7)?;
    let mut found = None;
    while let Some(&first) = section.first() {
        let status = match first {
            0xc0.. => {
                let index = read_number(&mut section, 6)?;
                known(index)?
            }
            0x50..=0x5f | 0x70..=0x7f => {
                let index = read_number(&mut section, 4)?;
                let is_status = known(index)?.is_some();
                let value = read_text(&mut section, 7)?;
                if is_status { Some(digits(&value.plain()?)) } else { None }
            }
            0x20..=0x3f => {
                let name = read_text(&mut section, 3)?;
                let value = read_text(&mut section, 7)?;
                if *name.plain()? == *b":status" { Some(digits(&value.plain()?)) } else { None }
            }
            // References to a dynamic table.
            _ => return Err(QpackError),
        };
        match status {
            None => {}
            Some(status) if found.is_none() && status >= 100 => found = Some(status),
            // RFC 9114, 4.3.2: once, and a number.
            Some(_) => return Err(QpackError),
        }
    }
    Ok(found)
}

/// The status of a static entry, if it has that name.
fn known(index: u64) -> Result<Option<u16>, QpackError> {
    if index >= ENTRIES {
        return Err(QpackError);
    }
    let at = |(from, statuses): &(u64, &[u16])| {
        let at = usize::try_from(index.checked_sub(*from)?).ok()?;
        statuses.get(at).copied()
    };
    Ok(STATUSES.iter().find_map(at))
}

/// A string as received.
struct Text<'a> {
    bytes: &'a [u8],
    is_coded: bool,
}

impl Text<'_> {
    fn plain(&self) -> Result<std::borrow::Cow<'_, [u8]>, QpackError> {
        match self.is_coded {
            true => huffman::decode(self.bytes).map(Into::into).ok_or(QpackError),
            false => Ok(self.bytes.into()),
        }
    }
}

/// A string, whose length has a prefix of so many bits after the bit of the Huffman code.
fn read_text<'a>(section: &mut &'a [u8], bits: u32) -> Result<Text<'a>, QpackError> {
    let is_coded = section.first().ok_or(QpackError)? & 1 << bits != 0;
    let length = read_number(section, bits)?;
    let length = usize::try_from(length).map_err(|_| QpackError)?;
    let (bytes, rest) = section.split_at_checked(length).ok_or(QpackError)?;
    *section = rest;
    Ok(Text { bytes, is_coded })
}

fn read_number(section: &mut &[u8], bits: u32) -> Result<u64, QpackError> {
    let (&first, mut rest) = section.split_first().ok_or(QpackError)?;
    let most = (1u64 << bits) - 1;
    let mut number = u64::from(first) & most;
    if number == most {
        // A length of more than four further bytes exceeds any string here.
        for at in 0.. {
            let (&byte, behind) = rest.split_first().filter(|_| at < 4).ok_or(QpackError)?;
            rest = behind;
            number += u64::from(byte & 127) << (7 * at);
            if byte < 128 {
                break;
            }
        }
    }
    *section = rest;
    Ok(number)
}

/// A number of three digits, or 0.
fn digits(text: &[u8]) -> u16 {
    let is_number = text.len() == 3 && text.iter().all(u8::is_ascii_digit);
    match is_number {
        true => text.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_fields() {
        let fields = [("user-agent".to_owned(), "d".to_owned()), ("a".to_owned(), "b".to_owned())];
        let get = Fields {
            method: "GET",
            is_secure: true,
            authority: "h:1",
            path: "/x",
            fields: &fields,
        };
        let section = b"\0\0\xd1\xd7\x50\x03h:1\x51\x02/x\x5f\x50\x01d\x21a\x01b";
        assert_eq!(request(&get), [&[1, section.len() as u8][..], section].concat());
        let head = request(&Fields { method: "HEAD", fields: &[], ..get });
        assert_eq!(head[4..11], *b"\x5f\0\x04HEAD");
    }

    #[test]
    fn statuses() {
        let rows: [(&str, &[u8], Result<Option<u16>, QpackError>); 12] = [
            ("an entry", b"\0\0\xd9", Ok(Some(200))),
            ("a late entry", b"\0\0\xff\x08", Ok(Some(500))),
            ("a literal", b"\0\0\x5f\x0a\x03207", Ok(Some(207))),
            (
                "a never-indexed literal with its own name",
                b"\0\0\x37\0:status\x03418",
                Ok(Some(418)),
            ),
            ("coded", b"\0\0\x5f\x0a\x82\x10\x01", Ok(Some(200))),
            ("behind other fields", b"\0\0\xf4\x5f\x1d\x02hi\x23x-a\x01b\xd9", Ok(Some(200))),
            ("none", b"\0\0\x23x-a\x01b", Ok(None)),
            ("twice", b"\0\0\xd9\xd9", Err(QpackError)),
            ("no number", b"\0\0\x5f\x0a\x03abc", Err(QpackError)),
            ("a required insertion", b"\x02\0\xd9", Err(QpackError)),
            ("an entry of a dynamic table", b"\0\0\x80", Err(QpackError)),
            ("beyond the static table", b"\0\0\xff\x24", Err(QpackError)),
        ];
        for (why, section, want) in rows {
            assert_eq!(status(section), want, "{why}");
            for end in 0..2 {
                assert_eq!(status(&section[..end]), Err(QpackError), "{why}, cut at {end}");
            }
        }
    }
}
