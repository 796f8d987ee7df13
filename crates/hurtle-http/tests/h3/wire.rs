//! Encodes the streams of a client: frames, settings, field sections and QPACK instructions.

use bytes::Bytes;
use hurtle_http::h3::{Body, Connection, Event, Limits, varint};

pub(crate) const DATA: u64 = 0;
pub(crate) const HEADERS: u64 = 1;
pub(crate) const CANCEL_PUSH: u64 = 3;
pub(crate) const SETTINGS: u64 = 4;
pub(crate) const PUSH_PROMISE: u64 = 5;
pub(crate) const GOAWAY: u64 = 7;
pub(crate) const MAX_PUSH_ID: u64 = 13;
pub(crate) const PRIORITY_UPDATE: u64 = 0xf0700;
pub(crate) const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;
/// A frame type without a meaning (RFC 9114 section 7.2.8).
pub(crate) const GREASE: u64 = 0x1f * 9 + 0x21;

/// The client's unidirectional streams, in the order in which `begun` opens them.
pub(crate) const CONTROL: u64 = 2;
pub(crate) const ENCODER: u64 = 6;
pub(crate) const DECODER: u64 = 10;
/// A stream that is not open.
pub(crate) const OTHER: u64 = 14;

/// Fields of a request for a file, and of one whose method takes a body.
pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
pub(crate) const POST: [(&str, &str); 4] = [(":method", "POST"), GET[1], GET[2], GET[3]];

pub(crate) fn integer(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, value);
    out
}

pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&integer(kind)[..], &integer(payload.len() as u64), payload].concat()
}

/// Encodes an integer with a prefix (RFC 9204 section 4.1.1).
pub(crate) fn prefixed(bits: u8, prefix: u32, value: u64) -> Vec<u8> {
    let mask = (1_u64 << prefix) - 1;
    if value < mask {
        return vec![bits | value as u8];
    }
    let mut out = vec![bits | mask as u8];
    let mut rest = value - mask;
    while rest >= 128 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

/// Encodes a field with a literal name (RFC 9204 section 4.5.6).
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut line = prefixed(0x20, 3, name.len() as u64);
    line.extend(name.as_bytes());
    line.extend(prefixed(0, 7, value.len() as u64));
    line.extend(value.as_bytes());
    line
}

/// Encodes a section without references to the dynamic table.
pub(crate) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let lines: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    [&[0, 0], &lines[..]].concat()
}

/// Encodes a HEADERS frame.
pub(crate) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(fields))
}

/// Encodes an insertion with a literal name (RFC 9204 section 4.3.3).
pub(crate) fn insertion(name: &str, value: &str) -> Vec<u8> {
    let mut instruction = prefixed(0x40, 5, name.len() as u64);
    instruction.extend(name.as_bytes());
    instruction.extend(prefixed(0, 7, value.len() as u64));
    instruction.extend(value.as_bytes());
    instruction
}

/// Encodes Set Dynamic Table Capacity (RFC 9204 section 4.3.1).
pub(crate) fn capacity(bytes: u64) -> Vec<u8> {
    prefixed(0x20, 5, bytes)
}

/// A connection whose client has opened its unidirectional streams and sent its settings.
pub(crate) fn begun() -> Connection {
    begun_with(&Limits::default())
}

pub(crate) fn begun_with(limits: &Limits) -> Connection {
    let mut connection = Connection::new(limits, 0);
    let streams = [
        (CONTROL, [&[0][..], &frame(SETTINGS, &[])].concat()),
        (ENCODER, vec![2]),
        (DECODER, vec![3]),
    ];
    for (id, bytes) in streams {
        connection.open(id, 0);
        connection.receive(id, bytes.into(), false, 0);
    }
    assert!(connection.is_established());
    connection
}

/// Opens a request stream and sends its bytes.
pub(crate) fn ask(connection: &mut Connection, id: u64, bytes: &[u8], is_end: bool) {
    connection.open(id, 0);
    connection.receive(id, Bytes::copy_from_slice(bytes), is_end, 0);
}

pub(crate) fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.next_event()).collect()
}

/// Reads a body as far as it has arrived: its bytes, its trailers as text, and whether it is
/// complete.
pub(crate) fn body(connection: &mut Connection, id: u64) -> (Vec<u8>, String, bool) {
    let (mut bytes, mut trailers) = (Vec::new(), String::new());
    loop {
        match connection.read(id) {
            Ok(Body::Data(data)) => bytes.extend(data),
            Ok(Body::Trailers(fields)) => trailers = format!("{fields:?}"),
            Ok(Body::End) => return (bytes, trailers, true),
            Ok(Body::NotYet) | Err(_) => return (bytes, trailers, false),
        }
    }
}
