//! Tests of the client's side: with the server's side of this crate, and with raw frames.

use bytes::Bytes;
use hurtle_http::h2::{Body, Connection, Event, Limits, Reason, RequestLine};

use crate::wire::*;

const LINE: RequestLine<'static> =
    RequestLine { method: b"POST", scheme: b"http", authority: b"a", path: b"/x", protocol: None };

/// A client that has received the settings of a server.
fn client(settings: &[u8]) -> Connection {
    let mut client = Connection::client(&Limits::default(), 0);
    client.receive(&frame(SETTINGS, 0, 0, settings), 0);
    client
}

/// Moves all queued bytes.
fn carry(from: &mut Connection, to: &mut Connection) {
    let bytes: Vec<u8> = from.output().flatten().copied().collect();
    from.consume(bytes.len());
    to.receive(&bytes, 0);
}

#[test]
fn a_request_and_its_response() {
    let mut client = Connection::client(&Limits::default(), 0);
    let mut server = Connection::new(&Limits::default(), 0);
    let fields = [(&b"X-A"[..], &b"b"[..])];
    let id = client.open(&LINE, fields, false).unwrap();
    assert_eq!(client.capacity(id, 5), Ok(5));
    client.send_data(id, Bytes::from("hello"), false).unwrap();
    client.send_trailers(id, [(&b"x-tail"[..], &b"end"[..])]).unwrap();
    carry(&mut client, &mut server);
    let Some(Event::Request { id: of, head, end_stream: false }) = server.next_event() else {
        panic!("no request")
    };
    assert_eq!(
        (head.method(), head.path(), head.get(b"x-a")),
        (&b"POST"[..], &b"/x"[..], Some(&b"b"[..]))
    );
    assert_eq!(server.read(of), Ok(Body::Data("hello".into())));
    assert!(matches!(server.read(of), Ok(Body::Trailers(_))));

    assert_eq!(client.read_head(id), Ok(None));
    server.send_informational(of, 103, []).unwrap();
    server.send_head(of, 200, [], false).unwrap();
    server.capacity(of, 2).unwrap();
    server.send_data(of, Bytes::from("ok"), false).unwrap();
    server.send_trailers(of, [(&b"grpc-status"[..], &b"0"[..])]).unwrap();
    carry(&mut server, &mut client);
    assert_eq!(client.next_event(), Some(Event::Readable(id)));
    let statuses = [client.read_head(id), client.read_head(id)].map(|head| head.unwrap().unwrap());
    assert_eq!(
        statuses.map(|(head, is_end)| (head.status(), is_end)),
        [(103, false), (200, false)]
    );
    assert_eq!(client.read(id), Ok(Body::Data("ok".into())));
    let Ok(Body::Trailers(trailers)) = client.read(id) else { panic!("no trailers") };
    assert_eq!(trailers.get(b"grpc-status"), Some(&b"0"[..]));
    assert_eq!(client.read(id), Ok(Body::End));
    client.finish(id);
    assert_eq!((client.open_streams(), client.queued()), (0, 9), "only SETTINGS is acknowledged");
}

#[test]
fn streams_are_limited_by_the_server() {
    let mut client = client(&[0, 3, 0, 0, 0, 2]);
    let first = client.open(&LINE, [], true).unwrap();
    client.open(&LINE, [], true).unwrap();
    assert!(!client.can_open() && client.open(&LINE, [], true).is_err());
    client.finish(first);
    assert_eq!(client.open(&LINE, [], true), Ok(5));
}

#[test]
fn a_goaway_tells_which_requests_were_not_processed() {
    let mut client = client(&[]);
    let ids = [(); 3].map(|()| client.open(&LINE, [], true).unwrap());
    client.receive(&frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]), 0);
    assert_eq!(client.next_event(), Some(Event::Reset(5, Reason::REFUSED_STREAM)));
    let reasons = ids.map(|id| client.reset_reason(id));
    assert_eq!(reasons, [None, None, Some((Reason::REFUSED_STREAM, true))]);
    assert!(!client.is_accepting() && !client.is_finished());
    client.finish(1);
    client.finish(3);
    assert!(client.is_finished());
}

#[test]
fn a_complete_response_survives_a_reset() {
    let mut client = client(&[]);
    let id = client.open(&LINE, [], false).unwrap();
    let head = frame(HEADERS, END_HEADERS, id, &block(&[(":status", "200")]));
    let data = frame(DATA, END_STREAM, id, b"whole");
    client.receive(&[head, data, frame(RST_STREAM, 0, id, &[0; 4])].concat(), 0);
    assert!(client.read_head(id).unwrap().is_some());
    assert_eq!(client.read(id), Ok(Body::Data("whole".into())));
    assert_eq!(client.read(id), Ok(Body::End));
    assert!(client.capacity(id, 1).is_err(), "the rest of the request is not wanted");
}

#[test]
fn pings_and_updates_after_each_message_are_no_flood() {
    let mut client = client(&[]);
    let id = client.open(&LINE, [], false).unwrap();
    client.capacity(id, 1).unwrap();
    for n in 0..20_000 {
        client.send_data(id, Bytes::from("x"), false).unwrap();
        let frames = [window(0, 1), window(id, 1), frame(PING, 0, 0, b"measures")];
        client.receive(&frames.concat(), 0);
        assert_eq!(client.failure(), None, "message {n}");
        client.consume(usize::MAX);
    }
}

/// Regression: the end of the connection discarded responses that had arrived whole, and the record
/// of requests that were not processed.
#[test]
fn a_complete_response_survives_the_end_of_the_connection() {
    let mut client = Connection::client(&Limits::default(), 0);
    let mut server = Connection::new(&Limits::default(), 0);
    let [whole, begun, refused] = [(); 3].map(|()| client.open(&LINE, [], true).unwrap());
    carry(&mut client, &mut server);
    server.send_head(whole, 200, [], false).unwrap();
    assert_eq!(server.capacity(whole, 2), Ok(2));
    server.send_data(whole, Bytes::from("ok"), false).unwrap();
    server.send_trailers(whole, [(&b"grpc-status"[..], &b"0"[..])]).unwrap();
    server.send_head(begun, 200, [], false).unwrap();
    carry(&mut server, &mut client);
    client.receive(&frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]), 0);
    client.abrupt(Reason::NO_ERROR);

    let (head, is_end) = client.read_head(whole).unwrap().unwrap();
    assert_eq!((head.status(), is_end), (200, false));
    assert_eq!(client.read(whole), Ok(Body::Data("ok".into())));
    assert!(matches!(client.read(whole), Ok(Body::Trailers(_))));
    assert_eq!(client.read(whole), Ok(Body::End));
    client.finish(whole);
    assert!(client.read_head(begun).is_err() && client.read(begun).is_err());
    assert_eq!(client.reset_reason(refused), Some((Reason::REFUSED_STREAM, true)));
    assert!(client.open(&LINE, [], true).is_err());
}
