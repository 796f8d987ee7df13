//! Tests of floods: frames that cost a client little and a server much end the connection.

use hurtle_http::h2::{Event, Limits, Reason};

use crate::wire::*;

const FLOOD: usize = 20_000;

#[test]
fn floods_end_their_connection() {
    let open = open(1, &POST);
    let unfinished = frame(HEADERS, END_STREAM, 1, &block(&GET));
    let rows: Vec<(&str, Vec<u8>, Vec<u8>)> = vec![
        ("PING", vec![], frame(PING, 0, 0, b"12345678")),
        ("acknowledgements of nothing", vec![], frame(PING, ACK, 0, b"12345678")),
        ("SETTINGS", vec![], frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("PRIORITY", vec![], frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7])),
        ("PRIORITY_UPDATE", vec![], frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")),
        ("frames of an unknown kind", vec![], frame(77, 0, 0, b"?")),
        ("WINDOW_UPDATE", vec![], window(0, 1)),
        ("GOAWAY", vec![], frame(GOAWAY, 0, 0, &[0; 8])),
        ("empty DATA", open.clone(), frame(DATA, 0, 1, b"")),
        ("DATA that is padding", open.clone(), frame(DATA, PADDED, 1, &[3, 0, 0, 0])),
        ("DATA of one byte", open, frame(DATA, 0, 1, b"x")),
        ("CONTINUATION", unfinished.clone(), frame(CONTINUATION, 0, 1, &field("a", "b"))),
        ("empty CONTINUATION", unfinished, frame(CONTINUATION, 0, 1, b"")),
    ];
    for (why, begun_by, each) in rows {
        let mut connection = begun();
        connection.receive(&begun_by, 0);
        let flood = each.repeat(FLOOD);
        for piece in flood.chunks(4_096) {
            connection.receive(piece, 0);
        }
        let ended = Event::Closed(Reason::ENHANCE_YOUR_CALM);
        assert_eq!(events(&mut connection).pop(), Some(ended), "{why}");
        assert!(connection.queued() < 64 << 10, "{why}: {} bytes", connection.queued());
    }
}

#[test]
fn streams_that_are_reset_as_they_are_opened() {
    let mut connection = begun();
    let mut n = 0;
    while !connection.is_finished() {
        let (stream, cancel) = (2 * n + 1, [0, 0, 0, 8]);
        connection
            .receive(&[whole(stream, &GET), frame(RST_STREAM, 0, stream, &cancel)].concat(), 0);
        n += 1;
        assert!(n < FLOOD as u32);
    }
    assert_eq!(events(&mut connection), [Event::Closed(Reason::ENHANCE_YOUR_CALM)]);
}

/// Regression: the first of them were forgotten, and their data ended the connection with the
/// requests that were accepted (RFC 9113 section 5.1).
#[test]
fn refused_streams_are_remembered_as_long_as_they_are_tolerated() {
    let mut connection = begun();
    let streams = (0..270).map(|n| 2 * n + 1);
    for stream in streams.clone() {
        connection.receive(&open(stream, &POST), 0);
    }
    for stream in streams {
        connection.receive(&frame(DATA, 0, stream, b"some data of a body that is not the last"), 0);
    }
    let closed = |event: &Event| matches!(event, Event::Closed(_));
    assert!(!events(&mut connection).iter().any(closed));
}

#[test]
fn streams_that_the_server_is_made_to_reset() {
    let malformed = [&GET[..], &[("te", "x")]].concat();
    let rows: [(&str, Box<dyn Fn(u32) -> Vec<u8>>); 2] = [
        ("malformed requests", Box::new(move |stream| whole(stream, &malformed))),
        (
            "windows that overflow",
            Box::new(|stream| {
                let most = 0x7fff_ffff;
                [whole(stream, &GET), window(stream, most), window(stream, most)].concat()
            }),
        ),
    ];
    for (why, each) in rows {
        let mut connection = begun();
        let mut n = 0;
        while !connection.is_finished() {
            connection.receive(&each(2 * n + 1), 0);
            n += 1;
            assert!(n < FLOOD as u32, "{why}");
        }
        let ended = Event::Closed(Reason::ENHANCE_YOUR_CALM);
        assert_eq!(events(&mut connection), [ended], "{why}");
    }
}

/// Regression: a client of few requests a second could have heads beyond the limit decoded for
/// ever, on one connection.
#[test]
fn heads_beyond_the_limit() {
    let mut connection = begun_with(&Limits { header_list_bytes_max: 4_096, ..Limits::default() });
    let head = [block(&GET), field("a", &"x".repeat(100)).repeat(60)].concat();
    let (mut refused, mut last) = (0, None);
    while !connection.is_finished() {
        let stream = 2 * refused + 1;
        connection.receive(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &head), 0);
        for event in events(&mut connection) {
            if let Event::HeadTooLarge { id, .. } = event {
                connection.send_head(id, 431, [], true).unwrap();
            }
            last = Some(event);
        }
        written(&mut connection);
        refused += 1;
        assert!(refused < FLOOD as u32);
    }
    assert_eq!(last, Some(Event::Closed(Reason::ENHANCE_YOUR_CALM)));
    assert!(refused > 100, "so many that a browser with large cookies sees why: {refused}");
}

/// The output queued for a peer that never reads is bounded, whatever it requests.
#[test]
fn unread_responses_are_bounded() {
    let mut connection = begun();
    let mut n = 0;
    while !connection.is_finished() && n < FLOOD as u32 {
        connection.receive(&whole(2 * n + 1, &GET), u64::from(n) * 1_000);
        for event in events(&mut connection) {
            if let Event::Request { id, .. } = event {
                let _ =
                    connection.send_head(id, 304, [(&b"etag"[..], &b"\"0123456789\""[..])], true);
            }
        }
        n += 1;
    }
    assert!(connection.is_finished(), "too many replies wait");
    assert!(connection.queued() < 64 << 10, "{} bytes wait", connection.queued());
}

#[test]
fn ordinary_traffic_is_no_flood() {
    let mut connection = begun();
    for n in 0..FLOOD as u32 {
        connection.receive(&whole(2 * n + 1, &GET), 0);
        for event in events(&mut connection) {
            let Event::Request { id, .. } = event else { panic!("{event:?}") };
            connection.send_head(id, 204, [], true).unwrap();
        }
        written(&mut connection);
    }
    assert!(!connection.is_finished());
}
