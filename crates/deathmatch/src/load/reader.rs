//! Reads successive responses on a connection, and reports when each is complete and if it is as
//! expected. Pure: it gets bytes, or the number of discarded bytes.

use super::Expected;
use super::head::{self, Framing, HEAD_BYTES_MAX, Head};

/// The longest line of a chunked body: a size with its extensions, or a trailer field.
const CHUNK_LINE_BYTES_MAX: usize = 4096;

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFault {
    /// Another status, or no status at all.
    Status,
    /// Another length, or other bytes.
    Bytes,
}

/// State of a response after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The response is incomplete.
    More,
    Done {
        /// Reason for which it does not count, if any.
        wrong: Option<ResponseFault>,
        /// The connection cannot be used again.
        close: bool,
    },
}

/// The last head and its meaning: a server sends the same head for up to a second, and comparing is
/// cheaper than parsing.
#[derive(Debug, Default)]
pub(super) struct Memo {
    bytes: Vec<u8>,
    /// It was the response to a HEAD.
    bodyless: bool,
    head: Option<Head>,
}

/// The reader of one connection.
#[derive(Debug, Default)]
pub(super) struct Reader {
    part: Part,
    /// An incomplete head or chunk line.
    held: Vec<u8>,
    /// Bytes of the body so far.
    body: u64,
    /// The status; 0 before the head.
    status: u16,
    wrong: Option<ResponseFault>,
    close: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    Length(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
}

impl Reader {
    /// Prepares for the next response.
    pub(super) fn reset(&mut self) {
        self.part = Part::Head;
        self.held.clear();
        self.body = 0;
        self.status = 0;
        self.wrong = None;
        self.close = false;
    }

    /// `true` if no byte of the response has been received.
    pub(super) fn is_untouched(&self) -> bool {
        self.part == Part::Head && self.held.is_empty()
    }

    /// `true` if the head is incomplete.
    pub(super) fn in_head(&self) -> bool {
        self.part == Part::Head
    }

    /// The response's status; 0 if there is none.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// `true` if the bytes that follow need not be looked at.
    pub(super) fn may_discard(&self, expected: &Expected) -> bool {
        expected.body.is_none() && matches!(self.part, Part::Length(_) | Part::UntilClose)
    }

    /// Handles bytes that were received and discarded.
    pub(super) fn skip(&mut self, count: u64, expected: &Expected) -> Progress {
        match self.part {
            Part::Length(left) if count < left => {
                self.body += count;
                self.part = Part::Length(left - count);
                Progress::More
            }
            Part::Length(left) => {
                self.body += left;
                self.done(count - left, expected)
            }
            _ => {
                self.body += count;
                Progress::More
            }
        }
    }

    /// Handles received bytes. `bodyless`: the request was a HEAD.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        expected: &Expected,
        memo: &mut Memo,
        bodyless: bool,
    ) -> Progress {
        loop {
            let ended = match self.part {
                Part::Head => self.take_head(&mut bytes, expected, memo, bodyless),
                Part::Length(left) => {
                    let left = left - self.take_body(&mut bytes, left, expected);
                    self.part = Part::Length(left);
                    left == 0
                }
                Part::UntilClose => {
                    self.take_body(&mut bytes, u64::MAX, expected);
                    false
                }
                Part::Chunk(left) => {
                    let left = left - self.take_body(&mut bytes, left, expected);
                    self.part = if left == 0 { Part::ChunkEnd } else { Part::Chunk(left) };
                    false
                }
                Part::ChunkSize | Part::ChunkEnd | Part::Trailer => self.take_line(&mut bytes),
            };
            if ended {
                return self.done(bytes.len() as u64, expected);
            }
            if bytes.is_empty() {
                return Progress::More;
            }
        }
    }

    /// Handles the connection's end: `None` if it cut the response short.
    pub(super) fn ended(&mut self, expected: &Expected) -> Option<Progress> {
        (self.part == Part::UntilClose).then(|| self.done(0, expected))
    }

    /// Takes a head or a part of one; `true` if the response is complete with it.
    fn take_head(
        &mut self,
        bytes: &mut &[u8],
        expected: &Expected,
        memo: &mut Memo,
        bodyless: bool,
    ) -> bool {
        let remembered =
            self.held.is_empty() && memo.bodyless == bodyless && bytes.starts_with(&memo.bytes);
        let parsed = if let (true, Some(head)) = (remembered, memo.head) {
            *bytes = &bytes[memo.bytes.len()..];
            Some(head)
        } else {
            let seen = self.held.len();
            self.held.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES_MAX - seen + 1)]);
            match head::end(&self.held, seen) {
                Some(end) if end <= HEAD_BYTES_MAX => {
                    *bytes = &bytes[end - seen..];
                    self.held.truncate(end);
                    let head = head::parse(&self.held, bodyless);
                    *memo = Memo { bytes: std::mem::take(&mut self.held), bodyless, head };
                    head
                }
                None if self.held.len() <= HEAD_BYTES_MAX => {
                    *bytes = &[];
                    return false;
                }
                _ => None,
            }
        };
        let Some(head) = parsed else { return self.end_unknown(ResponseFault::Status) };
        if head.status < 200 && head.status != 101 {
            return false; // RFC 9110, 15.2: an interim answer; the real one follows
        }
        self.status = head.status;
        self.close = head.close;
        if !expected.takes_status(head.status) {
            self.wrong = Some(ResponseFault::Status);
        }
        self.part = match head.framing {
            Framing::Length(length) => Part::Length(length),
            Framing::Chunked => Part::ChunkSize,
            Framing::UntilClose => Part::UntilClose,
        };
        head.framing == Framing::Length(0)
    }

    /// Takes up to `left` bytes of body, compares them if they are known, and returns their number.
    fn take_body(&mut self, bytes: &mut &[u8], left: u64, expected: &Expected) -> u64 {
        let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (received, rest) = bytes.split_at(count);
        *bytes = rest;
        if let Some(whole) = &expected.body {
            let from = usize::try_from(self.body).unwrap_or(usize::MAX);
            let want = whole.get(from..).and_then(|want| want.get(..count));
            if want != Some(received) {
                self.wrong = self.wrong.or(Some(ResponseFault::Bytes));
            }
        }
        self.body += count as u64;
        count as u64
    }

    /// Takes a line of the chunked coding (RFC 9112, 7.1) or a part of one; `true` at the last.
    fn take_line(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(end) = bytes.iter().position(|&b| b == b'\n') else {
            self.held.extend_from_slice(bytes);
            *bytes = &[];
            return self.held.len() > CHUNK_LINE_BYTES_MAX
                && self.end_unknown(ResponseFault::Bytes);
        };
        self.held.extend_from_slice(&bytes[..end]);
        *bytes = &bytes[end + 1..];
        let held = std::mem::take(&mut self.held);
        let line = held.strip_suffix(b"\r").unwrap_or(&held);
        match self.part {
            Part::ChunkEnd if line.is_empty() => self.part = Part::ChunkSize,
            Part::Trailer if line.is_empty() => return true,
            Part::Trailer => {}
            Part::ChunkSize => match chunk_size(line) {
                Some(0) => self.part = Part::Trailer,
                Some(size) => self.part = Part::Chunk(size),
                None => return self.end_unknown(ResponseFault::Bytes),
            },
            _ => return self.end_unknown(ResponseFault::Bytes),
        }
        false
    }

    /// Ends a response whose end cannot be found, and its connection.
    fn end_unknown(&mut self, wrong: ResponseFault) -> bool {
        self.close = true;
        self.wrong = self.wrong.or(Some(wrong));
        true
    }

    /// Completes the response; `excess` unsolicited bytes follow it.
    fn done(&mut self, excess: u64, expected: &Expected) -> Progress {
        if !expected.takes_length(self.body) || excess > 0 {
            self.wrong = self.wrong.or(Some(ResponseFault::Bytes));
        }
        Progress::Done { wrong: self.wrong, close: self.close || excess > 0 }
    }
}

/// The size in a chunk's first line; extensions are ignored.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&b| b == b';').next()?.trim_ascii_end();
    let plain = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Progress = Progress::Done { wrong: None, close: false };
    const BAD_BYTES: Progress = Progress::Done { wrong: Some(ResponseFault::Bytes), close: false };
    const LOST_BYTES: Progress = Progress::Done { wrong: Some(ResponseFault::Bytes), close: true };
    const LOST_STATUS: Progress =
        Progress::Done { wrong: Some(ResponseFault::Status), close: true };

    fn hello(compare: bool) -> Expected {
        Expected { status: 200, body_bytes: 5, body: compare.then(|| b"hello".to_vec()) }
    }

    #[rustfmt::skip]
    const ANSWERS: &[(&str, &str, Progress)] = &[
        ("a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", OK),
        ("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            2;x=y\r\nhe\r\n003\r\nllo\r\n0\r\nA: b\r\n\r\n", OK),
        ("an interim answer first", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", OK),
        ("close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
            Progress::Done { wrong: None, close: true }),
        ("another status", "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno",
            Progress::Done { wrong: Some(ResponseFault::Status), close: false }),
        ("another length", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", BAD_BYTES),
        ("a wrong byte", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhullo", BAD_BYTES),
        ("a chunk without its end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            2\r\nhex\r\n", LOST_BYTES),
        ("a chunk without a size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            +2\r\n", LOST_BYTES),
        ("no head", "<html>\r\n\r\n", LOST_STATUS),
        ("cut short", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Progress::More),
    ];

    #[test]
    fn an_answer_is_read_the_same_wherever_it_is_split() {
        for (name, answer, want) in ANSWERS {
            for split in 0..answer.len() {
                let (mut reader, mut memo) = (Reader::default(), Memo::default());
                let (first, second) = answer.as_bytes().split_at(split);
                let expected = hello(true);
                let early = reader.feed(first, &expected, &mut memo, false);
                let step = match early {
                    Progress::More => reader.feed(second, &expected, &mut memo, false),
                    done => done,
                };
                assert_eq!(step, *want, "{name}, split at {split}");
            }
        }
    }

    #[test]
    fn it_reads_one_answer_after_the_other() {
        let (mut reader, mut memo) = (Reader::default(), Memo::default());
        for (name, answer, want) in ANSWERS {
            reader.reset();
            let mut step = Progress::More;
            for byte in answer.as_bytes().chunks(1) {
                assert_eq!(step, Progress::More, "{name}");
                step = reader.feed(byte, &hello(true), &mut memo, false);
            }
            assert_eq!(step, *want, "{name}, byte by byte");
        }
    }

    #[test]
    fn discarded_bytes_are_counted() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nh";
        let rows =
            [("all of it", 4, OK), ("part of it", 3, Progress::More), ("too much", 5, LOST_BYTES)];
        for (name, count, want) in rows {
            let (mut reader, mut memo) = (Reader::default(), Memo::default());
            assert!(!reader.may_discard(&hello(false)), "never the head");
            assert_eq!(reader.feed(head, &hello(false), &mut memo, false), Progress::More);
            assert!(reader.may_discard(&hello(false)));
            assert!(!reader.may_discard(&hello(true)), "never what is compared");
            assert_eq!(reader.skip(count, &hello(false)), want, "{name}");
        }
    }

    #[test]
    fn excess_and_endless_heads_are_errors() {
        let excess = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!";
        let (mut reader, mut memo) = (Reader::default(), Memo::default());
        assert_eq!(reader.feed(excess, &hello(true), &mut memo, false), LOST_BYTES);
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        for size in [1000, HEAD_BYTES_MAX * 2] {
            reader.reset();
            let step = endless
                .as_bytes()
                .chunks(size)
                .map(|part| reader.feed(part, &hello(true), &mut memo, false));
            assert_eq!(step.last(), Some(LOST_STATUS), "in pieces of {size}");
        }
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_ends_the_response() {
        let rows = [
            (
                "whole",
                "HTTP/1.0 200 OK\r\n\r\nhello",
                Some(Progress::Done { wrong: None, close: true }),
            ),
            ("short", "HTTP/1.0 200 OK\r\n\r\nhell", Some(LOST_BYTES)),
            ("cut", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhell", None),
        ];
        for (name, answer, want) in rows {
            let (mut reader, mut memo) = (Reader::default(), Memo::default());
            assert_eq!(
                reader.feed(answer.as_bytes(), &hello(true), &mut memo, false),
                Progress::More
            );
            assert_eq!(reader.ended(&hello(true)), want, "{name}");
        }
    }
}
