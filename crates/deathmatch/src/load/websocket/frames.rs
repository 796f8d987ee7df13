//! Frames of the WebSocket protocol (RFC 6455, section 5), without extensions. Pure.

use std::io::Cursor;

use aws_lc_rs::rand;
use bytes::Bytes;
use tungstenite::Utf8Bytes;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, FrameHeader};

use crate::load::link::PeerError;

/// The longest head of a frame, in bytes (5.2).
const HEAD_BYTES_MAX: usize = 14;

/// The longest payload of a control frame, in bytes (5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// The masked frame of a message: a text if it is UTF-8, else binary. Each connection sends the
/// same frame again and again.
pub fn message(content: &[u8]) -> Bytes {
    let kind = if std::str::from_utf8(content).is_ok() { Data::Text } else { Data::Binary };
    masked(Frame::message(content.to_vec(), OpCode::Data(kind), true)).into()
}

/// The payload of a frame that `message` or `ping` made, without its mask, which is random.
pub fn content(frame: &[u8]) -> Vec<u8> {
    let mut from = Cursor::new(frame);
    let header = FrameHeader::parse(&mut from).ok().flatten();
    let mask = header.and_then(|(header, _)| header.mask).unwrap_or_default();
    let payload = frame.get(from.position() as usize..).unwrap_or_default();
    payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

/// The masked frame of a ping.
pub fn ping() -> Bytes {
    masked(Frame::ping(&b"ping"[..])).into()
}

/// The masked frame that answers a ping.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    masked(Frame::pong(payload.to_vec()))
}

/// The masked frame that ends a connection (5.5.1).
pub(super) fn close() -> Vec<u8> {
    let code = CloseCode::Normal;
    masked(Frame::close(Some(CloseFrame { code, reason: Utf8Bytes::default() })))
}

/// `true` for the frame of a ping.
pub(super) fn is_ping(frame: &[u8]) -> bool {
    let opcode = frame.first().map(|first| OpCode::from(first & 0x0f));
    opcode == Some(OpCode::Control(Control::Ping))
}

fn masked(mut frame: Frame) -> Vec<u8> {
    let mut mask = [0; 4];
    // Without random bytes the mask is 0, which servers take as well.
    let _ = rand::fill(&mut mask);
    frame.header_mut().mask = Some(mask);
    let mut bytes = Vec::with_capacity(frame.len());
    // Writing to memory cannot fail.
    let _ = frame.format(&mut bytes);
    bytes
}

/// A part of what a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// So many bytes of a message.
    Piece(u64),
    /// The end of a message.
    Message,
    /// A ping, with its payload.
    Ping(&'a [u8]),
    /// An answer to a ping.
    Pong,
    /// The server closes the connection.
    Close,
}

/// The reader of one connection's frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The first bytes of a frame whose head is not complete.
    head: Vec<u8>,
    frame: Option<Partial>,
    /// `true` within a message, between its frames.
    continues: bool,
}

/// A frame whose payload is not complete.
#[derive(Debug)]
struct Partial {
    opcode: OpCode,
    is_final: bool,
    /// Bytes of the payload that are missing.
    left: u64,
    /// The payload of a control frame.
    control: Vec<u8>,
}

impl Frames {
    /// Reads bytes; calls `on` for each event, and stops after its error.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on: impl FnMut(Event<'_>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        loop {
            let Some(frame) = &mut self.frame else {
                match self.begin(&mut bytes)? {
                    true => continue,
                    false => return Ok(()),
                }
            };
            let count = frame.left.min(bytes.len() as u64);
            let (payload, rest) = bytes.split_at(count as usize);
            bytes = rest;
            frame.left -= count;
            match frame.opcode {
                OpCode::Data(_) if count > 0 => on(Event::Piece(count))?,
                OpCode::Data(_) => {}
                OpCode::Control(_) => frame.control.extend_from_slice(payload),
            }
            let Some(frame) = self.frame.take_if(|frame| frame.left == 0) else { return Ok(()) };
            match frame.opcode {
                OpCode::Data(_) => {
                    self.continues = !frame.is_final;
                    if frame.is_final {
                        on(Event::Message)?;
                    }
                }
                OpCode::Control(Control::Ping) => on(Event::Ping(&frame.control))?,
                OpCode::Control(Control::Pong) => on(Event::Pong)?,
                OpCode::Control(_) => on(Event::Close)?,
            }
        }
    }

    /// Takes the head of the next frame; `false`: it is not complete.
    fn begin(&mut self, bytes: &mut &[u8]) -> Result<bool, PeerError> {
        let before = self.head.len();
        let more = bytes.len().min(HEAD_BYTES_MAX - before);
        self.head.extend_from_slice(&bytes[..more]);
        let mut cursor = Cursor::new(&self.head);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| PeerError)?;
        let end = cursor.position() as usize;
        let Some((head, left)) = parsed else {
            *bytes = &bytes[more..];
            return Ok(false);
        };
        *bytes = &bytes[end - before..];
        self.head.clear();
        let is_right = match head.opcode {
            OpCode::Data(Data::Continue) => self.continues,
            OpCode::Data(_) => !self.continues,
            OpCode::Control(_) => head.is_final && left <= CONTROL_BYTES_MAX,
        };
        // A server's frames have no mask (5.1), and no bits of extensions are agreed on.
        let is_plain = head.mask.is_none() && !head.rsv1 && !head.rsv2 && !head.rsv3;
        if !is_right || !is_plain {
            return Err(PeerError);
        }
        let (opcode, is_final) = (head.opcode, head.is_final);
        self.frame = Some(Partial { opcode, is_final, left, control: Vec::new() });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Events as text, and whether the bytes are right; fed in pieces of this length.
    fn read(bytes: &[u8], piece: usize) -> (Vec<String>, bool) {
        let (mut frames, mut events) = (Frames::default(), Vec::new());
        let mut received = 0;
        let fed = bytes.chunks(piece.max(1)).try_for_each(|piece| {
            frames.feed(piece, |event| {
                match event {
                    Event::Piece(count) => received += count,
                    Event::Message => events.push(format!("message of {received} so far")),
                    other => events.push(format!("{other:?}")),
                }
                Ok(())
            })
        });
        (events, fed.is_ok())
    }

    #[test]
    fn a_servers_frames_are_read() {
        let long = [&[0x82, 126, 1, 0][..], &[7; 256]].concat();
        let longer = [&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &[7; 65_536]].concat();
        let rows: [(&str, &[u8], &[&str]); 8] = [
            ("a text (RFC 6455, 5.7)", b"\x81\x05Hello", &["message of 5 so far"]),
            ("in two frames", b"\x01\x03Hel\x80\x02lo", &["message of 5 so far"]),
            ("a ping", b"\x89\x05Hello", &["Ping([72, 101, 108, 108, 111])"]),
            ("a pong within", b"\x01\x01a\x8a\x00\x80\x01b", &["Pong", "message of 2 so far"]),
            ("an empty text", b"\x81\x00\x81\x00", &["message of 0 so far"; 2]),
            ("a close", b"\x88\x02\x03\xe8", &["Close"]),
            ("16 bits of length", &long, &["message of 256 so far"]),
            ("64 bits of length", &longer, &["message of 65536 so far"]),
        ];
        for (name, bytes, events) in rows {
            assert_eq!(
                read(bytes, bytes.len()),
                (events.iter().map(|e| (*e).to_owned()).collect(), true),
                "{name}"
            );
        }
        let wrong: [(&str, &[u8]); 7] = [
            ("a mask", b"\x81\x81\0\0\0\0a"),
            ("a bit of an extension", b"\xc1\x01a"),
            ("an unknown opcode", b"\x83\x00"),
            ("a continuation of nothing", b"\x80\x01a"),
            ("a text within a message", b"\x01\x01a\x81\x01b"),
            ("a control frame in parts", b"\x09\x01a"),
            ("a long control frame", b"\x89\x7e\x00\x7e"),
        ];
        for (name, bytes) in wrong {
            assert!(!read(bytes, bytes.len()).1, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_events(
            payloads in prop::collection::vec((0_usize..70_000, any::<bool>(), 0_u8..4), 0..5),
            cut in prop::collection::vec(any::<u8>(), 0..20),
            piece in 1_usize..5_000,
        ) {
            let mut bytes = Vec::new();
            for (len, is_final, kind) in payloads {
                let opcode = [0, 1, 9, 10][usize::from(kind)];
                let opcode = OpCode::from(opcode);
                let len = if matches!(opcode, OpCode::Control(_)) { len % 126 } else { len };
                let mut frame = Frame::ping(vec![7; len]);
                (frame.header_mut().opcode, frame.header_mut().is_final) = (opcode, is_final);
                frame.format(&mut bytes).unwrap();
            }
            bytes.extend(cut);
            prop_assert_eq!(read(&bytes, piece), read(&bytes, bytes.len()));
        }
    }

    #[test]
    fn a_message_is_masked_and_read_back_by_another_reader() {
        for (content, kind) in [(&b"hello"[..], Data::Text), (&[0xff; 70_000], Data::Binary)] {
            let bytes = message(content);
            let mut cursor = Cursor::new(&bytes);
            let (head, length) = FrameHeader::parse(&mut cursor).unwrap().unwrap();
            assert_eq!((head.opcode, head.is_final), (OpCode::Data(kind), true));
            let mask = head.mask.unwrap();
            let payload = &bytes[cursor.position() as usize..];
            assert_eq!(payload.len() as u64, length);
            let plain: Vec<u8> =
                payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
            assert!(plain == content);
        }
        assert!(is_ping(&ping()) && !is_ping(&message(b"x")) && !is_ping(b""));
    }
}
