//! Finds the end of a request head in one pass; input may be split anywhere.
//!
//! A head that arrives in pieces is parsed once, when it is complete: parsing it at every piece
//! would take quadratic time. A bare LF is refused as soon as it is seen.

use super::line::{self, REQUEST_LINE_REST};
use crate::request::HeadLimits;
use crate::request::ParseError;
use crate::request::method::METHOD_BYTES_MAX;
use crate::semantics::set::is_token;

/// The progress of a search; one per head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// Number of bytes already searched for a line end.
    seen: usize,
    /// Start of the current line.
    line: usize,
    /// True if the request line has been checked before the head was complete.
    begun: bool,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head ends before this index; its empty line is included.
    Complete(usize),
    /// More bytes are needed.
    Partial,
}

impl Scan {
    /// Continues the search in `buf`, which holds the whole head so far.
    ///
    /// # Errors
    /// The head has a bare LF or a malformed request line, or exceeds a limit.
    pub fn advance(&mut self, buf: &[u8], limits: &HeadLimits) -> Result<Progress, ParseError> {
        if self.seen == 0 && buf.first().is_some_and(|&b| !is_token(b)) {
            return Err(ParseError::RequestLine);
        }
        while let Some(at) = memchr::memchr(b'\n', &buf[self.seen..]) {
            let lf = self.seen + at;
            if lf == 0 || buf[lf - 1] != b'\r' {
                return Err(ParseError::BareLineFeed);
            }
            if lf - 1 == self.line {
                return within(lf + 1, limits);
            }
            if self.line == 0 {
                check_request_line(lf + 1, limits)?;
            }
            self.seen = lf + 1;
            self.line = lf + 1;
        }
        self.seen = buf.len();
        if self.line == 0 {
            check_request_line(buf.len(), limits)?;
        } else if !self.begun {
            // A malformed request line is refused now: its sender may wait before it sends the
            // rest.
            self.begun = true;
            line::request_line(buf, limits.target_bytes)?;
        }
        if buf.len() >= limits.head_bytes {
            Err(ParseError::HeadTooLarge)
        } else {
            Ok(Progress::Partial)
        }
    }
}

fn within(end: usize, limits: &HeadLimits) -> Result<Progress, ParseError> {
    if end > limits.head_bytes {
        Err(ParseError::HeadTooLarge)
    } else {
        Ok(Progress::Complete(end))
    }
}

/// Refuses a request line that is longer than the longest target allows.
fn check_request_line(len: usize, limits: &HeadLimits) -> Result<(), ParseError> {
    if len > METHOD_BYTES_MAX + limits.target_bytes + REQUEST_LINE_REST {
        return Err(ParseError::TargetTooLong);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 64, target_bytes: 20, fields: 10 };

    fn whole(input: &[u8]) -> Result<Progress, ParseError> {
        Scan::default().advance(input, &LIMITS)
    }

    #[test]
    fn finds_the_end() {
        for (input, want, why) in [
            (&b"GET / HTTP/1.1\r\n\r\nrest"[..], Ok(Progress::Complete(18)), "no fields"),
            (b"GET / HTTP/1.1\r\nA: b\r\n\r\n", Ok(Progress::Complete(24)), "one field"),
            (b"GET / HTTP/1.1\r\nA: b\r\n", Ok(Progress::Partial), "the empty line is missing"),
            (b"", Ok(Progress::Partial), "nothing came yet"),
            (b"GET / HTTP/1.1\n\n", Err(ParseError::BareLineFeed), "LF alone ends no line"),
            (b"GET / HTTP/1.1\r\nA: b\n\r\n", Err(ParseError::BareLineFeed), "in a field either"),
            (b"GET /\r\n", Err(ParseError::RequestLine), "HTTP/0.9 is refused at once"),
            (
                b"GET / HTTP/2.0\r\n",
                Err(ParseError::VersionUnsupported),
                "and so is HTTP/2 from HTTP/1",
            ),
            (
                b"\x16\x03\x01",
                Err(ParseError::RequestLine),
                "TLS to a cleartext port is refused at once",
            ),
            (b" GET", Err(ParseError::RequestLine), "no method begins with a space"),
            (&[b'a'; 70], Err(ParseError::TargetTooLong), "a line without end"),
        ] {
            assert_eq!(whole(input), want, "{why}");
        }
    }

    #[test]
    fn splits_do_not_change_the_result() {
        let inputs: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\nA: b\r\n\r\nGET",
            b"GET / HTTP/1.1\r\nA: b\n\r\n",
            b"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n\r\n",
        ];
        for input in inputs {
            let mut scan = Scan::default();
            let mut stepped = Ok(Progress::Partial);
            for end in 1..=input.len() {
                stepped = scan.advance(&input[..end], &LIMITS);
                if stepped != Ok(Progress::Partial) {
                    break;
                }
            }
            match (whole(input), stepped) {
                // The exceeded limit may depend on the pieces; that a limit is exceeded must not.
                (Err(ParseError::HeadTooLarge | ParseError::TargetTooLong), Err(_)) => {}
                (a, b) => assert_eq!(a, b, "{}", String::from_utf8_lossy(input)),
            }
        }
    }
}
