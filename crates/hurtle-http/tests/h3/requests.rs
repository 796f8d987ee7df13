//! Tests of request streams: frames, malformed requests and field sections (RFC 9114 section 4, RFC
//! 9204, RFC 9220).

use hurtle_http::h3::{Code, Limits};

use crate::rows::Expected::{Asks, Ends, Resets};
use crate::rows::Step::{Last, Reset, Send, Stop};
use crate::rows::{check, check_with};
use crate::wire::*;

/// A request on stream 0 without its end.
fn get() -> Vec<u8> {
    headers(&GET)
}

fn post() -> Vec<u8> {
    headers(&POST)
}

#[test]
fn frames_of_requests() {
    let asks = |parts: &[&[u8]]| vec![Last(0, parts.concat())];
    let sends = |parts: &[&[u8]]| vec![Send(0, parts.concat())];
    let trailers = headers(&[("x-sum", "1")]);
    let tunnel = headers(&[(":method", "CONNECT"), (":authority", "a:1")]);
    check(vec![
        ("4.1: a request", asks(&[&get()]), Asks),
        (
            "4.1: a body and trailers",
            asks(&[&post(), &frame(DATA, b"abc"), &frame(DATA, b""), &trailers]),
            Asks,
        ),
        ("4.1: trailers and no body", asks(&[&get(), &trailers]), Asks),
        (
            "9: unknown frames everywhere",
            asks(&[
                &frame(GREASE, b"?"),
                &get(),
                &frame(GREASE, b"??"),
                &frame(DATA, b"a"),
                &trailers,
                &frame(GREASE, b""),
            ]),
            Asks,
        ),
        ("4.1: DATA before HEADERS", sends(&[&frame(DATA, b"a")]), Ends(Code::FRAME_UNEXPECTED)),
        (
            "4.1: DATA after trailers",
            sends(&[&get(), &trailers, &frame(DATA, b"a")]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "4.1: HEADERS after trailers",
            sends(&[&get(), &trailers, &trailers]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "7.2.3: CANCEL_PUSH",
            sends(&[&get(), &frame(CANCEL_PUSH, &[0])]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "7.2.3: CANCEL_PUSH before HEADERS",
            sends(&[&frame(CANCEL_PUSH, &[0])]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        ("7.2.4: SETTINGS", sends(&[&frame(SETTINGS, &[])]), Ends(Code::FRAME_UNEXPECTED)),
        (
            "7.2.5: PUSH_PROMISE",
            sends(&[&get(), &frame(PUSH_PROMISE, &[0, 0, 0])]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        ("7.2.6: GOAWAY", sends(&[&frame(GOAWAY, &[0])]), Ends(Code::FRAME_UNEXPECTED)),
        (
            "7.2.7: MAX_PUSH_ID",
            sends(&[&get(), &frame(MAX_PUSH_ID, &[0])]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "7.2.8: a frame of HTTP/2",
            sends(&[&get(), &frame(6, &[])]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "RFC 9218 7.2: PRIORITY_UPDATE",
            sends(&[&get(), &frame(PRIORITY_UPDATE, &[0])]),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        ("7.1: the end within a frame's type", asks(&[&get(), &[0x40]]), Ends(Code::FRAME_ERROR)),
        ("7.1: the end within a frame's length", asks(&[&get(), &[0]]), Ends(Code::FRAME_ERROR)),
        ("7.1: the end within DATA", asks(&[&get(), &[0, 2, b'a']]), Ends(Code::FRAME_ERROR)),
        ("7.1: the end within HEADERS", asks(&[&get()[..9]]), Ends(Code::FRAME_ERROR)),
        (
            "7.1: the end within an unknown frame",
            asks(&[&get(), &[0x21, 2, 0]]),
            Ends(Code::FRAME_ERROR),
        ),
        ("4.1: the end without HEADERS", asks(&[]), Resets(Code::REQUEST_INCOMPLETE)),
        (
            "4.1: the end after an unknown frame",
            asks(&[&frame(GREASE, b"?")]),
            Resets(Code::REQUEST_INCOMPLETE),
        ),
        (
            "4.1: a reset after some bytes",
            vec![Send(0, get()[..5].to_vec()), Reset(0)],
            Resets(Code::REQUEST_CANCELLED),
        ),
        (
            "4.1.1: STOP_SENDING for the response",
            vec![Send(0, vec![1]), Stop(0)],
            Resets(Code::REQUEST_CANCELLED),
        ),
        ("4.4: a tunnel", asks(&[&tunnel, &frame(DATA, b"a")]), Asks),
        ("4.4: trailers in a tunnel", sends(&[&tunnel, &trailers]), Ends(Code::FRAME_UNEXPECTED)),
        ("4.4: an unknown frame in a tunnel", asks(&[&tunnel, &frame(GREASE, b"a")]), Asks),
    ]);
}

#[test]
fn malformed_requests() {
    let of = |fields: &[(&str, &str)]| vec![Last(0, headers(fields))];
    let with = |more: &[(&str, &str)]| of(&[&GET[..], more].concat());
    let sized = |len: &str, parts: &[&[u8]]| {
        let head = headers(&[&POST[..], &[("content-length", len)]].concat());
        vec![Last(0, [&[&head[..]][..], parts].concat().concat())]
    };
    let bad = Resets(Code::MESSAGE_ERROR);
    check(vec![
        ("4.3.1: the pseudo-fields of a request", with(&[]), Asks),
        ("4.3: :method twice", of(&[&GET[..1], &GET].concat()), bad),
        ("4.3: a pseudo-field after a field", of(&[&[("x", "y")], &GET[..]].concat()), bad),
        ("4.3: an unknown pseudo-field", of(&[&[(":x", "y")], &GET[..]].concat()), bad),
        ("4.3: a pseudo-field of responses", of(&[&[(":status", "200")], &GET[..]].concat()), bad),
        ("4.3.1: no :method", of(&GET[1..]), bad),
        ("4.3.1: no :scheme", of(&[GET[0], GET[2], GET[3]]), bad),
        ("4.3.1: no :path", of(&GET[..3]), bad),
        ("4.3.1: an empty :path", of(&[&GET[..3], &[(":path", "")]].concat()), bad),
        ("4.3.1: a :path without slash", of(&[&GET[..3], &[(":path", "a")]].concat()), bad),
        ("4.2: a name with a capital", with(&[("X-a", "b")]), bad),
        ("4.2: an empty name", with(&[("", "b")]), bad),
        ("4.2: a line's end in a value", with(&[("a", "b\r\nc: d")]), bad),
        ("4.2: connection", with(&[("connection", "close")]), bad),
        ("4.2: transfer-encoding", with(&[("transfer-encoding", "chunked")]), bad),
        ("4.2: upgrade", with(&[("upgrade", "websocket")]), bad),
        ("4.2: keep-alive", with(&[("keep-alive", "1")]), bad),
        ("4.2: te: trailers", with(&[("te", "trailers")]), Asks),
        ("4.2: te: gzip", with(&[("te", "gzip")]), bad),
        (
            "4.1.2: the length of the body",
            sized("3", &[&frame(DATA, b"a"), &frame(DATA, b"bc")]),
            Asks,
        ),
        ("4.1.2: a longer body", sized("3", &[&frame(DATA, b"abcd")]), bad),
        ("4.1.2: a shorter body", sized("3", &[&frame(DATA, b"ab")]), bad),
        ("4.1.2: no body", sized("3", &[]), bad),
        ("4.1.2: a shorter body and trailers", sized("3", &[&headers(&[("x", "y")])]), bad),
        ("4.1.2: a length that is no number", sized("3x", &[]), bad),
        ("4.3: a pseudo-field in trailers", sized("0", &[&headers(&[(":path", "/")])]), bad),
        ("4.4: CONNECT with a path", of(&[&[(":method", "CONNECT")], &GET[1..]].concat()), bad),
        ("4.4: CONNECT without authority", of(&[(":method", "CONNECT")]), bad),
        (
            "RFC 9220: :protocol without the setting",
            of(&[&[(":method", "CONNECT"), (":protocol", "websocket")], &GET[1..]].concat()),
            bad,
        ),
    ]);
}

#[test]
fn extended_connect() {
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    let of = |fields: &[(&str, &str)]| vec![Last(0, headers(fields))];
    let protocol = (":protocol", "websocket");
    let connect = (":method", "CONNECT");
    let bad = Resets(Code::MESSAGE_ERROR);
    check_with(
        &limits,
        vec![
            ("RFC 8441 4: a WebSocket", of(&[connect, protocol, GET[1], GET[2], GET[3]]), Asks),
            ("RFC 8441 4: no :path", of(&[connect, protocol, GET[1], GET[2]]), bad),
            ("RFC 8441 4: no :scheme", of(&[connect, protocol, GET[2], GET[3]]), bad),
            ("RFC 8441 4: no :authority", of(&[connect, protocol, GET[1], GET[3]]), bad),
            ("RFC 8441 4: another method", of(&[GET[0], protocol, GET[1], GET[2], GET[3]]), bad),
            (
                "RFC 8441 4: an empty protocol",
                of(&[connect, (":protocol", ""), GET[1], GET[2], GET[3]]),
                bad,
            ),
            ("RFC 9114 4.4: a plain tunnel", of(&[connect, GET[2]]), Asks),
        ],
    );
}

#[test]
fn sections_that_cannot_be_decoded() {
    let of = |block: &[u8]| vec![Last(0, frame(HEADERS, block))];
    let failed = Ends(Code::QPACK_DECOMPRESSION_FAILED);
    check(vec![
        ("4.5.1: no prefix", of(&[]), failed),
        ("4.5.1: half a prefix", of(&[0]), failed),
        ("3.1: an index beyond the static table", of(&[0, 0, 0xff, 36]), failed),
        ("3.1: a name beyond the static table", of(&[0, 0, 0x5f, 84, 0]), failed),
        ("3.2.4: an index of the dynamic table, which is empty", of(&[0, 0, 0x80]), failed),
        ("3.2.6: a post-base index", of(&[0, 0, 0x10]), failed),
        ("3.2.6: a post-base name", of(&[0, 0, 0, 0]), failed),
        ("4.5.1.1: more insertions than the table has entries", of(&[0xff, 2, 0]), failed),
        ("4.5.1.2: a negative Base", of(&[0, 0x80]), failed),
        ("4.1.2: a string longer than the section", of(&[0, 0, 0x21, b'a', 9]), failed),
        ("4.1.2: invalid Huffman code", of(&[0, 0, 0x21, b'a', 0x81, 0x18]), failed),
        (
            "4.1.1: an integer beyond 62 bits",
            of(b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
            failed,
        ),
    ]);
}
