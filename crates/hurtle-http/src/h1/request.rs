//! Parses the request head of HTTP/1.1 (RFC 9112 section 3) in one pass over its bytes.

use super::line;
use crate::message::lines::{self, FieldLine};
use crate::request::section::{Lookup, SectionCache};
use crate::request::{HeadLimits, Joined, ParseError, RequestFields, RequestHead, Validator, join};
use crate::semantics::target::Target;

/// Parses the head at the front of `head`, which must be complete. `joined` must be empty.
///
/// # Errors
/// The first violation found; nothing is repaired.
pub fn parse<'a>(
    head: &'a [u8],
    joined: &'a Joined,
    limits: &HeadLimits,
) -> Result<RequestHead<'a>, ParseError> {
    let (mut request, lines) = parse_request_line(head, joined, limits)?;
    let (has_lists, _) = read_fields(&mut request, lines, head.len() - lines.len(), limits)?;
    if has_lists {
        join(&mut request, joined);
    }
    Ok(request)
}

/// Parses a head like [`parse`], with a cache of recent header sections. Also returns the bytes
/// after the head.
///
/// # Errors
/// See [`parse`].
pub fn parse_cached<'a>(
    head: &'a [u8],
    joined: &'a Joined,
    limits: &HeadLimits,
    sections: &SectionCache,
) -> Result<(RequestHead<'a>, &'a [u8]), ParseError> {
    let (mut request, lines) = parse_request_line(head, joined, limits)?;
    // Other requests depend on more than their header section.
    let is_cacheable = !request.http10 && !matches!(request.target, Target::Absolute { .. });
    let lookup = if is_cacheable { sections.find(lines) } else { Lookup::Miss };
    if let Lookup::Hit(section) = lookup {
        if head.len() > limits.head_bytes {
            return Err(ParseError::HeadTooLarge);
        }
        section.fill(&mut request, lines);
        return Ok((request, b""));
    }
    let line_bytes = head.len() - lines.len();
    let (has_lists, rest) = read_fields(&mut request, lines, line_bytes, limits)?;
    if has_lists {
        join(&mut request, joined);
    } else if let Lookup::Repeated(hash) = lookup
        && rest.is_empty()
    {
        sections.insert(hash, lines, &mut request);
    }
    Ok((request, rest))
}

/// Parses the request line; also returns the field lines.
#[inline(always)]
fn parse_request_line<'a>(
    head: &'a [u8],
    joined: &'a Joined,
    limits: &HeadLimits,
) -> Result<(RequestHead<'a>, &'a [u8]), ParseError> {
    let (line, lines) = line::request_line(head, limits.target_bytes)?;
    Ok((RequestHead::new(line.method, line.raw_target, line.http10, None, joined)?, lines))
}

/// Parses the field lines, which follow a first line of `line_bytes` bytes. `true` means that a
/// list has several lines. Also returns the bytes after the head.
fn read_fields<'a>(
    request: &mut RequestHead<'a>,
    lines: &'a [u8],
    line_bytes: usize,
    limits: &HeadLimits,
) -> Result<(bool, &'a [u8]), ParseError> {
    let mut seen = Validator::default();
    let mut rest = lines;
    while let Some(FieldLine { name, value, rest: behind }) = lines::next(rest)? {
        request.field_count += 1;
        if request.field_count > limits.fields {
            return Err(ParseError::TooManyFields);
        }
        seen.field(request, name, value)?;
        rest = behind;
    }
    let end = lines.len() - rest.len() + EMPTY_LINE_BYTES;
    if line_bytes + end > limits.head_bytes {
        return Err(ParseError::HeadTooLarge);
    }
    let (section, rest) = lines.split_at(end);
    request.fields = RequestFields::Lines(section);
    Ok((seen.finish(request)?, rest))
}

/// Size of the empty line in bytes: CRLF.
const EMPTY_LINE_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 1 << 10, target_bytes: 64, fields: 10 };

    #[test]
    fn fields_in_several_lines() {
        for (lines, accept, range, why) in [
            ("Accept: a/b\r\n", Some("a/b"), None, "a line is taken as it is"),
            ("Accept: a/b\r\nACCEPT:  c/d \r\n", Some("a/b, c/d"), None, "lists are joined"),
            ("Accept: a\r\nA: 1\r\naccept: b\r\nAccept: c\r\n", Some("a, b, c"), None, "in order"),
            (
                "Upgrade: a\r\nUpgrade: b\r\nAccept: c\r\n",
                Some("c"),
                None,
                "others are not touched",
            ),
            (
                "Range: bytes=1-\r\nRange: bytes=2-\r\n",
                None,
                Some(""),
                "what is no list means nothing",
            ),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let joined = Joined::default();
            let request = parse(head.as_bytes(), &joined, &LIMITS).unwrap();
            assert_eq!(request.accept, accept.map(str::as_bytes), "{why}");
            assert_eq!(request.range, range.map(str::as_bytes), "{why}");
            assert_eq!(request.field_count, 1 + lines.matches('\n').count(), "{why}");
        }
    }
}
