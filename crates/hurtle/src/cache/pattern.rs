//! The cache keys that a purge selects.

use hurtle_http::semantics::host;
use hurtle_http::semantics::target::{decode_keeping_slashes, encode_path};

/// The cache keys of one host with a target, or with all targets that begin alike.
#[derive(Debug)]
pub(crate) struct KeyPattern {
    name: Vec<u8>,
    /// `None`: every port.
    port: Option<u16>,
    /// Path in the spelling that all others have in common, with the query.
    target: Vec<u8>,
    /// `true`: selects every target that begins with `target`.
    is_prefix: bool,
}

impl KeyPattern {
    /// Parses a host with an optional port, and a path: with a query, or with `*` behind it for
    /// every target that begins like this. `None`: they are malformed.
    pub(crate) fn parse(host: &[u8], target: &[u8]) -> Option<KeyPattern> {
        let host = host::parse(host).ok().filter(|host| !host.name.is_empty())?;
        let query_at = target.iter().position(|&b| b == b'?');
        let (path, query) = target.split_at(query_at.unwrap_or(target.len()));
        if !path.starts_with(b"/") {
            return None;
        }
        let beginning = path.strip_suffix(b"*").filter(|_| query.is_empty());
        let target = canonical(beginning.unwrap_or(path), query)?;
        let (name, port) = (host.name.to_vec(), host.port);
        Some(KeyPattern { name, port, target, is_prefix: beginning.is_some() })
    }

    /// `true` if it selects this key of `hurtle_http::message::forward::identity`:
    /// `scheme://host/path?query`, maybe followed by further lines.
    pub(crate) fn matches(&self, key: &[u8]) -> bool {
        let line = key.split(|&b| b == b'\n').next().unwrap_or(key);
        let rest = line.strip_prefix(b"https://").or_else(|| line.strip_prefix(b"http://"));
        let Some(rest) = rest else { return false };
        let Some(slash) = rest.iter().position(|&b| b == b'/') else { return false };
        let (host, target) = rest.split_at(slash);
        let same_host = host::parse(host).is_ok_and(|host| {
            let same_port = self.port.is_none() || self.port == host.port;
            host.name.eq_ignore_ascii_case(&self.name) && same_port
        });
        same_host && self.selects(target)
    }

    /// `true` if it selects a target, in any spelling.
    fn selects(&self, target: &[u8]) -> bool {
        let query_at = target.iter().position(|&b| b == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(query_at);
        let target = canonical(path, query);
        target.is_some_and(|target| match self.is_prefix {
            true => target.starts_with(&self.target),
            false => target == self.target,
        })
    }
}

/// Returns a target with its path in the spelling that all others have in common. `None`: it is
/// malformed.
fn canonical(path: &[u8], query: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    decode_keeping_slashes(path, &mut decoded).ok()?;
    let mut target = encode_path(&decoded).into_owned().into_bytes();
    target.extend_from_slice(query);
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_selects_keys_by_host_and_target() {
        let key = b"http://Example.org:81/%61%20b//c?q";
        #[rustfmt::skip]
        let rows: [(&str, &str, &str, bool); 9] = [
            ("the whole target", "example.org:81", "/a%20b/c?q", true),
            ("any port", "example.org", "/a%20b/c?q", true),
            ("another port", "example.org:80", "/a%20b/c?q", false),
            ("another host", "example.com", "/a%20b/c?q", false),
            ("a target without the query", "EXAMPLE.org", "/a%20b/c", false),
            ("a prefix", "example.org", "/a%20b/*", true),
            ("an encoded prefix", "example.org", "/%61%20b/*", true),
            ("everything of a host", "example.org", "/*", true),
            ("another prefix", "example.org", "/b*", false),
        ];
        for (sentence, host, target, expected) in rows {
            let pattern = KeyPattern::parse(host.as_bytes(), target.as_bytes()).unwrap();
            assert_eq!(pattern.matches(key), expected, "{sentence}");
        }
    }

    #[test]
    fn a_malformed_pattern_is_none() {
        for (host, target) in
            [("", "/"), ("a b", "/"), ("a", ""), ("a", "b"), ("a", "?q"), ("a", "/%zz")]
        {
            let parsed = KeyPattern::parse(host.as_bytes(), target.as_bytes());
            assert!(parsed.is_none(), "{host} {target}: {parsed:?}");
        }
    }
}
