//! Parses the head of a response (RFC 9112, sections 2 to 7), as far as a client needs it to find
//! the response's end. Pure.

/// A longer head is an error.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Framing of the body after the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A body of so many bytes.
    Length(u64),
    /// The chunked transfer coding (RFC 9112 section 7.1).
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    /// The server will close the connection.
    pub(super) close: bool,
}

/// The end of the head that these bytes begin with, the empty line included. Searches from `seen`
/// on, as earlier calls found nothing before it.
pub(super) fn end(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    bytes.get(from..)?.windows(4).position(|w| w == b"\r\n\r\n").map(|at| from + at + 4)
}

/// Reads a whole head; `None` if it is not one. `bodyless`: the request was a HEAD.
pub(super) fn parse(bytes: &[u8], bodyless: bool) -> Option<Head> {
    let text = bytes.strip_suffix(b"\r\n\r\n")?;
    let mut lines =
        text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (minor, status) = status_line(lines.next()?)?;
    let (mut length, mut chunked, mut coded) = (None, false, false);
    let mut close = minor == b'0'; // RFC 9112, 9.3: HTTP/1.0 closes unless it says otherwise
    for line in lines {
        let colon = line.iter().position(|&b| b == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let value = number(value)?;
            if length.is_some_and(|before| before != value) {
                return None; // RFC 9112, 6.3: lengths that differ are unrecoverable
            }
            length = Some(value);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            coded = true;
            chunked = has_token(value, b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            close = (close || has_token(value, b"close")) && !has_token(value, b"keep-alive");
        }
    }
    // RFC 9112, 6.3, in its order.
    let framing = if bodyless || status < 200 || status == 204 || status == 304 {
        Framing::Length(0)
    } else if chunked {
        Framing::Chunked
    } else if coded {
        Framing::UntilClose
    } else {
        length.map_or(Framing::UntilClose, Framing::Length)
    };
    Some(Head { status, framing, close: close || framing == Framing::UntilClose })
}

/// The minor version's digit and the status.
fn status_line(line: &[u8]) -> Option<(u8, u16)> {
    let [minor, b' ', rest @ ..] = line.strip_prefix(b"HTTP/1.")? else { return None };
    let (digits, after) = rest.split_at_checked(3)?;
    let ended = after.first().is_none_or(|&b| b == b' ');
    let status = u16::try_from(number(digits)?).ok().filter(|s| (100..1000).contains(s))?;
    (ended && minor.is_ascii_digit()).then_some((*minor, status))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|&b| b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_its_body_ends() {
        use Framing::{Chunked, Length, UntilClose};
        let rows: &[(&str, &str, Option<(u16, Framing, bool)>)] = &[
            ("a length", "HTTP/1.1 200 OK\r\nContent-Length: 5", Some((200, Length(5), false))),
            ("no reason", "HTTP/1.1 404\r\ncontent-length:0", Some((404, Length(0), false))),
            (
                "close",
                "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5",
                Some((200, Length(5), true)),
            ),
            ("1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 5", Some((200, Length(5), true))),
            (
                "1.0 kept",
                "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive",
                Some((200, Length(5), false)),
            ),
            (
                "chunks win",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: Chunked",
                Some((200, Chunked, false)),
            ),
            ("neither", "HTTP/1.1 200 OK", Some((200, UntilClose, true))),
            (
                "304 has no body",
                "HTTP/1.1 304 No\r\nContent-Length: 5",
                Some((304, Length(0), false)),
            ),
            ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6", None),
            ("a length below zero", "HTTP/1.1 200 OK\r\nContent-Length: -5", None),
            ("a length too large", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999", None),
            ("no colon", "HTTP/1.1 200 OK\r\nnonsense", None),
            ("another protocol", "SSH-2.0-x", None),
            ("a status of two digits", "HTTP/1.1 20", None),
            ("a status of four digits", "HTTP/1.1 2000 OK", None),
            ("nothing", "", None),
        ];
        for (name, head, want) in rows {
            let got = parse(format!("{head}\r\n\r\n").as_bytes(), false);
            assert_eq!(got.map(|h| (h.status, h.framing, h.close)), *want, "{name}");
        }
    }
}
