//! Tests with the bytes of streams. Each row is a connection error, a stream error or no error (RFC
//! 9114, RFC 9204, RFC 9218, RFC 9220).

use bytes::Bytes;
use hurtle_http::h3::{Code, Connection, Event, Limits};

use crate::wire::*;

/// Expected state of a connection after it received a row's bytes.
#[derive(Clone, Copy)]
enum Expected {
    /// The connection ends.
    Ends(Code),
    /// Stream 0 is reset, and the connection continues.
    Resets(Code),
    /// The driver is to stop this unidirectional stream, and the connection continues.
    Stops(u64),
    /// The request of stream 0 is received, and complete once its body is read.
    Asks,
    /// Nothing happens.
    Passes,
}

/// A step of the client.
#[derive(Clone)]
enum Step {
    Bytes(u64, Vec<u8>),
    /// Bytes and the end of the stream.
    Last(u64, Vec<u8>),
    /// RESET_STREAM.
    Reset(u64),
    /// STOP_SENDING.
    Stop(u64),
}

use Expected::{Asks, Ends, Passes, Resets, Stops};
use Step::{Bytes as Some_, Last, Reset, Stop};

/// Checks the rows, each on a new connection.
#[track_caller]
fn check(rows: Vec<(&str, Vec<Step>, Expected)>) {
    check_with(&Limits::default(), rows);
}

#[track_caller]
fn check_with(limits: &Limits, rows: Vec<(&str, Vec<Step>, Expected)>) {
    let mut wrong = Vec::new();
    for (why, steps, then) in rows {
        // The input arrives in one piece and in many.
        for piece in [usize::MAX, 1] {
            if let Some(found) = mismatch(begun_with(limits), &steps, piece, then) {
                wrong.push(format!("{why}, in pieces of {piece}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn take(connection: &mut Connection, step: &Step, piece: usize) {
    let (id, bytes, is_last) = match step {
        Some_(id, bytes) => (*id, bytes, false),
        Last(id, bytes) => (*id, bytes, true),
        Reset(id) => return connection.reset(*id, 0),
        Stop(id) => return connection.stopped(*id, 0),
    };
    if id % 4 == 0 || id >= OTHER {
        connection.open(id, 0);
    }
    let mut rest = Bytes::copy_from_slice(bytes);
    loop {
        let some = rest.split_to(rest.len().min(piece));
        let is_end = is_last && rest.is_empty();
        connection.receive(id, some, is_end, 0);
        if rest.is_empty() {
            return;
        }
    }
}

fn mismatch(
    mut connection: Connection,
    steps: &[Step],
    piece: usize,
    then: Expected,
) -> Option<String> {
    for step in steps {
        take(&mut connection, step, piece);
    }
    let events = events(&mut connection);
    let found = Some(format!("{events:?}"));
    if let Ends(code) = then {
        let is_closed = matches!(&events[..], [Event::Closed(error)] if error.code == code);
        return if is_closed && connection.open_streams() == 0 { None } else { found };
    }
    let is_asked = events.iter().any(|event| matches!(event, Event::Request { id: 0, .. }));
    let fits = match then {
        Resets(code) => events == [Event::Reset(0, code)] && !connection.is_open(0),
        Stops(id) => events == [Event::Stop(id, Code::STREAM_CREATION_ERROR)],
        Asks => is_asked && body(&mut connection, 0).2,
        _ => !events.iter().any(|event| matches!(event, Event::Reset(..) | Event::Closed(_))),
    };
    if fits { None } else { found }
}

/// A request on stream 0 without its end.
fn get() -> Vec<u8> {
    headers(&GET)
}

fn post() -> Vec<u8> {
    headers(&POST)
}

#[test]
fn unidirectional_streams() {
    check(vec![
        (
            "6.2.1: a second control stream",
            vec![Some_(OTHER, vec![0])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        (
            "6.2.2: a push stream of a client",
            vec![Some_(OTHER, vec![1])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        (
            "QPACK 4.2: a second encoder stream",
            vec![Some_(OTHER, vec![2])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        (
            "QPACK 4.2: a second decoder stream",
            vec![Some_(OTHER, vec![3])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        ("6.2: an unknown type", vec![Some_(OTHER, b"\x21whatever".to_vec())], Stops(OTHER)),
        ("6.2: an unknown type that ends", vec![Last(OTHER, integer(GREASE))], Stops(OTHER)),
        (
            "6.2: a type in a long encoding",
            vec![Some_(OTHER, vec![0x80, 0, 0, 3])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        ("6.2: an end before the type", vec![Last(OTHER, vec![])], Passes),
        ("6.2: a reset before the type", vec![Some_(OTHER, vec![0x40]), Reset(OTHER)], Passes),
        (
            "6.2.1: the end of the control stream",
            vec![Last(CONTROL, vec![])],
            Ends(Code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "QPACK 4.2: the end of the encoder stream",
            vec![Last(ENCODER, vec![])],
            Ends(Code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "QPACK 4.2: the end of the decoder stream",
            vec![Last(DECODER, vec![])],
            Ends(Code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "6.2.1: a reset of the control stream",
            vec![Reset(CONTROL)],
            Ends(Code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "QPACK 4.2: a reset of the encoder stream",
            vec![Reset(ENCODER)],
            Ends(Code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "6.2.1: STOP_SENDING on the server's control stream",
            vec![Stop(3)],
            Ends(Code::CLOSED_CRITICAL_STREAM),
        ),
    ]);
}

#[test]
fn control_frames() {
    let control = |bytes: Vec<u8>| vec![Some_(CONTROL, bytes)];
    let update = |id, value: &[u8]| frame(PRIORITY_UPDATE, &[&integer(id)[..], value].concat());
    check(vec![
        ("7.2.1: DATA", control(frame(DATA, b"x")), Ends(Code::FRAME_UNEXPECTED)),
        ("7.2.2: HEADERS", control(get()), Ends(Code::FRAME_UNEXPECTED)),
        ("7.2.4: a second SETTINGS", control(frame(SETTINGS, &[])), Ends(Code::FRAME_UNEXPECTED)),
        (
            "7.2.5: PUSH_PROMISE",
            control(frame(PUSH_PROMISE, &[0, 0, 0])),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "7.2.8: a frame of HTTP/2: PRIORITY",
            control(frame(2, &[])),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        ("7.2.8: a frame of HTTP/2: PING", control(frame(6, &[])), Ends(Code::FRAME_UNEXPECTED)),
        (
            "7.2.8: a frame of HTTP/2: WINDOW_UPDATE",
            control(frame(8, &[])),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        (
            "7.2.8: a frame of HTTP/2: CONTINUATION",
            control(frame(9, &[])),
            Ends(Code::FRAME_UNEXPECTED),
        ),
        ("7.2.8: a reserved frame", control(frame(GREASE, &[7; 10_000])), Passes),
        ("7.2.8: a reserved frame without payload", control(frame(GREASE, &[])), Passes),
        (
            "7.2.3: CANCEL_PUSH of a push that was not promised",
            control(frame(CANCEL_PUSH, &[0])),
            Ends(Code::ID_ERROR),
        ),
        (
            "7.1: CANCEL_PUSH without an ID",
            control(frame(CANCEL_PUSH, &[])),
            Ends(Code::FRAME_ERROR),
        ),
        (
            "7.2.7: MAX_PUSH_ID",
            control([frame(MAX_PUSH_ID, &[1]), frame(MAX_PUSH_ID, &[1])].concat()),
            Passes,
        ),
        (
            "7.2.7: MAX_PUSH_ID decreases",
            control([frame(MAX_PUSH_ID, &[2]), frame(MAX_PUSH_ID, &[1])].concat()),
            Ends(Code::ID_ERROR),
        ),
        (
            "7.1: MAX_PUSH_ID with more than an ID",
            control(frame(MAX_PUSH_ID, &[1, 1])),
            Ends(Code::FRAME_ERROR),
        ),
        (
            "7.1: MAX_PUSH_ID with a cut ID",
            control(frame(MAX_PUSH_ID, &[0x40])),
            Ends(Code::FRAME_ERROR),
        ),
        (
            "7.1: MAX_PUSH_ID longer than an ID can be",
            control(frame(MAX_PUSH_ID, &[0; 9])),
            Ends(Code::FRAME_ERROR),
        ),
        (
            "5.2: GOAWAY",
            control([frame(GOAWAY, &[9]), frame(GOAWAY, &[9]), frame(GOAWAY, &[3])].concat()),
            Passes,
        ),
        (
            "5.2: the ID of GOAWAY increases",
            control([frame(GOAWAY, &[3]), frame(GOAWAY, &[9])].concat()),
            Ends(Code::ID_ERROR),
        ),
        ("7.1: GOAWAY without an ID", control(frame(GOAWAY, &[])), Ends(Code::FRAME_ERROR)),
        ("RFC 9218 7.2: a request that may come", control(update(4 * 127, b"u=1")), Passes),
        (
            "RFC 9218 7.2: a request beyond the limit",
            control(update(4 * 128, b"u=1")),
            Ends(Code::ID_ERROR),
        ),
        ("RFC 9218 7.2: not a request", control(update(2, b"u=1")), Ends(Code::ID_ERROR)),
        ("RFC 9218 7.2: no ID", control(frame(PRIORITY_UPDATE, &[])), Ends(Code::FRAME_ERROR)),
        (
            "RFC 9218 7.2: a push that was not promised",
            control(frame(PRIORITY_UPDATE_PUSH, b"\0u=1")),
            Ends(Code::ID_ERROR),
        ),
        (
            "limit: a long PRIORITY_UPDATE",
            control(update(0, &[b' '; 5_000])),
            Ends(Code::EXCESSIVE_LOAD),
        ),
    ]);
}

#[test]
fn settings() {
    let limits = Limits::default();
    let setting = |id, value| [integer(id), integer(value)].concat();
    let rows: Vec<(&str, Vec<u8>, Option<Code>)> = vec![
        (
            "all known settings",
            [setting(1, 4_096), setting(6, 9), setting(7, 0), setting(8, 1), setting(0x33, 1)]
                .concat(),
            None,
        ),
        ("7.2.4.1: an unknown setting", setting(GREASE, 7), None),
        ("7.2.4.1: a setting of HTTP/2: 0", setting(0, 1), Some(Code::SETTINGS_ERROR)),
        ("7.2.4.1: a setting of HTTP/2: ENABLE_PUSH", setting(2, 0), Some(Code::SETTINGS_ERROR)),
        (
            "7.2.4.1: a setting of HTTP/2: MAX_CONCURRENT_STREAMS",
            setting(3, 9),
            Some(Code::SETTINGS_ERROR),
        ),
        (
            "7.2.4.1: a setting of HTTP/2: INITIAL_WINDOW_SIZE",
            setting(4, 9),
            Some(Code::SETTINGS_ERROR),
        ),
        ("7.2.4.1: a setting of HTTP/2: MAX_FRAME_SIZE", setting(5, 9), Some(Code::SETTINGS_ERROR)),
        (
            "7.2.4: a setting twice",
            [setting(6, 1), setting(7, 1), setting(6, 1)].concat(),
            Some(Code::SETTINGS_ERROR),
        ),
        ("RFC 9220 3: a flag of 2", setting(8, 2), Some(Code::SETTINGS_ERROR)),
        ("RFC 9297 2.1.1: a flag of 2", setting(0x33, 2), Some(Code::SETTINGS_ERROR)),
        ("7.1: a setting without value", integer(6), Some(Code::FRAME_ERROR)),
        ("7.1: a cut value", vec![6, 0x40], Some(Code::FRAME_ERROR)),
        ("limit: more than 4 KiB", [0; 5_000].to_vec(), Some(Code::EXCESSIVE_LOAD)),
    ];
    for (why, payload, expected) in rows {
        let mut connection = Connection::new(&limits, 0);
        connection.open(CONTROL, 0);
        connection.receive(CONTROL, vec![0].into(), false, 0);
        connection.receive(CONTROL, frame(SETTINGS, &payload).into(), false, 0);
        assert_eq!(connection.failure().map(|error| error.code), expected, "{why}");
        assert_eq!(connection.is_established(), expected.is_none(), "{why}");
    }
    for first in
        [frame(GREASE, &[]), frame(GOAWAY, &[0]), frame(DATA, &[]), frame(MAX_PUSH_ID, &[0])]
    {
        let mut connection = Connection::new(&limits, 0);
        connection.open(CONTROL, 0);
        connection.receive(CONTROL, [&[0], &first[..]].concat().into(), false, 0);
        let code = connection.failure().map(|error| error.code);
        assert_eq!(code, Some(Code::MISSING_SETTINGS), "6.2.1: {first:?} before SETTINGS");
    }
}

#[test]
fn frames_of_requests() {
    let asks = |parts: &[&[u8]]| vec![Last(0, parts.concat())];
    let sends = |parts: &[&[u8]]| vec![Some_(0, parts.concat())];
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
            vec![Some_(0, get()[..5].to_vec()), Reset(0)],
            Resets(Code::REQUEST_CANCELLED),
        ),
        (
            "4.1.1: STOP_SENDING for the response",
            vec![Some_(0, vec![1]), Stop(0)],
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
        ("4.3: a pseudo-field twice", with(&[]).into_iter().chain([]).collect(), Asks),
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
