//! Tests with raw frames: sizes, streams, settings and windows. Each row is a connection error, a
//! stream error or no error (RFC 9113).

use crate::support::Server;
use crate::table::{ANOTHER, Expected, GET, OK, POST, check, open, whole};
use crate::wire::*;

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

fn window(stream: u32, opened: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &opened.to_be_bytes())
}

#[test]
fn frames_of_the_wrong_size_or_place() {
    use Expected::{Answers, Ends, Passes};
    check(vec![
        ("4.1: a frame of an unknown type", frame(77, 0xff, 0, b"?"), Passes),
        (
            "4.1: flags nobody knows",
            frame(HEADERS, END_HEADERS | END_STREAM | 0xd2, 1, &block(&GET)),
            Answers(OK),
        ),
        ("4.1: the reserved bit", get(0x8000_0001, "/a.txt"), Answers(OK)),
        (
            "4.2: the largest frame",
            [open(&POST), frame(DATA, END_STREAM, 1, &[0; 16_384])].concat(),
            Answers(ANOTHER),
        ),
        (
            "4.2: data larger than was agreed",
            frame(DATA, 0, 1, &[0; 16_385]),
            Ends(FRAME_SIZE_ERROR),
        ),
        (
            "4.2: a head larger than was agreed",
            frame(HEADERS, END_HEADERS, 1, &[0; 16_385]),
            Ends(FRAME_SIZE_ERROR),
        ),
        ("6.1: data of no stream", frame(DATA, 0, 0, b"x"), Ends(PROTOCOL_ERROR)),
        (
            "6.1: more padding than frame",
            [open(&POST), frame(DATA, PADDED, 1, &[3, 0, 0])].concat(),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "6.1: padding",
            [open(&POST), frame(DATA, END_STREAM | PADDED, 1, &[2, b'x', 0, 0])].concat(),
            Answers(ANOTHER),
        ),
        ("6.2: a request of no stream", get(0, "/a.txt"), Ends(PROTOCOL_ERROR)),
        ("6.2: more padding than frame", frame(HEADERS, 0xd, 1, &[9, 0x82]), Ends(PROTOCOL_ERROR)),
        (
            "6.2: padding, and a priority of old",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM | PADDED | 0x20,
                1,
                &[&[2, 0, 0, 0, 3, 7], &block(&GET)[..], &[0, 0]].concat(),
            ),
            Answers(OK),
        ),
        (
            "6.3: PRIORITY of no stream",
            frame(PRIORITY, 0, 0, &[0, 0, 0, 3, 7]),
            Ends(PROTOCOL_ERROR),
        ),
        ("RFC 9218 7.1: a priority of no stream", frame(16, 0, 0, &[0; 4]), Ends(PROTOCOL_ERROR)),
        ("RFC 9218 7.1: one without a stream", frame(16, 0, 0, b"?"), Ends(FRAME_SIZE_ERROR)),
        ("6.3: PRIORITY of the wrong size", frame(PRIORITY, 0, 1, &[0; 4]), Ends(FRAME_SIZE_ERROR)),
        ("6.4: a reset of no stream", frame(RST_STREAM, 0, 0, &[0; 4]), Ends(PROTOCOL_ERROR)),
        (
            "6.4: a reset of the wrong size",
            [get(1, "/a.txt"), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
            Ends(FRAME_SIZE_ERROR),
        ),
        (
            "6.6: clients push nothing",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
            Ends(PROTOCOL_ERROR),
        ),
        ("6.7: a ping of a stream", frame(PING, 0, 1, &[0; 8]), Ends(PROTOCOL_ERROR)),
        ("6.7: a ping of the wrong size", frame(PING, 0, 0, &[0; 7]), Ends(FRAME_SIZE_ERROR)),
        ("6.7: an answer to no ping", frame(PING, ACK, 0, &[0; 8]), Passes),
        ("6.8: GOAWAY of a stream", frame(GOAWAY, 0, 1, &[0; 8]), Ends(PROTOCOL_ERROR)),
        (
            "6.8: who goes gets what was asked",
            [get(1, "/a.txt"), frame(GOAWAY, 0, 0, &[0; 8])].concat(),
            Answers(OK),
        ),
        (
            "7: a reset for a reason nobody knows",
            [get(1, "/a.txt"), frame(RST_STREAM, 0, 1, &[0xff; 4])].concat(),
            Passes,
        ),
    ]);
}

#[test]
fn streams_that_are_not_in_the_state_for_it() {
    use Expected::{Answers, Ends, Passes, Resets};
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let after_reset = |bytes: Vec<u8>| [open(&POST), reset.clone(), bytes].concat();
    let after_end = |bytes: Vec<u8>| [whole(&GET), bytes].concat();
    check(vec![
        ("5.1: data before a request", frame(DATA, 0, 1, b"x"), Ends(PROTOCOL_ERROR)),
        ("5.1: a reset before a request", frame(RST_STREAM, 0, 1, &[0; 4]), Ends(PROTOCOL_ERROR)),
        ("5.1: a window before a request", window(1, 1), Ends(PROTOCOL_ERROR)),
        (
            "5.1: CONTINUATION before a request",
            frame(CONTINUATION, END_HEADERS, 1, &block(&GET)),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "5.1: PRIORITY before a request",
            [frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]), whole(&GET)].concat(),
            Answers(OK),
        ),
        (
            "5.1: PRIORITY of a later one",
            [frame(PRIORITY, 0, 5, &[0, 0, 0, 0, 7]), whole(&GET)].concat(),
            Answers(OK),
        ),
        ("5.1: data after the end", after_end(frame(DATA, 0, 1, b"x")), Resets(1, STREAM_CLOSED)),
        ("5.1: a head after the end", after_end(whole(&GET)), Resets(1, STREAM_CLOSED)),
        (
            "5.1: CONTINUATION after the end",
            after_end(frame(CONTINUATION, END_HEADERS, 1, &[])),
            Ends(PROTOCOL_ERROR),
        ),
        ("5.1: a window after the end", after_end(window(1, 1)), Answers(OK)),
        ("5.1: PRIORITY after it", after_end(frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7])), Answers(OK)),
        ("5.1: data after a reset", after_reset(frame(DATA, 0, 1, b"x")), Resets(1, STREAM_CLOSED)),
        ("5.1: a head after a reset", after_reset(whole(&POST)), Resets(1, STREAM_CLOSED)),
        ("5.1: a window after a reset", after_reset(window(1, 1)), Passes),
        ("5.1: another reset", after_reset(reset.clone()), Passes),
        ("5.1.1: an even number", get(2, "/a.txt"), Ends(PROTOCOL_ERROR)),
        (
            "5.1.1: a number before the last",
            [get(5, "/a.txt"), get(3, "/a.txt")].concat(),
            Ends(PROTOCOL_ERROR),
        ),
        (
            "5.3.1 of old: dependent on itself",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 7]),
            Resets(1, PROTOCOL_ERROR),
        ),
        (
            "5.3.1 of old: a request dependent on itself",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM | 0x20,
                1,
                &[&[0, 0, 0, 1, 7], &block(&GET)[..]].concat(),
            ),
            Resets(1, PROTOCOL_ERROR),
        ),
    ]);
}

#[test]
fn settings_and_windows_beyond_their_bounds() {
    use Expected::{Answers, Ends, Passes, Resets};
    let set = |id, value| frame(SETTINGS, 0, 0, &setting(id, value));
    let most = 0x7fff_ffff;
    check(vec![
        (
            "6.5: settings with an answer's flag and more",
            frame(SETTINGS, ACK, 0, &[0; 6]),
            Ends(FRAME_SIZE_ERROR),
        ),
        ("6.5: settings of a stream", frame(SETTINGS, 0, 1, &[]), Ends(PROTOCOL_ERROR)),
        ("6.5: settings of the wrong size", frame(SETTINGS, 0, 0, &[0; 5]), Ends(FRAME_SIZE_ERROR)),
        ("6.5.2: push, perhaps", set(2, 2), Ends(PROTOCOL_ERROR)),
        ("6.5.2: a window beyond all bounds", set(4, most + 1), Ends(FLOW_CONTROL_ERROR)),
        ("6.5.2: frames too small", set(5, 16_383), Ends(PROTOCOL_ERROR)),
        ("6.5.2: frames too large", set(5, 1 << 24), Ends(PROTOCOL_ERROR)),
        ("6.5.2: an unknown setting", set(0x77, most), Passes),
        ("6.9: a window opened by nothing", window(0, 0), Ends(PROTOCOL_ERROR)),
        ("6.9: a stream's", [whole(&GET), window(1, 0)].concat(), Resets(1, PROTOCOL_ERROR)),
        (
            "6.9: a window of the wrong size",
            frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
            Ends(FRAME_SIZE_ERROR),
        ),
        ("6.9.1: a window beyond all bounds", window(0, most), Ends(FLOW_CONTROL_ERROR)),
        (
            "6.9.1: a stream's",
            [whole(&GET), window(1, most), window(1, most)].concat(),
            Resets(1, FLOW_CONTROL_ERROR),
        ),
        (
            "6.9.2: by a setting",
            [set(4, 0), open(&POST), window(1, most), set(4, 1)].concat(),
            Ends(FLOW_CONTROL_ERROR),
        ),
        ("6.9.2: as far as they go", [whole(&GET), set(4, most)].concat(), Answers(OK)),
    ]);
}

#[test]
fn settings_are_acknowledged_one_by_one() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&frame(SETTINGS, 0, 0, &setting(4, 7)).repeat(2));
    for _ in 0..3 {
        while wire.next_of(SETTINGS).flags != ACK {}
    }
}

#[test]
fn a_window_opens_byte_by_byte_and_may_be_negative() {
    let server = Server::start(&[("a.txt", "0123456789")]);
    let mut wire = Wire::begin(server.address, &[(INITIAL_WINDOW_SIZE, 3)]);
    wire.send(&get(1, "/a.txt"));
    assert_eq!(wire.next_of(DATA).payload, b"012");
    // RFC 9113 6.9.2: the window is -2, then -1, then 0.
    wire.send(&frame(SETTINGS, 0, 0, &setting(4, 1)));
    wire.send(&window(1, 1));
    wire.send(&window(1, 1));
    wire.expect_open();
    wire.send(&window(1, 1));
    assert_eq!(wire.next_of(DATA).payload, b"3");
    wire.send(&frame(SETTINGS, 0, 0, &setting(4, 100)));
    let rest = wire.next_of(DATA);
    assert_eq!((&rest.payload[..], rest.flags), (&b"456789"[..], END_STREAM));
}

#[test]
fn more_requests_at_once_than_are_taken_are_refused() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wire = Wire::begin(server.address, &[(INITIAL_WINDOW_SIZE, 0)]);
    for n in 0..130 {
        wire.send(&get(2 * n + 1, "/a.txt"));
    }
    for n in [128, 129] {
        let reset = wire.next_of(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (2 * n + 1, REFUSED_STREAM));
    }
    // The other streams are unaffected, and the end of one allows another.
    wire.send(&window(1, 1));
    assert_eq!(wire.next_of(DATA).stream, 1);
    wire.send(&[get(261, "/a.txt"), window(261, 1)].concat());
    assert_eq!(wire.next_of(DATA).stream, 261);
}

#[test]
fn a_preface_may_arrive_in_pieces() {
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
fn an_almost_correct_preface_is_refused() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wire = Wire::connect(server.address);
    wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\n\n and other things");
    while let Some(frame) = wire.next() {
        assert_ne!(frame.kind, HEADERS, "nothing was asked");
    }
    // Another frame before SETTINGS.
    let mut wire = Wire::connect(server.address);
    wire.send(&[PREFACE, &frame(PING, 0, 0, &[0; 8])].concat());
    assert_eq!(wire.end(), Some(PROTOCOL_ERROR));
}
