//! The client's side of one HTTP/2 connection (RFC 9113): requests in, results out, no sockets.
//! Bytes to send wait in `out`. Every response is followed to its end. A server's violation of the
//! protocol, and a GOAWAY, end the connection.

use std::collections::HashMap;

use bytes::Bytes;

use super::frame::{self, Frame, Frames, Head};
use super::hpack;
use super::uploads::Uploads;
use crate::load::link::{End, EndedRequest, PeerError};
use crate::load::reader::ResponseFault;
use crate::load::{Expected, Status};

/// Flow-control window of a stream and of the connection (RFC 9113, 6.9): as large as in browsers.
/// It is updated when half of it is used.
pub(super) const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Window of the connection before the first WINDOW_UPDATE (6.9.2).
const FIRST_WINDOW_BYTES: u32 = 65_535;

/// Largest block of fields, in one frame or several.
const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// Size of the dynamic table for requests before the server's setting, in bytes (RFC 9113, 6.5.2).
const TABLE_BYTES: u32 = 4096;

/// A dynamic table size update to 0 (RFC 7541, 6.3). No request refers to the table.
const NO_TABLE: &[u8] = &[0x20];

/// Streams that are assumed to be allowed before the server's settings: RFC 9113, 6.5.2, recommends
/// that servers allow no fewer.
const STREAMS_ASSUMED: u32 = 100;

/// The highest number a stream can have.
const STREAM_MAX: u32 = (1 << 31) - 1;

/// The client's side of a connection, without its socket.
#[derive(Debug)]
pub(super) struct Peer {
    frames: Frames,
    fields: hpack::Reader,
    /// Streams by their numbers.
    open: HashMap<u32, Answer>,
    /// An incomplete block of fields, and its stream.
    block: Option<Block>,
    next_stream: u32,
    /// Size of the dynamic table for requests, in bytes.
    table_bytes: u32,
    /// Allowed by the server; below the size the next block reduces it (RFC 7541, 4.2).
    table_bytes_max: u32,
    /// Bytes taken off the connection's window.
    taken: u32,
    /// The server finishes the present streams and takes no others.
    is_leaving: bool,
    /// Streams the server allows; `None` before its settings.
    streams_max: Option<u32>,
    uploads: Uploads,
    /// `true`: responses state the status of gRPC.
    is_grpc: bool,
    /// Bytes to send on the socket.
    pub(super) out: Vec<u8>,
}

/// A response of which a part has arrived.
#[derive(Debug)]
struct Answer {
    slot: usize,
    status: Option<u16>,
    /// Status of gRPC, in the trailers or in a head without a body.
    grpc: Option<u16>,
    body: u64,
    /// Bytes of its fields and body.
    bytes: u64,
    /// Bytes taken off its window.
    taken: u32,
    wrong: Option<ResponseFault>,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
}

impl Peer {
    /// A new connection; its preface waits to be sent.
    pub(super) fn new(is_grpc: bool) -> Peer {
        let mut out = frame::PREFACE.to_vec();
        let settings = [(frame::ENABLE_PUSH, 0), (frame::INITIAL_WINDOW_SIZE, WINDOW_BYTES)];
        frame::settings(&mut out, &settings);
        frame::window_update(&mut out, 0, WINDOW_BYTES - FIRST_WINDOW_BYTES);
        Peer {
            frames: Frames::default(),
            fields: hpack::Reader::default(),
            open: HashMap::new(),
            block: None,
            next_stream: 1,
            table_bytes: TABLE_BYTES,
            table_bytes_max: TABLE_BYTES,
            taken: 0,
            is_leaving: false,
            streams_max: None,
            uploads: Uploads::default(),
            is_grpc,
            out,
        }
    }

    /// `true` if requests may be made: the server has announced its limit of streams.
    pub(super) fn is_ready(&self) -> bool {
        self.streams_max.is_some() && !self.is_leaving
    }

    /// `true` after a GOAWAY: the server processes no other requests (RFC 9113, 6.8).
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// `true` if the server goes away and every stream has ended.
    pub(super) fn is_drained(&self) -> bool {
        self.is_leaving && self.open.is_empty()
    }

    /// Largest number of concurrent requests.
    pub(super) fn streams_max(&self) -> u32 {
        self.streams_max.unwrap_or(STREAMS_ASSUMED)
    }

    /// Makes a request of these fields and this body for this slot; returns the stream's number.
    pub(super) fn ask(
        &mut self,
        slot: usize,
        fields: &[u8],
        body: Bytes,
    ) -> Result<u32, PeerError> {
        let stream = self.next_stream;
        if stream > STREAM_MAX {
            return Err(PeerError);
        }
        self.next_stream += 2;
        if self.table_bytes_max < self.table_bytes {
            self.table_bytes = 0;
            let fields = [NO_TABLE, fields].concat();
            frame::headers(&mut self.out, stream, &fields, body.is_empty());
        } else {
            frame::headers(&mut self.out, stream, fields, body.is_empty());
        }
        if !body.is_empty() {
            self.uploads.begin(stream, body);
        }
        let (status, grpc, wrong) = (None, None, None);
        let answer = Answer { slot, status, grpc, body: 0, bytes: 0, taken: 0, wrong };
        self.open.insert(stream, answer);
        Ok(stream)
    }

    /// Gives a request up; its remaining frames are ignored.
    pub(super) fn cancel(&mut self, stream: u32) {
        self.uploads.cancel(stream);
        if self.open.remove(&stream).is_some() {
            frame::reset(&mut self.out, stream, frame::CANCEL);
        }
    }

    /// Adds bodies to the bytes to send, as far as the windows allow.
    pub(super) fn write_bodies(&mut self) {
        self.uploads.write(&mut self.out);
    }

    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        let mut frames = std::mem::take(&mut self.frames);
        let fed = loop {
            match frames.next(&mut bytes) {
                Ok(Some(frame)) => {
                    if let Err(over) = self.take(&frame, expected, ended) {
                        break Err(over);
                    }
                }
                Ok(None) => break Ok(()),
                Err(frame::FrameError) => break Err(PeerError),
            }
        };
        self.frames = frames;
        fed
    }

    fn take(
        &mut self,
        frame: &Frame<'_>,
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        let (head, bytes) = match *frame {
            Frame::Data { head, body, counts, last } => {
                return self.data(head, body, counts, last, expected, ended);
            }
            Frame::Other { head, payload } => (head, payload),
        };
        let continues = self.block.as_ref().is_some_and(|block| block.stream == head.stream);
        if (self.block.is_some() || head.kind == frame::CONTINUATION)
            && !(continues && head.kind == frame::CONTINUATION)
        {
            return Err(PeerError);
        }
        // RFC 9113, 3.4: the server's first frame is SETTINGS.
        if self.streams_max.is_none() && head.kind != frame::SETTINGS {
            return Err(PeerError);
        }
        match head.kind {
            frame::HEADERS => {
                let bytes = frame::fields(head, bytes).ok_or(PeerError)?.to_vec();
                let ends = head.has(frame::END_STREAM);
                self.block = Some(Block { stream: head.stream, ends, bytes });
                self.block_over(head, expected, ended)
            }
            frame::CONTINUATION => {
                if let Some(block) = &mut self.block {
                    block.bytes.extend_from_slice(bytes);
                }
                self.block_over(head, expected, ended)
            }
            frame::SETTINGS => self.settings(head, bytes),
            frame::PING if bytes.len() != 8 || head.stream != 0 => Err(PeerError),
            frame::PING => {
                if !head.has(frame::ACK) {
                    frame::pong(&mut self.out, bytes);
                }
                Ok(())
            }
            frame::RST_STREAM if bytes.len() != 4 => Err(PeerError),
            frame::RST_STREAM => {
                self.uploads.cancel(head.stream);
                if let Some(answer) = self.open.remove(&head.stream) {
                    ended.push(answer.ended(End::Reset, self.is_grpc));
                }
                Ok(())
            }
            frame::GOAWAY if expected.takes_going_away() => self.leave(head, bytes, ended),
            frame::WINDOW_UPDATE => self.uploads.update(head.stream, bytes),
            // Push is disabled.
            frame::GOAWAY | frame::PUSH_PROMISE => Err(PeerError),
            _ => Ok(()),
        }
    }

    /// Handles a GOAWAY: streams above its number were not begun.
    fn leave(
        &mut self,
        head: Head,
        bytes: &[u8],
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        let (&[a, b, c, d, 0, 0, 0, 0, ..], 0) = (bytes, head.stream) else {
            return Err(PeerError);
        };
        let last = u32::from_be_bytes([a, b, c, d]) & STREAM_MAX;
        self.is_leaving = true;
        for (stream, answer) in self.open.extract_if(|stream, _| *stream > last) {
            self.uploads.cancel(stream);
            ended.push(answer.ended(End::Unprocessed, self.is_grpc));
        }
        Ok(())
    }

    fn settings(&mut self, head: Head, bytes: &[u8]) -> Result<(), PeerError> {
        if head.stream != 0 || !bytes.len().is_multiple_of(6) {
            return Err(PeerError);
        }
        if head.has(frame::ACK) {
            return Ok(());
        }
        self.uploads.set(bytes)?;
        // The smallest of them decides: a later larger one does not undo it.
        let sizes = frame::values(bytes, frame::HEADER_TABLE_SIZE);
        self.table_bytes_max = sizes.fold(self.table_bytes_max, u32::min);
        let most = frame::setting(bytes, frame::MAX_CONCURRENT_STREAMS);
        self.streams_max = Some(most.or(self.streams_max).unwrap_or(u32::MAX));
        frame::settings_ack(&mut self.out);
        Ok(())
    }

    /// Handles a block of fields, or a part of one.
    fn block_over(
        &mut self,
        head: Head,
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        let whole = head.has(frame::END_HEADERS);
        let Some(Block { stream, ends, bytes }) = self.block.take_if(|_| whole) else {
            let size = self.block.as_ref().map_or(0, |block| block.bytes.len());
            return if size > BLOCK_BYTES_MAX { Err(PeerError) } else { Ok(()) };
        };
        // Also of a given-up stream, since later blocks refer to it.
        let statuses = self.fields.statuses(&bytes).map_err(|hpack::HpackError| PeerError)?;
        let Some(answer) = self.open.get_mut(&stream) else { return self.was_open(stream) };
        answer.bytes += bytes.len() as u64;
        answer.grpc = statuses.grpc.or(answer.grpc);
        match (statuses.http, answer.status) {
            // RFC 9113, 8.1: interim responses, the final one, and perhaps trailers.
            (Some(status), None) if status < 200 && !ends => {}
            (Some(status), None) if status >= 200 => {
                answer.status = Some(status);
                if !expected.takes_status(status) {
                    answer.wrong = Some(ResponseFault::Status);
                }
            }
            (None, Some(_)) if ends => {}
            _ => return Err(PeerError),
        }
        if ends {
            self.end(stream, expected, ended);
        }
        Ok(())
    }

    /// Handles a piece of a body; `counts`: bytes taken off the windows, padding included.
    fn data(
        &mut self,
        head: Head,
        body: &[u8],
        counts: usize,
        last: bool,
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        if self.block.is_some() {
            return Err(PeerError);
        }
        let counts = counts as u32;
        update_window(&mut self.out, 0, &mut self.taken, counts);
        let Some(answer) = self.open.get_mut(&head.stream) else {
            return self.was_open(head.stream);
        };
        if answer.status.is_none() {
            return Err(PeerError);
        }
        update_window(&mut self.out, head.stream, &mut answer.taken, counts);
        if let Some(whole) = &expected.body {
            let from = usize::try_from(answer.body).unwrap_or(usize::MAX);
            let want = whole.get(from..).and_then(|rest| rest.get(..body.len()));
            if want != Some(body) {
                answer.wrong = answer.wrong.or(Some(ResponseFault::Bytes));
            }
        }
        answer.body += body.len() as u64;
        answer.bytes += body.len() as u64;
        if last && head.has(frame::END_STREAM) {
            self.end(head.stream, expected, ended);
        }
        Ok(())
    }

    fn end(&mut self, stream: u32, expected: &Expected, ended: &mut Vec<EndedRequest>) {
        let Some(answer) = self.open.remove(&stream) else { return };
        // A server may respond before it has the whole body (RFC 9113, 8.1).
        if self.uploads.cancel(stream) {
            frame::reset(&mut self.out, stream, frame::CANCEL);
        }
        let short = !expected.takes_length(answer.body);
        let wrong = answer.wrong.or(short.then_some(ResponseFault::Bytes));
        ended.push(answer.ended(End::Answer(wrong), self.is_grpc));
    }

    /// Checks that this was the number of a request.
    fn was_open(&self, stream: u32) -> Result<(), PeerError> {
        if stream % 2 == 1 && stream < self.next_stream { Ok(()) } else { Err(PeerError) }
    }
}

impl Answer {
    fn ended(&self, how: End, is_grpc: bool) -> EndedRequest {
        let status = self.status.map(|http| match is_grpc {
            true => Status::of_grpc(self.grpc, http),
            false => Status::Http(http),
        });
        EndedRequest { slot: self.slot, how, bytes: self.bytes, status }
    }
}

/// Takes bytes off a window, and returns half of it once that is used up.
fn update_window(out: &mut Vec<u8>, stream: u32, taken: &mut u32, counts: u32) {
    *taken += counts;
    if *taken >= WINDOW_BYTES / 2 {
        frame::window_update(out, stream, *taken);
        *taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::ANY_LENGTH;

    #[test]
    fn a_smaller_table_is_announced_once() {
        let expected = Expected { status: 200, body_bytes: ANY_LENGTH, body: None };
        // (values of SETTINGS_HEADER_TABLE_SIZE in one frame, whether the table is smaller)
        let rows: [(&[u32], bool); 5] = [
            (&[], false),
            (&[4096], false),
            (&[65_536], false),
            (&[0], true),
            (&[100, 4096], true),
        ];
        for (values, is_smaller) in rows {
            let mut peer = Peer::new(false);
            let settings: Vec<(u16, u32)> =
                values.iter().map(|value| (frame::HEADER_TABLE_SIZE, *value)).collect();
            let mut sent = Vec::new();
            frame::settings(&mut sent, &settings);
            peer.feed(&sent, &expected, &mut Vec::new()).unwrap();
            let mut block = || {
                peer.out.clear();
                peer.ask(0, b"\x82", Bytes::new()).unwrap();
                peer.out[9..].to_vec()
            };
            let first: &[u8] = if is_smaller { b"\x20\x82" } else { b"\x82" };
            assert_eq!((block(), block()), (first.to_vec(), b"\x82".to_vec()), "{values:?}");
        }
    }
}
