//! Frames of HTTP/2 (RFC 9113, 4 and 6): written whole, read incrementally. Pure.

/// The client's connection preface (3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload, for no other size is announced.
const PAYLOAD_BYTES_MAX: usize = 16_384;

const HEAD_BYTES: usize = 9;

/// Types of frames (RFC 9113 section 6).
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags of frames (RFC 9113 section 6).
pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

/// Parameters of SETTINGS (RFC 9113 section 6.5.2).
pub(super) const HEADER_TABLE_SIZE: u16 = 1;
pub(super) const ENABLE_PUSH: u16 = 2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_FRAME_SIZE: u16 = 5;

/// Largest payload of a frame that every peer takes (RFC 9113 section 4.2).
pub(super) const FRAME_BYTES_MIN: u32 = 16_384;

/// The error code of a cancelled request.
pub(super) const CANCEL: u32 = 8;

/// A frame that is malformed or not allowed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameError;

/// A frame's head, without the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A frame, or the part of a DATA frame that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Data {
        head: Head,
        /// Without padding.
        body: &'a [u8],
        /// Bytes of the payload, padding included.
        counts: usize,
        /// The frame is complete.
        last: bool,
    },
    Other {
        head: Head,
        payload: &'a [u8],
    },
}

/// The reader of one connection's frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// A head, or the payload of a frame other than DATA, that is incomplete; or one that was
    /// handed out.
    held: Vec<u8>,
    /// The buffered frame was handed out.
    spent: bool,
    frame: Option<Open>,
}

/// A frame whose head has been read.
#[derive(Clone, Copy, Debug)]
struct Open {
    head: Head,
    /// Bytes of the payload to come.
    left: usize,
    /// Bytes of padding at the end of DATA; `None` until the pad length is read.
    padding: Option<usize>,
}

impl Frames {
    /// The next frame, or piece of DATA, in these bytes; `None` if there is none.
    pub(super) fn next<'f, 'b: 'f>(
        &'f mut self,
        bytes: &mut &'b [u8],
    ) -> Result<Option<Frame<'f>>, FrameError> {
        if std::mem::take(&mut self.spent) {
            self.held.clear();
        }
        if self.frame.is_none() && !self.take_head(bytes)? {
            return Ok(None);
        }
        let Some(open) = &mut self.frame else { return Ok(None) };
        if open.head.kind == DATA {
            return take_data(&mut self.frame, bytes);
        }
        let (head, left) = (open.head, open.left);
        if self.held.is_empty() && bytes.len() >= left {
            let (payload, rest) = bytes.split_at(left);
            (*bytes, self.frame) = (rest, None);
            return Ok(Some(Frame::Other { head, payload }));
        }
        let (received, rest) = bytes.split_at(bytes.len().min(left));
        self.held.extend_from_slice(received);
        (*bytes, open.left) = (rest, left - received.len());
        if open.left > 0 {
            return Ok(None);
        }
        (self.frame, self.spent) = (None, true);
        Ok(Some(Frame::Other { head, payload: &self.held }))
    }

    fn take_head(&mut self, bytes: &mut &[u8]) -> Result<bool, FrameError> {
        let wanted = HEAD_BYTES - self.held.len();
        let (received, rest) = bytes.split_at(bytes.len().min(wanted));
        self.held.extend_from_slice(received);
        *bytes = rest;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = self.held[..] else { return Ok(false) };
        self.held.clear();
        let left = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([s0 & 127, s1, s2, s3]);
        let head = Head { kind, flags, stream };
        let padding = if head.has(PADDED) { None } else { Some(0) };
        if left > PAYLOAD_BYTES_MAX || kind == DATA && padding.is_none() && left == 0 {
            return Err(FrameError);
        }
        self.frame = Some(Open { head, left, padding });
        Ok(true)
    }
}

/// The part of a DATA frame that has arrived; `None` if none has.
fn take_data<'a>(
    frame: &mut Option<Open>,
    bytes: &mut &'a [u8],
) -> Result<Option<Frame<'a>>, FrameError> {
    let Some(open) = frame else { return Ok(None) };
    let mut counts = 0;
    if open.padding.is_none() {
        let Some((&padding, rest)) = bytes.split_first() else { return Ok(None) };
        *bytes = rest;
        (open.left, open.padding, counts) = (open.left - 1, Some(usize::from(padding)), 1);
    }
    let padding = open.padding.unwrap_or(0);
    let body = open.left.checked_sub(padding);
    // The padding's piece is shorter than all of it once the body is over.
    let body = if counts == 1 { body.ok_or(FrameError)? } else { body.unwrap_or(0) };
    if bytes.is_empty() && open.left > 0 && counts == 0 {
        return Ok(None);
    }
    let (received, rest) = bytes.split_at(bytes.len().min(open.left));
    *bytes = rest;
    open.left -= received.len();
    let head = open.head;
    let last = open.left == 0;
    if last {
        *frame = None;
    }
    let body = &received[..received.len().min(body)];
    Ok(Some(Frame::Data { head, body, counts: counts + received.len(), last }))
}

/// The fields in the payload of HEADERS, without padding and priority.
pub(super) fn fields(head: Head, mut payload: &[u8]) -> Option<&[u8]> {
    if head.has(PADDED) {
        let (&padding, rest) = payload.split_first()?;
        payload = rest.get(..rest.len().checked_sub(usize::from(padding))?)?;
    }
    if head.has(PRIORITY) { payload.get(5..) } else { Some(payload) }
}

/// The last value of a setting in the payload of SETTINGS.
pub(super) fn setting(payload: &[u8], wanted: u16) -> Option<u32> {
    values(payload, wanted).next_back()
}

/// All values of a setting, in their order.
pub(super) fn values(payload: &[u8], wanted: u16) -> impl DoubleEndedIterator<Item = u32> {
    let all = payload
        .chunks_exact(6)
        .map(|s| (u16::from_be_bytes([s[0], s[1]]), u32::from_be_bytes([s[2], s[3], s[4], s[5]])));
    all.filter(move |(name, _)| *name == wanted).map(|(_, value)| value)
}

pub(super) fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    begin(out, settings.len() * 6, SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(super) fn settings_ack(out: &mut Vec<u8>) {
    begin(out, 0, SETTINGS, ACK, 0);
}

pub(super) fn pong(out: &mut Vec<u8>, payload: &[u8]) {
    begin(out, payload.len(), PING, ACK, 0);
    out.extend_from_slice(payload);
}

pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    begin(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&bytes.to_be_bytes());
}

pub(super) fn reset(out: &mut Vec<u8>, stream: u32, error: u32) {
    begin(out, 4, RST_STREAM, 0, stream);
    out.extend_from_slice(&error.to_be_bytes());
}

/// The head of a request, in frames that every server takes; `ends`: it has no body.
pub(super) fn headers(out: &mut Vec<u8>, stream: u32, fields: &[u8], ends: bool) {
    let (first, mut rest) = fields.split_at(fields.len().min(FRAME_BYTES_MIN as usize));
    let (mut kind, mut flags, mut piece) = (HEADERS, end(ends), first);
    while !rest.is_empty() {
        begin(out, piece.len(), kind, flags, stream);
        out.extend_from_slice(piece);
        (kind, flags) = (CONTINUATION, 0);
        (piece, rest) = rest.split_at(rest.len().min(FRAME_BYTES_MIN as usize));
    }
    begin(out, piece.len(), kind, flags | END_HEADERS, stream);
    out.extend_from_slice(piece);
}

/// A part of a request's body; `ends`: it is the last.
pub(super) fn data(out: &mut Vec<u8>, stream: u32, bytes: &[u8], ends: bool) {
    begin(out, bytes.len(), DATA, end(ends), stream);
    out.extend_from_slice(bytes);
}

fn end(ends: bool) -> u8 {
    if ends { END_STREAM } else { 0 }
}

fn begin(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, flags, stream and payload of each frame; DATA joined.
    type Seen = Vec<(u8, u8, u32, Vec<u8>, usize)>;

    fn read(frames: &mut Frames, mut bytes: &[u8], seen: &mut Seen) -> Result<(), FrameError> {
        while let Some(frame) = frames.next(&mut bytes)? {
            match frame {
                Frame::Data { head, body, counts, last } => {
                    match seen.last_mut().filter(|one| one.0 == DATA && one.4 > 0) {
                        Some(one) => one.3.extend_from_slice(body),
                        None => seen.push((DATA, head.flags, head.stream, body.to_vec(), 1)),
                    }
                    // The last piece closes the frame, so a superfluous one is seen.
                    let one = seen.last_mut().expect("one was just pushed");
                    one.4 = if last { 0 } else { one.4 + counts };
                }
                Frame::Other { head, payload } => {
                    seen.push((head.kind, head.flags, head.stream, payload.to_vec(), 0));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn frames_are_read_the_same_wherever_they_are_split() {
        let mut bytes = Vec::new();
        settings(&mut bytes, &[(MAX_CONCURRENT_STREAMS, 100), (7, 9)]);
        settings_ack(&mut bytes);
        headers(&mut bytes, 1, b"\x88", true);
        begin(&mut bytes, 5, DATA, 0, 1);
        bytes.extend_from_slice(b"hello");
        begin(&mut bytes, 8, DATA, PADDED | END_STREAM, 1);
        bytes.extend_from_slice(b"\x02world\0\0");
        begin(&mut bytes, 0, DATA, END_STREAM, 3);
        let want: Seen = vec![
            (SETTINGS, 0, 0, b"\0\x03\0\0\0\x64\0\x07\0\0\0\x09".to_vec(), 0),
            (SETTINGS, ACK, 0, Vec::new(), 0),
            (HEADERS, END_STREAM | END_HEADERS, 1, b"\x88".to_vec(), 0),
            (DATA, 0, 1, b"hello".to_vec(), 0),
            (DATA, PADDED | END_STREAM, 1, b"world".to_vec(), 0),
            (DATA, END_STREAM, 3, Vec::new(), 0),
        ];
        for split in 0..=bytes.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            let (first, second) = bytes.split_at(split);
            read(&mut frames, first, &mut seen).unwrap();
            read(&mut frames, second, &mut seen).unwrap();
            assert_eq!(seen, want, "split at {split}");
        }
        let (mut frames, mut seen) = (Frames::default(), Vec::new());
        bytes.chunks(1).for_each(|byte| read(&mut frames, byte, &mut seen).unwrap());
        assert_eq!(seen, want, "byte by byte");
    }

    #[test]
    fn long_fields_go_on_in_further_frames() {
        for length in [0, 16_384_usize, 16_385, 32_768, 40_000] {
            let fields: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let (mut bytes, mut seen) = (Vec::new(), Vec::new());
            headers(&mut bytes, 1, &fields, true);
            read(&mut Frames::default(), &bytes, &mut seen).unwrap();
            let payloads: Vec<u8> = seen.iter().flat_map(|frame| frame.3.clone()).collect();
            assert!(payloads == fields, "{length}");
            let last = seen.len() - 1;
            assert_eq!(seen.len(), length.div_ceil(16_384).max(1), "{length}");
            for (at, (kind, flags, ..)) in seen.into_iter().enumerate() {
                let begins = if at == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
                let ends = if at == last { END_HEADERS } else { 0 };
                assert_eq!((kind, flags), (begins.0, begins.1 | ends), "{length}, {at}");
            }
        }
    }

    #[test]
    fn invalid_frames_are_refused() {
        let frame = |length, flags, payload: &[u8]| {
            let mut bytes = Vec::new();
            begin(&mut bytes, length, DATA, flags, 1);
            [bytes, payload.to_vec()].concat()
        };
        let rows = [
            ("too large", frame(PAYLOAD_BYTES_MAX + 1, 0, b"")),
            ("more padding than there is", frame(3, PADDED, b"\x03ab")),
            ("padding that is not said", frame(0, PADDED, b"")),
        ];
        for (name, bytes) in rows {
            let seen = read(&mut Frames::default(), &bytes, &mut Vec::new());
            assert_eq!(seen, Err(FrameError), "{name}");
        }
        let padded = Head { kind: HEADERS, flags: PADDED, stream: 1 };
        assert_eq!(fields(padded, b"\x03\x88\0"), None, "of fields, too");
        assert_eq!(fields(padded, b"\x01\x88\0"), Some(&b"\x88"[..]));
    }
}
