//! `http2_frames`: a client's frames on an HTTP/2 connection, and the server's events and output;
//! the same frames from a server to a client.

use bytes::Bytes;
use hurtle_http::h2::{Body, Connection, Event, Limits, Reason, RequestLine};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Maximum queued output in bytes: shares, heads and replies.
const QUEUED_BYTES_MAX: usize = 256 << 10;

/// The first byte is the size of the pieces; the rest are frames after the preface. Splitting does
/// not change the result. The output consists of complete frames within the client's windows. Every
/// reported request is well-formed.
pub fn http2_frames(data: &[u8]) {
    let Some((&piece, frames)) = data.split_first() else { return };
    let input = [PREFACE, &EMPTY_SETTINGS, frames].concat();
    let at_once = run(&input, input.len());
    let in_pieces = run(&input, usize::from(piece).max(1));
    assert_eq!(at_once, in_pieces, "in pieces of {piece}");
    run_echo(&input, usize::from(piece).max(1));
    let input = [&EMPTY_SETTINGS, frames].concat();
    let at_once = run_client(&input, input.len());
    let in_pieces = run_client(&input, usize::from(piece).max(1));
    assert_eq!(at_once, in_pieces, "in pieces of {piece}");
}

/// The response to a client's first request: the status and the fields of each head, and the body.
/// Every head is well-formed.
fn run_client(input: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let mut connection = Connection::client(&Limits::default(), 0);
    let line = RequestLine {
        method: b"POST",
        scheme: b"http",
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    let id = connection.open(&line, [], false).expect("a new connection has room");
    assert_eq!(connection.open(&line, [], true), Ok(3));
    for bytes in input.chunks(piece) {
        connection.receive(bytes, 0);
    }
    let (mut heads, mut body) = (Vec::new(), Vec::new());
    while let Ok(Some((head, _))) = connection.read_head(id) {
        assert!((100..600).contains(&head.status()), "{head:?}");
        for (name, value) in &head {
            assert!(!name.is_empty() && name[0] != b':', "{head:?}");
            assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "{head:?}");
        }
        heads.push(format!("{head:?}"));
    }
    while let Ok(Body::Data(data)) = connection.read(id) {
        connection.release(id, data.len());
        body.extend_from_slice(&data);
    }
    connection.finish(id);
    assert!(!connection.is_open(id));
    (heads, body)
}

/// Events of a connection whose server never answers, and the bytes written to the client.
fn run(input: &[u8], piece: usize) -> (Vec<Event>, Vec<u8>) {
    let mut connection = Connection::new(&Limits::default(), 0);
    for bytes in input.chunks(piece) {
        connection.receive(bytes, 0);
    }
    let events: Vec<Event> = std::iter::from_fn(|| connection.next_event()).collect();
    for event in &events {
        if let Event::Request { head, .. } = event {
            assert!(!head.method().is_empty(), "a request without method: {head:?}");
            for (name, value) in head {
                assert!(!name.is_empty() && name[0] != b':', "{head:?}");
                assert!(!name.iter().any(u8::is_ascii_uppercase), "{head:?}");
                assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "{head:?}");
            }
        }
    }
    let written: Vec<u8> = connection.output().flatten().copied().collect();
    whole_frames(&written);
    (events, written)
}

/// Echoes the body of each request, and takes the output after each piece.
fn run_echo(input: &[u8], piece: usize) {
    let mut connection = Connection::new(&Limits::default(), 0);
    let mut written = Vec::new();
    for bytes in input.chunks(piece) {
        connection.receive(bytes, 0);
        while let Some(event) = connection.next_event() {
            match event {
                Event::Request { id, head, .. } => {
                    let _ = connection.send_head(id, 200, &head, false);
                    answer(&mut connection, id);
                }
                Event::HeadTooLarge { id, .. } => drop(connection.send_head(id, 431, [], true)),
                Event::Readable(id) | Event::Writable(id) => answer(&mut connection, id),
                Event::Reset(id, _) => assert!(!connection.is_open(id), "{id} is open"),
                Event::GoAway(_) => {}
                Event::Closed(reason) => assert_ne!(reason, Reason::INTERNAL_ERROR),
            }
        }
        assert!(connection.queued() <= QUEUED_BYTES_MAX + input.len() * 40);
        written.extend(connection.output().flatten());
        connection.consume(usize::MAX);
        assert_eq!(connection.queued(), 0);
    }
    whole_frames(&written);
}

/// Sends as many bytes as the capacity allows, and reads the body to use its windows.
fn answer(connection: &mut Connection, id: u32) {
    loop {
        match connection.read(id) {
            Ok(Body::Data(data)) => connection.release(id, data.len()),
            Ok(Body::Trailers(_)) => {}
            Ok(Body::NotYet) | Err(_) => break,
            Ok(Body::End) => {
                if let Ok(n @ 1..) = connection.capacity(id, 100_000) {
                    let _ = connection.send_data(id, Bytes::from(vec![0; n]), n % 2 == 0);
                }
                break;
            }
        }
    }
}

fn whole_frames(mut bytes: &[u8]) {
    while let Some((&[a, b, c, ..], rest)) = bytes.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        bytes = rest.get(len..).expect("a frame is cut");
    }
    assert!(bytes.is_empty(), "a frame's header is cut");
}
