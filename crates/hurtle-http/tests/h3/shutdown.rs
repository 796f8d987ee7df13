//! Tests of GOAWAY and of the end of connections (RFC 9114 sections 5.2 and 8).

use hurtle_http::h3::{Code, Connection, Error, Event, Limits, Outlet, Scope};

use crate::wire::*;

fn control(connection: &mut Connection) -> Vec<u8> {
    connection.take_output(Outlet::Control).map_or_else(Vec::new, Vec::from)
}

#[test]
fn the_control_stream_begins_with_its_type_and_settings() {
    let mut connection = Connection::new(&Limits::default(), 0);
    let sent = [
        &[0, 4, 13][..],
        &[1, 0x50, 0],          // QPACK_MAX_TABLE_CAPACITY 4,096
        &[6, 0x80, 0, 0x80, 0], // MAX_FIELD_SECTION_SIZE 32,768
        &[7, 16],               // QPACK_BLOCKED_STREAMS 16
        &[0x42, 0xcb, 0],       // reserved
    ];
    let sent = sent.concat();
    assert_eq!(usize::from(sent[2]), sent.len() - 3);
    assert_eq!(control(&mut connection), sent);
    assert_eq!(control(&mut connection), b"");
    assert_eq!(connection.take_output(Outlet::Decoder), None, "it is not needed yet");
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    let sent = control(&mut Connection::new(&limits, 0));
    assert_eq!((sent[2], &sent[sent.len() - 2..]), (15, &[8, 1][..]));
}

#[test]
fn requests_in_flight_are_answered_and_later_ones_rejected() {
    let mut connection = begun();
    control(&mut connection);
    ask(&mut connection, 0, &headers(&GET), true);
    connection.graceful_shutdown();
    connection.graceful_shutdown();
    let largest = [7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc];
    assert_eq!(control(&mut connection), largest);
    ask(&mut connection, 4, &headers(&GET), true);
    assert_eq!(events(&mut connection).len(), 2, "both are accepted");
    connection.finish_shutdown();
    assert_eq!(control(&mut connection), [7, 1, 8]);
    ask(&mut connection, 8, &headers(&GET), true);
    assert_eq!(events(&mut connection), [Event::Reset(8, Code::REQUEST_REJECTED)]);
    assert_eq!(connection.refused_streams(), 1);
    connection.close(0);
    assert!(!connection.is_finished());
    connection.close(4);
    assert!(connection.is_finished());
    assert_eq!(connection.failure(), None);
}

#[test]
fn a_client_that_leaves_is_reported_once() {
    let mut connection = begun();
    for _ in 0..2 {
        connection.receive(CONTROL, frame(GOAWAY, &[0]).into(), false, 0);
    }
    assert_eq!(events(&mut connection), [Event::GoAway]);
    ask(&mut connection, 0, &headers(&GET), true);
    assert_eq!(events(&mut connection).len(), 1, "it may still request");
}

#[test]
fn nothing_happens_after_the_end() {
    let mut connection = begun();
    ask(&mut connection, 0, &headers(&POST), false);
    connection.receive(CONTROL, frame(DATA, b"").into(), false, 0);
    let Some(Event::Closed(Error {
        code: Code::FRAME_UNEXPECTED, scope: Scope::Connection, ..
    })) = connection.next_event()
    else {
        panic!("the connection has failed")
    };
    connection.receive(0, frame(SETTINGS, &[]).into(), false, 0);
    connection.receive(CONTROL, frame(GOAWAY, &[]).into(), false, 0);
    ask(&mut connection, 4, &headers(&GET), true);
    connection.reset(0, 0);
    connection.stopped(3, 0);
    connection.graceful_shutdown();
    assert_eq!(events(&mut connection), []);
    assert!(connection.is_finished() && connection.read(0).is_err());
}
