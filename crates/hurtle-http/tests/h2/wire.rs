//! Encodes frames, and decodes those that a connection writes.

use hurtle_http::h2::{Connection, Event, Limits, Reason};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Fields of a request for a file, and of one whose method takes a body.
pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
pub(crate) const POST: [(&str, &str); 4] = [(":method", "POST"), GET[1], GET[2], GET[3]];

/// A frame that the connection wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub(crate) fn code(&self) -> Reason {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        Reason(u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap()))
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Encodes a field without indexing (RFC 7541 section 6.2.2).
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127);
        bytes.push(text.len() as u8);
        bytes.extend(text.as_bytes());
    }
    bytes
}

pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// A head without END_STREAM.
pub(crate) fn open(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &block(fields))
}

/// A head with END_STREAM.
pub(crate) fn whole(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(fields))
}

pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

pub(crate) fn window(stream: u32, opened: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &opened.to_be_bytes())
}

/// A connection whose peer has sent its settings.
pub(crate) fn begun() -> Connection {
    begun_with(&Limits::default())
}

pub(crate) fn begun_with(limits: &Limits) -> Connection {
    let mut connection = Connection::new(limits, 0);
    connection.receive(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(), 0);
    assert_eq!(written(&mut connection).last().map(|frame| frame.flags), Some(ACK));
    connection
}

/// Takes all output, and parses it as frames.
pub(crate) fn written(connection: &mut Connection) -> Vec<Frame> {
    let bytes: Vec<u8> = connection.output().flatten().copied().collect();
    connection.consume(bytes.len());
    assert_eq!(connection.queued(), 0);
    let mut rest = &bytes[..];
    let mut frames = Vec::new();
    while let Some((&[_, a, b, kind, flags, c, d, e, f], payload)) = rest.split_first_chunk() {
        let (payload, behind) = payload.split_at(usize::from(a) << 8 | usize::from(b));
        let stream = u32::from_be_bytes([c, d, e, f]);
        frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
        rest = behind;
    }
    assert!(rest.is_empty(), "a frame is cut");
    frames
}

pub(crate) fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.next_event()).collect()
}
