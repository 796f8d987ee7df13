//! A connection to an upstream, and reading from it.

use std::future::poll_fn;
use std::task::ready;
use std::{fmt, io};

use hurtle_http::h1::response_head::Scan;

use super::peer::UpstreamError;
use super::wait::Waits;
use crate::transport::{Fill, Input, Taken, Transport, UpstreamSocket};

/// A connection to an upstream.
pub struct Link {
    /// The socket.
    pub io: UpstreamSocket,
    /// Bytes that were read and are not yet consumed.
    pub input: Input,
    /// `true`: the connection has carried a request before.
    pub reused: bool,
    /// The generation of the upstream's addresses when it was opened.
    pub(super) generation: u32,
}

/// A socket that a response is read from; a request may be written to it meanwhile.
pub struct Source<'a>(pub(super) &'a UpstreamSocket);

impl Link {
    pub(super) fn new(io: UpstreamSocket, reused: bool, generation: u32) -> Link {
        Link { io, input: Input::default(), reused, generation }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("reused", &self.reused).finish_non_exhaustive()
    }
}

impl Source<'_> {
    /// Reads once from a body within `within_ms` (`None`: without a limit). 0 bytes mean the end of
    /// the connection.
    ///
    /// # Errors
    /// The socket's.
    pub async fn fill(
        &mut self,
        input: &mut Input,
        waits: &Waits,
        within_ms: Option<u64>,
    ) -> io::Result<usize> {
        let _wait = within_ms.map(|ms| waits.read(ms));
        poll_fn(|cx| self.0.poll_fill(cx, input, Fill::Body)).await
    }

    /// Reads a response's head. It is cancel-safe: bytes that were read stay in `input`.
    pub(super) async fn head(&mut self, input: &mut Input) -> Result<Taken, UpstreamError> {
        let mut scan = Scan::default();
        loop {
            if !input.bytes().is_empty()
                && let Some(end) =
                    scan.advance(input.bytes()).map_err(UpstreamError::BadResponse)?
            {
                return Ok(input.take(end));
            }
            let mut waited = false;
            let filled = poll_fn(|cx| {
                // Waits before a buffer is allocated: at first the socket is usually empty. A head
                // is read with the body's buffer size because the body often arrives with it.
                if !std::mem::replace(&mut waited, true) {
                    ready!(self.0.poll_readable(cx))?;
                }
                self.0.poll_fill(cx, input, Fill::Response)
            });
            match filled.await {
                Ok(n) if n > 0 => {}
                Ok(_) if input.bytes().is_empty() => return Err(UpstreamError::Gone(None)),
                Err(e) if input.bytes().is_empty() => return Err(UpstreamError::Gone(Some(e))),
                _ => return Err(UpstreamError::Cut),
            }
        }
    }
}
