//! Streams of a connection (RFC 9000 section 2).

use bytes::Bytes;
use quinn_proto::{Dir, ReadableError, StreamId, VarInt, WriteError};

use super::connection::Connection;

/// The reason why a stream cannot be read now, or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The next bytes have not arrived.
    Blocked,
    /// The client has reset the stream with this code.
    Reset(u64),
    /// The stream was read to its end or stopped before.
    Gone,
}

/// The stream is closed for sending: finished, reset, or the client wants no more (STOP_SENDING).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamGone;

impl Connection {
    /// Takes a stream that the client has opened.
    pub(crate) fn accept(&self, dir: Dir) -> Option<StreamId> {
        self.proto.borrow_mut().streams().accept(dir)
    }

    /// Opens a unidirectional stream; `None`: the client allows no more.
    pub(crate) fn open_unidirectional(&self) -> Option<StreamId> {
        self.proto.borrow_mut().streams().open(Dir::Uni)
    }

    /// Reads up to `bytes_max` bytes in order; `None`: the end of the stream.
    ///
    /// # Errors
    /// See `ReadError`.
    pub(crate) fn read(&self, id: StreamId, bytes_max: usize) -> Result<Option<Bytes>, ReadError> {
        let mut proto = self.proto.borrow_mut();
        let mut stream = proto.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                return Err(ReadError::Gone);
            }
        };
        let read = chunks.next(bytes_max);
        let has_credit = chunks.finalize().should_transmit();
        drop(proto);
        if has_credit {
            self.wake();
        }
        match read {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(quinn_proto::ReadError::Blocked) => Err(ReadError::Blocked),
            Err(quinn_proto::ReadError::Reset(code)) => Err(ReadError::Reset(code.into_inner())),
        }
    }

    /// Has the client send no more on the stream (STOP_SENDING).
    pub(crate) fn stop(&self, id: StreamId, code: u64) {
        // The stream may have ended.
        let _ = self.proto.borrow_mut().recv_stream(id).stop(var(code));
        self.wake();
    }

    /// Queues the first bytes of `pieces`, as flow control allows; returns their number. The pieces
    /// keep the rest; `StreamEvent::Writable` follows then.
    ///
    /// # Errors
    /// The stream is closed.
    pub(crate) fn write(&self, id: StreamId, pieces: &mut [Bytes]) -> Result<usize, StreamGone> {
        let mut proto = self.proto.borrow_mut();
        if proto.is_closed() {
            return Err(StreamGone);
        }
        let mut stream = proto.send_stream(id);
        let written = match stream.write_chunks(pieces) {
            Ok(written) => written.bytes,
            Err(WriteError::Blocked) => return Ok(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(StreamGone),
        };
        if pieces.iter().any(|piece| !piece.is_empty()) {
            // A write that is blocked is what makes the event follow.
            let _ = stream.write_chunks(pieces);
        }
        drop(proto);
        self.wake();
        Ok(written)
    }

    /// Ends the stream after the queued bytes.
    ///
    /// # Errors
    /// The stream is closed.
    pub(crate) fn finish(&self, id: StreamId) -> Result<(), StreamGone> {
        let finished = self.proto.borrow_mut().send_stream(id).finish();
        self.wake();
        finished.map_err(|_| StreamGone)
    }

    /// Abandons sending on the stream (RESET_STREAM).
    pub(crate) fn reset(&self, id: StreamId, code: u64) {
        // It may have ended.
        let _ = self.proto.borrow_mut().send_stream(id).reset(var(code));
        self.wake();
    }

    /// Sets the priority; streams of a higher one are sent first.
    pub(crate) fn set_priority(&self, id: StreamId, priority: i32) {
        // The stream may have ended.
        let _ = self.proto.borrow_mut().send_stream(id).set_priority(priority);
    }
}

fn var(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
