//! The Host field (RFC 9110 section 7.2), and the authority of a request target, which has the same
//! grammar. `h1` limits the number of Host fields; the caller selects the site.

use std::fmt;
use std::net::Ipv6Addr;

use super::fields::trim_ows;
use super::set::ByteSet;

/// A host with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// The name as written: a registered name, an IPv4 address, or an IPv6 address in brackets. It
    /// is empty if the client had no authority to send (RFC 9112 section 3.2).
    pub name: &'a [u8],
    /// The port, if digits were written; `example.org:` has none.
    pub port: Option<u16>,
}

/// A malformed host; the status is 400 (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// There is a port but no name.
    NameMissing,
    /// A byte that a name cannot hold: a space, a comma, a slash, `@`, a control character.
    Byte(u8),
    /// `%` is not followed by two hexadecimal digits.
    Escape,
    /// Brackets are unpaired or enclose something other than an IPv6 address.
    Ipv6,
    /// The port is not a number up to 65,535.
    Port,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::NameMissing => f.write_str("the host has a port but no name"),
            HostError::Byte(byte) => {
                write!(f, "the host holds the byte '{}'", byte.escape_ascii())
            }
            HostError::Escape => f.write_str("the host holds a malformed percent-escape"),
            HostError::Ipv6 => f.write_str("the host holds a malformed IPv6 address"),
            HostError::Port => f.write_str("the host's port is not a number up to 65535"),
        }
    }
}

impl std::error::Error for HostError {}

impl Host<'_> {
    /// Returns the name and the port as a client writes them.
    pub fn authority(&self) -> Vec<u8> {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        [self.name, port.as_bytes()].concat()
    }
}

/// Parses `uri-host [ ":" port ]` (RFC 3986 section 3.2.2). Stricter than the grammar in one point:
/// a comma is refused, because two joined Host fields contain one.
///
/// # Errors
/// [`HostError`] names the defect.
pub fn parse(field: &[u8]) -> Result<Host<'_>, HostError> {
    let field = trim_ows(field);
    let (name, port) = match field {
        [] => return Ok(Host { name: field, port: None }),
        [b'[', ..] => split_ipv6(field)?,
        _ => field.split_at(name_len(field)?),
    };
    let port = match port {
        [] => None,
        [b':', digits @ ..] => parse_port(digits)?,
        _ => return Err(HostError::Ipv6),
    };
    Ok(Host { name, port })
}

/// Clears `out` and writes the form in which names are compared: lower case, without one trailing
/// dot (the root label of a fully qualified name).
pub fn normalize(name: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(name.strip_suffix(b".").unwrap_or(name));
    out.make_ascii_lowercase();
}

/// As [`normalize`]; an IPv6 address, which has many spellings, gets that of RFC 5952.
pub fn normalize_address(name: &[u8], out: &mut Vec<u8>) {
    normalize(name, out);
    let inside = out.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let address = inside.and_then(|inside| str::from_utf8(inside).ok()?.parse::<Ipv6Addr>().ok());
    if let Some(address) = address {
        *out = format!("[{address}]").into_bytes();
    }
}

/// Splits a bracketed address from the rest.
fn split_ipv6(field: &[u8]) -> Result<(&[u8], &[u8]), HostError> {
    let end = field.iter().position(|&byte| byte == b']').ok_or(HostError::Ipv6)?;
    let address = str::from_utf8(&field[1..end]).map_err(|_| HostError::Ipv6)?;
    address.parse::<Ipv6Addr>().map_err(|_| HostError::Ipv6)?;
    Ok(field.split_at(end + 1))
}

/// Length of a name that ends at a port or at the end of the field.
fn name_len(field: &[u8]) -> Result<usize, HostError> {
    let mut end = NAME.span(field);
    loop {
        match &field[end..] {
            // RFC 9110 section 4.2.1: an http URI with an empty host is invalid.
            [] | [b':', ..] if end == 0 => return Err(HostError::NameMissing),
            [] | [b':', ..] => return Ok(end),
            [b'%', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                end += 3 + NAME.span(tail);
            }
            [b'%', ..] => return Err(HostError::Escape),
            [byte, ..] => return Err(HostError::Byte(*byte)),
        }
    }
}

/// `unreserved` and `sub-delims` (RFC 3986 sections 2.2 and 2.3), except the comma.
static NAME: ByteSet = ByteSet::alphanumeric_and(b"-._~!$&'()*+;=");

fn parse_port(digits: &[u8]) -> Result<Option<u16>, HostError> {
    if digits.is_empty() {
        return Ok(None);
    }
    let port = digits.iter().try_fold(0_u16, |port, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        port.checked_mul(10)?.checked_add(u16::from(digit))
    });
    port.map(Some).ok_or(HostError::Port)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts() {
        let rows: &[(&str, &str, &str, Option<u16>)] = &[
            ("a name", "example.org", "example.org", None),
            ("a name and a port", "example.org:8080", "example.org", Some(8080)),
            ("an empty port", "example.org:", "example.org", None),
            ("a port with zeros before it", "example.org:00080", "example.org", Some(80)),
            ("the largest port", "a:65535", "a", Some(65535)),
            ("capitals are kept", "Example.ORG", "Example.ORG", None),
            ("a trailing dot is kept", "example.org.", "example.org.", None),
            ("an IPv4 address", "127.0.0.1:80", "127.0.0.1", Some(80)),
            ("an IPv6 address", "[::1]", "[::1]", None),
            ("an IPv6 address and a port", "[2001:DB8::1]:443", "[2001:DB8::1]", Some(443)),
            ("IPv4 inside IPv6", "[::ffff:127.0.0.1]:", "[::ffff:127.0.0.1]", None),
            ("an underscore", "my_host", "my_host", None),
            ("sub-delims but the comma", "a!$&'()*+;=z", "a!$&'()*+;=z", None),
            ("an escape", "caf%C3%A9", "caf%C3%A9", None),
            ("whitespace around it", " example.org\t", "example.org", None),
            ("empty, of a client without an authority", "", "", None),
        ];
        for (why, field, name, port) in rows {
            let expected = Host { name: name.as_bytes(), port: *port };
            assert_eq!(parse(field.as_bytes()), Ok(expected), "{why}: {field:?}");
        }
    }

    #[test]
    fn refused() {
        let rows: &[(&str, &[u8], HostError)] = &[
            ("userinfo", b"user@example.org", HostError::Byte(b'@')),
            ("userinfo with a password", b"user:secret@example.org", HostError::Port),
            ("two joined by a comma", b"a.example,b.example", HostError::Byte(b',')),
            ("a space inside", b"a b", HostError::Byte(b' ')),
            ("a path", b"example.org/", HostError::Byte(b'/')),
            ("a path after the port", b"example.org:80/", HostError::Port),
            ("a query", b"example.org?x", HostError::Byte(b'?')),
            ("a fragment", b"example.org#x", HostError::Byte(b'#')),
            ("a backslash", b"example.org\\x", HostError::Byte(b'\\')),
            ("a NUL", b"example\0org", HostError::Byte(0)),
            ("a byte beyond ASCII", b"caf\xe9", HostError::Byte(0xe9)),
            ("a scheme", b"http://example.org", HostError::Port),
            ("an escape cut short", b"a%4", HostError::Escape),
            ("an escape that is none", b"a%zz", HostError::Escape),
            ("a port alone", b":80", HostError::NameMissing),
            ("a colon alone", b":", HostError::NameMissing),
            ("two ports", b"a:80:90", HostError::Port),
            ("a port above 65535", b"a:65536", HostError::Port),
            ("a port of many digits", b"a:99999999999999999999", HostError::Port),
            ("a port with a sign", b"a:+80", HostError::Port),
            ("a port by name", b"a:http", HostError::Port),
            ("a space before the port", b"a: 80", HostError::Port),
            ("an IPv6 address without brackets", b"::1", HostError::NameMissing),
            ("another one", b"2001:db8::1", HostError::Port),
            ("brackets around nothing", b"[]", HostError::Ipv6),
            ("brackets around IPv4", b"[127.0.0.1]", HostError::Ipv6),
            ("a bracket not closed", b"[::1", HostError::Ipv6),
            ("a bracket not opened", b"::1]", HostError::NameMissing),
            ("a bracket in a name", b"a]", HostError::Byte(b']')),
            ("something after the bracket", b"[::1]80", HostError::Ipv6),
            ("a zone, which means nothing to others", b"[fe80::1%25eth0]", HostError::Ipv6),
            ("too many groups", b"[1:2:3:4:5:6:7:8:9]", HostError::Ipv6),
            ("an address of the future", b"[v1.x]", HostError::Ipv6),
        ];
        for (why, field, expected) in rows {
            assert_eq!(parse(field), Err(*expected), "{why}: {}", field.escape_ascii());
        }
    }

    #[test]
    fn names_are_compared_in_one_form() {
        let rows = [
            ("lower case", "Example.ORG", "example.org"),
            ("without the root's dot", "example.org.", "example.org"),
            ("one dot only", "example.org..", "example.org."),
            ("an IPv6 address", "[2001:DB8::A]", "[2001:db8::a]"),
            ("empty", "", ""),
        ];
        let mut out = b"left over".to_vec();
        for (why, name, expected) in rows {
            normalize(name.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes(), "{why}: {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_and_port_come_back(name in "[a-zA-Z0-9._~-]{1,30}", port: u16) {
            let field = format!("{name}:{port}");
            let expected = Host { name: name.as_bytes(), port: Some(port) };
            prop_assert_eq!(parse(field.as_bytes()), Ok(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(field: Vec<u8>, text in "[\\[\\]:.%0-9a-f]{0,20}") {
            let _ = parse(&field);
            let _ = parse(text.as_bytes());
        }
    }
}
