//! Tests of unidirectional streams, of the control stream's frames and of settings (RFC 9114
//! sections 6 and 7, RFC 9204, RFC 9218).

use hurtle_http::h3::{Code, Connection, Limits};

use crate::rows::Expected::{Ends, Passes, Stops};
use crate::rows::Step::{Last, Reset, Send, Stop};
use crate::rows::check;
use crate::wire::*;

#[test]
fn unidirectional_streams() {
    check(vec![
        (
            "6.2.1: a second control stream",
            vec![Send(OTHER, vec![0])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        (
            "6.2.2: a push stream of a client",
            vec![Send(OTHER, vec![1])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        (
            "QPACK 4.2: a second encoder stream",
            vec![Send(OTHER, vec![2])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        (
            "QPACK 4.2: a second decoder stream",
            vec![Send(OTHER, vec![3])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        ("6.2: an unknown type", vec![Send(OTHER, b"\x21whatever".to_vec())], Stops(OTHER)),
        ("6.2: an unknown type that ends", vec![Last(OTHER, integer(GREASE))], Stops(OTHER)),
        (
            "6.2: a type in a long encoding",
            vec![Send(OTHER, vec![0x80, 0, 0, 3])],
            Ends(Code::STREAM_CREATION_ERROR),
        ),
        ("6.2: an end before the type", vec![Last(OTHER, vec![])], Passes),
        ("6.2: a reset before the type", vec![Send(OTHER, vec![0x40]), Reset(OTHER)], Passes),
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
    let control = |bytes: Vec<u8>| vec![Send(CONTROL, bytes)];
    let update = |id, value: &[u8]| frame(PRIORITY_UPDATE, &[&integer(id)[..], value].concat());
    check(vec![
        ("7.2.1: DATA", control(frame(DATA, b"x")), Ends(Code::FRAME_UNEXPECTED)),
        ("7.2.2: HEADERS", control(headers(&GET)), Ends(Code::FRAME_UNEXPECTED)),
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
