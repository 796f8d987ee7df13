//! The bytes of requests, as the generator wants them.

use crate::load::{self, RequestFields, http2_request, http3_request};
use crate::sample::ConnectionUse;
use crate::tls::Protocol;

/// The fields with which a browser requests an image of a page, besides Host (Chromium 143).
pub(super) const BROWSER: [(&str, &str); 12] = [
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/143.0.0.0 Safari/537.36",
    ),
    ("Accept", "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Accept-Language", "en-GB,en-US;q=0.9,en;q=0.8,de;q=0.7"),
    ("sec-ch-ua", "\"Chromium\";v=\"143\", \"Not A(Brand\";v=\"24\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("Sec-Fetch-Dest", "image"),
    ("Sec-Fetch-Mode", "no-cors"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Referer", "https://localhost/"),
    ("priority", "u=2, i"),
];

/// A request of HTTP/1.1 on a kept connection.
pub(super) fn request(host: &str, path: &str) -> Vec<u8> {
    request_bytes(host, path, None, &[])
}

/// The bytes of a request on such a connection; without fields it has a short User-Agent.
pub(super) fn request_bytes(
    host: &str,
    path: &str,
    over: Option<ConnectionUse>,
    fields: &[(&str, &str)],
) -> Vec<u8> {
    let protocol = load::protocol(over);
    if protocol == Protocol::Http2 && fields.is_empty() {
        return http2_request(host, path);
    }
    let fields = if fields.is_empty() { &[("User-Agent", "deathmatch")] } else { fields };
    if protocol != Protocol::Http1 {
        let owned = |&(name, value): &(&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
        let fields: Vec<_> = fields.iter().map(owned).collect();
        let (method, is_secure, authority) = ("GET", true, host);
        let all = RequestFields { method, is_secure, authority, path, fields: &fields };
        return if protocol == Protocol::Http3 { http3_request(&all) } else { all.block() };
    }
    let close =
        if matches!(over, Some(ConnectionUse::Anew { .. })) { "Connection: close\r\n" } else { "" };
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}{close}\r\n").into_bytes()
}
