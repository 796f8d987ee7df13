//! The uwsgi protocol of the uWSGI server, version 1, as pure functions: encodes a request, and
//! finds the status line of a response. Source: "The uwsgi Protocol" in uWSGI's documentation.

use std::fmt;

/// Size of the header of a packet, in bytes.
const HEADER_BYTES: usize = 4;

/// Size of `HTTP/1.1` and a space, in bytes.
const VERSION_BYTES: usize = 9;

/// The variables of a request are longer than 65,535 bytes together, or one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request's variables are longer than 65,535 bytes")
    }
}

/// Appends the packet that begins a request, with all its variables. The body follows it as it is.
///
/// # Errors
/// [`TooLong`]; `out` is then unchanged.
pub fn begin(out: &mut Vec<u8>, variables: &[(Vec<u8>, Vec<u8>)]) -> Result<(), TooLong> {
    let size: usize = variables.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    // Each part is shorter than the whole.
    let size = u16::try_from(size).map_err(|_| TooLong)?;
    out.reserve(HEADER_BYTES + usize::from(size));
    // Both modifiers are 0: a request of the web, for an application of any language.
    out.push(0);
    out.extend_from_slice(&size.to_le_bytes());
    out.push(0);
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        let len = u16::try_from(text.len()).map_err(|_| TooLong)?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(text);
    }
    Ok(())
}

/// The begin of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBegin {
    /// More bytes are needed.
    Partial,
    /// A status line of HTTP/1: the status begins after this number of bytes.
    StatusLine(usize),
    /// Fields, as in a response of CGI.
    Fields,
}

/// Recognizes the begin of a response. uWSGI sends what the application wrote: `HTTP/1.1 200 OK`,
/// or the fields of a CGI response.
pub fn response_begin(bytes: &[u8]) -> ResponseBegin {
    let begin = &bytes[..bytes.len().min(VERSION_BYTES)];
    // A digit stands for any digit.
    let is_alike = |(byte, like): (&u8, &u8)| match like {
        b'1' => byte.is_ascii_digit(),
        _ => byte.eq_ignore_ascii_case(like),
    };
    match begin.iter().zip(b"HTTP/1.1 ").all(is_alike) {
        false => ResponseBegin::Fields,
        true if begin.len() < VERSION_BYTES => ResponseBegin::Partial,
        true => ResponseBegin::StatusLine(VERSION_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        (name.into(), value.into())
    }

    #[test]
    fn a_request_is_a_packet_of_names_and_values() {
        let mut out = Vec::new();
        assert_eq!(begin(&mut out, &[pair("A", "bc"), pair("D", "")]), Ok(()));
        assert_eq!(out, b"\x00\x0c\x00\x00\x01\x00A\x02\x00bc\x01\x00D\x00\x00");
    }

    #[test]
    fn variables_of_65_535_bytes_fit_and_more_are_refused() {
        let table = [
            ("the longest packet", 65_535 - 5, true),
            ("one byte more", 65_535 - 4, false),
            ("a value that is too long by itself", 70_000, false),
        ];
        for (sentence, len, fits) in table {
            let mut out = Vec::new();
            let done = begin(&mut out, &[pair("A", &"x".repeat(len))]);
            assert_eq!(done.is_ok(), fits, "{sentence}");
            assert_eq!(out.is_empty(), !fits, "{sentence}");
        }
    }

    #[test]
    fn the_begin_of_a_response_is_recognized_however_it_is_cut() {
        let table = [
            ("HTTP/1.1 200 OK\r\n", ResponseBegin::StatusLine(9)),
            ("http/1.0 404 Not Found\r\n", ResponseBegin::StatusLine(9)),
            ("Status: 200 OK\r\n", ResponseBegin::Fields),
            ("HTTP-Equiv: a\r\n", ResponseBegin::Fields),
            ("HTTP/11 200 OK\r\n", ResponseBegin::Fields),
            ("Http: a\r\n", ResponseBegin::Fields),
        ];
        for (response, begin) in table {
            let bytes = response.as_bytes();
            assert_eq!(response_begin(bytes), begin, "{response:?}");
            for len in 0..bytes.len() {
                let part = response_begin(&bytes[..len]);
                assert!(part == begin || part == ResponseBegin::Partial, "{response:?}, {len}");
            }
        }
    }
}
