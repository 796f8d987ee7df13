//! The frames of one stream of a client's connection.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{StatusCode, Version};
use hurtle_http::h2::{Body as Received, Reason, StreamClosed};
use hurtle_http::request::RequestFields;

use super::super::multiplexed::{FrameStream, ResetCause, Security};
use super::super::reading::Reading;
use super::shared::Shared;
use crate::transport::Input;
use crate::transport::buffer::BODY_BYTES;

/// A stream of the server.
pub(crate) struct Frames {
    shared: Rc<Shared>,
    id: u32,
}

impl Frames {
    pub(super) fn new(shared: &Rc<Shared>, id: u32) -> Frames {
        shared.pulse.stream_begins();
        Frames { shared: Rc::clone(shared), id }
    }
}

impl FrameStream for Frames {
    const VERSION: Version = Version::HTTP_2;
    const QUEUED_BYTES_MAX: usize = usize::MAX;
    // The windows make responses take turns.
    const GIVES_WAY: bool = false;

    fn security(&self) -> &Security {
        &self.shared.security
    }

    fn is_open(&self) -> bool {
        self.shared.codec.borrow().is_open(self.id)
    }

    fn wait(&self, cx: &Context<'_>) {
        self.shared.waiting.wait(self.id, cx);
    }

    fn send_head<'f>(
        &self,
        status: StatusCode,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        _len: Option<u64>,
        is_end: bool,
    ) -> io::Result<()> {
        let mut codec = self.shared.codec.borrow_mut();
        codec.send_head(self.id, status.as_u16(), fields, is_end).map_err(closed)?;
        drop(codec);
        self.shared.queued();
        Ok(())
    }

    fn flush_head(&self) -> io::Result<()> {
        Ok(())
    }

    fn send_interim<'f>(
        &self,
        status: StatusCode,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        let mut codec = self.shared.codec.borrow_mut();
        // The peer may be gone.
        let _ = codec.send_informational(self.id, status.as_u16(), fields);
        drop(codec);
        self.shared.queued();
    }

    fn send_data(&self, data: Bytes, _has_len: bool, is_last: bool) -> io::Result<()> {
        let sent = self.shared.codec.borrow_mut().send_data(self.id, data, is_last);
        self.shared.queued();
        sent.map_err(closed)
    }

    fn send_trailers<'f>(
        &self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> io::Result<()> {
        let sent = self.shared.codec.borrow_mut().send_trailers(self.id, fields);
        self.shared.queued();
        sent.map_err(closed)
    }

    fn poll_room(&self, cx: &Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        match self.room_now(wanted)? {
            0 => {
                self.wait(cx);
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    fn room_now(&self, wanted: usize) -> io::Result<usize> {
        self.shared.codec.borrow_mut().capacity(self.id, wanted).map_err(closed)
    }

    /// The connection's task writes the frames.
    fn poll_flush(&self, _cx: &Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Returns the connection's sent data while this stream waits for its turn: the peer is not
    /// stalled then, if that grows.
    fn flushed_bytes(&self) -> u64 {
        let codec = self.shared.codec.borrow();
        match codec.waits_for_turn(self.id) {
            true => codec.sent_data(),
            false => 0,
        }
    }

    fn piece_bytes(&self) -> usize {
        BODY_BYTES
    }

    fn poll_read(
        &self,
        cx: &Context<'_>,
        input: &mut Input,
        reading: &mut Reading,
    ) -> Poll<io::Result<usize>> {
        let read = ready!(poll_read(&self.shared, self.id, cx, input, reading));
        if matches!(read, Ok(1..)) {
            self.shared.queued();
        }
        Poll::Ready(read.map_err(closed))
    }

    fn reset(&self, cause: ResetCause) {
        let reason = match cause {
            ResetCause::Cancelled => Reason::CANCEL,
            ResetCause::Failed => Reason::INTERNAL_ERROR,
        };
        self.shared.codec.borrow_mut().reset(self.id, reason);
        self.shared.queued();
    }

    fn close(&self) {
        // RFC 9113 section 8.1: the rest of the request is not needed.
        if self.is_open() {
            self.shared.codec.borrow_mut().reset(self.id, Reason::NO_ERROR);
            self.shared.queued();
        }
        self.shared.waiting.forget(self.id);
        self.shared.pulse.stream_ends();
        if self.shared.codec.borrow().is_finished() {
            self.shared.queued();
        }
    }
}

/// Reads more of a message's body into `input`. The end is in `reading`, with the trailers; 0 bytes
/// came with it.
pub(super) fn poll_read(
    shared: &Shared,
    id: u32,
    cx: &Context<'_>,
    input: &mut Input,
    reading: &mut Reading,
) -> Poll<Result<usize, StreamClosed>> {
    let mut codec = shared.codec.borrow_mut();
    let mut read = codec.read(id)?;
    let mut len = 0;
    if let Received::Data(bytes) = read {
        len = bytes.len();
        codec.release(id, len);
        input.append(bytes);
        if !codec.is_read(id) {
            return Poll::Ready(Ok(len));
        }
        // The end is known with the last data, which can be sent on with it.
        read = codec.read(id)?;
    }
    match read {
        Received::Trailers(section) => {
            *reading = Reading::Ended(RequestFields::Section(&section).to_lines());
        }
        Received::End => *reading = Reading::Ended(Vec::new()),
        Received::NotYet => {
            drop(codec);
            shared.waiting.wait(id, cx);
            return Poll::Pending;
        }
        Received::Data(_) => {}
    }
    Poll::Ready(Ok(len))
}

fn closed(_: StreamClosed) -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
