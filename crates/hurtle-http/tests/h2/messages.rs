//! Tests of malformed requests and bodies (RFC 9113 section 8).

use hurtle_http::h2::{Body, Event, FieldSection, Limits, Reason};

use crate::wire::*;

/// The request of one stream, if it is well-formed.
fn request(bytes: &[u8]) -> Option<FieldSection> {
    let mut connection = begun();
    connection.receive(bytes, 0);
    let event = connection.next_event();
    let resets: Vec<_> = written(&mut connection)
        .iter()
        .map(|frame| (frame.kind, frame.stream, frame.code()))
        .collect();
    match event {
        Some(Event::Request { id: 1, head, .. }) => {
            assert_eq!(resets, []);
            Some(head)
        }
        None => {
            assert_eq!(resets, [(RST_STREAM, 1, Reason::PROTOCOL_ERROR)]);
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_requests_are_refused() {
    let with = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
    let rows = [
        ("an ordinary request", with(&[]), true),
        ("8.2.1: a capital in a name", with(&[("Accept", "*/*")]), false),
        ("8.2.1: a space in a name", with(&[("a b", "c")]), false),
        ("8.2.1: an empty name", with(&[("", "c")]), false),
        ("8.2.1: a line's end in a value", with(&[("a", "b\r\nc: d")]), false),
        ("8.2.1: a zero in a value", with(&[("a", "b\0")]), false),
        ("8.2.1: a space before a value", with(&[("a", " b")]), false),
        ("8.2.1: a line's end in a cookie", with(&[("cookie", "a\n")]), false),
        ("8.2.1: a line's end in the path", vec![GET[0], GET[1], GET[2], (":path", "/\n")], false),
        ("8.2.2: a connection's field", with(&[("connection", "close")]), false),
        ("8.2.2: keep-alive", with(&[("keep-alive", "timeout=5")]), false),
        ("8.2.2: proxy-connection", with(&[("proxy-connection", "close")]), false),
        ("8.2.2: upgrade", with(&[("upgrade", "websocket")]), false),
        ("8.2.2: a transfer coding", with(&[("transfer-encoding", "chunked")]), false),
        ("8.2.2: TE of another kind", with(&[("te", "gzip")]), false),
        ("8.2.2: TE of two kinds", with(&[("te", "trailers, gzip")]), false),
        ("8.2.2: TE of the one kind there is", with(&[("te", "trailers")]), true),
        ("8.3: an unknown pseudo-field", with(&[(":other", "x")]), false),
        ("8.3: a response's pseudo-field", with(&[(":status", "200")]), false),
        (
            "8.3: a pseudo-field behind others",
            vec![("a", "b"), GET[0], GET[1], GET[2], GET[3]],
            false,
        ),
        (
            "8.3: a pseudo-field behind a cookie",
            vec![GET[0], ("cookie", "b"), GET[1], GET[3]],
            false,
        ),
        ("8.3.1: nothing", vec![], false),
        ("8.3.1: no method", GET[1..].to_vec(), false),
        ("8.3.1: an empty method", vec![(":method", ""), GET[1], GET[3]], false),
        ("8.3.1: a method that is no token", vec![(":method", "G T"), GET[1], GET[3]], false),
        ("8.3.1: no scheme", vec![GET[0], GET[2], GET[3]], false),
        ("8.3.1: a scheme that is none", vec![GET[0], (":scheme", "1"), GET[3]], false),
        ("8.3.1: no path", GET[..3].to_vec(), false),
        ("8.3.1: an empty path", vec![GET[0], GET[1], GET[2], (":path", "")], false),
        ("8.3.1: a path without a slash", vec![GET[0], GET[1], GET[2], (":path", "a")], false),
        ("8.3.1: two methods", [&GET[..1], &GET].concat(), false),
        ("8.3.1: two schemes", [&GET[1..2], &GET].concat(), false),
        ("8.3.1: two authorities", [&GET[2..3], &GET].concat(), false),
        ("8.3.1: two paths", [&GET[3..], &GET].concat(), false),
        ("8.3.1: no authority", vec![GET[0], GET[1], GET[3]], true),
        (
            "8.3.1: the server as a whole",
            vec![(":method", "OPTIONS"), GET[1], (":path", "*")],
            true,
        ),
        ("8.5: a tunnel", vec![(":method", "CONNECT"), (":authority", "a:1")], true),
        ("8.5: a tunnel to nowhere", vec![(":method", "CONNECT")], false),
        ("8.5: a tunnel with a path", vec![(":method", "CONNECT"), GET[2], GET[3]], false),
        ("8.5: a tunnel with a scheme", vec![(":method", "CONNECT"), GET[1], GET[2]], false),
        ("8.1.1: no body where one is due", with(&[("content-length", "3")]), false),
        ("8.1.1: no body where none is due", with(&[("content-length", "0")]), true),
        (
            "RFC 9110 8.6: two lengths",
            with(&[("content-length", "0"), ("content-length", "0")]),
            false,
        ),
    ];
    for (why, fields, expected) in rows {
        assert_eq!(request(&whole(1, &fields)).is_some(), expected, "{why}");
    }
}

#[test]
fn a_request_has_the_fields_that_were_sent() {
    let fields = [
        ("accept", "*/*"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("x-one", ""),
        ("cookie", "c=3"),
        ("cookie", "d=4"),
        ("x-two", "2"),
    ];
    let head = request(&whole(1, &[&GET[..], &fields].concat())).unwrap();
    assert_eq!((head.method(), head.scheme(), head.path()), (&b"GET"[..], &b"http"[..], &b"/"[..]));
    assert_eq!(head.authority(), Some(&b"a"[..]));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let found: Vec<_> = head.iter().map(|(name, value)| text(name) + "=" + &text(value)).collect();
    assert_eq!(found, ["accept=*/*", "cookie=a=1; b=2; c=3; d=4", "x-one=", "x-two=2"]);
    assert_eq!((head.get(b"x-two"), head.get(b"x-none")), (Some(&b"2"[..]), None));
}

/// Reads a body: its data, its trailers, `true` if it ended well, and further events.
fn body(bytes: &[u8]) -> (Vec<u8>, Option<FieldSection>, bool, Vec<Event>) {
    let mut connection = begun();
    connection.receive(bytes, 0);
    let mut events = events(&mut connection);
    events.retain(|event| !matches!(event, Event::Request { .. }));
    let (mut data, mut trailers) = (Vec::new(), None);
    loop {
        match connection.read(1) {
            Ok(Body::Data(piece)) => data.extend(piece),
            Ok(Body::Trailers(fields)) => trailers = Some(fields),
            Ok(Body::End) => return (data, trailers, true, events),
            Ok(Body::NotYet) | Err(_) => return (data, trailers, false, events),
        }
    }
}

#[test]
fn bodies() {
    let post = |length: &'static [(&str, &str)], pieces: &[&[u8]]| {
        let mut bytes = open(1, &[&POST[..], length].concat());
        for (n, piece) in pieces.iter().enumerate() {
            let flags = if n + 1 == pieces.len() { END_STREAM } else { 0 };
            bytes.extend(frame(DATA, flags, 1, piece));
        }
        bytes
    };
    let trailers = |flags: u8, fields: &[(&str, &str)]| {
        let trailers = frame(HEADERS, END_HEADERS | flags, 1, &block(fields));
        [open(1, &POST), frame(DATA, 0, 1, b"xyz"), trailers].concat()
    };
    let rows = [
        ("a body", post(&[], &[b"x", b"yz"]), true),
        ("of the length it said", post(&[("content-length", "3")], &[b"x", b"yz"]), true),
        ("its end by itself", post(&[("content-length", "3")], &[b"xyz", b""]), true),
        ("8.1.1: longer", post(&[("content-length", "1")], &[b"xyz"]), false),
        ("8.1.1: shorter", post(&[("content-length", "4")], &[b"xyz"]), false),
        (
            "8.1.1: longer by its last piece",
            post(&[("content-length", "3")], &[b"x", b"yzw"]),
            false,
        ),
        ("8.1: trailers", trailers(END_STREAM, &[("x-sum", "1")]), true),
        ("8.1: trailers that are not the end", trailers(0, &[("x-sum", "1")]), false),
        ("8.1: a pseudo-field in trailers", trailers(END_STREAM, &[(":path", "/")]), false),
        ("8.2.1: a capital in trailers", trailers(END_STREAM, &[("X", "1")]), false),
    ];
    for (why, bytes, expected) in rows {
        let (data, trailers, is_whole, events) = body(&bytes);
        assert_eq!(is_whole, expected, "{why}");
        if is_whole {
            assert_eq!((&data[..], &events[..]), (&b"xyz"[..], &[][..]), "{why}");
            let sum = trailers.as_ref().and_then(|fields| fields.get(b"x-sum"));
            assert_eq!(sum, why.contains("trailers").then_some(&b"1"[..]), "{why}");
        }
    }
    for (why, length) in
        [("no number", "x"), ("a sign", "+1"), ("too large", "99999999999999999999")]
    {
        let fields = [&POST[..], &[("content-length", length)]].concat();
        assert_eq!(request(&open(1, &fields)), None, "{why}");
    }
}

#[test]
fn a_reset_is_reported_after_its_request() {
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let mut connection = begun();
    connection.receive(&[whole(1, &GET), reset.clone()].concat(), 0);
    assert_eq!(events(&mut connection), []);
    connection.receive(&whole(3, &GET), 0);
    assert_eq!(events(&mut connection).len(), 1);
    connection.receive(&frame(RST_STREAM, 0, 3, &[0, 0, 0, 8]), 0);
    assert_eq!(events(&mut connection), [Event::Reset(3, Reason::CANCEL)]);
    assert!(connection.send_head(3, 200, [], true).is_err());
}

#[test]
fn a_head_beyond_the_limit_is_an_event() {
    let limits = Limits { header_list_bytes_max: 4_096, ..Limits::default() };
    let mut connection = begun_with(&limits);
    let long = field("a", &"x".repeat(100));
    let head = [block(&GET), long.repeat(60)].concat();
    connection.receive(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head), 0);
    let found = events(&mut connection);
    let [Event::HeadTooLarge { id: 1, head }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(head.method(), b"GET");
    connection.send_head(1, 431, [], true).unwrap();
    // A much larger head is not decoded.
    connection
        .receive(&frame(HEADERS, END_STREAM, 3, &[block(&GET), long.repeat(100)].concat()), 0);
    connection.receive(&frame(CONTINUATION, 0, 3, &long.repeat(120)), 0);
    assert_eq!(events(&mut connection), [Event::Closed(Reason::ENHANCE_YOUR_CALM)]);
}

#[test]
fn late_frames_for_a_reset_stream_are_ignored() {
    let mut connection = begun();
    connection.receive(&open(1, &POST), 0);
    assert_eq!(events(&mut connection).len(), 1);
    // An early response: the rest of the request is not needed.
    connection.send_head(1, 413, [], true).unwrap();
    let frames = written(&mut connection);
    assert_eq!((frames[0].kind, frames[0].flags), (HEADERS, END_HEADERS | END_STREAM));
    assert_eq!((frames[1].kind, frames[1].code()), (RST_STREAM, Reason::NO_ERROR));
    // More than the connection's window, which is credited.
    for _ in 0..100 {
        connection.receive(&frame(DATA, 0, 1, &[0; 16_384]), 0);
        for update in written(&mut connection) {
            assert_eq!((update.kind, update.stream), (WINDOW_UPDATE, 0));
        }
    }
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &field("a", "b"));
    connection.receive(&[window(1, 1), trailers, whole(3, &GET)].concat(), 0);
    assert_eq!(events(&mut connection).len(), 1);
    assert_eq!(written(&mut connection), []);
}

#[test]
fn a_graceful_shutdown_accepts_requests_in_flight() {
    let mut connection = begun();
    connection.receive(&whole(1, &GET), 0);
    connection.graceful_shutdown();
    let frames = written(&mut connection);
    assert_eq!((frames[0].kind, frames[0].code()), (GOAWAY, Reason::NO_ERROR));
    assert_eq!(frames[0].payload[..4], 0x7fff_ffff_u32.to_be_bytes());
    let pong = frame(PING, ACK, 0, &frames[1].payload);
    connection.receive(&[whole(3, &GET), pong].concat(), 0);
    assert_eq!(events(&mut connection).len(), 2);
    assert_eq!(written(&mut connection)[0].payload[..4], 3_u32.to_be_bytes());
    // Later requests are ignored.
    let late =
        [open(5, &POST), frame(DATA, 0, 5, b"x"), window(5, 1), frame(RST_STREAM, 0, 5, &[0; 4])];
    connection.receive(&late.concat(), 0);
    assert_eq!((events(&mut connection), written(&mut connection)), (vec![], vec![]));
    for id in [1, 3] {
        assert!(!connection.is_finished());
        connection.send_head(id, 204, [], true).unwrap();
    }
    assert!(connection.is_finished());
}

#[test]
fn windows_are_credited_as_bodies_are_read() {
    let mut connection = begun();
    connection.receive(&open(1, &POST), 0);
    let mut told = [0, 0];
    // Half of each frame is padding, and the padding exceeds both windows.
    let payload = [&[199][..], &[7; 400]].concat();
    let frames = 18_000;
    for _ in 0..frames {
        connection.receive(&frame(DATA, PADDED, 1, &payload), 0);
        let Ok(Body::Data(data)) = connection.read(1) else { panic!("no data") };
        assert_eq!(data.len(), 201);
        connection.release(1, data.len());
        for frame in written(&mut connection) {
            assert_eq!(frame.kind, WINDOW_UPDATE);
            told[frame.stream as usize] += u32::from_be_bytes(frame.payload.try_into().unwrap());
        }
    }
    let sent = frames * payload.len() as u32;
    assert!(told[0] <= sent && told[0] + (3 << 19) > sent, "{told:?}");
    let raised = (256 - 16) << 10;
    assert!(told[1] <= sent + raised && told[1] + (1 << 17) > sent, "{told:?}");
}

/// Regression: four requests whose bodies nobody read used up the connection's window, and a fifth
/// that was being read got no more.
#[test]
fn bodies_that_nobody_reads_stop_no_other() {
    let mut connection = begun();
    let unread = Limits::default().streams_max - 1;
    for n in 0..unread {
        connection.receive(&open(2 * n + 1, &POST), 0);
        // All that the server's settings permit.
        connection.receive(&frame(DATA, 0, 2 * n + 1, &[0; 16_384]), 0);
        written(&mut connection);
    }
    let id = 2 * unread + 1;
    connection.receive(&open(id, &POST), 0);
    assert_eq!(connection.read(id), Ok(Body::NotYet));
    let mut windows = [(3 << 20) - unread * 16_384, 16_384];
    for _ in 0..500 {
        for frame in written(&mut connection) {
            assert_eq!(frame.kind, WINDOW_UPDATE);
            let window = &mut windows[usize::from(frame.stream != 0)];
            *window += u32::from_be_bytes(frame.payload.try_into().unwrap());
        }
        windows = windows.map(|window| window.checked_sub(16_384).expect("it may send"));
        connection.receive(&frame(DATA, 0, id, &[0; 16_384]), 0);
        let Ok(Body::Data(data)) = connection.read(id) else { panic!("no data") };
        connection.release(id, data.len());
    }
}

#[test]
fn a_readers_wait_ends_with_an_event() {
    let mut connection = begun();
    connection.receive(&open(1, &POST), 0);
    assert_eq!(events(&mut connection).len(), 1);
    assert_eq!(connection.read(1), Ok(Body::NotYet));
    connection.receive(&frame(DATA, 0, 1, b"one"), 0);
    connection.receive(&frame(DATA, 0, 1, b"two"), 0);
    assert_eq!(events(&mut connection), [Event::Readable(1)]);
    assert_eq!(connection.read(1), Ok(Body::Data("onetwo".into())));
    assert_eq!(connection.read(1), Ok(Body::NotYet));
    connection.receive(&frame(DATA, END_STREAM, 1, b""), 0);
    assert_eq!(events(&mut connection), [Event::Readable(1)]);
    assert_eq!(connection.read(1), Ok(Body::End));
}

#[test]
fn an_incomplete_frame_has_a_start_time() {
    let mut connection = begun();
    assert_eq!(connection.begun_ms(), None);
    let ping = frame(PING, 0, 0, &[0; 8]);
    let rows: [(&str, Vec<u8>, Option<u64>); 9] = [
        ("half a frame", ping[..5].to_vec(), Some(1)),
        ("a little more", ping[5..6].to_vec(), Some(1)),
        ("its end and the begin of another", [&ping[6..], &ping[..3]].concat(), Some(3)),
        ("its end", ping[3..].to_vec(), None),
        ("a block that goes on", frame(HEADERS, 0, 1, &block(&POST)), Some(5)),
        ("and on", frame(CONTINUATION, 0, 1, &[]), Some(5)),
        ("and ends", frame(CONTINUATION, END_HEADERS, 1, &[]), None),
        ("a body has a pace of its own", frame(DATA, 0, 1, &[0; 99])[..50].to_vec(), None),
        ("so has its rest", frame(DATA, 0, 1, &[0; 99])[50..].to_vec(), None),
    ];
    for ((why, bytes, expected), now_ms) in rows.into_iter().zip(1..) {
        connection.receive(&bytes, now_ms);
        assert_eq!(connection.begun_ms(), expected, "{why}");
    }
}

/// Each row leaves bytes unread many times. The connection's window must not shrink by them.
#[test]
fn a_closed_stream_credits_its_unread_bytes() {
    let data = |stream, flags| frame(DATA, flags, stream, &[0; 16_384]);
    let short = [&POST[..], &[("content-length", "5")]].concat();
    let rows: [(&str, Box<dyn Fn(u32) -> Vec<u8>>); 4] = [
        (
            "reset by the peer",
            Box::new(move |stream| {
                let reset = frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
                [open(stream, &POST), data(stream, 0).repeat(16), reset].concat()
            }),
        ),
        (
            "longer than was said",
            Box::new(move |stream| [open(stream, &short), data(stream, 0).repeat(16)].concat()),
        ),
        (
            "beyond the stream's window",
            Box::new(move |stream| [open(stream, &POST), data(stream, 0).repeat(17)].concat()),
        ),
        (
            "answered before it is read",
            Box::new(move |stream| [open(stream, &POST), data(stream, END_STREAM)].concat()),
        ),
    ];
    for (why, each) in rows {
        let mut connection = begun();
        // Slowly, so that this does not count as a flood.
        for n in 0..100 {
            connection.receive(&each(2 * n + 1), u64::from(n) * 1_000);
            for event in events(&mut connection) {
                assert!(!matches!(event, Event::Closed(_)), "{why}, stream {n}: {event:?}");
                if let Event::Request { id, .. } = event {
                    connection.send_head(id, 204, [], true).unwrap();
                }
            }
            written(&mut connection);
        }
    }
}
