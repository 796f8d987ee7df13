//! The encoding of frames (RFC 9113 sections 4.1 and 6), error codes and settings. `dispatch`
//! handles the frames.

use std::fmt;

/// Bytes of a frame's header.
pub(super) const HEAD_BYTES: usize = 9;

/// Maximum payload in bytes: the default, and the minimum, of SETTINGS_MAX_FRAME_SIZE.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The client's first bytes (RFC 9113 section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// RFC 9218 section 7.1.
pub(super) const PRIORITY_UPDATE: u8 = 16;

pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITISED: u8 = 0x20;

/// The stream bits of a header; the remaining bit is reserved (RFC 9113 section 4.1).
const STREAM_BITS: u32 = 0x7fff_ffff;

/// Settings (RFC 9113 section 6.5.2).
pub(super) const HEADER_TABLE_SIZE: u16 = 1;
pub(super) const ENABLE_PUSH: u16 = 2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_FRAME_SIZE: u16 = 5;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
/// RFC 8441 section 3.
pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// RFC 9218 section 2.1.
pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;

/// An error code (RFC 9113 section 7).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// An orderly end: NO_ERROR.
    pub const NO_ERROR: Reason = Reason(0);
    /// The peer broke a rule without a code of its own.
    pub const PROTOCOL_ERROR: Reason = Reason(1);
    /// The server failed: INTERNAL_ERROR (RFC 9113 section 7).
    pub const INTERNAL_ERROR: Reason = Reason(2);
    /// The peer exceeded a flow-control window.
    pub const FLOW_CONTROL_ERROR: Reason = Reason(3);
    /// The peer did not acknowledge SETTINGS in time.
    pub const SETTINGS_TIMEOUT: Reason = Reason(4);
    /// A frame for a closed stream.
    pub const STREAM_CLOSED: Reason = Reason(5);
    /// A frame of the wrong size.
    pub const FRAME_SIZE_ERROR: Reason = Reason(6);
    /// The request was not processed, so the client may repeat it.
    pub const REFUSED_STREAM: Reason = Reason(7);
    /// The stream is no longer needed.
    pub const CANCEL: Reason = Reason(8);
    /// A field block cannot be decoded.
    pub const COMPRESSION_ERROR: Reason = Reason(9);
    /// A tunnel's connection failed.
    pub const CONNECT_ERROR: Reason = Reason(10);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: Reason = Reason(11);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: Reason = Reason(12);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Reason = Reason(13);
}

/// Names of the codes, in order.
const REASONS: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match REASONS.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

/// Header of a frame (RFC 9113 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes of the payload.
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn read(bytes: [u8; HEAD_BYTES]) -> Head {
        let [a, b, c, kind, flags, d, e, f, g] = bytes;
        Head {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]) & STREAM_BITS,
        }
    }

    pub(super) fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with its payload.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&Head { len: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let len = settings.len() * 6;
    out.extend_from_slice(&Head { len, kind: SETTINGS, flags: 0, stream: 0 }.bytes());
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// The settings of a payload, whose length is a multiple of 6.
pub(super) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload
        .as_chunks::<6>()
        .0
        .iter()
        .map(|&[a, b, c, d, e, f]| (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f])))
}

/// Splits a payload into its first 31 bits (a stream or an increment) and the rest.
pub(super) fn number(payload: &[u8]) -> Option<(u32, &[u8])> {
    let (bytes, rest) = payload.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*bytes) & STREAM_BITS, rest))
}

/// The field block fragment of a HEADERS payload, without padding and priority, and the parent
/// stream of an RFC 7540 priority.
///
/// # Errors
/// The payload is too short for its flags, or shorter than its padding (RFC 9113 section 6.2).
pub(super) fn fragment(head: Head, payload: &[u8]) -> Result<(&[u8], Option<u32>), Reason> {
    let mut rest = payload;
    let mut padding = 0;
    if head.has(PADDED) {
        let (&len, behind) = rest.split_first().ok_or(Reason::FRAME_SIZE_ERROR)?;
        (padding, rest) = (usize::from(len), behind);
    }
    let mut parent = None;
    if head.has(PRIORITISED) {
        let (stream, behind) = number(rest).ok_or(Reason::FRAME_SIZE_ERROR)?;
        parent = Some(stream);
        rest = behind.get(1..).ok_or(Reason::FRAME_SIZE_ERROR)?;
    }
    let len = rest.len().checked_sub(padding).ok_or(Reason::PROTOCOL_ERROR)?;
    Ok((&rest[..len], parent))
}
