//! RFC 9113 against raw frames: what is an error of the connection, what of a stream, what of none.

use crate::support::Server;
use crate::wire::*;

/// What becomes of a connection that sends something after its preface.
enum Then {
    /// It ends, with this code.
    Ends(u32),
    /// This stream is reset with this code, and the connection goes on.
    Resets(u32, u32),
    /// Stream 1 is answered with a status whose field begins so, and the connection goes on.
    Answers(u8),
    /// Nothing is said of it.
    Passes,
}

/// Statuses as HPACK's static table has them (RFC 7541 A).
const OK: u8 = 0x88;
const NO_CONTENT: u8 = 0x89;
const BAD_REQUEST: u8 = 0x8c;

fn headers(flags: u8, stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

fn whole(fields: &[(&str, &str)]) -> Vec<u8> {
    headers(END_STREAM, 1, fields)
}

#[test]
fn each_breach_has_its_end() {
    use Then::{Answers, Ends, Passes, Resets};
    let base = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a.txt")];
    let with = |more: &[(&'static str, &'static str)]| whole(&[&base[..], more].concat());
    let post = |more: &[(&'static str, &'static str)], data: &[u8]| {
        let post = [&[(":method", "POST")], &base[1..], more].concat();
        [headers(0, 1, &post), frame(DATA, END_STREAM, 1, data)].concat()
    };
    // Where RFC 9113 has FRAME_SIZE_ERROR, COMPRESSION_ERROR or FLOW_CONTROL_ERROR, or would let the
    // connection go on, the library mostly says PROTOCOL_ERROR, and ends it.
    let rows = vec![
        ("4.1: a frame of a kind nobody knows", frame(77, 0xff, 0, b"?"), Passes),
        (
            "4.2: a frame larger than was agreed",
            frame(DATA, 0, 1, &[0; 16_385]),
            Ends(FRAME_SIZE_ERROR),
        ),
        (
            "4.3: a block that cannot be decoded",
            frame(HEADERS, 5, 1, &[0x80]),
            Ends(PROTOCOL_ERROR),
        ),
        ("5.1: data before a request", frame(DATA, 0, 1, b"x"), Ends(PROTOCOL_ERROR)),
        ("5.1: a reset before a request", frame(RST_STREAM, 0, 1, &[0; 4]), Ends(PROTOCOL_ERROR)),
        ("5.1.1: an even number", get(2, "/a.txt"), Ends(PROTOCOL_ERROR)),
        (
            "5.1.1: a number before the last",
            [get(5, "/a.txt"), get(3, "/a.txt")].concat(),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.1: data of no stream", frame(DATA, 0, 0, b"x"), Ends(PROTOCOL_ERROR)),
        ("6.2: a request of no stream", get(0, "/a.txt"), Ends(PROTOCOL_ERROR)),
        ("6.2: more padding than frame", frame(HEADERS, 0xd, 1, &[9, 0x82]), Ends(PROTOCOL_ERROR)),
        ("6.3: PRIORITY is passed over", frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]), Passes),
        (
            "6.4: a reset of the wrong size",
            [get(1, "/a.txt"), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "6.5: settings with an answer's flag and more",
            frame(SETTINGS, ACK, 0, &[0; 6]),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.5: settings of a stream", frame(SETTINGS, 0, 1, &[]), Ends(PROTOCOL_ERROR)),
        ("6.5: settings of the wrong size", frame(SETTINGS, 0, 0, &[0; 5]), Ends(PROTOCOL_ERROR)),
        (
            "6.5.2: a window beyond all bounds",
            frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "6.6: clients push nothing",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.7: a ping of a stream", frame(PING, 0, 1, &[0; 8]), Ends(PROTOCOL_ERROR)),
        ("6.7: a ping of the wrong size", frame(PING, 0, 0, &[0; 7]), Ends(PROTOCOL_ERROR)),
        (
            "6.9: a window opened by nothing",
            frame(WINDOW_UPDATE, 0, 0, &[0; 4]),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "6.9.1: and beyond all bounds",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]),
            Ends(FLOW_CONTROL_ERROR),
        ),
        (
            "6.10: CONTINUATION of nothing",
            frame(CONTINUATION, END_HEADERS, 1, &[]),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "6.10: something else within a block",
            [frame(HEADERS, END_STREAM, 1, &request("GET", "/")), frame(PING, 0, 0, &[0; 8])]
                .concat(),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "8.1.1: more than was said",
            post(&[("content-length", "1")], b"xx"),
            Resets(1, PROTOCOL_ERROR),
        ),
        (
            "8.1.1: less than was said",
            post(&[("content-length", "3")], b"xx"),
            Resets(1, PROTOCOL_ERROR),
        ),
        ("8.2.1: a capital in a name", with(&[("Accept", "*/*")]), Ends(PROTOCOL_ERROR)),
        (
            "8.2.2: a connection's field",
            with(&[("connection", "close")]),
            Resets(1, PROTOCOL_ERROR),
        ),
        (
            "8.2.2: a transfer coding",
            with(&[("transfer-encoding", "chunked")]),
            Resets(1, PROTOCOL_ERROR),
        ),
        ("8.2.2: TE of another kind", with(&[("te", "gzip")]), Resets(1, PROTOCOL_ERROR)),
        ("8.2.2: TE of the one kind there is", with(&[("te", "trailers")]), Answers(OK)),
        ("8.3: an unknown pseudo-field", with(&[(":other", "x")]), Ends(PROTOCOL_ERROR)),
        (
            "8.3: a pseudo-field behind others",
            whole(&[("a", "b"), base[0], base[1], base[2], base[3]]),
            Resets(1, PROTOCOL_ERROR),
        ),
        ("8.3.1: no method", whole(&base[1..]), Resets(1, PROTOCOL_ERROR)),
        ("8.3.1: no scheme", whole(&[base[0], base[2], base[3]]), Resets(1, PROTOCOL_ERROR)),
        ("8.3.1: no path", whole(&base[..3]), Resets(1, PROTOCOL_ERROR)),
        (
            "8.3.1: an empty path",
            whole(&[base[0], base[1], base[2], (":path", "")]),
            Resets(1, PROTOCOL_ERROR),
        ),
        ("8.3.1: two paths", with(&[(":path", "/")]), Resets(1, PROTOCOL_ERROR)),
        (
            "8.3.1: a Host in the authority's place",
            whole(&[base[0], base[1], base[3], ("host", "a")]),
            Answers(OK),
        ),
        ("8.3.1: neither", whole(&[base[0], base[1], base[3]]), Answers(BAD_REQUEST)),
        ("8.3.1: a Host that says something else", with(&[("host", "b")]), Answers(BAD_REQUEST)),
        ("8.3.1: a Host that says the same", with(&[("host", "A")]), Answers(OK)),
        (
            "8.3.1: the server as a whole",
            whole(&[(":method", "OPTIONS"), base[1], base[2], (":path", "*")]),
            Answers(NO_CONTENT),
        ),
        (
            "8.3.1: a password in the authority",
            whole(&[base[0], base[1], (":authority", "u:p@a"), base[3]]),
            Answers(BAD_REQUEST),
        ),
        ("an ordinary request", with(&[]), Answers(OK)),
    ];
    let server = Server::start(&[("a.txt", "a")]);
    let mut wrong = Vec::new();
    for (why, bytes, then) in rows {
        let mut wire = Wire::begin(server.address, &[]);
        wire.send(&bytes);
        match then {
            Ends(code) => match wire.end() {
                Some(found) if found == code => {}
                found => wrong.push(format!("{why}: {found:?}, not {code}")),
            },
            Resets(stream, code) => match wire.find(RST_STREAM) {
                Ok(reset) if (reset.stream, reset.code()) == (stream, code) => wire.expect_open(),
                found => wrong.push(format!("{why}: {found:?}")),
            },
            Answers(status) => match wire.find(HEADERS) {
                Ok(answer) if answer.payload[0] == status => wire.expect_open(),
                found => wrong.push(format!("{why}: {found:?}")),
            },
            Passes => wire.expect_open(),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_preface_in_pieces_is_one() {
    let server = Server::start(&[("a.txt", "a")]);
    let begun = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &get(1, "/a.txt")].concat();
    for cut in [1, 5, 14, 16, 17, 18, 20, 24, 30] {
        let mut wire = Wire::connect(server.address);
        wire.send(&begun[..cut]);
        wire.send(&begun[cut..]);
        assert_eq!(wire.next_of(HEADERS).payload[0], OK, "cut at {cut}");
        assert_eq!(wire.next_of(DATA).payload, b"a");
    }
}

#[test]
fn what_only_looks_like_it_is_refused() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wire = Wire::connect(server.address);
    wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\n\n and other things");
    while let Some(frame) = wire.next() {
        assert_ne!(frame.kind, HEADERS, "nothing was asked");
    }
}
