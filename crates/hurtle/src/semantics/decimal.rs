//! Numbers and addresses as fields and logs have them, without `write!`, which costs several times as
//! much.

use std::io::Write as _;
use std::net::IpAddr;

/// Appends a number.
pub fn number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends an address, without brackets.
pub fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            number(a, out);
            for octet in [b, c, d] {
                out.push(b'.');
                number(octet, out);
            }
        }
        // Writing to a Vec cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_library_writes_them() {
        for sample in [0, 7, 10, 99, 100, 65_535, u64::MAX] {
            let mut out = Vec::new();
            number(sample, &mut out);
            assert_eq!(out, sample.to_string().as_bytes());
        }
        for text in ["0.0.0.0", "127.0.0.1", "192.0.2.255", "2001:db8::1", "::ffff:192.0.2.1"] {
            let mut out = Vec::new();
            address(text.parse().expect("an address"), &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
