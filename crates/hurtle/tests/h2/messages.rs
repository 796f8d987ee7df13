//! Tests of malformed requests and bodies (RFC 9113 section 8) and of malformed field blocks (RFC
//! 7541).

use crate::support::Server;
use crate::table::*;
use crate::wire::*;

/// A GET without END_STREAM.
fn length_of(length: &'static str) -> Vec<(&'static str, &'static str)> {
    [&GET[..], &[("content-length", length)]].concat()
}

fn with(more: &[(&'static str, &'static str)]) -> Vec<u8> {
    whole(&[&GET[..], more].concat())
}

#[test]
fn invalid_requests_are_refused() {
    use Expected::{Answers, Resets};
    let malformed = || Resets(1, PROTOCOL_ERROR);
    check(vec![
        ("an ordinary request", with(&[]), Answers(OK)),
        ("8.2.1: a capital in a name", with(&[("Accept", "*/*")]), malformed()),
        ("8.2.1: a space in a name", with(&[("a b", "c")]), malformed()),
        ("8.2.1: a line's end in a value", with(&[("a", "b\r\nc: d")]), malformed()),
        ("8.2.1: a zero in a value", with(&[("a", "b\0")]), malformed()),
        ("8.2.2: a connection's field", with(&[("connection", "close")]), malformed()),
        ("8.2.2: another", with(&[("keep-alive", "timeout=5")]), malformed()),
        ("8.2.2: another", with(&[("proxy-connection", "close")]), malformed()),
        ("8.2.2: another", with(&[("upgrade", "websocket")]), malformed()),
        ("8.2.2: a transfer coding", with(&[("transfer-encoding", "chunked")]), malformed()),
        ("8.2.2: TE of another kind", with(&[("te", "gzip")]), malformed()),
        ("8.2.2: TE of two kinds", with(&[("te", "trailers, gzip")]), malformed()),
        ("8.2.2: TE of the one kind there is", with(&[("te", "trailers")]), Answers(OK)),
        ("8.3: an unknown pseudo-field", with(&[(":other", "x")]), malformed()),
        ("8.3: an answer's pseudo-field", with(&[(":status", "200")]), malformed()),
        (
            "8.3: a pseudo-field behind others",
            whole(&[("a", "b"), GET[0], GET[1], GET[2], GET[3]]),
            malformed(),
        ),
        ("8.3.1: nothing", frame(HEADERS, END_HEADERS | END_STREAM, 1, b""), malformed()),
        ("8.3.1: no method", whole(&GET[1..]), malformed()),
        ("8.3.1: no scheme", whole(&[GET[0], GET[2], GET[3]]), malformed()),
        ("8.3.1: no path", whole(&GET[..3]), malformed()),
        ("8.3.1: an empty path", whole(&[GET[0], GET[1], GET[2], (":path", "")]), malformed()),
        (
            "8.3.1: a path that is none",
            whole(&[GET[0], GET[1], GET[2], (":path", "a.txt")]),
            malformed(),
        ),
        (
            "9110 4.2.1: an empty authority",
            whole(&[GET[0], GET[1], (":authority", ""), GET[3]]),
            Answers(BAD_REQUEST),
        ),
        ("8.3.1: two methods", with(&[(":method", "GET")]), malformed()),
        ("8.3.1: two schemes", with(&[(":scheme", "http")]), malformed()),
        ("8.3.1: two authorities", with(&[(":authority", "a")]), malformed()),
        ("8.3.1: two paths", with(&[(":path", "/")]), malformed()),
        (
            "8.3.1: a Host in the authority's place",
            whole(&[GET[0], GET[1], GET[3], ("host", "a")]),
            Answers(OK),
        ),
        ("8.3.1: neither", whole(&[GET[0], GET[1], GET[3]]), Answers(BAD_REQUEST)),
        ("8.3.1: a Host that says something else", with(&[("host", "b")]), Answers(BAD_REQUEST)),
        ("8.3.1: a Host that says the same", with(&[("host", "A")]), Answers(OK)),
        (
            "RFC 9112 3.2: two Hosts that say the same",
            with(&[("host", "a"), ("host", "a")]),
            Answers(BAD_REQUEST),
        ),
        (
            "8.3.1: the server as a whole",
            whole(&[(":method", "OPTIONS"), GET[1], GET[2], (":path", "*")]),
            Answers(NO_CONTENT),
        ),
        (
            "8.3.1: a password in the authority",
            whole(&[GET[0], GET[1], (":authority", "u:p@a"), GET[3]]),
            Answers(BAD_REQUEST),
        ),
        (
            "8.5: a tunnel to somewhere",
            whole(&[(":method", "CONNECT"), (":authority", "a:1")]),
            Answers(ANOTHER),
        ),
        (
            "8.5: a tunnel to a path",
            whole(&[(":method", "CONNECT"), GET[1], (":authority", "a:1"), GET[3]]),
            malformed(),
        ),
    ]);
}

#[test]
fn bodies_that_contradict_their_length() {
    use Expected::{Answers, Resets};
    let malformed = || Resets(1, PROTOCOL_ERROR);
    let post = |length: &'static [(&str, &str)], pieces: &[&[u8]]| {
        let mut bytes = open(&[&POST[..], length].concat());
        for (n, piece) in pieces.iter().enumerate() {
            let flags = if n + 1 == pieces.len() { END_STREAM } else { 0 };
            bytes.extend(frame(DATA, flags, 1, piece));
        }
        bytes
    };
    let trailers = |flags: u8, fields: &[(&str, &str)]| {
        let trailers = frame(HEADERS, END_HEADERS | flags, 1, &block(fields));
        [open(&POST), frame(DATA, 0, 1, b"x"), trailers].concat()
    };
    check(vec![
        ("a body", post(&[], &[b"x", b"yz"]), Answers(ANOTHER)),
        (
            "of the length it said",
            post(&[("content-length", "3")], &[b"x", b"yz"]),
            Answers(ANOTHER),
        ),
        ("8.1.1: more than was said", post(&[("content-length", "1")], &[b"xx"]), malformed()),
        ("8.1.1: less than was said", post(&[("content-length", "3")], &[b"xx"]), malformed()),
        (
            "8.1.1: in several pieces",
            post(&[("content-length", "3")], &[b"x", b"xxx"]),
            malformed(),
        ),
        ("8.1.1: nothing, where something was said", with(&[("content-length", "3")]), malformed()),
        (
            "8.1.1: two lengths",
            post(&[("content-length", "1"), ("content-length", "2")], &[b"x"]),
            malformed(),
        ),
        ("a length of 63 bits", open(&length_of("9223372036854775807")), Answers(ANOTHER)),
        ("a length of 64 bits", open(&length_of("9223372036854775808")), Answers(ANOTHER)),
        ("a length of 20 digits", open(&length_of("18446744073709551615")), Answers(ANOTHER)),
        ("8.1.1: more than 64 bits hold", open(&length_of("18446744073709551616")), malformed()),
        ("8.1.1: no length", post(&[("content-length", "x")], &[b"x"]), malformed()),
        ("8.1.1: a length with its sign", post(&[("content-length", "+1")], &[b"x"]), malformed()),
        ("8.1: trailers", trailers(END_STREAM, &[("x-sum", "1")]), Answers(ANOTHER)),
        ("8.1: trailers that are not the end", trailers(0, &[("x-sum", "1")]), malformed()),
        // Trailers are dropped.
        ("8.1: a pseudo-field in trailers", trailers(END_STREAM, &[(":path", "/")]), malformed()),
        ("8.2.1: a capital in trailers", trailers(END_STREAM, &[("X", "1")]), malformed()),
    ]);
}

#[test]
fn blocks_that_cannot_be_read() {
    use Expected::{Answers, Ends};
    let get = block(&GET);
    let block = |bytes: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, 1, bytes);
    let before = |bytes: &[u8]| block(&[bytes, &get].concat());
    let after = |bytes: &[u8]| block(&[&get, bytes].concat());
    // A field without indexing, whose value is Huffman-coded.
    let coded = |value: &[u8]| after(&[&[0, 1, b'a', 0x80 | value.len() as u8], value].concat());
    let begun = frame(HEADERS, END_STREAM, 1, &get[..20]);
    let then = |frames: &[Vec<u8>]| [&begun[..], &frames.concat()].concat();
    let rest = |flags: u8, stream: u32, range: &[u8]| frame(CONTINUATION, flags, stream, range);
    check(vec![
        ("RFC 7541 6.1: index 0", block(&[0x80]), Ends(COMPRESSION_ERROR)),
        ("2.3.3: an index beyond the tables", after(&[0xc6]), Ends(COMPRESSION_ERROR)),
        ("4.2: a table made smaller, and larger", before(&[0x20, 0x3f, 0xe1, 0x1f]), Answers(OK)),
        (
            "6.3: a table larger than was agreed",
            before(&[0x3f, 0xe2, 0x1f]),
            Ends(COMPRESSION_ERROR),
        ),
        ("4.2: a table's size at the end", after(&[0x20]), Ends(COMPRESSION_ERROR)),
        (
            "5.1: a number without end",
            after(&[&[0x7f][..], &[0xff; 9]].concat()),
            Ends(COMPRESSION_ERROR),
        ),
        ("5.2: a string longer than the block", after(&[0, 9, b'a']), Ends(COMPRESSION_ERROR)),
        ("5.2: Huffman's code", coded(&[0x1f]), Answers(OK)),
        ("5.2: padded by zeros", coded(&[0x18]), Ends(COMPRESSION_ERROR)),
        ("5.2: padded by a byte", coded(&[0x1f, 0xff]), Ends(COMPRESSION_ERROR)),
        ("5.2: with its end in it", coded(&[0xff; 4]), Ends(COMPRESSION_ERROR)),
        (
            "RFC 9113 6.10: in three pieces",
            then(&[rest(0, 1, &get[20..21]), rest(END_HEADERS, 1, &get[21..])]),
            Answers(OK),
        ),
        ("6.10: of nothing", rest(END_HEADERS, 1, &[]), Ends(PROTOCOL_ERROR)),
        (
            "6.10: after the end",
            [whole(&GET), rest(END_HEADERS, 1, &[])].concat(),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "6.10: after data",
            [open(&POST), frame(DATA, 0, 1, b"x"), rest(END_HEADERS, 1, &[])].concat(),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.10: of no stream", then(&[rest(END_HEADERS, 0, &get[20..])]), Ends(PROTOCOL_ERROR)),
        (
            "6.10: of another stream",
            then(&[rest(END_HEADERS, 3, &get[20..])]),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.10: a ping within", then(&[frame(PING, 0, 0, &[0; 8])]), Ends(PROTOCOL_ERROR)),
        (
            "6.10: PRIORITY within",
            then(&[frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7])]),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.10: data within", then(&[frame(DATA, 0, 1, b"x")]), Ends(PROTOCOL_ERROR)),
        (
            "6.10: another request within",
            then(&[frame(HEADERS, END_HEADERS | END_STREAM, 3, &get)]),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "5.5: an unknown frame within a block",
            then(&[frame(77, 0, 0, b"?")]),
            Ends(PROTOCOL_ERROR),
        ),
    ]);
}

#[test]
fn repeated_fields_are_sent_as_indices() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wire = Wire::begin(server.address, &[]);
    // RFC 7541 6.2.1: the path with incremental indexing. It is then the first dynamic entry.
    let path = [&[0x44, 6][..], b"/a.txt"].concat();
    for (stream, path) in [(1, &path[..]), (3, &[0xbe])] {
        let head = [&block(&GET[..3])[..], path].concat();
        wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
        assert_eq!(wire.next_of(DATA).stream, stream);
    }
}
