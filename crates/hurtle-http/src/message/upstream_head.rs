//! The head of a request on its way to an upstream, for protocols that have no text.

use super::forward::{
    ForwardParams, content_fields, request_fields, upstream_authority, upstream_method,
    upstream_target,
};
use crate::request::RequestHead;

/// The head of a request for an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamHead {
    /// The method, in the spelling of the client.
    pub method: Vec<u8>,
    /// The path and the query.
    pub target: Vec<u8>,
    /// The host and the port, if the client named one.
    pub authority: Vec<u8>,
    /// The field lines, each ended by CRLF, without Host and without fields of a connection.
    pub lines: Vec<u8>,
    /// The protocol to switch to, in lower case; `None`: the request does not ask for one.
    pub protocol: Option<String>,
}

impl UpstreamHead {
    /// Creates the head of a forwarded request.
    pub fn new(request: &RequestHead<'_>, params: &ForwardParams<'_>) -> UpstreamHead {
        let mut target = Vec::new();
        upstream_target(&mut target, params);
        // The fields about the client name the host, which is read from the same buffer.
        let mut authority = Vec::new();
        upstream_authority(&mut authority, request, params);
        let host = 0..authority.len();
        request_fields(&mut authority, request, params, host.clone(), |lines| {
            content_fields(lines, request);
            // RFC 9113 section 8.2.2: TE may have no other value.
            if request.te_trailers && params.upgrade.is_none() {
                lines.extend_from_slice(b"TE: trailers\r\n");
            }
        });
        let lines = authority.split_off(host.end);
        UpstreamHead {
            method: upstream_method(request).to_vec(),
            target,
            authority,
            lines,
            protocol: params.upgrade.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;
    use crate::h1::request::parse;
    use crate::request::{HeadLimits, Joined};

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 8192, target_bytes: 999, fields: 50 };

    #[test]
    fn a_head_has_no_field_of_a_connection() {
        let rows = [
            ("a request without a body", "GET", "", None, ""),
            (
                "a body of a known length",
                "PUT",
                "Content-Length: 5\r\n",
                None,
                "Content-Length: 5\n",
            ),
            ("an announced empty body", "POST", "", None, "Content-Length: 0\n"),
            ("a chunked body", "PUT", "Transfer-Encoding: chunked\r\n", None, ""),
            (
                "a body that waits",
                "PUT",
                "Content-Length: 5\r\nExpect: 100-continue\r\n",
                None,
                "Content-Length: 5\nExpect: 100-continue\n",
            ),
            ("trailers", "GET", "TE: trailers\r\n", None, "TE: trailers\n"),
            (
                "fields of the client's connection",
                "GET",
                "Connection: X-Mine, close\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nX-A: 1\r\n",
                None,
                "X-A: 1\n",
            ),
            (
                "another protocol",
                "GET",
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
                Some("websocket"),
                "Sec-WebSocket-Version: 13\n",
            ),
        ];
        for (sentence, method, fields, upgrade, expected) in rows {
            let text = format!("{method} /a?b HTTP/1.1\r\nHost: a:81\r\n{fields}\r\n");
            let joined = Joined::default();
            let request = parse(text.as_bytes(), &joined, &LIMITS).unwrap();
            let params = ForwardParams {
                path: b"/x",
                query: Some(b"q"),
                authority: "up",
                peer: Some([192, 0, 2, 1].into()),
                client: None,
                trusted: None,
                is_tls: false,
                version: Version::HTTP_11,
                upgrade,
                websocket_key: None,
                cache_conditions: None,
                forwarded: None,
                edits: None,
            };
            let head = UpstreamHead::new(&request, &params);
            assert_eq!(head.method, method.as_bytes(), "{sentence}");
            assert_eq!(head.target, b"/x?q", "{sentence}");
            assert_eq!(head.authority, b"a:81", "{sentence}");
            assert_eq!(head.protocol.as_deref(), upgrade, "{sentence}");
            let lines = String::from_utf8(head.lines).unwrap().replace("\r\n", "\n");
            let (own, about) = lines.split_once("X-Forwarded-For: 192.0.2.1\n").unwrap();
            assert_eq!(own, expected, "{sentence}");
            assert!(about.contains("X-Forwarded-Host: a:81\n"), "{sentence}: {about}");
        }
    }
}
