//! `http3_streams`: the streams of an HTTP/3 client, and the server's events and output.

use bytes::Bytes;
use hurtle_http::h3::{Body, Code, Connection, Event, Limits, Outlet};

/// Maximum bytes of the server's unidirectional streams: settings, and acknowledgments that are not
/// taken.
const OUTPUT_BYTES_MAX: usize = 17 << 10;

/// The control, encoder and decoder stream.
const PREAMBLE: [(u64, &[u8]); 3] = [(2, b"\0\x04\0"), (6, b"\x02"), (10, b"\x03")];

/// A step of the client.
struct Step<'a> {
    stream: u64,
    action: u8,
    bytes: &'a [u8],
}

/// The first byte is the size of the pieces. Steps follow: a byte for the stream and the action,
/// the number of bytes, and the bytes. Splitting does not change the result. Every reported request
/// is well-formed. No violation is blamed on the server.
pub fn http3_streams(data: &[u8]) {
    let Some((&piece, rest)) = data.split_first() else { return };
    let steps = steps(rest);
    let whole = run(&steps, usize::MAX);
    assert_eq!(whole, run(&steps, usize::from(piece).max(1)), "in pieces of {piece}");
    run_reading(&steps, usize::from(piece).max(1));
}

fn steps(mut rest: &[u8]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    while let Some((&[head, len], behind)) = rest.split_first_chunk() {
        let (bytes, behind) = behind.split_at(behind.len().min(len.into()));
        steps.push(Step { stream: u64::from(head & 0x1f), action: head >> 5, bytes });
        rest = behind;
    }
    steps
}

fn begun() -> Connection {
    let limits = Limits { blocked_streams_max: 3, connect_protocol: true, ..Limits::default() };
    let mut connection = Connection::new(&limits, 0);
    for (id, bytes) in PREAMBLE {
        connection.open(id, 0);
        connection.receive(id, Bytes::from_static(bytes), false, 0);
    }
    connection
}

fn take(connection: &mut Connection, step: &Step<'_>, piece: usize) {
    let id = step.stream;
    if PREAMBLE.iter().all(|(known, _)| *known != id) {
        connection.open(id, 0);
    }
    match step.action {
        0 => return connection.reset(id, 0),
        1 => return connection.stopped(id, 0),
        _ => {}
    }
    let mut rest = Bytes::copy_from_slice(step.bytes);
    loop {
        let bytes = rest.split_to(rest.len().min(piece));
        connection.receive(id, bytes, step.action == 2 && rest.is_empty(), 0);
        if rest.is_empty() {
            return;
        }
    }
}

/// Events of a connection whose server never answers, the bodies, and the bytes written.
fn run(steps: &[Step<'_>], piece: usize) -> (Vec<Event>, Vec<Option<Vec<u8>>>, Vec<Bytes>) {
    let mut connection = begun();
    for step in steps {
        take(&mut connection, step, piece);
    }
    let events: Vec<Event> = std::iter::from_fn(|| connection.next_event()).collect();
    let mut bodies = Vec::new();
    for event in &events {
        check(event);
        if let Event::Request { id, .. } = event {
            bodies.push(body(&mut connection, *id));
        }
    }
    let outlets = [Outlet::Control, Outlet::Decoder];
    let written: Vec<Bytes> =
        outlets.into_iter().filter_map(|outlet| connection.take_output(outlet)).collect();
    assert!(written.iter().map(Bytes::len).sum::<usize>() <= OUTPUT_BYTES_MAX);
    (events, bodies, written)
}

fn check(event: &Event) {
    match event {
        Event::Request { head, .. } => {
            assert!(!head.method().is_empty(), "a request without method: {head:?}");
            for (name, value) in head {
                assert!(!name.is_empty() && name[0] != b':', "{head:?}");
                assert!(!name.iter().any(u8::is_ascii_uppercase), "{head:?}");
                assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "{head:?}");
            }
        }
        Event::Closed(error) => assert_ne!(error.code, Code::INTERNAL_ERROR),
        _ => {}
    }
}

/// A body as far as it has arrived; `None` if it is incomplete.
fn body(connection: &mut Connection, id: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match connection.read(id) {
            Ok(Body::Data(data)) => bytes.extend_from_slice(&data),
            Ok(Body::Trailers(_)) => bytes.push(b'\n'),
            Ok(Body::End) => return Some(bytes),
            Ok(Body::NotYet) | Err(_) => return None,
        }
    }
}

/// Reads bodies as they arrive, closes complete requests, and takes the output after each step.
fn run_reading(steps: &[Step<'_>], piece: usize) {
    let mut connection = begun();
    for step in steps {
        take(&mut connection, step, piece);
        while let Some(event) = connection.next_event() {
            match event {
                Event::Request { id, .. } | Event::Readable(id) => {
                    if body(&mut connection, id).is_some() {
                        assert!(!connection.close(id), "a complete request is to be stopped");
                    }
                }
                Event::HeadTooLarge { id, .. } => drop(connection.close(id)),
                Event::Reset(id, _) => assert!(!connection.is_open(id), "{id} is open"),
                Event::Closed(_) => assert_eq!(connection.open_streams(), 0),
                _ => {}
            }
        }
        let _ = connection.take_output(Outlet::Decoder);
    }
}
