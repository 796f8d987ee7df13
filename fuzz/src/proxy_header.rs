//! `proxy_header`: the header of the PROXY protocol, versions 1 and 2.

use std::net::IpAddr;

use hurtle_http::proxy_protocol::{Client, HEADER_BYTES_MAX, Header, parse};

/// A header ends within its limit. Neither splitting nor following bytes change the result. Its
/// address, encoded again, parses to the same address.
pub fn proxy_header(data: &[u8]) {
    let whole = parse(data);
    for end in 0..data.len().min(HEADER_BYTES_MAX + 1) {
        match parse(&data[..end]) {
            Ok(None) => {}
            early => assert_eq!(early, whole, "of {end} bytes, and of {}", data.len()),
        }
    }
    let Ok(Some(Header { client, len })) = whole else {
        assert!(whole != Ok(None) || data.len() < HEADER_BYTES_MAX, "it waits for ever");
        return;
    };
    assert!(len <= data.len() && len <= HEADER_BYTES_MAX, "{len} bytes of {}", data.len());
    assert_eq!(parse(&data[..len]), whole, "without what follows");
    let Client::Address(address) = client else { return };
    let family = if address.is_ipv4() { "TCP4" } else { "TCP6" };
    let line = format!("PROXY {family} {address} {address} 0 65535\r\n");
    let again = Header { client: Client::Address(address), len: line.len() };
    assert_eq!(parse(line.as_bytes()), Ok(Some(again)));
    assert_eq!(parse(&binary(address)).map(|header| header.map(|h| h.client)), Ok(Some(client)));
}

fn binary(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (0x11, address.octets().to_vec()),
        IpAddr::V6(address) => (0x21, address.octets().to_vec()),
    };
    let len = 2 * octets.len() as u8 + 4;
    let fixed = [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family, 0, len][..]].concat();
    [&fixed[..], &octets, &octets, &[0; 4]].concat()
}
