//! What a peer may send that costs it nothing and this server something, in frames: seen as they
//! come in, since the library answers them by itself. It bounds resets before they are accepted,
//! CONTINUATION and empty DATA; these are the others. What it does not know is read here, too: the
//! wishes of RFC 9218.

use std::mem;

use h2::Reason;

use crate::clock;
use crate::semantics::priority::Priority;

/// The client's first bytes (RFC 9113 3.4), before its first frame.
const PREFACE_BYTES: usize = 24;

/// A frame's head (RFC 9113 4.1).
const HEAD_BYTES: usize = 9;

/// Frames that ask for an answer or nothing: so many at once, and so many a second.
const CHATTER: Allowance = Allowance { burst: 500, per_second: 100 };

/// Streams given up by who opened them: so many at once (a browser leaves a page), and a second.
const RESETS: Allowance = Allowance { burst: 200, per_second: 50 };

/// Window updates: so many at once and a second; and one for so many bytes sent.
const UPDATES: Allowance = Allowance { burst: 2_000, per_second: 200 };
const BYTES_PER_UPDATE: u64 = 256;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// RFC 9218 7.1.
const PRIORITY_UPDATE: u8 = 16;

/// What of such a frame is read: the stream it is of, and a value that says `u=1, i` and little else.
const WISH_BYTES_MAX: usize = 64;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// The others are reserved (RFC 9113 4.1).
const STREAM_BITS: u32 = 0x7fff_ffff;

/// No time.
const NEVER: u64 = u64::MAX;

/// How many frames of a kind are let pass.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    burst: u64,
    per_second: u64,
}

/// What is left of an allowance.
#[derive(Debug)]
struct Purse {
    of: Allowance,
    /// In thousandths of a frame.
    left: u64,
    filled_ms: u64,
}

/// The frames of one connection, on their way in.
#[derive(Debug)]
pub(super) struct Toll {
    preface_left: usize,
    /// No frame has come yet.
    is_first: bool,
    head: [u8; HEAD_BYTES],
    head_len: usize,
    payload_left: usize,
    kind: u8,
    /// HEADERS whose block goes on in CONTINUATION.
    in_block: bool,
    /// Since when something that is not a body is begun and not whole; `NEVER`: nothing is.
    begun_ms: u64,
    chatter: Purse,
    resets: Purse,
    updates: Purse,
    /// What has come of a PRIORITY_UPDATE.
    wish: Vec<u8>,
    wishes: Vec<(u32, Priority)>,
}

impl Toll {
    pub(super) fn new(now_ms: u64) -> Toll {
        Toll {
            preface_left: PREFACE_BYTES,
            is_first: true,
            head: [0; HEAD_BYTES],
            head_len: 0,
            payload_left: 0,
            kind: 0,
            in_block: false,
            begun_ms: now_ms,
            chatter: Purse::new(CHATTER, now_ms),
            resets: Purse::new(RESETS, now_ms),
            updates: Purse::new(UPDATES, now_ms),
            wish: Vec::new(),
            wishes: Vec::new(),
        }
    }

    /// Since when the peer owes the rest of what it began; body excepted.
    pub(super) fn begun_ms(&self) -> u64 {
        self.begun_ms
    }

    /// Bytes have left: the peer may say that it took them.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.updates.fill(bytes as u64 * 1_000 / BYTES_PER_UPDATE);
    }

    /// The wishes that have come since this was asked: of which stream, and which.
    pub(super) fn wishes(&mut self) -> Vec<(u32, Priority)> {
        mem::take(&mut self.wishes)
    }

    /// Looks at what came.
    ///
    /// # Errors
    /// It is more than is let pass, or what the library takes though it must not.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Reason> {
        let now_ms = clock::now_ms();
        let preface = self.preface_left.min(bytes.len());
        self.preface_left -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let here = self.payload_left.min(bytes.len());
                self.payload_left -= here;
                if self.kind == PRIORITY_UPDATE {
                    let room = WISH_BYTES_MAX.saturating_sub(self.wish.len());
                    self.wish.extend_from_slice(&bytes[..here.min(room)]);
                    self.note_wish();
                }
                bytes = &bytes[here..];
            } else {
                let here = (HEAD_BYTES - self.head_len).min(bytes.len());
                self.head[self.head_len..][..here].copy_from_slice(&bytes[..here]);
                self.head_len += here;
                bytes = &bytes[here..];
                if self.head_len < HEAD_BYTES {
                    continue;
                }
                self.head_len = 0;
                let [a, b, c, kind, flags, ..] = self.head;
                self.payload_left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.kind = kind;
                self.frame(kind, flags, now_ms)?;
            }
            if self.payload_left == 0 && !self.in_block {
                self.begun_ms = NEVER;
            }
        }
        let body = self.kind == DATA && self.payload_left > 0;
        let whole = self.preface_left == 0 && self.head_len == 0 && self.payload_left == 0;
        if self.begun_ms == NEVER && !body && (!whole || self.in_block) {
            self.begun_ms = now_ms;
        }
        Ok(())
    }

    fn frame(&mut self, kind: u8, flags: u8, now_ms: u64) -> Result<(), Reason> {
        // RFC 9113 3.4.
        if mem::take(&mut self.is_first) && (kind != SETTINGS || flags & ACK != 0) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let purse = match kind {
            HEADERS | CONTINUATION => {
                self.in_block = flags & END_HEADERS == 0;
                return Ok(());
            }
            // Data is held back by windows; the library counts what is small.
            DATA if self.payload_left > 0 || flags & END_STREAM != 0 => return Ok(()),
            RST_STREAM => &mut self.resets,
            WINDOW_UPDATE => &mut self.updates,
            _ => &mut self.chatter,
        };
        if purse.take(now_ms) { Ok(()) } else { Err(Reason::ENHANCE_YOUR_CALM) }
    }

    /// Reads a wish once it is whole. One that is too long says nothing.
    fn note_wish(&mut self) {
        if self.payload_left > 0 {
            return;
        }
        if self.wish.len() < WISH_BYTES_MAX
            && let Some((stream, value)) = self.wish.split_first_chunk::<4>()
        {
            let stream = u32::from_be_bytes(*stream) & STREAM_BITS;
            self.wishes.push((stream, Priority::read(value)));
        }
        self.wish.clear();
    }
}

impl Purse {
    fn new(of: Allowance, now_ms: u64) -> Purse {
        Purse { of, left: of.burst * 1_000, filled_ms: now_ms }
    }

    fn fill(&mut self, thousandths: u64) {
        self.left = self.left.saturating_add(thousandths).min(self.of.burst * 1_000);
    }

    fn take(&mut self, now_ms: u64) -> bool {
        self.fill(now_ms.saturating_sub(self.filled_ms).saturating_mul(self.of.per_second));
        self.filled_ms = now_ms;
        let left = self.left.checked_sub(1_000);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut bytes = vec![0, (payload >> 8) as u8, payload as u8, kind, flags, 0, 0, 0, 1];
        bytes.resize(HEAD_BYTES + payload, 7);
        bytes
    }

    fn begun() -> Toll {
        let mut toll = Toll::new(clock::now_ms());
        assert_eq!(toll.pass(&[b'P'; PREFACE_BYTES]), Ok(()));
        assert_eq!(toll.pass(&frame(SETTINGS, 0, 0)), Ok(()));
        toll
    }

    #[test]
    fn floods_are_stopped_wherever_reads_end() {
        let rows = [
            ("PING", frame(PING, 0, 8), true),
            ("acknowledgements of nothing", frame(PING, 1, 8), true),
            ("SETTINGS", frame(SETTINGS, 0, 6), true),
            ("PRIORITY", frame(2, 0, 5), true),
            ("frames nobody knows", frame(77, 0, 3), true),
            ("resets", frame(RST_STREAM, 0, 4), true),
            ("window updates", frame(WINDOW_UPDATE, 0, 4), true),
            ("empty data", frame(DATA, 0, 0), true),
            ("data", frame(DATA, 0, 100), false),
            ("requests", frame(HEADERS, END_HEADERS | END_STREAM, 20), false),
        ];
        for (why, frame, stopped) in rows {
            let flood = frame.repeat(4_000);
            for piece in [1, 7, 4_096] {
                let mut toll = begun();
                let passed = flood.chunks(piece).all(|bytes| toll.pass(bytes).is_ok());
                assert_eq!(passed, !stopped, "{why} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn who_takes_bytes_may_say_so() {
        let mut toll = begun();
        let update = frame(WINDOW_UPDATE, 0, 4);
        let taken = (0..20_000).all(|_| {
            toll.sent(1_000);
            toll.pass(&update).is_ok()
        });
        assert!(taken);
    }

    #[test]
    fn what_is_begun_is_known() {
        let mut toll = begun();
        assert_eq!(toll.begun_ms(), NEVER);
        assert_eq!(toll.pass(&frame(PING, 0, 8)[..5]), Ok(()));
        assert_ne!(toll.begun_ms(), NEVER, "half a frame");
        assert_eq!(toll.pass(&frame(PING, 0, 8)[5..]), Ok(()));
        assert_eq!(toll.begun_ms(), NEVER);
        assert_eq!(toll.pass(&frame(HEADERS, 0, 3)), Ok(()));
        assert_ne!(toll.begun_ms(), NEVER, "a block that goes on");
        assert_eq!(toll.pass(&frame(CONTINUATION, END_HEADERS, 3)), Ok(()));
        assert_eq!(toll.begun_ms(), NEVER);
        assert_eq!(toll.pass(&frame(DATA, 0, 100)[..50]), Ok(()));
        assert_eq!(toll.begun_ms(), NEVER, "a body has a pace of its own");
    }

    #[test]
    fn wishes_are_read_wherever_reads_end() {
        let wish = |bytes: &[u8]| {
            let mut frame = frame(PRIORITY_UPDATE, 0, bytes.len());
            frame[HEAD_BYTES..].copy_from_slice(bytes);
            frame
        };
        let long = [&[0, 0, 0, 3][..], &[b'u'; WISH_BYTES_MAX]].concat();
        let frames = [wish(b"\x80\0\0\x05u=1, i"), wish(b"?"), wish(&long), wish(b"\0\0\0\x07")];
        let said = |urgency, incremental| Priority { urgency, incremental };
        for piece in [1, 5, 4_096] {
            let mut toll = begun();
            for bytes in frames.concat().chunks(piece) {
                assert_eq!(toll.pass(bytes), Ok(()));
            }
            assert_eq!(toll.wishes(), [(5, said(1, true)), (7, said(3, false))], "{piece}");
            assert_eq!(toll.wishes(), []);
        }
    }

    #[test]
    fn settings_come_first() {
        for (first, passed) in [
            (frame(SETTINGS, 0, 6), Ok(())),
            (frame(SETTINGS, ACK, 0), Err(Reason::PROTOCOL_ERROR)),
            (frame(PING, 0, 8), Err(Reason::PROTOCOL_ERROR)),
        ] {
            let mut toll = Toll::new(clock::now_ms());
            assert_eq!(toll.pass(&[b'P'; PREFACE_BYTES]), Ok(()));
            assert_eq!(toll.pass(&first), passed);
        }
    }
}
