//! Tests with raw frames: sizes, streams, settings, windows and messages. Each row is a connection
//! error, a stream error or no error (RFC 9113).

use hurtle_http::h2::{Event, Reason};

use crate::wire::*;

/// Expected state of a connection after it received a row's bytes.
enum Expected {
    Ends(Reason),
    /// This stream is reset, and the connection continues.
    Resets(u32, Reason),
    /// The request of stream 1 is received, and complete once its body is read.
    Asks,
    /// The server sends nothing about it.
    Passes,
}

/// Checks the rows, each on a new connection.
#[track_caller]
fn check(rows: Vec<(&str, Vec<u8>, Expected)>) {
    let mut wrong = Vec::new();
    for (why, bytes, then) in rows {
        // The input arrives in one piece and in many.
        for piece in [bytes.len().max(1), 1] {
            if let Some(found) = mismatch(&bytes, piece, &then) {
                wrong.push(format!("{why}, in pieces of {piece}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn mismatch(bytes: &[u8], piece: usize, then: &Expected) -> Option<String> {
    let mut connection = begun();
    for piece in bytes.chunks(piece) {
        connection.receive(piece, 0);
    }
    connection.receive(&frame(PING, 0, 0, b"are you?"), 0);
    let events = events(&mut connection);
    let frames = written(&mut connection);
    let last = frames.last()?;
    let end = (last.kind == GOAWAY).then(|| last.code());
    if let Expected::Ends(code) = then {
        let closed = events == [Event::Closed(*code)];
        return (end != Some(*code) || !closed).then(|| format!("{frames:?} {events:?}"));
    }
    if last.kind != PING {
        return Some(format!("{frames:?}"));
    }
    let resets: Vec<_> = frames
        .iter()
        .filter(|frame| frame.kind == RST_STREAM)
        .map(|frame| (frame.stream, frame.code()))
        .collect();
    let is_asked = events.iter().any(|event| matches!(event, Event::Request { id: 1, .. }));
    match *then {
        Expected::Resets(stream, code) => {
            (resets != [(stream, code)]).then(|| format!("{frames:?}"))
        }
        Expected::Asks if !is_asked => Some(format!("{events:?}")),
        _ => (!resets.is_empty()).then(|| format!("{frames:?}")),
    }
}

#[test]
fn frames_of_the_wrong_size_or_place() {
    use Expected::{Asks, Ends, Passes};
    const PROTOCOL: Reason = Reason::PROTOCOL_ERROR;
    const SIZE: Reason = Reason::FRAME_SIZE_ERROR;
    check(vec![
        ("4.1: a frame of an unknown kind", frame(77, 0xff, 0, b"?"), Passes),
        ("4.1: the same without payload", frame(77, 0xff, 5, b""), Passes),
        (
            "4.1: unknown flags",
            frame(HEADERS, END_HEADERS | END_STREAM | 0xd2, 1, &block(&GET)),
            Asks,
        ),
        ("4.1: the reserved bit", whole(0x8000_0001, &GET), Asks),
        (
            "4.2: the largest frame",
            [open(1, &POST), frame(DATA, END_STREAM, 1, &[0; 16_384])].concat(),
            Asks,
        ),
        (
            "4.2: larger data",
            [open(1, &POST), frame(DATA, 0, 1, &[0; 16_385])].concat(),
            Ends(SIZE),
        ),
        ("4.2: a larger head", frame(HEADERS, END_HEADERS, 1, &[0; 16_385]), Ends(SIZE)),
        ("4.2: a larger frame of an unknown kind", frame(77, 0, 0, &[0; 16_385]), Ends(SIZE)),
        ("6.1: data of no stream", frame(DATA, 0, 0, b"x"), Ends(PROTOCOL)),
        (
            "6.1: more padding than frame",
            [open(1, &POST), frame(DATA, PADDED, 1, &[3, 0, 0])].concat(),
            Ends(PROTOCOL),
        ),
        (
            "6.1: padding as long as the frame",
            [open(1, &POST), frame(DATA, PADDED, 1, &[3, 0, 0, 0])].concat(),
            Passes,
        ),
        (
            "6.1: no room for the padding's length",
            [open(1, &POST), frame(DATA, PADDED, 1, &[])].concat(),
            Ends(SIZE),
        ),
        (
            "6.1: padding",
            [open(1, &POST), frame(DATA, END_STREAM | PADDED, 1, &[2, b'x', 0, 0])].concat(),
            Asks,
        ),
        ("6.2: a request of no stream", whole(0, &GET), Ends(PROTOCOL)),
        ("6.2: more padding than frame", frame(HEADERS, 0xd, 1, &[9, 0x82]), Ends(PROTOCOL)),
        ("6.2: no room for the priority", frame(HEADERS, 0x25, 1, &[0; 4]), Ends(SIZE)),
        (
            "6.2: padding, and a priority",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM | PADDED | 0x20,
                1,
                &[&[2, 0, 0, 0, 3, 7], &block(&GET)[..], &[0, 0]].concat(),
            ),
            Asks,
        ),
        ("6.3: PRIORITY of no stream", frame(PRIORITY, 0, 0, &[0, 0, 0, 3, 7]), Ends(PROTOCOL)),
        ("6.3: PRIORITY of the wrong size", frame(PRIORITY, 0, 1, &[0; 4]), Ends(SIZE)),
        (
            "6.3: the same for a stream that is open",
            [open(1, &POST), frame(PRIORITY, 0, 1, &[0; 6])].concat(),
            Expected::Resets(1, SIZE),
        ),
        ("6.4: a reset of no stream", frame(RST_STREAM, 0, 0, &[0; 4]), Ends(PROTOCOL)),
        (
            "6.4: a reset of the wrong size",
            [whole(1, &GET), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
            Ends(SIZE),
        ),
        (
            "6.6: clients push nothing",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
            Ends(PROTOCOL),
        ),
        ("6.7: a ping of a stream", frame(PING, 0, 1, &[0; 8]), Ends(PROTOCOL)),
        ("6.7: a ping of the wrong size", frame(PING, 0, 0, &[0; 7]), Ends(SIZE)),
        ("6.7: an answer to no ping", frame(PING, ACK, 0, &[0; 8]), Passes),
        ("6.8: GOAWAY of a stream", frame(GOAWAY, 0, 1, &[0; 8]), Ends(PROTOCOL)),
        ("6.8: GOAWAY of the wrong size", frame(GOAWAY, 0, 0, &[0; 7]), Ends(SIZE)),
        (
            "6.8: a request before GOAWAY",
            [whole(1, &GET), frame(GOAWAY, 0, 0, &[0; 8])].concat(),
            Asks,
        ),
        (
            "7: a reset for an unknown reason",
            [whole(1, &GET), frame(RST_STREAM, 0, 1, &[0xff; 4])].concat(),
            Passes,
        ),
        (
            "RFC 9218 7.1: a priority of no stream",
            frame(PRIORITY_UPDATE, 0, 0, &[0; 4]),
            Ends(PROTOCOL),
        ),
        ("RFC 9218 7.1: no room for a stream", frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), Ends(SIZE)),
        ("RFC 9218 7.1: in a stream", frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1]), Ends(PROTOCOL)),
        (
            "RFC 9218 7.1: before the request",
            frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
            Passes,
        ),
    ]);
}

#[test]
fn streams_that_are_not_in_the_state_for_it() {
    use Expected::{Asks, Ends, Passes, Resets};
    const PROTOCOL: Reason = Reason::PROTOCOL_ERROR;
    const CLOSED: Reason = Reason::STREAM_CLOSED;
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let after_reset = |bytes: Vec<u8>| [open(1, &POST), reset.clone(), bytes].concat();
    let after_end = |bytes: Vec<u8>| [whole(1, &GET), bytes].concat();
    let depends_on_itself = [&[0, 0, 0, 1, 7], &block(&GET)[..]].concat();
    check(vec![
        ("5.1: data before a request", frame(DATA, 0, 1, b"x"), Ends(PROTOCOL)),
        ("5.1: a reset before a request", frame(RST_STREAM, 0, 1, &[0; 4]), Ends(PROTOCOL)),
        ("5.1: a window before a request", window(1, 1), Ends(PROTOCOL)),
        (
            "5.1: CONTINUATION before a request",
            frame(CONTINUATION, END_HEADERS, 1, &block(&GET)),
            Ends(PROTOCOL),
        ),
        (
            "5.1: PRIORITY before a request",
            [frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]), whole(1, &GET)].concat(),
            Asks,
        ),
        ("5.1: PRIORITY of a later request", frame(PRIORITY, 0, 5, &[0, 0, 0, 0, 7]), Passes),
        ("5.1: data after the end", after_end(frame(DATA, 0, 1, b"x")), Resets(1, CLOSED)),
        ("5.1: a head after the end", after_end(whole(1, &GET)), Resets(1, CLOSED)),
        (
            "5.1: CONTINUATION after the end",
            after_end(frame(CONTINUATION, END_HEADERS, 1, &[])),
            Ends(PROTOCOL),
        ),
        ("5.1: a window after the end", after_end(window(1, 1)), Asks),
        ("5.1: PRIORITY after the end", after_end(frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7])), Asks),
        ("5.1: data after a reset", after_reset(frame(DATA, 0, 1, b"x")), Resets(1, CLOSED)),
        ("5.1: a head after a reset", after_reset(whole(1, &POST)), Resets(1, CLOSED)),
        ("5.1: a window after a reset", after_reset(window(1, 1)), Passes),
        ("5.1: another reset", after_reset(reset.clone()), Passes),
        ("5.1.1: an even number", whole(2, &GET), Ends(PROTOCOL)),
        ("5.1.1: data of an even number", frame(DATA, 0, 2, b"x"), Ends(PROTOCOL)),
        (
            "5.1.1: a number before the last",
            [whole(5, &GET), whole(3, &GET)].concat(),
            Ends(PROTOCOL),
        ),
        (
            "5.1.1: data of a number that was left out",
            [whole(5, &GET), frame(DATA, 0, 3, b"x")].concat(),
            Ends(CLOSED),
        ),
        (
            "RFC 7540 5.3.1: dependent on itself",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 7]),
            Resets(1, PROTOCOL),
        ),
        (
            "RFC 7540 5.3.1: a request dependent on itself",
            frame(HEADERS, END_HEADERS | END_STREAM | 0x20, 1, &depends_on_itself),
            Resets(1, PROTOCOL),
        ),
    ]);
}

#[test]
fn settings_and_windows_beyond_their_bounds() {
    use Expected::{Asks, Ends, Passes, Resets};
    const PROTOCOL: Reason = Reason::PROTOCOL_ERROR;
    const SIZE: Reason = Reason::FRAME_SIZE_ERROR;
    const FLOW: Reason = Reason::FLOW_CONTROL_ERROR;
    let most = 0x7fff_ffff;
    let fill = |n: usize| frame(DATA, 0, 1, &[0; 16_384]).repeat(n);
    check(vec![
        ("6.5: an acknowledgement with settings", frame(SETTINGS, ACK, 0, &[0; 6]), Ends(SIZE)),
        ("6.5: an acknowledgement", frame(SETTINGS, ACK, 0, &[]), Passes),
        ("6.5: settings of a stream", frame(SETTINGS, 0, 1, &[]), Ends(PROTOCOL)),
        ("6.5: settings of the wrong size", frame(SETTINGS, 0, 0, &[0; 5]), Ends(SIZE)),
        ("6.5.2: push is neither on nor off", setting(2, 2), Ends(PROTOCOL)),
        ("6.5.2: a window beyond all bounds", setting(4, most + 1), Ends(FLOW)),
        ("6.5.2: frames too small", setting(5, 16_383), Ends(PROTOCOL)),
        ("6.5.2: frames too large", setting(5, 1 << 24), Ends(PROTOCOL)),
        ("6.5.2: the largest frames", setting(5, (1 << 24) - 1), Passes),
        ("6.5.2: an unknown setting", setting(0x77, most), Passes),
        ("6.9: a window opened by nothing", window(0, 0), Ends(PROTOCOL)),
        ("6.9: a stream's", [whole(1, &GET), window(1, 0)].concat(), Resets(1, PROTOCOL)),
        ("6.9: a window of the wrong size", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Ends(SIZE)),
        ("6.9: data within the window", [open(1, &POST), fill(3)].concat(), Asks),
        ("6.9: data beyond the window", [open(1, &POST), fill(4)].concat(), Resets(1, FLOW)),
        ("6.9.1: a window beyond all bounds", window(0, most), Ends(FLOW)),
        (
            "6.9.1: a stream's",
            [whole(1, &GET), window(1, most), window(1, most)].concat(),
            Resets(1, FLOW),
        ),
        (
            "6.9.2: by a setting",
            [setting(4, 0), open(1, &POST), window(1, most), setting(4, 1)].concat(),
            Ends(FLOW),
        ),
        ("6.9.2: as far as it goes", [whole(1, &GET), setting(4, most)].concat(), Asks),
        ("RFC 9218 2.1: neither on nor off", setting(9, 2), Ends(PROTOCOL)),
    ]);
}

#[test]
fn data_beyond_the_connections_window() {
    let mut connection = begun();
    for stream in 0..13 {
        connection.receive(&open(2 * stream + 1, &POST), 0);
        connection.read(2 * stream + 1).unwrap();
        for _ in 0..16 {
            connection.receive(&frame(DATA, 0, 2 * stream + 1, &[0; 16_384]), 0);
        }
    }
    assert_eq!(written(&mut connection).last().unwrap().code(), Reason::FLOW_CONTROL_ERROR);
}

#[test]
fn blocks_that_cannot_be_read() {
    use Expected::{Asks, Ends};
    const PROTOCOL: Reason = Reason::PROTOCOL_ERROR;
    const COMPRESSION: Reason = Reason::COMPRESSION_ERROR;
    let get = block(&GET);
    let block = |bytes: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, 1, bytes);
    let before = |bytes: &[u8]| block(&[bytes, &get].concat());
    let after = |bytes: &[u8]| block(&[&get, bytes].concat());
    let coded = |value: &[u8]| after(&[&[0, 1, b'a', 0x80 | value.len() as u8], value].concat());
    let begun = frame(HEADERS, END_STREAM, 1, &get[..20]);
    let then = |frames: &[Vec<u8>]| [&begun[..], &frames.concat()].concat();
    let rest = |flags: u8, stream: u32, range: &[u8]| frame(CONTINUATION, flags, stream, range);
    check(vec![
        ("RFC 7541 6.1: index 0", block(&[0x80]), Ends(COMPRESSION)),
        ("2.3.3: an index beyond the tables", after(&[0xc6]), Ends(COMPRESSION)),
        ("4.2: a table made smaller and larger", before(&[0x20, 0x3f, 0xe1, 0x1f]), Asks),
        ("6.3: a table larger than was agreed", before(&[0x3f, 0xe2, 0x1f]), Ends(COMPRESSION)),
        ("4.2: a table's size at the end", after(&[0x20]), Ends(COMPRESSION)),
        (
            "5.1: a number without end",
            after(&[&[0x7f][..], &[0xff; 9]].concat()),
            Ends(COMPRESSION),
        ),
        ("5.2: a string longer than the block", after(&[0, 9, b'a']), Ends(COMPRESSION)),
        ("5.2: Huffman code", coded(&[0x1f]), Asks),
        ("5.2: padded by zeros", coded(&[0x18]), Ends(COMPRESSION)),
        (
            "in a stream that nobody wants",
            [
                frame(HEADERS, END_HEADERS, 1, &get),
                frame(RST_STREAM, 0, 1, &[0; 4]),
                block(&[0x80]),
            ]
            .concat(),
            Ends(COMPRESSION),
        ),
        (
            "RFC 9113 6.10: in three pieces",
            then(&[rest(0, 1, &get[20..21]), rest(END_HEADERS, 1, &get[21..])]),
            Asks,
        ),
        ("6.10: of nothing", rest(END_HEADERS, 1, &[]), Ends(PROTOCOL)),
        (
            "6.10: after the end",
            [whole(1, &GET), rest(END_HEADERS, 1, &[])].concat(),
            Ends(PROTOCOL),
        ),
        ("6.10: of no stream", then(&[rest(END_HEADERS, 0, &get[20..])]), Ends(PROTOCOL)),
        ("6.10: of another stream", then(&[rest(END_HEADERS, 3, &get[20..])]), Ends(PROTOCOL)),
        ("6.10: a ping within", then(&[frame(PING, 0, 0, &[0; 8])]), Ends(PROTOCOL)),
        ("6.10: data within", then(&[frame(DATA, 0, 1, b"x")]), Ends(PROTOCOL)),
        ("6.10: another request within", then(&[whole(3, &GET)]), Ends(PROTOCOL)),
        ("5.5: an unknown frame within", then(&[frame(77, 0, 0, b"?")]), Ends(PROTOCOL)),
    ]);
}

#[test]
fn the_first_bytes() {
    let rows: [(&str, Vec<u8>, Option<Reason>); 4] = [
        ("another preface", PREFACE.replace_last(), Some(Reason::PROTOCOL_ERROR)),
        (
            "another frame than SETTINGS",
            [PREFACE, &frame(PING, 0, 0, &[0; 8])].concat(),
            Some(Reason::PROTOCOL_ERROR),
        ),
        (
            "an acknowledgement",
            [PREFACE, &frame(SETTINGS, ACK, 0, &[])].concat(),
            Some(Reason::PROTOCOL_ERROR),
        ),
        ("a part of the preface", PREFACE[..20].to_vec(), None),
    ];
    for (why, bytes, expected) in rows {
        let mut connection =
            hurtle_http::h2::Connection::new(&hurtle_http::h2::Limits::default(), 7);
        connection.receive(&bytes, 9);
        assert!(!connection.is_established() || expected.is_some(), "{why}");
        let end = written(&mut connection).pop().filter(|frame| frame.kind == GOAWAY);
        assert_eq!(end.map(|frame| frame.code()), expected, "{why}");
        assert_eq!(connection.begun_ms(), expected.is_none().then_some(7), "{why}");
    }
}

trait ReplaceLast {
    /// A copy whose last byte differs.
    fn replace_last(&self) -> Vec<u8>;
}

impl ReplaceLast for [u8] {
    fn replace_last(&self) -> Vec<u8> {
        [&self[..self.len() - 1], b"x"].concat()
    }
}
