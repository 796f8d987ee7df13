//! The client's side of HTTP/1.1: one request at a time on a connection to an upstream.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use hurtle_http::h1::chunked::encode_size;
use hurtle_http::h1::response_head::Scan;
use hurtle_http::message::response_head::ResponseError;

pub(crate) use hurtle_http::h1::forward::request as encode_request;
pub(crate) use hurtle_http::h1::response_head::parse as parse_head;

use super::end_chunks;
use crate::body::{FileSlice, Part};
use crate::transport::{
    Attempt, FileRange, Fill, Input, Output, SendQueue, Taken, Transport, UpstreamSocket,
};

/// The unsent bytes of a request. They survive a cancelled write.
#[derive(Default)]
pub(crate) struct RequestWriter {
    queue: SendQueue,
    /// `true` if taken bytes are not flushed.
    is_unflushed: bool,
    /// `true`: the body is sent in chunks.
    is_chunked: bool,
}

/// The reason for a missing response head.
pub(crate) enum HeadError {
    /// The connection ended before the first byte.
    Gone(Option<io::Error>),
    /// The connection ended within the head.
    Cut,
    /// The bytes are no HTTP/1.1.
    Malformed(ResponseError),
}

impl RequestWriter {
    /// Writes requests whose bodies are sent in chunks, or as they are.
    pub(crate) fn new(is_chunked: bool) -> RequestWriter {
        RequestWriter { is_chunked, ..RequestWriter::default() }
    }

    /// Begins a request with its head, in place of what is unsent.
    pub(crate) fn begin(&mut self, head: Output) {
        self.clear();
        self.queue.push(head);
    }

    /// Drops what is unsent.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.is_unflushed = false;
    }

    /// Queues a part of the body; `is_end`: the body ends with it.
    pub(crate) fn put(&mut self, data: Part, is_end: bool) {
        let tail: &'static [u8] = match (self.is_chunked, data.len() == 0) {
            (false, _) => b"",
            // An empty chunk would end the body.
            (true, true) if is_end => b"0\r\n\r\n",
            (true, true) => b"",
            (true, false) => {
                let mut size = Output::new();
                // At most a window of a file, or a piece in memory.
                encode_size(data.len() as usize, size.vec());
                self.queue.push(size);
                if is_end { b"\r\n0\r\n\r\n" } else { b"\r\n" }
            }
        };
        match data {
            Part::Bytes(bytes) => self.queue.push(bytes),
            Part::File(FileSlice { file, offset, len }) => {
                self.queue.push(FileRange { file, offset, len: len as usize });
            }
        }
        self.queue.push(tail);
    }

    /// Queues the end of the body. Only chunks can have trailers.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) {
        if !self.is_chunked {
            return;
        }
        let mut out = Output::new();
        end_chunks(out.vec(), trailers);
        self.queue.push(out);
    }

    /// `true` if all queued bytes are sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.queue.is_empty() && !self.is_unflushed
    }

    /// Returns a value that changes with each byte that moves.
    pub(crate) fn mark(&self, io: &UpstreamSocket) -> (usize, u64) {
        (self.queue.len(), io.flushed_bytes())
    }

    /// Sends all queued bytes.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn poll_send(
        &mut self,
        io: &UpstreamSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            if ready!(io.poll_send(cx, &mut self.queue, Attempt::Ready))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_unflushed = true;
        }
        ready!(io.poll_flush(cx, Attempt::Ready))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }
}

/// Reads a response's head. It is cancel-safe: bytes that were read stay in `input`.
///
/// # Errors
/// There will be no head.
pub(crate) async fn read_head(io: &UpstreamSocket, input: &mut Input) -> Result<Taken, HeadError> {
    let mut scan = Scan::default();
    loop {
        if !input.bytes().is_empty()
            && let Some(end) = scan.advance(input.bytes()).map_err(HeadError::Malformed)?
        {
            return Ok(input.take(end));
        }
        let mut waited = false;
        let filled = poll_fn(|cx| {
            // Waits before a buffer is allocated: at first the socket is usually empty. A head is
            // read with the body's buffer size because the body often arrives with it.
            if !std::mem::replace(&mut waited, true) {
                ready!(io.poll_readable(cx))?;
            }
            io.poll_fill(cx, input, Fill::Response)
        });
        match filled.await {
            Ok(n) if n > 0 => {}
            Ok(_) if input.bytes().is_empty() => return Err(HeadError::Gone(None)),
            Err(e) if input.bytes().is_empty() => return Err(HeadError::Gone(Some(e))),
            _ => return Err(HeadError::Cut),
        }
    }
}
