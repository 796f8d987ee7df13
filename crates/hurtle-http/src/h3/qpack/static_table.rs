//! The static table (RFC 9204 appendix A). Unlike HPACK's, its indices begin with 0, and entries of
//! one name need not be adjacent.

/// Entries of the static table.
#[rustfmt::skip]
pub(super) const STATIC: [(&[u8], &[u8]); 99] = [
    (b":authority", b""), (b":path", b"/"), (b"age", b"0"), (b"content-disposition", b""),
    (b"content-length", b"0"), (b"cookie", b""), (b"date", b""), (b"etag", b""),
    (b"if-modified-since", b""), (b"if-none-match", b""), (b"last-modified", b""), (b"link", b""),
    (b"location", b""), (b"referer", b""), (b"set-cookie", b""), (b":method", b"CONNECT"),
    (b":method", b"DELETE"), (b":method", b"GET"), (b":method", b"HEAD"), (b":method", b"OPTIONS"),
    (b":method", b"POST"), (b":method", b"PUT"), (b":scheme", b"http"), (b":scheme", b"https"),
    (b":status", b"103"), (b":status", b"200"), (b":status", b"304"), (b":status", b"404"),
    (b":status", b"503"), (b"accept", b"*/*"), (b"accept", b"application/dns-message"),
    (b"accept-encoding", b"gzip, deflate, br"), (b"accept-ranges", b"bytes"),
    (b"access-control-allow-headers", b"cache-control"),
    (b"access-control-allow-headers", b"content-type"), (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"max-age=0"), (b"cache-control", b"max-age=2592000"),
    (b"cache-control", b"max-age=604800"), (b"cache-control", b"no-cache"),
    (b"cache-control", b"no-store"), (b"cache-control", b"public, max-age=31536000"),
    (b"content-encoding", b"br"), (b"content-encoding", b"gzip"),
    (b"content-type", b"application/dns-message"), (b"content-type", b"application/javascript"),
    (b"content-type", b"application/json"), (b"content-type", b"application/x-www-form-urlencoded"),
    (b"content-type", b"image/gif"), (b"content-type", b"image/jpeg"),
    (b"content-type", b"image/png"), (b"content-type", b"text/css"),
    (b"content-type", b"text/html; charset=utf-8"), (b"content-type", b"text/plain"),
    (b"content-type", b"text/plain;charset=utf-8"), (b"range", b"bytes=0-"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"strict-transport-security", b"max-age=31536000; includesubdomains"),
    (b"strict-transport-security", b"max-age=31536000; includesubdomains; preload"),
    (b"vary", b"accept-encoding"), (b"vary", b"origin"), (b"x-content-type-options", b"nosniff"),
    (b"x-xss-protection", b"1; mode=block"), (b":status", b"100"), (b":status", b"204"),
    (b":status", b"206"), (b":status", b"302"), (b":status", b"400"), (b":status", b"403"),
    (b":status", b"421"), (b":status", b"425"), (b":status", b"500"), (b"accept-language", b""),
    (b"access-control-allow-credentials", b"FALSE"), (b"access-control-allow-credentials", b"TRUE"),
    (b"access-control-allow-headers", b"*"), (b"access-control-allow-methods", b"get"),
    (b"access-control-allow-methods", b"get, post, options"),
    (b"access-control-allow-methods", b"options"),
    (b"access-control-expose-headers", b"content-length"),
    (b"access-control-request-headers", b"content-type"),
    (b"access-control-request-method", b"get"), (b"access-control-request-method", b"post"),
    (b"alt-svc", b"clear"), (b"authorization", b""),
    (b"content-security-policy", b"script-src 'none'; object-src 'none'; base-uri 'none'"),
    (b"early-data", b"1"), (b"expect-ct", b""), (b"forwarded", b""), (b"if-range", b""),
    (b"origin", b""), (b"purpose", b"prefetch"), (b"server", b""), (b"timing-allow-origin", b"*"),
    (b"upgrade-insecure-requests", b"1"), (b"user-agent", b""), (b"x-forwarded-for", b""),
    (b"x-frame-options", b"deny"), (b"x-frame-options", b"sameorigin"),
];

const SLOTS: usize = 128;

/// Marks the absence of an entry in `SLOT` and `NEXT`.
const NONE: u8 = u8::MAX;

/// For each hash of a name, the index of the first entry of that name. All hashes differ.
const SLOT: [u8; SLOTS] = INDEX.0;

/// For each entry, the index of the next one of its name.
const NEXT: [u8; STATIC.len()] = INDEX.1;

const INDEX: ([u8; SLOTS], [u8; STATIC.len()]) = index();

const fn index() -> ([u8; SLOTS], [u8; STATIC.len()]) {
    let (mut slots, mut next) = ([NONE; SLOTS], [NONE; STATIC.len()]);
    let mut at = STATIC.len();
    while at > 0 {
        at -= 1;
        let slot = slot(STATIC[at].0);
        if slots[slot] != NONE {
            assert!(is_equal(STATIC[slots[slot] as usize].0, STATIC[at].0), "two names, one slot");
        }
        next[at] = slots[slot];
        slots[slot] = at as u8;
    }
    (slots, next)
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The hash of a name that is not empty.
const fn slot(name: &[u8]) -> usize {
    let len = name.len();
    let (first, last, inner) = (name[0], name[len - 1], name[len * 3 / 4]);
    (len * 2 + first as usize * 31 + last as usize * 116 + inner as usize * 3) % SLOTS
}

/// A field's place in the static table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An entry has this name and value.
    Field(usize),
    /// An entry has this name.
    Name(usize),
    Nothing,
}

/// Looks a field up. The name is in lower case.
pub(super) fn find(name: &[u8], value: &[u8]) -> Found {
    if name.is_empty() {
        return Found::Nothing;
    }
    let first = usize::from(SLOT[slot(name)]);
    if STATIC.get(first).is_none_or(|(known, _)| *known != name) {
        return Found::Nothing;
    }
    let mut at = first;
    while let Some((_, known)) = STATIC.get(at) {
        if *known == value {
            return Found::Field(at);
        }
        at = usize::from(NEXT[at]);
    }
    Found::Name(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (at, (name, value)) in STATIC.iter().enumerate() {
            assert_eq!(find(name, value), Found::Field(at), "entry {at}");
            let first = STATIC.iter().position(|(other, _)| other == name).unwrap();
            assert_eq!(find(name, b"another value"), Found::Name(first), "entry {at}");
        }
        for name in ["", "x", "accept-rangez", "servet", ":statu", "constant-type"] {
            assert_eq!(find(name.as_bytes(), b""), Found::Nothing, "{name}");
        }
    }

    #[test]
    fn entries_at_both_ends_of_each_group() {
        let rows: [(usize, &str, &str); 6] = [
            (0, ":authority", ""),
            (25, ":status", "200"),
            (52, "content-type", "text/html; charset=utf-8"),
            (71, ":status", "500"),
            (92, "server", ""),
            (98, "x-frame-options", "sameorigin"),
        ];
        for (index, name, value) in rows {
            assert_eq!(STATIC[index], (name.as_bytes(), value.as_bytes()), "{index}");
        }
    }
}
