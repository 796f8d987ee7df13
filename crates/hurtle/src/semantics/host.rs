//! The Host field (RFC 9110 7.2), and the authority of a target, which has its grammar. Which site
//! a name belongs to is `site`'s to say; how many Host fields a request may have, `h1`'s.

use std::fmt;
use std::net::Ipv6Addr;

use super::fields::trim_ows;
use super::set::Set;

/// A host and the port written with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// As written: a registered name or IPv4 address, or an IPv6 address in its brackets. Empty
    /// where the client had no authority to send (RFC 9112 3.2).
    pub name: &'a [u8],
    /// The port, if digits were written; `example.org:` has none.
    pub port: Option<u16>,
}

/// What is wrong with a Host: all of it 400 (RFC 9112 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHost {
    /// A port without a name.
    NameMissing,
    /// A byte no name may hold: a space, a comma, a slash, `@`, a control byte, ...
    Byte(u8),
    /// `%` without two hexadecimal digits after it.
    Escape,
    /// Brackets around something else than an IPv6 address, or unpaired.
    Ipv6,
    /// A port that is no number up to 65,535.
    Port,
}

impl fmt::Display for BadHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHost::NameMissing => f.write_str("the host has a port but no name"),
            BadHost::Byte(byte) => {
                write!(f, "the host holds the byte '{}'", byte.escape_ascii())
            }
            BadHost::Escape => f.write_str("the host holds a malformed percent-escape"),
            BadHost::Ipv6 => f.write_str("the host holds a malformed IPv6 address"),
            BadHost::Port => f.write_str("the host's port is not a number up to 65535"),
        }
    }
}

impl std::error::Error for BadHost {}

/// Reads `uri-host [ ":" port ]` (RFC 3986 3.2.2), stricter in one thing: a comma, which the
/// grammar allows in a name, is refused, since it is how two Host fields look once joined.
pub fn parse(field: &[u8]) -> Result<Host<'_>, BadHost> {
    let field = trim_ows(field);
    let (name, port) = match field {
        [] => return Ok(Host { name: field, port: None }),
        [b'[', ..] => split_ipv6(field)?,
        _ => field.split_at(name_len(field)?),
    };
    let port = match port {
        [] => None,
        [b':', digits @ ..] => parse_port(digits)?,
        _ => return Err(BadHost::Ipv6),
    };
    Ok(Host { name, port })
}

/// Writes the form in which names are compared to `out`, which is cleared: lower case, without one
/// trailing dot (the root label of a fully qualified name).
pub fn normalize(name: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(name.strip_suffix(b".").unwrap_or(name));
    out.make_ascii_lowercase();
}

/// A bracketed address and what follows it.
fn split_ipv6(field: &[u8]) -> Result<(&[u8], &[u8]), BadHost> {
    let end = field.iter().position(|&byte| byte == b']').ok_or(BadHost::Ipv6)?;
    let address = str::from_utf8(&field[1..end]).map_err(|_| BadHost::Ipv6)?;
    address.parse::<Ipv6Addr>().map_err(|_| BadHost::Ipv6)?;
    Ok(field.split_at(end + 1))
}

/// How long a name is that ends at a port or with the field.
fn name_len(field: &[u8]) -> Result<usize, BadHost> {
    let mut end = NAME.span(field);
    loop {
        match &field[end..] {
            // RFC 9110 4.2.1: an http URI with an authority but no host is invalid.
            [] | [b':', ..] if end == 0 => return Err(BadHost::NameMissing),
            [] | [b':', ..] => return Ok(end),
            [b'%', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                end += 3 + NAME.span(tail);
            }
            [b'%', ..] => return Err(BadHost::Escape),
            [byte, ..] => return Err(BadHost::Byte(*byte)),
        }
    }
}

/// `unreserved` and `sub-delims` (RFC 3986 2.2, 2.3) but the comma.
static NAME: Set = Set::alphanumeric_and(b"-._~!$&'()*+;=");

fn parse_port(digits: &[u8]) -> Result<Option<u16>, BadHost> {
    if digits.is_empty() {
        return Ok(None);
    }
    let port = digits.iter().try_fold(0_u16, |port, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        port.checked_mul(10)?.checked_add(u16::from(digit))
    });
    port.map(Some).ok_or(BadHost::Port)
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
        let rows: &[(&str, &[u8], BadHost)] = &[
            ("userinfo", b"user@example.org", BadHost::Byte(b'@')),
            ("userinfo with a password", b"user:secret@example.org", BadHost::Port),
            ("two joined by a comma", b"a.example,b.example", BadHost::Byte(b',')),
            ("a space inside", b"a b", BadHost::Byte(b' ')),
            ("a path", b"example.org/", BadHost::Byte(b'/')),
            ("a path after the port", b"example.org:80/", BadHost::Port),
            ("a query", b"example.org?x", BadHost::Byte(b'?')),
            ("a fragment", b"example.org#x", BadHost::Byte(b'#')),
            ("a backslash", b"example.org\\x", BadHost::Byte(b'\\')),
            ("a NUL", b"example\0org", BadHost::Byte(0)),
            ("a byte beyond ASCII", b"caf\xe9", BadHost::Byte(0xe9)),
            ("a scheme", b"http://example.org", BadHost::Port),
            ("an escape cut short", b"a%4", BadHost::Escape),
            ("an escape that is none", b"a%zz", BadHost::Escape),
            ("a port alone", b":80", BadHost::NameMissing),
            ("a colon alone", b":", BadHost::NameMissing),
            ("two ports", b"a:80:90", BadHost::Port),
            ("a port above 65535", b"a:65536", BadHost::Port),
            ("a port of many digits", b"a:99999999999999999999", BadHost::Port),
            ("a port with a sign", b"a:+80", BadHost::Port),
            ("a port by name", b"a:http", BadHost::Port),
            ("a space before the port", b"a: 80", BadHost::Port),
            ("an IPv6 address without brackets", b"::1", BadHost::NameMissing),
            ("another one", b"2001:db8::1", BadHost::Port),
            ("brackets around nothing", b"[]", BadHost::Ipv6),
            ("brackets around IPv4", b"[127.0.0.1]", BadHost::Ipv6),
            ("a bracket not closed", b"[::1", BadHost::Ipv6),
            ("a bracket not opened", b"::1]", BadHost::NameMissing),
            ("a bracket in a name", b"a]", BadHost::Byte(b']')),
            ("something after the bracket", b"[::1]80", BadHost::Ipv6),
            ("a zone, which means nothing to others", b"[fe80::1%25eth0]", BadHost::Ipv6),
            ("too many groups", b"[1:2:3:4:5:6:7:8:9]", BadHost::Ipv6),
            ("an address of the future", b"[v1.x]", BadHost::Ipv6),
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
