//! FastCGI behind HTTP/2: the application sees the version and no frames.

use crate::frames::*;
use crate::peer::{ReceivedRequest, STDOUT, end, read, read_input, receive, record};
use crate::support::{Proxy, Upstream};

#[test]
fn bodies_are_streamed_both_ways() {
    let upstream = Upstream::new();
    let server = Proxy::of("", &format!("fastcgi = \"{}\"\nbuffer = \"off\"", upstream.address));
    let mut wire = Wire::begin(server.address, &[]);
    let head = [request("POST", "/a?b"), field("content-length", "6"), field("x-two", "2")];
    wire.send(&frame(HEADERS, END_HEADERS, 1, &head.concat()));
    wire.send(&frame(DATA, 0, 1, b"one"));
    let ReceivedRequest { client: mut app, variables, .. } = receive(&upstream);
    for (name, value) in [
        ("SERVER_PROTOCOL", Some("HTTP/2.0")),
        ("REQUEST_URI", Some("/a?b")),
        ("CONTENT_LENGTH", Some("6")),
        ("HTTP_HOST", Some("a")),
        ("HTTP_X_TWO", Some("2")),
        ("HTTP_TRANSFER_ENCODING", None),
    ] {
        assert_eq!(variables.get(name).map(String::as_str), value, "{name}");
    }
    assert_eq!(read(&mut app), (5, b"one".to_vec()), "before the rest is there");
    app.send(record(STDOUT, "Status: 404\nContent-Type: a/b\n\nfirst"));
    // RFC 7541 A: 404.
    assert_eq!(wire.next_of(HEADERS).payload[0], 0x8d);
    assert_eq!(wire.next_of(DATA).payload, b"first", "before the request's end");
    wire.send(&frame(DATA, END_STREAM, 1, b"two"));
    assert_eq!(read_input(&mut app), b"two");
    app.send([record(STDOUT, "second"), end()].concat());
    assert_eq!(wire.next_of(DATA).payload, b"second");
}

/// HTTP/2 has `:authority` in place of Host. Lines that this server writes anew had neither.
#[test]
fn the_host_is_a_field_of_the_request_in_every_version() {
    for top in ["", "[tracing]\nrequest_id = true"] {
        let upstream = Upstream::new();
        let server = Proxy::of(
            top,
            &format!(
                "fastcgi = \"{}\"\nmatch = {{ header = {{ Host = 'a' }} }}\n\
                 request_fields = {{ set = {{ X-Original = '{{request.host}}' }} }}",
                upstream.address
            ),
        );
        for http2 in [false, true] {
            let mut one = (!http2).then(|| server.connect());
            let mut two = http2.then(|| Wire::begin(server.address, &[]));
            if let Some(client) = &mut one {
                client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            if let Some(wire) = &mut two {
                wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/x")));
            }
            let received = receive(&upstream);
            let has = |name: &str| received.variables.get(name).map(String::as_str);
            assert_eq!(has("HTTP_HOST"), Some("a"), "HTTP/2 {http2}, {top}");
            assert_eq!(has("HTTP_X_ORIGINAL"), Some("a"), "HTTP/2 {http2}, {top}");
            received.answer("Content-Type: a/b\n\nx");
        }
    }
}
