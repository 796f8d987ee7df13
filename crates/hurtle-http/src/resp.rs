//! RESP2, the protocol of Redis and Valkey: encodes commands, parses replies.
//!
//! A reply is bounded as a whole, in its elements and in their depth, so that a client's memory
//! does not depend on its server. A reply beyond a bound is an error, as is any other malformed
//! one.

use std::fmt;

/// Maximum size of a reply, in bytes.
pub const REPLY_BYTES_MAX: usize = 256 << 10;

/// Maximum number of values in a reply, arrays included.
pub const VALUES_MAX: usize = 1_024;

/// Maximum depth of arrays in arrays.
pub const DEPTH_MAX: usize = 8;

/// Maximum length of a line: a simple string, an error, an integer or a length, in bytes.
pub const LINE_BYTES_MAX: usize = 1_024;

/// A reply of the server, in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple string, such as `OK`.
    Text(Vec<u8>),
    /// An error, such as `NOSCRIPT No matching script`.
    Error(Vec<u8>),
    /// A signed 64-bit integer, such as the reply to `INCR`.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// Values in order.
    Array(Vec<Reply>),
    /// A null string or array: there is no value.
    Null,
}

/// Bytes that are no reply, or one beyond a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The first byte names no type.
    UnknownType,
    /// A line does not end with CRLF, or a string is not followed by it.
    MissingCrlf,
    /// An integer or a length is not a number, or out of range.
    InvalidNumber,
    /// The reply exceeds [`REPLY_BYTES_MAX`], [`VALUES_MAX`], [`DEPTH_MAX`] or [`LINE_BYTES_MAX`].
    TooLarge,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyError::UnknownType => "the type is unknown",
            ReplyError::MissingCrlf => "CRLF is missing",
            ReplyError::InvalidNumber => "a number is invalid",
            ReplyError::TooLarge => "it is too large",
        })
    }
}

impl std::error::Error for ReplyError {}

/// Appends a command with its arguments.
pub fn encode(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Parses the first reply in `bytes`; returns it and its length. `None`: more bytes are needed.
///
/// # Errors
/// The bytes are no reply.
pub fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, ReplyError> {
    let mut parser = Parser { bytes, at: 0, values: 0 };
    match parser.value(0)? {
        Some(_) if parser.at > REPLY_BYTES_MAX => Err(ReplyError::TooLarge),
        Some(reply) => Ok(Some((reply, parser.at))),
        None if bytes.len() >= REPLY_BYTES_MAX => Err(ReplyError::TooLarge),
        None => Ok(None),
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Values parsed so far, arrays included.
    values: usize,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Reply>, ReplyError> {
        self.values += 1;
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return Err(ReplyError::TooLarge);
        }
        let Some(&kind) = self.bytes.get(self.at) else { return Ok(None) };
        if !b"+-:$*".contains(&kind) {
            return Err(ReplyError::UnknownType);
        }
        self.at += 1;
        let Some(line) = self.line()? else { return Ok(None) };
        let reply = match kind {
            b'+' => Reply::Text(line.to_vec()),
            b'-' => Reply::Error(line.to_vec()),
            b':' => Reply::Integer(number(line)?),
            kind => match length(line)? {
                None => Reply::Null,
                Some(len) if kind == b'$' => match self.string(len)? {
                    Some(string) => Reply::Bulk(string.to_vec()),
                    None => return Ok(None),
                },
                Some(len) => {
                    let mut items = Vec::new();
                    for _ in 0..len {
                        match self.value(depth + 1)? {
                            Some(item) => items.push(item),
                            None => return Ok(None),
                        }
                    }
                    Reply::Array(items)
                }
            },
        };
        Ok(Some(reply))
    }

    /// Reads up to CRLF.
    fn line(&mut self) -> Result<Option<&'a [u8]>, ReplyError> {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(LINE_BYTES_MAX + 2)];
        let Some(end) = window.iter().position(|&byte| byte == b'\r' || byte == b'\n') else {
            return if window.len() > LINE_BYTES_MAX {
                Err(ReplyError::TooLarge)
            } else {
                Ok(None)
            };
        };
        match &rest[end..] {
            [b'\r', b'\n', ..] => {
                self.at += end + 2;
                Ok(Some(&rest[..end]))
            }
            [b'\r'] => Ok(None),
            _ => Err(ReplyError::MissingCrlf),
        }
    }

    /// Reads a string and its CRLF.
    fn string(&mut self, len: usize) -> Result<Option<&'a [u8]>, ReplyError> {
        let rest = &self.bytes[self.at..];
        let Some(string) = rest.get(..len) else { return Ok(None) };
        let end = &rest[len..rest.len().min(len + 2)];
        if !b"\r\n".starts_with(end) {
            return Err(ReplyError::MissingCrlf);
        }
        if end.len() < 2 {
            return Ok(None);
        }
        self.at += len + 2;
        Ok(Some(string))
    }
}

fn number(line: &[u8]) -> Result<i64, ReplyError> {
    let text = std::str::from_utf8(line).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse().ok()).ok_or(ReplyError::InvalidNumber)
}

/// Parses a length of a string or an array; `None`: -1, no value.
fn length(line: &[u8]) -> Result<Option<usize>, ReplyError> {
    match number(line)? {
        -1 => Ok(None),
        len => match usize::try_from(len) {
            Ok(len) if len <= REPLY_BYTES_MAX => Ok(Some(len)),
            Ok(_) => Err(ReplyError::TooLarge),
            Err(_) => Err(ReplyError::InvalidNumber),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = Vec::new();
        encode(&mut out, &[b"GET", b"a\r\nb", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_parsed_whole_and_wherever_they_are_split() {
        let bulk = |text: &str| Reply::Bulk(text.into());
        let rows: [(&[u8], Reply); 9] = [
            (b"+OK\r\n", Reply::Text(b"OK".to_vec())),
            (b"-NOSCRIPT no\r\n", Reply::Error(b"NOSCRIPT no".to_vec())),
            (b":-7\r\n", Reply::Integer(-7)),
            (b"$4\r\na\r\nb\r\n", bulk("a\r\nb")),
            (b"$0\r\n\r\n", bulk("")),
            (b"$-1\r\n", Reply::Null),
            (b"*-1\r\n", Reply::Null),
            (b"*0\r\n", Reply::Array(vec![])),
            (
                b"*2\r\n*1\r\n$1\r\na\r\n:3\r\n",
                Reply::Array(vec![Reply::Array(vec![bulk("a")]), Reply::Integer(3)]),
            ),
        ];
        for (bytes, reply) in rows {
            let shown = String::from_utf8_lossy(bytes);
            let more = [bytes, b":1\r\n"].concat();
            assert_eq!(parse(&more), Ok(Some((reply, bytes.len()))), "{shown}");
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end]), Ok(None), "{end} bytes of {shown}");
            }
        }
    }

    #[test]
    fn malformed_and_large_replies_are_refused() {
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let many = [&b"*2000\r\n"[..], &b":1\r\n".repeat(VALUES_MAX)].concat();
        let long = [&b"+"[..], &[b'a'; LINE_BYTES_MAX + 1]].concat();
        let large = [&b"$262144\r\n"[..], &vec![b'a'; REPLY_BYTES_MAX]].concat();
        let rows: [(&[u8], ReplyError); 13] = [
            (b"HTTP/1.1 400 Bad Request\r\n", ReplyError::UnknownType),
            (b"+OK\n", ReplyError::MissingCrlf),
            (b"+O\rK\r\n", ReplyError::MissingCrlf),
            (b"$1\r\nab\r\n", ReplyError::MissingCrlf),
            (b":\r\n", ReplyError::InvalidNumber),
            (b":+1\r\n", ReplyError::InvalidNumber),
            (b":1x\r\n", ReplyError::InvalidNumber),
            (b"$-2\r\n", ReplyError::InvalidNumber),
            (b"$999999999\r\n", ReplyError::TooLarge),
            (&deep, ReplyError::TooLarge),
            (&many, ReplyError::TooLarge),
            (&long, ReplyError::TooLarge),
            (&large, ReplyError::TooLarge),
        ];
        for (bytes, error) in rows {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert_eq!(parse(bytes), Err(error), "{shown}");
        }
    }
}
