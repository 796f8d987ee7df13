//! Version 1 of the header: a line of text (section 2.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Client, Header, ProxyHeaderError};

/// First bytes of the line.
pub(super) const PREFIX: &[u8] = b"PROXY ";

/// Maximum length of the line in bytes, including its end (section 2.1).
const LINE_BYTES_MAX: usize = 107;

const END: &[u8] = b"\r\n";

/// Parses a header whose prefix has been checked; `None` means that more bytes are needed.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, ProxyHeaderError> {
    let seen = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match seen.windows(END.len()).position(|window| window == END) {
        Some(end) => Ok(Some(Header { client: client(&seen[..end])?, len: end + END.len() })),
        None if seen.len() == LINE_BYTES_MAX => Err(ProxyHeaderError::TooLarge),
        None => Ok(None),
    }
}

fn client(line: &[u8]) -> Result<Client, ProxyHeaderError> {
    let line = line.strip_prefix(PREFIX).ok_or(ProxyHeaderError::Line)?;
    // Section 2.1: the rest of an UNKNOWN line is ignored.
    if line == b"UNKNOWN" || line.starts_with(b"UNKNOWN ") {
        return Ok(Client::Peer);
    }
    let words: Vec<&str> =
        std::str::from_utf8(line).map_err(|_| ProxyHeaderError::Line)?.split(' ').collect();
    let [family, source, destination, from, to] = words[..] else {
        return Err(ProxyHeaderError::Line);
    };
    let address = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => None,
    };
    match (address(source), address(destination)) {
        (Some(source), Some(_)) if is_port(from) && is_port(to) => {
            Ok(Client::Address(source.to_canonical()))
        }
        _ => Err(ProxyHeaderError::Line),
    }
}

/// Parses a decimal number without sign or leading zeros.
fn is_port(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0')) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_or_refused() {
        let address = |text: &str| Ok(Client::Address(text.parse().unwrap()));
        let table = [
            ("IPv4", "TCP4 192.0.2.1 192.0.2.2 56324 443", address("192.0.2.1")),
            ("IPv6", "TCP6 2001:db8::1 ::1 0 65535", address("2001:db8::1")),
            ("upper case is hexadecimal too", "TCP6 2001:DB8::A ::1 1 1", address("2001:db8::a")),
            ("IPv4 in IPv6 is IPv4", "TCP6 ::ffff:192.0.2.1 ::1 1 1", address("192.0.2.1")),
            ("an unknown client", "UNKNOWN", Ok(Client::Peer)),
            ("UNKNOWN with ignored text", "UNKNOWN ffff::1 \u{e9} \r\n x", Ok(Client::Peer)),
            ("a word that only begins so", "UNKNOWNS", Err(ProxyHeaderError::Line)),
            ("another protocol", "UDP4 192.0.2.1 192.0.2.2 1 1", Err(ProxyHeaderError::Line)),
            ("lower case", "tcp4 192.0.2.1 192.0.2.2 1 1", Err(ProxyHeaderError::Line)),
            ("the other family", "TCP4 ::1 ::1 1 1", Err(ProxyHeaderError::Line)),
            ("the other family, half", "TCP6 ::1 192.0.2.1 1 1", Err(ProxyHeaderError::Line)),
            ("a leading zero", "TCP4 192.0.02.1 192.0.2.2 1 1", Err(ProxyHeaderError::Line)),
            ("three numbers", "TCP4 192.0.2 192.0.2.2 1 1", Err(ProxyHeaderError::Line)),
            ("brackets", "TCP6 [::1] [::1] 1 1", Err(ProxyHeaderError::Line)),
            ("a zone", "TCP6 fe80::1%eth0 ::1 1 1", Err(ProxyHeaderError::Line)),
            ("a port too large", "TCP4 192.0.2.1 192.0.2.2 65536 1", Err(ProxyHeaderError::Line)),
            ("a port with a sign", "TCP4 192.0.2.1 192.0.2.2 +1 1", Err(ProxyHeaderError::Line)),
            (
                "a port with a zero in front",
                "TCP4 192.0.2.1 192.0.2.2 1 080",
                Err(ProxyHeaderError::Line),
            ),
            ("no port", "TCP4 192.0.2.1 192.0.2.2 1 ", Err(ProxyHeaderError::Line)),
            ("a word too few", "TCP4 192.0.2.1 192.0.2.2 1", Err(ProxyHeaderError::Line)),
            ("a word too many", "TCP4 192.0.2.1 192.0.2.2 1 1 1", Err(ProxyHeaderError::Line)),
            ("two spaces", "TCP4  192.0.2.1 192.0.2.2 1 1", Err(ProxyHeaderError::Line)),
            ("a space at the end", "TCP4 192.0.2.1 192.0.2.2 1 1 ", Err(ProxyHeaderError::Line)),
            ("a line feed alone", "TCP4 192.0.2.1 192.0.2.2 1 1\nX", Err(ProxyHeaderError::Line)),
            ("nothing", "", Err(ProxyHeaderError::Line)),
        ];
        for (sentence, line, expected) in table {
            let found = parse(format!("PROXY {line}\r\nGET").as_bytes());
            assert_eq!(found.map(|header| header.unwrap().client), expected, "{sentence}");
        }
    }

    #[test]
    fn a_line_is_searched_only_up_to_its_maximum_length() {
        let ends_at = |len: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(len - 16));
        let longest = ends_at(LINE_BYTES_MAX);
        let len = LINE_BYTES_MAX;
        assert_eq!(parse(longest.as_bytes()), Ok(Some(Header { client: Client::Peer, len })));
        assert_eq!(parse(&longest.as_bytes()[..len - 1]), Ok(None));
        assert_eq!(parse(ends_at(len + 1).as_bytes()), Err(ProxyHeaderError::TooLarge));
    }
}
