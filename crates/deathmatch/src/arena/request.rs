//! The bytes of requests, as the generator wants them.

use crate::load::{self, RequestFields, http2_request, http3_request};
use crate::sample::ConnectionUse;
use crate::tls::Protocol;

/// A request of HTTP/1.1 on a kept connection.
pub(super) fn request(host: &str, path: &str) -> Vec<u8> {
    request_bytes(host, path, None)
}

/// The bytes of a request on such a connection.
pub(super) fn request_bytes(host: &str, path: &str, over: Option<ConnectionUse>) -> Vec<u8> {
    match load::protocol(over) {
        Protocol::Http1 => {}
        Protocol::Http2 => return http2_request(host, path),
        Protocol::Http3 => {
            let agent = [("user-agent".to_owned(), "deathmatch".to_owned())];
            let fields = RequestFields {
                method: "GET",
                is_secure: true,
                authority: host,
                path,
                fields: &agent,
            };
            return http3_request(&fields);
        }
    }
    let close =
        if matches!(over, Some(ConnectionUse::Anew { .. })) { "Connection: close\r\n" } else { "" };
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: deathmatch\r\n");
    format!("{head}{close}\r\n").into_bytes()
}
