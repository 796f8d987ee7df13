//! Parses a site's host names. `hurtle::site` matches a request's Host against them.

use std::fmt;
use std::net::Ipv6Addr;

use super::bounds::{HOST_BYTES_MAX, HOST_LABEL_BYTES_MAX};
use super::error::{ValueError, shown};

/// A host name of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    /// This name only; an IPv6 address in its brackets.
    Exact(String),
    /// Any name that ends in `.` and this suffix (`*.example.org` stores `example.org`).
    Wildcard(String),
    /// Any name that begins with this prefix and `.` (`mail.*` stores `mail`).
    AnyDomain(String),
}

impl HostName {
    /// Returns whether this is the name of a request, which is in lower case.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            HostName::Exact(own) => own.as_bytes() == name,
            HostName::Wildcard(suffix) => {
                let labels = name.strip_suffix(suffix.as_bytes());
                labels.is_some_and(|labels| labels.len() > 1 && labels.ends_with(b"."))
            }
            HostName::AnyDomain(prefix) => {
                let domain = name.strip_prefix(prefix.as_bytes());
                domain.is_some_and(|domain| domain.len() > 1 && domain.starts_with(b"."))
            }
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostName::Exact(name) => f.write_str(name),
            HostName::Wildcard(suffix) => write!(f, "*.{suffix}"),
            HostName::AnyDomain(prefix) => write!(f, "{prefix}.*"),
        }
    }
}

/// An element of `hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostEntry {
    /// `*`: every name that no other site has.
    Any,
    /// A name or a wildcard.
    Name(HostName),
}

/// Parses a host name into lower case without the root's dot. An IPv6 address keeps its brackets
/// (`[::1]`), as in a Host field (RFC 3986 section 3.2.2).
pub(super) fn host_entry(text: &str) -> Result<HostEntry, ValueError> {
    if text == "*" {
        return Ok(HostEntry::Any);
    }
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split('/').next().unwrap_or_default();
        let host = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(h, _)| h);
        return Err(ValueError::new(format!("{} is a URL, not a host name", shown(text)))
            .hint(format!("write {}", shown(host))));
    }
    if let Some(address) = parse_bracketed(text) {
        return address.map(|name| HostEntry::Name(HostName::Exact(name)));
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && is_port(port)
        && !host.contains(':')
    {
        return Err(ValueError::new(format!("{} has a port", shown(text)))
            .hint(format!("write {}; ports belong to listen", shown(host))));
    }
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    match (name.strip_prefix("*."), name.strip_suffix(".*")) {
        (Some(suffix), _) => parse_labels(text, suffix).map(HostName::Wildcard),
        (None, Some(prefix)) => parse_labels(text, prefix).map(HostName::AnyDomain),
        (None, None) => parse_labels(text, name).map(HostName::Exact),
    }
    .map(HostEntry::Name)
}

/// Parses an IPv6 address; `None`: the text does not look like one.
fn parse_bracketed(text: &str) -> Option<Result<String, ValueError>> {
    if let Ok(bare) = text.parse::<Ipv6Addr>() {
        return Some(Err(ValueError::new(format!("{} lacks its brackets", shown(text)))
            .hint(format!("write \"[{bare}]\""))));
    }
    let inner = text.strip_prefix('[')?;
    let address = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
    Some(match address {
        Some(address) => Ok(format!("[{address}]")),
        None => Err(ValueError::new(format!("{} is not an IPv6 address in brackets", shown(text)))
            .hint("write it as \"[::1]\", without a port")),
    })
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn parse_labels(written: &str, name: &str) -> Result<String, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(written)));
    if !name.is_ascii() {
        return Err(wrong("is not ASCII").hint("write the name's xn-- form"));
    }
    if name.contains('*') {
        return Err(wrong("has a wildcard within the name")
            .hint("\"*.\" may stand in front of a name, \".*\" behind one, \"*\" alone"));
    }
    if name.len() > HOST_BYTES_MAX {
        return Err(wrong("is too long").hint(format!("at most {HOST_BYTES_MAX} characters")));
    }
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    for label in name.split('.') {
        if label.is_empty() || label.len() > HOST_LABEL_BYTES_MAX || !label.bytes().all(known) {
            return Err(wrong("is not a host name").hint(format!(
                "letters, digits, - and _, in parts of 1 to {HOST_LABEL_BYTES_MAX} between dots"
            )));
        }
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized_and_invalid_ones_refused() {
        let exact = |name: &str| Ok(HostEntry::Name(HostName::Exact(name.into())));
        let table = [
            ("a name", "example.org", exact("example.org")),
            ("upper case and the root's dot", "Example.ORG.", exact("example.org")),
            ("an IPv4 address", "127.0.0.1", exact("127.0.0.1")),
            ("an IPv6 address in its short form", "[0:0::1]", exact("[::1]")),
            ("every name", "*", Ok(HostEntry::Any)),
            (
                "names beneath",
                "*.Example.org",
                Ok(HostEntry::Name(HostName::Wildcard("example.org".into()))),
            ),
            (
                "names in any domain",
                "Mail.*",
                Ok(HostEntry::Name(HostName::AnyDomain("mail".into()))),
            ),
            ("a port", "example.org:80", Err("\"example.org:80\" has a port")),
            (
                "a URL",
                "https://example.org/",
                Err("\"https://example.org/\" is a URL, not a host name"),
            ),
            ("no brackets", "::1", Err("\"::1\" lacks its brackets")),
            (
                "brackets and a port",
                "[::1]:80",
                Err("\"[::1]:80\" is not an IPv6 address in brackets"),
            ),
            ("a star inside", "a.*.org", Err("\"a.*.org\" has a wildcard within the name")),
            ("stars at both ends", "*.a.*", Err("\"*.a.*\" has a wildcard within the name")),
            ("two dots", "a..org", Err("\"a..org\" is not a host name")),
            ("a space", "a b", Err("\"a b\" is not a host name")),
            ("nothing", "", Err("\"\" is not a host name")),
            ("only a dot", ".", Err("\".\" is not a host name")),
            ("not ASCII", "bücher.example", Err("\"bücher.example\" is not ASCII")),
        ];
        for (sentence, text, expected) in table {
            let found = host_entry(text).map_err(|wrong| wrong.what);
            assert_eq!(found, expected.map_err(str::to_owned), "{sentence}");
        }
        assert!(host_entry(&"a.".repeat(200)).is_err(), "longer than a name can be");
    }
}
