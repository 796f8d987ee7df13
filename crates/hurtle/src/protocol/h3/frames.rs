//! The frames of one request stream.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{StatusCode, Version};
use hurtle_http::h3::{self, Body as Received, Code, DATA_HEAD_BYTES_MAX, StreamClosed};
use hurtle_http::request::RequestFields;

use super::super::multiplexed::{FrameStream, ResetCause, Security};
use super::super::reading::Reading;
use super::shared::Shared;
use super::stream_id;
use crate::transport::Input;
use crate::transport::buffer::BODY_BYTES;

/// A body up to this size is copied behind its head, in bytes: one buffer costs less than two.
const COPY_BYTES_MAX: usize = 1 << 10;

/// Room for an encoded head, in bytes, so that its buffer is not made larger field by field.
const HEAD_BYTES: usize = 256;

/// Requests in progress from which pieces of files are small, because each may be held while flow
/// control blocks; and the size of small pieces in bytes.
const MANY_STREAMS: usize = 9;
const SMALL_PIECE_BYTES: usize = 16 << 10;

pub(crate) struct Frames {
    shared: Rc<Shared>,
    id: u64,
    /// An encoded head that leaves with the first bytes of the body.
    unsent: Cell<Vec<u8>>,
}

impl Frames {
    pub(super) fn new(shared: &Rc<Shared>, id: u64) -> Frames {
        shared.stream_begins();
        let rank = h3::send_rank(shared.codec.borrow().priority(id), id);
        shared.connection.set_priority(stream_id(id), rank);
        Frames { shared: Rc::clone(shared), id, unsent: Cell::default() }
    }

    fn write(&self, pieces: &mut [Bytes], is_last: bool) -> io::Result<()> {
        self.shared.write(self.id, pieces, is_last)
    }
}

impl FrameStream for Frames {
    const VERSION: Version = Version::HTTP_3;
    // They are held while flow control blocks.
    const QUEUED_BYTES_MAX: usize = 64 << 10;
    const GIVES_WAY: bool = true;

    fn security(&self) -> &Security {
        &self.shared.security
    }

    fn is_open(&self) -> bool {
        self.shared.codec.borrow().is_open(self.id)
    }

    fn wait(&self, cx: &Context<'_>) {
        self.shared.waiting.wait(self.id, cx);
    }

    /// Encodes the head, which leaves with the body. Without a body it is sent at once.
    fn send_head<'f>(
        &self,
        status: StatusCode,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        len: Option<u64>,
        is_end: bool,
    ) -> io::Result<()> {
        let mut encoded = self.unsent.take();
        encoded.reserve(HEAD_BYTES);
        h3::write_head(&mut encoded, status.as_u16(), fields);
        if is_end {
            return self.write(&mut [encoded.into()], true);
        }
        if let Some(len) = len {
            // One frame for the whole body.
            h3::write_data_head(&mut encoded, len);
        }
        self.unsent.set(encoded);
        Ok(())
    }

    fn flush_head(&self) -> io::Result<()> {
        let encoded = self.unsent.take();
        match encoded.is_empty() {
            true => Ok(()),
            false => self.write(&mut [encoded.into()], false),
        }
    }

    fn send_interim<'f>(
        &self,
        status: StatusCode,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        let mut encoded = Vec::new();
        h3::write_head(&mut encoded, status.as_u16(), fields);
        // The client may be gone.
        let _ = self.write(&mut [encoded.into()], false);
    }

    fn send_data(&self, mut data: Bytes, has_len: bool, is_last: bool) -> io::Result<()> {
        let mut before = self.unsent.take();
        if !has_len && !data.is_empty() {
            before.reserve(DATA_HEAD_BYTES_MAX);
            h3::write_data_head(&mut before, data.len() as u64);
        }
        if !before.is_empty() && data.len() <= COPY_BYTES_MAX {
            before.extend_from_slice(&data);
            data = Bytes::new();
        }
        self.write(&mut [before.into(), data], is_last)
    }

    fn send_trailers<'f>(
        &self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> io::Result<()> {
        let mut encoded = self.unsent.take();
        h3::write_trailers(&mut encoded, fields);
        self.write(&mut [encoded.into()], true)
    }

    /// Waits until QUIC has taken all bytes before.
    fn poll_room(&self, cx: &Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        Poll::Ready(Ok(wanted))
    }

    fn room_now(&self, wanted: usize) -> io::Result<usize> {
        Ok(wanted)
    }

    /// Waits until QUIC has taken all bytes of this response.
    fn poll_flush(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if !self.shared.is_held(self.id) {
            return Poll::Ready(Ok(()));
        }
        if !self.is_open() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.wait(cx);
        Poll::Pending
    }

    fn flushed_bytes(&self) -> u64 {
        self.shared.admitted(self.id)
    }

    fn piece_bytes(&self) -> usize {
        if self.shared.streams() >= MANY_STREAMS { SMALL_PIECE_BYTES } else { BODY_BYTES }
    }

    fn poll_read(
        &self,
        cx: &Context<'_>,
        input: &mut Input,
        reading: &mut Reading,
    ) -> Poll<io::Result<usize>> {
        let mut has_received = false;
        loop {
            let received = self.shared.codec.borrow_mut().read(self.id).map_err(closed)?;
            match received {
                Received::Data(bytes) => {
                    let len = bytes.len();
                    input.append(bytes);
                    return Poll::Ready(Ok(len));
                }
                Received::Trailers(section) => {
                    *reading = Reading::Ended(RequestFields::Section(&section).to_lines());
                }
                Received::End => *reading = Reading::Ended(Vec::new()),
                Received::NotYet if has_received => {
                    self.shared.waiting.wait(self.id, cx);
                    return Poll::Pending;
                }
                Received::NotYet => {
                    // Bytes that the codec did not want before. It may have events of other kinds
                    // now.
                    has_received = true;
                    self.shared.receive(self.id);
                    self.shared.connection.wake();
                    continue;
                }
            }
            return Poll::Ready(Ok(0));
        }
    }

    fn is_held(&self) -> bool {
        self.shared.is_held(self.id)
    }

    fn reset(&self, cause: ResetCause) {
        // A stream that the codec has given up is reset with the codec's code, by an event.
        if self.is_open() {
            self.shared.abandon(
                self.id,
                match cause {
                    ResetCause::Cancelled => Code::REQUEST_CANCELLED,
                    ResetCause::Failed => Code::INTERNAL_ERROR,
                },
            );
        }
    }

    fn close(&self) {
        // RFC 9114 section 4.1: the rest of the request is not needed.
        if self.shared.codec.borrow_mut().close(self.id) {
            self.shared.connection.stop(stream_id(self.id), Code::NO_ERROR.0);
        }
        self.shared.waiting.forget(self.id);
        self.shared.stream_ends();
        self.shared.connection.wake();
    }
}

fn closed(_: StreamClosed) -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
