//! The static table (RFC 7541 appendix A).

/// Entries of the static table; index 1 is the first.
#[rustfmt::skip]
pub(super) const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"),
    (b":path", b"/index.html"), (b":scheme", b"http"), (b":scheme", b"https"),
    (b":status", b"200"), (b":status", b"204"), (b":status", b"206"), (b":status", b"304"),
    (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""),
    (b"accept", b""), (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""),
    (b"authorization", b""), (b"cache-control", b""), (b"content-disposition", b""),
    (b"content-encoding", b""), (b"content-language", b""), (b"content-length", b""),
    (b"content-location", b""), (b"content-range", b""), (b"content-type", b""), (b"cookie", b""),
    (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""),
    (b"if-range", b""), (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""),
    (b"location", b""), (b"max-forwards", b""), (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""), (b"range", b""), (b"referer", b""), (b"refresh", b""),
    (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""),
    (b"strict-transport-security", b""), (b"transfer-encoding", b""), (b"user-agent", b""),
    (b"vary", b""), (b"via", b""), (b"www-authenticate", b""),
];

const SLOTS: usize = 128;

/// For each hash of a name, the index of the first entry of that name, or 0. All hashes differ.
const SLOT: [u8; SLOTS] = slots();

const fn slots() -> [u8; SLOTS] {
    let mut slots = [0; SLOTS];
    let mut at = STATIC.len();
    while at > 0 {
        let name = STATIC[at - 1].0;
        let slot = slot(name);
        // Entries of one name are adjacent; the first is written last and remains.
        assert!(slots[slot] == 0 || slots[slot] == at as u8 + 1, "two names share a slot");
        slots[slot] = at as u8;
        at -= 1;
    }
    slots
}

/// The hash of a name that is not empty.
const fn slot(name: &[u8]) -> usize {
    let len = name.len();
    (len * 39 + name[0] as usize * 39 + name[len - 1] as usize * 44 + name[len / 2] as usize)
        % SLOTS
}

/// The index of the first static entry of this lower-case name, or 0.
pub(super) fn static_index(name: &[u8]) -> usize {
    if name.is_empty() {
        return 0;
    }
    let index = usize::from(SLOT[slot(name)]);
    if index > 0 && STATIC[index - 1].0 == name { index } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_static_name_is_found() {
        for (at, (name, _)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(other, _)| other == name).unwrap();
            assert_eq!(static_index(name), first + 1, "entry {}", at + 1);
        }
        for name in ["", "x", "accept-rangez", "servet", ":statu", "constant-type"] {
            assert_eq!(static_index(name.as_bytes()), 0, "{name}");
        }
    }
}
