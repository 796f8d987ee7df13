//! Tests of floods: frames, streams and instructions that cost a client little and a server much
//! end the connection.

use bytes::Bytes;
use hurtle_http::h3::{Code, Connection, Event};

use crate::wire::*;

const FLOOD: usize = 20_000;

#[track_caller]
fn assert_ended(connection: &mut Connection, why: &str) {
    let last = events(connection).pop();
    let code = match &last {
        Some(Event::Closed(error)) => Some(error.code),
        _ => None,
    };
    assert_eq!(code, Some(Code::EXCESSIVE_LOAD), "{why}: {last:?}");
}

#[test]
fn floods_end_their_connection() {
    let update = frame(PRIORITY_UPDATE, b"\0u=1");
    let rows: Vec<(&str, u64, Vec<u8>, Vec<u8>)> = vec![
        ("PRIORITY_UPDATE", CONTROL, vec![], update),
        ("MAX_PUSH_ID", CONTROL, vec![], frame(MAX_PUSH_ID, &[1])),
        ("GOAWAY", CONTROL, vec![], frame(GOAWAY, &[1])),
        ("unknown control frames", CONTROL, vec![], frame(GREASE, b"?")),
        ("unknown frames of a request", 0, vec![], frame(GREASE, b"")),
        ("empty DATA", 0, headers(&POST), frame(DATA, b"")),
        ("DATA of one byte", 0, headers(&POST), frame(DATA, b"x")),
        ("table capacities", ENCODER, vec![], capacity(4_096)),
        ("insertions", ENCODER, capacity(4_096), insertion("a", "b")),
        ("duplicates", ENCODER, [capacity(4_096), insertion("a", "b")].concat(), vec![0]),
    ];
    for (why, id, begun_by, each) in rows {
        let mut connection = begun();
        connection.open(id & !2, 0);
        connection.receive(id, begun_by.into(), false, 0);
        let flood = Bytes::from(each.repeat(FLOOD));
        for at in (0..flood.len()).step_by(4_096) {
            let piece = flood.slice(at..flood.len().min(at + 4_096));
            connection.receive(id, piece, false, 0);
        }
        assert_ended(&mut connection, why);
    }
}

#[test]
fn floods_of_streams_end_their_connection() {
    let rows: [(&str, fn(&mut Connection, u64)); 6] = [
        ("resets", |connection, id| connection.reset(id, 0)),
        ("stops", |connection, id| connection.stopped(id, 0)),
        ("malformed requests", |connection, id| {
            connection.receive(id, headers(&GET[1..]).into(), true, 0);
        }),
        // Regression: they were decoded and refused without end.
        ("heads beyond the limit", |connection, id| {
            let large = [&GET[..], &[("a", ""); 2_000]].concat();
            connection.receive(id, headers(&large).into(), true, 0);
        }),
        ("incomplete requests", |connection, id| connection.receive(id, Bytes::new(), true, 0)),
        ("cancellations that are not read", |connection, id| {
            connection.receive(id, headers(&POST).into(), false, 0);
            connection.close(id);
        }),
    ];
    for (why, each) in rows {
        let mut connection = begun();
        for n in 0..FLOOD as u64 {
            connection.open(4 * n, 0);
            each(&mut connection, 4 * n);
        }
        assert_ended(&mut connection, why);
    }
    let mut connection = begun();
    for n in 0..FLOOD as u64 {
        connection.open(OTHER + 4 * n, 0);
        connection.receive(OTHER + 4 * n, vec![0x21].into(), true, 0);
    }
    assert_ended(&mut connection, "unidirectional streams of unknown types");
    let mut connection = begun();
    for n in 0..FLOOD as u64 {
        connection.open(OTHER + 4 * n, 0);
    }
    assert_ended(&mut connection, "unidirectional streams without a type");
}

#[test]
fn usual_traffic_is_no_flood() {
    let mut connection = begun();
    let update = |id| frame(PRIORITY_UPDATE, &[&integer(id)[..], b"u=1"].concat());
    connection.receive(ENCODER, capacity(4_096).into(), false, 0);
    for n in 0..FLOOD as u64 {
        // A thousand requests per second.
        let now_ms = n;
        connection.open(4 * n, now_ms);
        let insertion = insertion("x-request", &n.to_string());
        connection.receive(ENCODER, insertion.into(), false, now_ms);
        if n % 20 == 0 {
            connection.receive(CONTROL, update(4 * n).into(), false, now_ms);
        }
        let request = [&frame(GREASE, b"")[..], &headers(&POST), &frame(DATA, b"x")].concat();
        connection.receive(4 * n, request.into(), true, now_ms);
        if n % 50 == 0 {
            connection.reset(4 * n, now_ms);
        }
        assert_eq!(events(&mut connection).len(), 1, "request {n}");
        connection.close(4 * n);
    }
    assert_eq!(connection.failure(), None);
}
