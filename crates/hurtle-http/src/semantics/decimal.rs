//! Appends numbers and addresses as decimal text. `write!` takes several times as long.

use std::io::Write as _;
use std::net::IpAddr;

/// Appends a number in decimal digits.
pub fn number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends an address, without brackets.
pub fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            let (mut text, mut len) = ([b'.'; 4 * 4], 0);
            for octet in address.octets() {
                for (least, place) in [(100, 100), (10, 10), (0, 1)] {
                    if octet >= least {
                        text[len] = b'0' + octet / place % 10;
                        len += 1;
                    }
                }
                // The buffer already holds the dot.
                len += 1;
            }
            out.extend_from_slice(&text[..len - 1]);
        }
        // Writing to a Vec cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_equals_that_of_the_standard_library() {
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
