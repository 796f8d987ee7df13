//! Sends messages (RFC 9113 section 8.1): heads, data within windows and shares, trailers, resets.

use bytes::Bytes;

use super::connection::{Connection, Role};
use super::frame::{self, HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, Reason};
use super::hpack::Encoder;
use super::stream::{Closure, Stream};
use crate::stream::StreamClosed;

impl Connection {
    /// Queues an interim response (1xx). Names may have capitals. Pseudo-fields and
    /// connection-specific fields are not allowed.
    ///
    /// # Errors
    /// The stream is closed.
    pub fn send_informational<'f>(
        &mut self,
        id: u32,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), StreamClosed> {
        self.check_state(id, false)?;
        self.write_block(id, Some(status), fields, false);
        Ok(())
    }

    /// Queues a response's head; `is_end`: there is no body. For the fields see
    /// `send_informational`.
    ///
    /// # Errors
    /// The stream is closed.
    pub fn send_head<'f>(
        &mut self,
        id: u32,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        is_end: bool,
    ) -> Result<(), StreamClosed> {
        self.check_state(id, false)?.is_answered = true;
        self.write_block(id, Some(status), fields, is_end);
        Ok(())
    }

    /// Queues trailers, which end the response.
    ///
    /// # Errors
    /// The stream is closed.
    pub fn send_trailers<'f>(
        &mut self,
        id: u32,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), StreamClosed> {
        self.check_state(id, true)?;
        self.write_block(id, None, fields, true);
        Ok(())
    }

    /// The number of body bytes that the stream may queue now, at most `wanted` and at most 64 KiB.
    /// Both flow-control windows, `queued_bytes_max` and the stream's turn limit it. After 0, the
    /// caller asks again on `Event::Writable`, or gives up on `Event::Reset`.
    ///
    /// # Errors
    /// The stream is closed.
    pub fn capacity(&mut self, id: u32, wanted: usize) -> Result<usize, StreamClosed> {
        let at = self.streams.position(id).ok_or(StreamClosed)?;
        if !self.streams.open[at].is_sending {
            return Err(StreamClosed);
        }
        let room = self.room();
        Ok(if wanted == 0 { 0 } else { self.streams.ask(at, wanted, room) })
    }

    /// Queues data, at most `capacity` bytes; `is_end`: the response ends with it. An empty end
    /// needs no capacity. Data beyond the windows resets the stream with INTERNAL_ERROR.
    ///
    /// # Errors
    /// The stream is closed.
    pub fn send_data(
        &mut self,
        id: u32,
        mut data: Bytes,
        is_end: bool,
    ) -> Result<(), StreamClosed> {
        let connection_window = self.send_window.bytes();
        let stream = self.check_state(id, true)?;
        if data.len() > stream.send_window.bytes().min(connection_window) {
            self.reset(id, Reason::INTERNAL_ERROR);
            return Err(StreamClosed);
        }
        stream.send_window.take(data.len());
        self.send_window.take(data.len());
        self.streams.sent(id);
        while data.len() > self.frame_bytes_max {
            let piece = data.split_to(self.frame_bytes_max);
            self.write_data(id, piece, false);
        }
        if is_end || !data.is_empty() {
            self.write_data(id, data, is_end);
        }
        if is_end {
            self.end_message(id);
        }
        Ok(())
    }

    /// Resets a stream, unless it is closed.
    pub fn reset(&mut self, id: u32, reason: Reason) {
        if self.streams.position(id).is_some() {
            self.write_reset(id, reason);
            self.close_stream(id, Closure::ResetHere(reason));
            self.ends.push_back(self.output.end());
        }
    }

    /// The stream, if its head was sent or not as required. A call in the wrong order resets the
    /// stream with INTERNAL_ERROR.
    fn check_state(&mut self, id: u32, is_answered: bool) -> Result<&mut Stream, StreamClosed> {
        let at = self.streams.position(id).ok_or(StreamClosed)?;
        if self.streams.open[at].is_answered != is_answered {
            self.reset(id, Reason::INTERNAL_ERROR);
            return Err(StreamClosed);
        }
        if !self.streams.open[at].is_sending {
            return Err(StreamClosed);
        }
        Ok(&mut self.streams.open[at])
    }

    fn write_reset(&mut self, id: u32, reason: Reason) {
        let code = reason.0.to_be_bytes();
        self.output.gather(|out| frame::write(out, frame::RST_STREAM, 0, id, &code));
    }

    fn write_data(&mut self, id: u32, data: Bytes, is_end: bool) {
        let flags = if is_end { frame::END_STREAM } else { 0 };
        let head = Head { len: data.len(), kind: frame::DATA, flags, stream: id };
        self.flood.sent_frame();
        self.output.gather(|out| out.extend_from_slice(&head.bytes()));
        let is_empty = data.is_empty();
        self.output.push(data);
        if !is_empty {
            self.data_end = self.output.end();
        }
    }

    fn write_block<'f>(
        &mut self,
        id: u32,
        status: Option<u16>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        is_end: bool,
    ) {
        self.write_fields(id, is_end, |encoder, out| {
            if let Some(status) = status {
                encoder.status(status, out);
            }
            for (name, value) in fields {
                encoder.field(name, value, out);
            }
        });
        if is_end {
            self.end_message(id);
        }
    }

    /// Queues HEADERS with the fields that `encode` appends.
    pub(super) fn write_fields(
        &mut self,
        id: u32,
        is_end: bool,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) {
        let Connection { output, encoder, frame_bytes_max, .. } = self;
        output.gather(|out| {
            let begin = out.len();
            out.extend_from_slice(&[0; HEAD_BYTES]);
            encoder.begin(out);
            encode(encoder, out);
            finish_block(out, begin, id, is_end, *frame_bytes_max);
        });
        self.flood.sent_frame();
    }

    /// Ends this side's message. A server's stream ends with its response, because the rest of an
    /// incomplete request is not needed (RFC 9113 section 8.1).
    fn end_message(&mut self, id: u32) {
        let role = self.role;
        let Some(stream) = self.streams.get(id) else { return };
        if role == Role::Client {
            stream.is_sending = false;
            return;
        }
        if stream.is_receiving {
            self.write_reset(id, Reason::NO_ERROR);
            self.close_stream(id, Closure::ResetHere(Reason::NO_ERROR));
        } else {
            self.close_stream(id, Closure::Ended);
        }
        self.ends.push_back(self.output.end());
    }
}

/// Writes the frame header of a block in `out` into the space reserved before it, and inserts
/// CONTINUATION headers if the block is longer than a frame.
fn finish_block(out: &mut Vec<u8>, begin: usize, id: u32, is_end: bool, frame_bytes_max: usize) {
    let flags = if is_end { frame::END_STREAM } else { 0 };
    let block_at = begin + HEAD_BYTES;
    let len = out.len() - block_at;
    if len <= PAYLOAD_BYTES_MAX {
        let flags = flags | frame::END_HEADERS;
        let head = Head { len, kind: frame::HEADERS, flags, stream: id };
        return out[begin..block_at].copy_from_slice(&head.bytes());
    }
    let block = out.split_off(block_at);
    out.truncate(begin);
    let count = block.len().div_ceil(frame_bytes_max);
    for (at, piece) in block.chunks(frame_bytes_max).enumerate() {
        let kind = if at == 0 { frame::HEADERS } else { frame::CONTINUATION };
        let flags = if at == 0 { flags } else { 0 };
        let flags = if at + 1 == count { flags | frame::END_HEADERS } else { flags };
        frame::write(out, kind, flags, id, piece);
    }
}
