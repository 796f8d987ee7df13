//! Raw frames (RFC 9113 section 4.1), for input that no library sends.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit of a read, after which the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

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
/// PRIORITY_UPDATE (RFC 9218 section 7.1).
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// A setting (RFC 9113 6.5.2).
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// Error codes (RFC 9113 7).
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 3;
pub(crate) const STREAM_CLOSED: u32 = 5;
pub(crate) const FRAME_SIZE_ERROR: u32 = 6;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const COMPRESSION_ERROR: u32 = 9;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
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

/// Encodes a field block.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// Encodes a request's field block.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)])
}

/// A complete GET on a stream.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path))
}

/// A connection.
pub(crate) struct Wire<S = TcpStream> {
    pub(crate) socket: S,
    pub(crate) unread: Vec<u8>,
}

impl Wire {
    /// Connects without sending anything.
    pub(crate) fn connect(address: SocketAddr) -> Wire {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Wire { socket, unread: Vec::new() }
    }

    /// Connects, sends the preface and these settings, and acknowledges the server's.
    pub(crate) fn begin(address: SocketAddr, settings: &[(u16, u32)]) -> Wire {
        Wire::over(Wire::connect(address).socket, settings)
    }
}

impl<S: Read + Write> Wire<S> {
    /// Like `begin`, over an open socket.
    pub(crate) fn over(socket: S, settings: &[(u16, u32)]) -> Wire<S> {
        let mut wire = Wire { socket, unread: Vec::new() };
        wire.send(PREFACE);
        let payload = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat());
        wire.send(&frame(SETTINGS, 0, 0, &payload.collect::<Vec<_>>()));
        wire.send(&frame(SETTINGS, ACK, 0, &[]));
        wire
    }

    /// Sends bytes. Errors are ignored: a later read fails if the server is gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Reads a frame; `None` at the end of the connection.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            if let [a, b, c, kind, flags, rest @ ..] = &self.unread[..]
                && let Some((stream, rest)) = rest.split_first_chunk::<4>()
            {
                let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if rest.len() >= len {
                    let (kind, flags, payload) = (*kind, *flags, rest[..len].to_vec());
                    let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
                    self.unread.drain(..9 + len);
                    return Some(Frame { kind, flags, stream, payload });
                }
            }
            let mut piece = [0; 16 << 10];
            match self.socket.read(&mut piece) {
                Ok(0) => return None,
                Ok(n) => self.unread.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => panic!("no frame comes: {e}"),
            }
        }
    }

    /// Reads up to the next frame of this kind.
    #[track_caller]
    pub(crate) fn next_of(&mut self, kind: u8) -> Frame {
        self.find(kind).unwrap_or_else(|instead| panic!("{instead:?} instead of frame {kind}"))
    }

    /// Like `next_of`; `Err`: the connection ended first, with this GOAWAY if one came.
    #[track_caller]
    pub(crate) fn find(&mut self, kind: u8) -> Result<Frame, Option<Frame>> {
        loop {
            match self.next() {
                Some(frame) if frame.kind == kind => return Ok(frame),
                Some(frame) if frame.kind != GOAWAY => {}
                ended => return Err(ended),
            }
        }
    }

    /// Reads until the connection ends; the code of the last GOAWAY.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.next() {
            if frame.kind == GOAWAY {
                code = Some(frame.code());
            }
        }
        code
    }

    /// Asserts that the connection answers a PING.
    #[track_caller]
    pub(crate) fn expect_open(&mut self) {
        self.send(&frame(PING, 0, 0, b"are you?"));
        loop {
            let pong = self.next_of(PING);
            if pong.payload == b"are you?" {
                return assert_eq!(pong.flags, ACK);
            }
        }
    }
}
