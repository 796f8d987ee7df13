//! The opening handshake of a WebSocket over HTTP/1.1 (RFC 6455 section 4.2) for an upstream over
//! HTTP/2: an extended CONNECT has no key (RFC 8441 section 5), so this server answers the
//! client's.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hurtle_http::request::{Method, RequestHead};

/// Name of the field with the client's key.
pub(super) const WEBSOCKET_KEY: &[u8] = b"sec-websocket-key";

/// Size of a decoded key, in bytes.
const KEY_BYTES: usize = 16;

/// Appended to a key before it is hashed (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Checks a request to switch to `protocol`. A request over HTTP/2 or HTTP/3 has neither a method
/// of its own nor a key.
///
/// # Errors
/// The text for the client.
pub(super) fn check(request: &RequestHead<'_>, protocol: &str) -> Result<(), &'static str> {
    if request.protocol.is_some() {
        return Ok(());
    }
    if request.method != Method::Get {
        return Err("only a GET can switch to another protocol");
    }
    if !is_websocket(protocol) {
        return Ok(());
    }
    let key = key(request).and_then(|key| STANDARD.decode(key).ok());
    match key.is_some_and(|key| key.len() == KEY_BYTES) {
        true => Ok(()),
        false => Err("Sec-WebSocket-Key must be 16 bytes in base64, once"),
    }
}

/// Returns the value of Sec-WebSocket-Accept for the key of a request (RFC 6455 section 4.2.2).
/// `None`: the protocol has none.
pub(super) fn accept(request: &RequestHead<'_>, protocol: &str) -> Option<String> {
    let key = key(request).filter(|_| is_websocket(protocol))?;
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    Some(STANDARD.encode(hash.finish()))
}

fn is_websocket(protocol: &str) -> bool {
    protocol.eq_ignore_ascii_case("websocket")
}

/// Returns the key; `None`: there is none, or more than one.
fn key<'a>(request: &RequestHead<'a>) -> Option<&'a [u8]> {
    let mut keys =
        request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(WEBSOCKET_KEY));
    let (_, key) = keys.next()?;
    keys.next().is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use hurtle_http::h1::request as requests;
    use hurtle_http::request::{HeadLimits, Joined};

    use super::*;

    #[test]
    fn keys_are_checked_and_answered() {
        let limits = HeadLimits { head_bytes: 8192, target_bytes: 999, fields: 50 };
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let twice = key.repeat(2);
        let expected = Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for (sentence, method, protocol, fields, is_valid) in [
            ("the example of RFC 6455 section 1.3", "GET", "websocket", key, true),
            ("another protocol has no key", "GET", "connect-udp", "", true),
            ("a method that has a meaning", "POST", "connect-udp", "", false),
            ("no key", "GET", "websocket", "", false),
            ("two keys", "GET", "websocket", &twice, false),
            ("a short key", "GET", "websocket", "Sec-WebSocket-Key: AAAA\r\n", false),
            ("no base64", "GET", "websocket", "Sec-WebSocket-Key: ?\r\n", false),
        ] {
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let joined = Joined::default();
            let parsed = requests::parse(head.as_bytes(), &joined, &limits).unwrap();
            assert_eq!(check(&parsed, protocol).is_ok(), is_valid, "{sentence}");
            if is_valid {
                let accept = accept(&parsed, protocol);
                assert_eq!(
                    accept.as_deref(),
                    expected.filter(|_| !fields.is_empty()),
                    "{sentence}"
                );
            }
        }
    }
}
