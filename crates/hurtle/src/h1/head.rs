//! Where a head ends: one pass over the bytes as they come, whatever pieces they come in.
//!
//! Finding the end first keeps a head that drips in one byte at a time linear: it is parsed once,
//! when it is whole. One that comes whole is read at once (`request`). What two implementations
//! could read differently (a line that ends in LF alone) is refused here, as soon as it is seen.

use super::Sin;
use super::line::{self, METHOD_BYTES_MAX, REQUEST_LINE_REST, is_token};

/// How far a head has been looked at; one per head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// Bytes already searched for a line's end.
    seen: usize,
    /// Where the current line begins.
    line: usize,
    /// The request line has been read, though the head is not whole yet.
    begun: bool,
}

/// What the bytes so far say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head ends before this index (its empty line included).
    Complete(usize),
    /// More bytes are needed.
    Partial,
}

/// Bounds on a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Whole head, in bytes.
    pub head_bytes: usize,
    /// Request target, in bytes.
    pub target_bytes: usize,
    /// Field lines.
    pub fields: usize,
}

impl Scan {
    /// Looks at what `buf` (the whole head so far) has got since the last call.
    ///
    /// # Errors
    /// A bare LF, a request line that is none, and whatever outgrows its limit.
    pub fn advance(&mut self, buf: &[u8], limits: &HeadLimits) -> Result<Progress, Sin> {
        if self.seen == 0 && buf.first().is_some_and(|&b| !is_token(b)) {
            return Err(Sin::RequestLine);
        }
        while let Some(at) = memchr::memchr(b'\n', &buf[self.seen..]) {
            let lf = self.seen + at;
            if lf == 0 || buf[lf - 1] != b'\r' {
                return Err(Sin::BareLineFeed);
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
            // What is no request line is told now, not when its sender has given up waiting.
            self.begun = true;
            line::first(buf, limits.target_bytes)?;
        }
        if buf.len() >= limits.head_bytes { Err(Sin::HeadTooLarge) } else { Ok(Progress::Partial) }
    }
}

fn within(end: usize, limits: &HeadLimits) -> Result<Progress, Sin> {
    if end > limits.head_bytes { Err(Sin::HeadTooLarge) } else { Ok(Progress::Complete(end)) }
}

/// Refuses a request line once no target within the limit can make it this long.
fn check_request_line(len: usize, limits: &HeadLimits) -> Result<(), Sin> {
    if len > METHOD_BYTES_MAX + limits.target_bytes + REQUEST_LINE_REST {
        return Err(Sin::TargetTooLong);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 64, target_bytes: 20, fields: 10 };

    fn whole(input: &[u8]) -> Result<Progress, Sin> {
        Scan::default().advance(input, &LIMITS)
    }

    #[test]
    fn finds_the_end() {
        for (input, want, why) in [
            (&b"GET / HTTP/1.1\r\n\r\nrest"[..], Ok(Progress::Complete(18)), "no fields"),
            (b"GET / HTTP/1.1\r\nA: b\r\n\r\n", Ok(Progress::Complete(24)), "one field"),
            (b"GET / HTTP/1.1\r\nA: b\r\n", Ok(Progress::Partial), "the empty line is missing"),
            (b"", Ok(Progress::Partial), "nothing came yet"),
            (b"GET / HTTP/1.1\n\n", Err(Sin::BareLineFeed), "LF alone ends no line"),
            (b"GET / HTTP/1.1\r\nA: b\n\r\n", Err(Sin::BareLineFeed), "in a field either"),
            (b"GET /\r\n", Err(Sin::RequestLine), "HTTP/0.9 is told at once"),
            (b"GET / HTTP/2.0\r\n", Err(Sin::VersionUnsupported), "and so is HTTP/2 from HTTP/1"),
            (b"\x16\x03\x01", Err(Sin::RequestLine), "TLS to a cleartext port is told at once"),
            (b" GET", Err(Sin::RequestLine), "no method begins with a space"),
            (&[b'a'; 70], Err(Sin::TargetTooLong), "a line without end"),
        ] {
            assert_eq!(whole(input), want, "{why}");
        }
    }

    #[test]
    fn any_split_says_the_same() {
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
                // Which limit is met first may depend on how much came; that one is, may not.
                (Err(Sin::HeadTooLarge | Sin::TargetTooLong), Err(_)) => {}
                (a, b) => assert_eq!(a, b, "{}", String::from_utf8_lossy(input)),
            }
        }
    }
}
