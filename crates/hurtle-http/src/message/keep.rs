//! The fields of stored responses (RFC 9111 3.1), also after a 304 has updated them (RFC 9111 3.2).

use super::field_lines::{SERVER, line};
use super::forward::each_for_client;
use super::response_head::ResponseHead;
use crate::request::fields::{begins_as, pairs};
use crate::semantics::caching::{is_digest_of_content, survives_update};

/// The field lines of a response as they are stored: the end-to-end fields without Age, with Date
/// and Server.
pub fn lines(reply: &ResponseHead<'_>, date: &[u8; 29]) -> Vec<u8> {
    let mut out = Vec::with_capacity(reply.field_lines.len());
    let (mut dated, mut named) = (false, false);
    each_for_client(reply, |name, value| {
        dated |= name.eq_ignore_ascii_case(b"date");
        named |= name.eq_ignore_ascii_case(b"server");
        if !name.eq_ignore_ascii_case(b"age") && !name.eq_ignore_ascii_case(b"trailer") {
            line(&mut out, name, value);
        }
    });
    if !dated {
        line(&mut out, b"Date", date);
    }
    if !named {
        line(&mut out, b"Server", SERVER.as_bytes());
    }
    out
}

/// The field lines of a stored response after a 304 (RFC 9111 3.2): the fields of the 304 replace
/// those with the same names, except those that describe the content.
pub fn refreshed(stored: &[u8], reply: &ResponseHead<'_>, date: &[u8; 29]) -> Vec<u8> {
    let new = lines(reply, date);
    let replaces = |name: &[u8]| {
        // `lines` may have added it.
        let own = name.eq_ignore_ascii_case(b"server");
        !own && pairs(&new).any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let mut out = Vec::with_capacity(stored.len() + new.len());
    for (name, value) in pairs(stored).filter(|(name, _)| survives_update(name) || !replaces(name))
    {
        line(&mut out, name, value);
    }
    for (name, value) in pairs(&new) {
        if !survives_update(name) && !name.eq_ignore_ascii_case(b"server") {
            line(&mut out, name, value);
        }
    }
    out
}

/// The field lines of a stored response after a part with the same strong validator has arrived
/// (RFC 9111 3.4): the fields of the part replace those with the same names. Both are the result of
/// [`lines`] or [`of_whole`].
pub fn combined(stored: &[u8], part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stored.len() + part.len());
    for (name, value) in pairs(stored) {
        if !pairs(part).any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            line(&mut out, name, value);
        }
    }
    out.extend_from_slice(part);
    out
}

/// The field lines of a part as those of the whole, or of the whole as those of a part: without
/// Content-Range, and without digests of the other content (RFC 9530 section 2).
pub fn of_whole(part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.len());
    for (name, value) in pairs(part) {
        if !name.eq_ignore_ascii_case(b"content-range") && !is_digest_of_content(name) {
            line(&mut out, name, value);
        }
    }
    out
}

/// The field lines of a 304 for a stored response: without fields that describe the content (RFC
/// 9110 15.4.5), but with Content-Location.
pub fn not_modified(stored: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stored.len());
    for (name, value) in pairs(stored) {
        let of_content = begins_as(name, b"content-");
        if !of_content || name.eq_ignore_ascii_case(b"content-location") {
            line(&mut out, name, value);
        }
    }
    out
}

/// `true` if this server rewrites a request field, so that the client's value selects no variant.
/// Scheme and host are part of every cache key.
pub fn is_rewritten(name: &[u8]) -> bool {
    begins_as(name, b"x-forwarded-for")
        || ["x-real-ip", "forwarded", "via"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::response_head;

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    #[test]
    fn stored_fields_suit_every_client_and_have_a_date() {
        let head = b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nAge: 3\r\nX-A: b\r\n\
                     Content-Length: 2\r\nKeep-Alive: 5\r\n\r\n";
        let kept = lines(&response_head::parse(head).unwrap(), DATE);
        let expected = "X-A: b\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: hurtle\r\n";
        assert_eq!(String::from_utf8(kept).unwrap(), expected);
    }

    #[test]
    fn a_304_replaces_fields_but_not_the_contents() {
        let stored = b"Server: them\r\nCache-Control: max-age=1\r\nX-A: 1\r\nX-A: 2\r\n\
                       Content-Type: a/b\r\nDate: Sun, 06 Nov 1994 08:49:30 GMT\r\n";
        let head = b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=9\r\nX-A: 3\r\n\
                     Content-Type: c/d\r\nContent-Length: 7\r\n\r\n";
        let new = refreshed(stored, &response_head::parse(head).unwrap(), DATE);
        let expected = "Server: them\r\nContent-Type: a/b\r\nCache-Control: max-age=9\r\nX-A: 3\r\n\
                        Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(String::from_utf8(new).unwrap(), expected);
    }

    /// Regression: a part had the digest of the whole, and the whole that of its last part.
    #[test]
    fn a_digest_is_of_one_content() {
        let whole = b"ETag: \"a\"\r\nContent-Digest: sha-256=:a:\r\nRepr-Digest: sha-256=:a:\r\n";
        let of_part = "ETag: \"a\"\r\nRepr-Digest: sha-256=:a:\r\n";
        assert_eq!(String::from_utf8(of_whole(whole)).unwrap(), of_part);
        let part = b"ETag: \"a\"\r\nContent-Range: bytes 0-1/9\r\nContent-Digest: sha-256=:b:\r\n";
        let both = String::from_utf8(combined(whole, &of_whole(part))).unwrap();
        assert!(both.contains("Content-Digest: sha-256=:a:") && !both.contains(":b:"), "{both}");
        let head = b"HTTP/1.1 304 Not Modified\r\nContent-Digest: sha-256=:c:\r\n\r\n";
        let new = refreshed(whole, &response_head::parse(head).unwrap(), DATE);
        assert!(String::from_utf8(new).unwrap().contains("Content-Digest: sha-256=:a:"));
    }
}
