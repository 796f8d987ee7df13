//! Tests of QPACK's dynamic table through a connection (RFC 9204): blocked requests,
//! acknowledgments and errors of the encoder and decoder streams.

use bytes::Bytes;
use hurtle_http::h3::{Body, Code, Connection, Event, Limits, Outlet};

use crate::wire::*;

/// A request whose last field is the newest of `required` entries.
fn referring(required: u64) -> Vec<u8> {
    let block = section(&GET)[2..].to_vec();
    let encoded = required % 256 + 1;
    let prefix = [prefixed(0, 8, encoded), vec![0]].concat();
    frame(HEADERS, &[prefix, block, vec![0x80]].concat())
}

fn decoder_output(connection: &mut Connection) -> Vec<u8> {
    connection.take_output(Outlet::Decoder).map_or_else(Vec::new, Vec::from)
}

fn code(connection: &Connection) -> Option<Code> {
    connection.failure().map(|error| error.code)
}

#[test]
fn a_request_waits_for_its_entries() {
    let mut connection = begun();
    let body = frame(DATA, b"body");
    ask(&mut connection, 0, &[referring(2), body].concat(), true);
    assert_eq!(events(&mut connection), []);
    assert!(!connection.wants(0));
    assert_eq!(connection.begun(), Some((0, 0)), "its head is not complete");
    let insertions = [capacity(4_096), insertion("x-a", "1"), insertion("x-b", "2")].concat();
    for (at, byte) in insertions.iter().enumerate() {
        assert_eq!(events(&mut connection), [], "before byte {at}");
        connection.receive(ENCODER, vec![*byte].into(), false, 0);
    }
    let Some(Event::Request { id: 0, head, end_stream: false }) = connection.next_event() else {
        panic!("no request")
    };
    assert_eq!(head.get(b"x-b"), Some(&b"2"[..]));
    assert_eq!(crate::wire::body(&mut connection, 0), (b"body".to_vec(), String::new(), true));
    assert_eq!(
        decoder_output(&mut connection),
        [3, 0x80],
        "the acknowledgment tells both insertions"
    );
    ask(&mut connection, 4, &referring(2), true);
    assert_eq!(events(&mut connection).len(), 1);
    assert_eq!(decoder_output(&mut connection), [0x84], "the stream's type is sent once");
}

#[test]
fn a_request_is_decoded_before_later_instructions_evict_its_entry() {
    let mut connection = begun();
    ask(&mut connection, 0, &referring(1), true);
    ask(&mut connection, 4, &referring(2), true);
    let instructions =
        [capacity(40), insertion("x-a", "1"), insertion("x-b", "2"), capacity(0)].concat();
    connection.receive(ENCODER, instructions.into(), false, 0);
    let heads = events(&mut connection).into_iter().map(|event| match event {
        Event::Request { head, .. } => head.iter().count(),
        event => panic!("{event:?}"),
    });
    assert_eq!(heads.collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn trailers_wait_for_their_entries() {
    let mut connection = begun();
    let trailers = frame(HEADERS, &[2, 0, 0x80]);
    ask(&mut connection, 0, &[headers(&GET), frame(DATA, b"a"), trailers].concat(), true);
    assert_eq!(events(&mut connection).len(), 1);
    assert!(matches!(connection.read(0), Ok(Body::Data(_))));
    assert_eq!(connection.read(0), Ok(Body::NotYet));
    connection.receive(ENCODER, [capacity(99), insertion("x-a", "1")].concat().into(), false, 0);
    assert_eq!(events(&mut connection), [Event::Readable(0)]);
    let Ok(Body::Trailers(trailers)) = connection.read(0) else { panic!("no trailers") };
    assert_eq!(trailers.get(b"x-a"), Some(&b"1"[..]));
    assert_eq!(connection.read(0), Ok(Body::End));
}

#[test]
fn insertions_are_told_once() {
    let mut connection = begun();
    let three = insertion("x-a", "1").repeat(3);
    connection.receive(ENCODER, [capacity(4_096), three].concat().into(), false, 0);
    assert_eq!(decoder_output(&mut connection), [3, 3]);
    assert_eq!(decoder_output(&mut connection), []);
    ask(&mut connection, 0, &referring(3), true);
    assert_eq!(decoder_output(&mut connection), [0x80]);
    connection.receive(ENCODER, insertion("x-a", "1").into(), false, 0);
    assert_eq!(decoder_output(&mut connection), [1]);
}

#[test]
fn a_lost_request_is_cancelled() {
    let mut connection = begun();
    ask(&mut connection, 0, &referring(1), true);
    connection.reset(0, 0);
    assert_eq!(decoder_output(&mut connection), [3, 0x40]);
    connection.receive(ENCODER, [capacity(99), insertion("a", "b")].concat().into(), false, 0);
    assert_eq!(events(&mut connection), [Event::Reset(0, Code::REQUEST_CANCELLED)]);
    let limits = Limits { table_bytes_max: 0, ..Limits::default() };
    let mut connection = begun_with(&limits);
    ask(&mut connection, 0, &headers(&POST), false);
    connection.reset(0, 0);
    assert_eq!(decoder_output(&mut connection), [], "a table without capacity");
}

#[test]
fn blocked_requests_are_limited() {
    let mut connection = begun();
    for n in 0..16 {
        ask(&mut connection, 4 * n, &referring(1), true);
    }
    assert_eq!(code(&connection), None);
    connection.reset(0, 0);
    ask(&mut connection, 64, &referring(1), true);
    assert_eq!(code(&connection), None, "another one was cancelled");
    ask(&mut connection, 68, &referring(1), true);
    assert_eq!(code(&connection), Some(Code::QPACK_DECOMPRESSION_FAILED));
}

#[test]
fn errors_of_the_encoder_stream() {
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("4.3.1: a capacity above the limit", capacity(4_097)),
        ("4.3.1: a capacity of 62 bits", capacity((1 << 62) - 1)),
        (
            "4.1.1: a capacity beyond 62 bits",
            vec![0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
        ("3.2.2: an entry without capacity", insertion("a", "b")),
        ("3.2.2: an entry larger than the table", [capacity(34), insertion("a", "bc")].concat()),
        (
            "3.2.2: a value longer than the table, before it has arrived",
            [capacity(64), vec![0x41, b'a', 65]].concat(),
        ),
        (
            "3.2.2: a coded value that cannot fit",
            [capacity(64), vec![0x41, b'a', 0xff, 0xff, 2]].concat(),
        ),
        ("4.3.2: a name beyond the static table", [capacity(99), vec![0xff, 36, 0]].concat()),
        ("4.3.2: a name of an entry that does not exist", [capacity(99), vec![0x80, 0]].concat()),
        ("4.3.4: a duplicate of an entry that does not exist", [capacity(99), vec![0]].concat()),
        (
            "4.3.4: a duplicate of an evicted entry",
            [capacity(40), insertion("a", "b"), insertion("a", "b"), vec![1]].concat(),
        ),
        ("4.1.2: invalid Huffman code", [capacity(99), vec![0x61, 0x18, 0]].concat()),
    ];
    for (why, bytes) in rows {
        for piece in [bytes.len(), 1] {
            let mut connection = begun();
            for piece in bytes.chunks(piece) {
                connection.receive(ENCODER, Bytes::copy_from_slice(piece), false, 0);
            }
            assert_eq!(code(&connection), Some(Code::QPACK_ENCODER_STREAM_ERROR), "{why}");
        }
    }
}

#[test]
fn errors_of_the_decoder_stream() {
    let error = Some(Code::QPACK_DECODER_STREAM_ERROR);
    let rows: [(&str, &[u8], Option<Code>); 6] = [
        ("4.4.1: an acknowledgment of a section without references", &[0x80], error),
        ("4.4.2: a cancelled stream", &[0x44], None),
        ("4.4.2: a cancelled stream with a long number", &[0x7f, 0x80, 0x80, 1, 0x40], None),
        ("4.4.3: an increment of 0", &[0], error),
        ("4.4.3: an increment of insertions that were not sent", &[1], error),
        ("4.1.1: an integer beyond 62 bits", b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x7f", error),
    ];
    for (why, bytes, expected) in rows {
        for piece in [bytes.len(), 1] {
            let mut connection = begun();
            for piece in bytes.chunks(piece) {
                connection.receive(DECODER, Bytes::copy_from_slice(piece), false, 0);
            }
            assert_eq!(code(&connection), expected, "{why}");
        }
    }
}

#[test]
fn references_to_evicted_entries_are_errors() {
    let mut connection = begun();
    let insertions = [capacity(40), insertion("a", "1"), insertion("a", "2")].concat();
    connection.receive(ENCODER, insertions.into(), false, 0);
    let block = |line: u8| frame(HEADERS, &[&[3, 0][..], &section(&GET)[2..], &[line]].concat());
    ask(&mut connection, 0, &block(0x80), true);
    assert_eq!(code(&connection), None, "the newest entry");
    ask(&mut connection, 4, &block(0x81), true);
    assert_eq!(code(&connection), Some(Code::QPACK_DECOMPRESSION_FAILED));
}

#[test]
fn references_beyond_the_required_insert_count_are_errors() {
    let rows: [(&str, &[u8]); 3] = [
        ("a post-base index", &[2, 0, 0x10]),
        ("a post-base name", &[2, 0, 0, 0]),
        ("a base above the count", &[2, 1, 0x80]),
    ];
    for (why, block) in rows {
        let mut connection = begun();
        let insertions = [capacity(400), insertion("a", "1").repeat(2)].concat();
        connection.receive(ENCODER, insertions.into(), false, 0);
        ask(&mut connection, 0, &frame(HEADERS, block), true);
        assert_eq!(code(&connection), Some(Code::QPACK_DECOMPRESSION_FAILED), "{why}");
    }
}

#[test]
fn the_insert_count_wraps_around() {
    let mut connection = begun();
    connection.receive(ENCODER, capacity(4_096).into(), false, 0);
    for n in 1..=1_000_u64 {
        let insertion = insertion("x-n", &n.to_string());
        connection.receive(ENCODER, insertion.into(), false, n * 100);
        ask(&mut connection, 4 * n, &referring(n), true);
        let Some(Event::Request { head, .. }) = connection.next_event() else {
            panic!("request {n}: {:?}", connection.failure())
        };
        assert_eq!(head.get(b"x-n"), Some(n.to_string().as_bytes()));
        connection.close(4 * n);
        decoder_output(&mut connection);
    }
}
