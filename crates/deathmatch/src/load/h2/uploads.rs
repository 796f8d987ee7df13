//! Bodies of requests, sent as the server's windows allow (RFC 9113, 5.2 and 6.9). Pure.

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::{self, FRAME_BYTES_MIN};
use crate::load::link::PeerError;

/// Bytes of bodies that wait to be sent, at most, however large the windows are.
const OUT_BYTES_MAX: usize = 256 * 1024;

/// Window of the connection, and of each stream before the server's settings (6.9.2).
const FIRST_WINDOW_BYTES: i64 = 65_535;

/// Largest window of a stream or of the connection, in bytes (6.9.1).
const WINDOW_BYTES_MAX: i64 = (1 << 31) - 1;

/// Largest size that a server may allow for a frame's payload (6.5.2).
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;

/// The bodies that are not wholly sent.
#[derive(Debug)]
pub(super) struct Uploads {
    /// The rest of the connection's window.
    window: i64,
    /// Window of a new stream.
    first_window: i64,
    /// Largest payload of a frame.
    frame_bytes_max: usize,
    waiting: VecDeque<Upload>,
}

#[derive(Debug)]
struct Upload {
    stream: u32,
    rest: Bytes,
    /// The rest of the stream's window; below 0 if the server has reduced it.
    window: i64,
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads {
            window: FIRST_WINDOW_BYTES,
            first_window: FIRST_WINDOW_BYTES,
            frame_bytes_max: FRAME_BYTES_MIN as usize,
            waiting: VecDeque::new(),
        }
    }
}

impl Uploads {
    /// Adds the body of a stream; it is not empty.
    pub(super) fn begin(&mut self, stream: u32, body: Bytes) {
        self.waiting.push_back(Upload { stream, rest: body, window: self.first_window });
    }

    /// Ends the body of a stream; `true` if it was not wholly sent.
    pub(super) fn cancel(&mut self, stream: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|upload| upload.stream != stream);
        self.waiting.len() < before
    }

    /// Takes the first window and the size of frames from the payload of SETTINGS.
    ///
    /// # Errors
    /// A value that is not allowed (6.5.2).
    pub(super) fn set(&mut self, settings: &[u8]) -> Result<(), PeerError> {
        if let Some(first) = frame::setting(settings, frame::INITIAL_WINDOW_SIZE) {
            // It also changes the windows of open streams (6.9.2).
            let change = i64::from(first) - self.first_window;
            self.first_window = checked(i64::from(first))?;
            for upload in &mut self.waiting {
                upload.window = checked(upload.window + change)?;
            }
        }
        if let Some(most) = frame::setting(settings, frame::MAX_FRAME_SIZE) {
            if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&most) {
                return Err(PeerError);
            }
            self.frame_bytes_max = most as usize;
        }
        Ok(())
    }

    /// Handles WINDOW_UPDATE of a stream, or of the connection (0).
    ///
    /// # Errors
    /// It is malformed, or the window gets too large.
    pub(super) fn update(&mut self, stream: u32, payload: &[u8]) -> Result<(), PeerError> {
        let &[a, b, c, d] = payload else { return Err(PeerError) };
        let more = i64::from(u32::from_be_bytes([a & 127, b, c, d]));
        let window = match stream {
            0 => &mut self.window,
            _ => match self.waiting.iter_mut().find(|upload| upload.stream == stream) {
                Some(upload) => &mut upload.window,
                None => return Ok(()),
            },
        };
        if more == 0 {
            return Err(PeerError);
        }
        *window = checked(*window + more)?;
        Ok(())
    }

    /// Writes what the windows allow, the bodies in turn.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        let mut blocked = 0;
        while out.len() < OUT_BYTES_MAX && self.window > 0 && blocked < self.waiting.len() {
            let Some(mut upload) = self.waiting.pop_front() else { return };
            let window = usize::try_from(upload.window.min(self.window)).unwrap_or(0);
            let count = upload.rest.len().min(window).min(self.frame_bytes_max);
            if count > 0 {
                let piece = upload.rest.split_to(count);
                upload.window -= count as i64;
                self.window -= count as i64;
                frame::data(out, upload.stream, &piece, upload.rest.is_empty());
                blocked = 0;
            } else {
                blocked += 1;
            }
            if !upload.rest.is_empty() {
                self.waiting.push_back(upload);
            }
        }
    }
}

/// A window that is not too large.
fn checked(window: i64) -> Result<i64, PeerError> {
    if window > WINDOW_BYTES_MAX { Err(PeerError) } else { Ok(window) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stream and bytes of each DATA frame, and whether it is the last.
    fn written(uploads: &mut Uploads) -> Vec<(u32, usize, bool)> {
        let (mut frames, mut out, mut seen) = (frame::Frames::default(), Vec::new(), Vec::new());
        uploads.write(&mut out);
        let mut bytes = &out[..];
        while let Some(frame::Frame::Data { head, body, .. }) = frames.next(&mut bytes).unwrap() {
            seen.push((head.stream, body.len(), head.has(frame::END_STREAM)));
        }
        seen
    }

    #[test]
    fn bodies_take_turns_within_the_windows() {
        let mut uploads = Uploads::default();
        uploads.begin(1, Bytes::from(vec![0; 40_000]));
        uploads.begin(3, Bytes::from_static(b"short"));
        let seen = written(&mut uploads);
        assert_eq!(seen, [(1, 16_384, false), (3, 5, true), (1, 16_384, false), (1, 7_232, true)]);
        // 25,530 bytes of the connection's window are left.
        uploads.begin(5, Bytes::from(vec![0; 30_000]));
        assert_eq!(written(&mut uploads), [(5, 16_384, false), (5, 9_146, false)]);
        assert!(written(&mut uploads).is_empty(), "no window is left");
        uploads.update(5, &[0, 0, 0, 9]).unwrap();
        assert!(written(&mut uploads).is_empty(), "nor is the connection's");
        uploads.update(0, &[0, 0, 255, 255]).unwrap();
        assert_eq!(written(&mut uploads), [(5, 4_470, true)]);
        assert!(!uploads.cancel(5));
        // A first window of 2 bytes, and then of 4.
        uploads.set(&[0, 4, 0, 0, 0, 2]).unwrap();
        uploads.begin(7, Bytes::from_static(b"later"));
        assert_eq!(written(&mut uploads), [(7, 2, false)]);
        uploads.set(&[0, 4, 0, 0, 0, 4]).unwrap();
        assert_eq!(written(&mut uploads), [(7, 2, false)]);
        assert!(uploads.cancel(7) && written(&mut uploads).is_empty());
    }

    #[test]
    fn windows_and_settings_that_are_not_allowed_end_the_connection() {
        let mut uploads = Uploads::default();
        uploads.begin(1, Bytes::from_static(b"body"));
        for (stream, payload) in [
            (0, &[0, 0, 0, 0][..]),
            (1, &[0, 0, 0, 0]),
            (0, &[0, 0, 1]),
            (0, &[127, 255, 255, 255]),
        ] {
            assert_eq!(uploads.update(stream, payload), Err(PeerError), "{stream} {payload:?}");
        }
        assert_eq!(uploads.update(9, &[0, 0, 0, 1]), Ok(()), "of a stream without a body");
        for setting in [[0, 4, 128, 0, 0, 0], [0, 5, 0, 0, 0, 1], [0, 5, 1, 0, 0, 0]] {
            assert_eq!(uploads.set(&setting), Err(PeerError), "{setting:?}");
        }
    }
}
