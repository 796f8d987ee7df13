//! Tests of requests: their fields, bodies, priorities, limits, and the flow of their bytes.

use bytes::Bytes;
use hurtle_http::h3::{Body, Code, Connection, Event, Limits, Outlet};
use hurtle_http::request::{BodyLength, HeadLimits, Joined, from_section};
use hurtle_http::semantics::priority::Priority;
use hurtle_http::semantics::target::Target;

use crate::wire::*;

#[test]
fn fields_arrive_in_order_and_cookies_are_joined() {
    let mut connection = begun();
    let fields = [
        &GET[..],
        &[("x-a", "1"), ("cookie", "a=b"), ("x-b", ""), ("cookie", "c=d"), ("x-a", "2")],
    ]
    .concat();
    ask(&mut connection, 0, &headers(&fields), true);
    let Some(Event::Request { id: 0, head, end_stream: true }) = connection.next_event() else {
        panic!("a request without body")
    };
    assert_eq!(head.method(), b"GET");
    assert_eq!(head.authority(), Some(&b"a"[..]));
    let fields: Vec<_> = head.iter().collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"x-a", b"1"), (b"cookie", b"a=b; c=d"), (b"x-b", b""), (b"x-a", b"2")];
    assert_eq!(fields, expected);
}

#[test]
fn the_end_of_a_stream_may_arrive_on_its_own() {
    let mut connection = begun();
    ask(&mut connection, 0, &headers(&GET), false);
    connection.receive(0, Bytes::new(), true, 0);
    let event = connection.next_event();
    assert!(matches!(event, Some(Event::Request { end_stream: true, .. })), "{event:?}");
    assert!(!connection.close(0), "there is nothing to stop");
}

#[test]
fn a_body_is_passed_on_without_a_copy_and_in_order() {
    let mut connection = begun();
    ask(&mut connection, 0, &headers(&POST), false);
    let event = connection.next_event();
    assert!(matches!(event, Some(Event::Request { end_stream: false, .. })), "{event:?}");
    assert_eq!(connection.read(0), Ok(Body::NotYet));
    let sent = Bytes::from([&[0, 5][..], b"hello"].concat());
    connection.receive(0, sent.clone(), false, 0);
    assert_eq!(connection.next_event(), Some(Event::Readable(0)));
    let Ok(Body::Data(data)) = connection.read(0) else { panic!("no data") };
    assert_eq!((&data[..], data.as_ptr()), (&b"hello"[..], sent[2..].as_ptr()));
    let more = [
        &frame(DATA, b" wor")[..],
        &frame(DATA, b"l"),
        &frame(DATA, b"d"),
        &headers(&[("x-sum", "9")]),
    ];
    connection.receive(0, more.concat().into(), true, 0);
    assert_eq!(connection.next_event(), None, "the reader was not told to wait");
    let (bytes, trailers, is_whole) = body(&mut connection, 0);
    assert_eq!((&bytes[..], is_whole), (&b" world"[..], true));
    assert!(trailers.contains("x-sum"), "{trailers}");
}

#[test]
fn only_as_much_of_a_body_is_wanted_as_is_read() {
    let mut connection = begun();
    assert!(!connection.wants(0), "it is not open");
    ask(&mut connection, 0, &headers(&POST), false);
    assert!(connection.wants(0), "the first piece");
    connection.receive(0, frame(DATA, &[7; 100]).into(), false, 0);
    assert!(!connection.wants(0), "the handler has not read");
    assert!(connection.wants(CONTROL));
    assert!(matches!(connection.read(0), Ok(Body::Data(_))));
    assert!(connection.wants(0));
    connection.receive(0, Bytes::new(), true, 0);
    assert!(!connection.wants(0), "nothing follows the end");
}

#[test]
fn a_response_may_end_before_its_request() {
    let mut connection = begun();
    ask(&mut connection, 0, &headers(&POST), false);
    assert!(connection.next_event().is_some());
    assert!(connection.close(0), "the driver stops the rest of the request");
    assert_eq!(connection.take_output(Outlet::Decoder).unwrap()[..], [3, 0x40], "cancelled");
    connection.receive(0, frame(DATA, b"late").into(), true, 0);
    connection.receive(0, frame(SETTINGS, &[]).into(), true, 0);
    connection.reset(0, 0);
    connection.open(0, 0);
    assert_eq!((events(&mut connection), connection.open_streams()), (vec![], 0));
    assert!(!connection.close(0));
}

#[test]
fn an_extended_connect_has_a_path_and_a_protocol() {
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    let mut connection = begun_with(&limits);
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/chat?room=1"),
    ];
    ask(&mut connection, 0, &headers(&fields), false);
    let Some(Event::Request { head, .. }) = connection.next_event() else { panic!("no request") };
    let joined = Joined::default();
    let limits = HeadLimits { head_bytes: 1_000, target_bytes: 100, fields: 10 };
    let request = from_section(&head, true, &joined, &limits).unwrap();
    assert_eq!(request.method.as_bytes(), b"CONNECT");
    assert_eq!(request.protocol, Some(&b"websocket"[..]));
    assert_eq!(request.target, Target::Origin { path: b"/chat", query: Some(b"room=1") });
    assert_eq!(request.host.map(|host| host.name), Some(&b"a"[..]));
    assert_eq!(request.body, BodyLength::None);
}

#[test]
fn a_cancelled_request_is_gone() {
    let mut connection = begun();
    for (id, is_announced) in [(0, true), (4, false)] {
        ask(&mut connection, id, &headers(&POST), false);
        if is_announced {
            assert!(matches!(connection.next_event(), Some(Event::Request { .. })));
        }
        connection.reset(id, 0);
        assert_eq!(events(&mut connection), [Event::Reset(id, Code::REQUEST_CANCELLED)]);
        assert!(!connection.is_open(id) && connection.read(id).is_err());
    }
}

#[test]
fn fields_beyond_the_limit() {
    let limits = Limits { header_list_bytes_max: 1_000, ..Limits::default() };
    let value = "v".repeat(900);
    let rows = [
        ("a long section", [&GET[..], &[("a", &value), ("b", &value)]].concat()),
        ("many small fields", [&GET[..], &[("a", ""); 40]].concat()),
    ];
    for (why, fields) in rows {
        let mut connection = begun_with(&limits);
        let body = frame(DATA, b"body");
        ask(&mut connection, 0, &[headers(&fields), body].concat(), false);
        let found = events(&mut connection);
        assert!(matches!(found[..], [Event::HeadTooLarge { id: 0, .. }]), "{why}: {found:?}");
        connection.receive(0, frame(SETTINGS, b"not looked at").into(), false, 0);
        assert_eq!(events(&mut connection), [], "{why}");
        assert!(connection.close(0), "{why}: the rest is stopped");
        ask(&mut connection, 4, &headers(&GET), true);
        assert!(matches!(connection.next_event(), Some(Event::Request { id: 4, .. })), "{why}");
    }
    let mut connection = begun_with(&limits);
    ask(
        &mut connection,
        0,
        &[headers(&GET), headers(&[("a", &value), ("b", &value)])].concat(),
        false,
    );
    assert_eq!(events(&mut connection), [Event::Reset(0, Code::EXCESSIVE_LOAD)], "trailers");
}

#[test]
fn priorities() {
    let update = |id, value: &[u8]| frame(PRIORITY_UPDATE, &[&integer(id)[..], value].concat());
    let field = [&GET[..], &[("priority", "u=1")]].concat();
    let mut connection = begun();
    let is = |connection: &Connection, id| {
        let Priority { urgency, incremental } = connection.priority(id);
        (urgency, incremental)
    };
    // An update for a request that comes later, out of order.
    connection.receive(
        CONTROL,
        [update(4, b"u=5"), update(0, b"u=6, i")].concat().into(),
        false,
        0,
    );
    ask(&mut connection, 0, &headers(&GET), true);
    ask(&mut connection, 4, &headers(&field), true);
    ask(&mut connection, 8, &headers(&field), true);
    ask(&mut connection, 12, &headers(&GET), true);
    connection.receive(CONTROL, update(8, b"u=7").into(), false, 0);
    let requests = events(&mut connection);
    assert_eq!(requests.len(), 4, "updates before a request's event have none: {requests:?}");
    assert_eq!(is(&connection, 0), (6, true), "the update alone");
    assert_eq!(is(&connection, 4), (5, false), "the update takes precedence");
    assert_eq!(is(&connection, 8), (7, false), "also after the head");
    assert_eq!(is(&connection, 12), (3, true), "neither");
    connection.receive(CONTROL, update(8, b"u=2").into(), false, 0);
    let changed = Priority { urgency: 2, incremental: false };
    assert_eq!(events(&mut connection), [Event::Priority(8, changed)]);
    assert_eq!(is(&connection, 8), (2, false));
    connection.close(8);
    connection.receive(CONTROL, update(8, b"u=2").into(), false, 0);
    assert_eq!(events(&mut connection), [], "of a closed stream");
}

#[test]
fn the_oldest_incomplete_head_is_known() {
    let mut connection = begun();
    assert_eq!(connection.begun(), None);
    for (id, now_ms) in [(0, 5), (4, 7), (8, 9)] {
        connection.open(id, now_ms);
    }
    connection.receive(0, headers(&POST).into(), false, 10);
    connection.receive(4, headers(&POST)[..7].to_vec().into(), false, 10);
    assert_eq!(connection.begun(), Some((4, 7)));
    connection.close(4);
    assert_eq!(connection.begun(), Some((8, 9)));
}
