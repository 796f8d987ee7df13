//! Writes a response whose body comes in pieces: adds framing, joins small pieces, and sends in
//! bounded turns.

use std::io::IoSlice;

use http::HeaderMap;
use hurtle_http::h1::response::Delimiter;

use super::duplex::Duplex;
use crate::handler::client::ExchangeError;
use crate::protocol::Protocol;
use crate::rt;
use crate::transport::Output;

/// Pieces up to this size are copied into one buffer, in bytes; one buffer costs less than three.
const GATHER_BYTES_MAX: usize = 8 << 10;

/// Bytes that one connection sends before other connections run.
const TURN_BYTES: usize = 256 << 10;

/// A response that is being sent.
pub(super) struct BodyWriter<'a, P> {
    duplex: &'a Duplex<'a, P>,
    /// Bytes that leave with the next write: the head, framing, small pieces.
    out: Output,
    delimiter: Delimiter,
    /// Bytes sent in the current turn.
    turn_bytes: usize,
    /// `true` if the protocol has the head.
    is_begun: bool,
}

impl<'a, P: Protocol> BodyWriter<'a, P> {
    /// Creates a writer for a response. The encoded head leaves with the first bytes, or before a
    /// wait.
    pub(super) fn new(
        duplex: &'a Duplex<'a, P>,
        head: Output,
        delimiter: Delimiter,
    ) -> BodyWriter<'a, P> {
        BodyWriter { duplex, out: head, delimiter, turn_bytes: 0, is_begun: false }
    }

    fn begin(&mut self) -> Result<(), ExchangeError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let len = self.out.len();
            self.duplex.io.begin(&mut self.out).map_err(|_| ExchangeError::Gone)?;
            self.duplex.count(len - self.out.len());
        }
        Ok(())
    }

    /// Sends a piece of the body, or keeps it until more comes or `flush` is called. `is_last`:
    /// `finish` follows at once.
    pub(super) async fn data(&mut self, data: &[u8], is_last: bool) -> Result<(), ExchangeError> {
        if data.is_empty() {
            // An empty chunk would end the body (RFC 9112 section 7.1).
            return Ok(());
        }
        self.begin()?;
        let tail = self.duplex.io.frame(&mut self.out, self.delimiter, data.len());
        if data.len() <= GATHER_BYTES_MAX {
            self.out.vec().extend_from_slice(data);
            self.out.vec().extend_from_slice(tail);
            if self.out.len() > GATHER_BYTES_MAX {
                self.flush().await?;
            }
        } else {
            self.pieces(data, tail, is_last).await?;
        }
        self.turn_bytes += data.len();
        if self.turn_bytes >= TURN_BYTES {
            self.turn_bytes = 0;
            rt::give_way().await;
        }
        Ok(())
    }

    async fn pieces(
        &mut self,
        data: &[u8],
        tail: &'static [u8],
        is_last: bool,
    ) -> Result<(), ExchangeError> {
        let mut pieces = data.chunks(self.duplex.piece_bytes(TURN_BYTES)).peekable();
        while let Some(piece) = pieces.next() {
            let has_more = pieces.peek().is_some();
            let tail = if has_more || is_last { b"" } else { tail };
            self.duplex.write(&mut [&self.out, piece, tail].map(IoSlice::new)).await?;
            self.out = Output::default();
            if has_more {
                rt::give_way().await;
            }
        }
        if is_last {
            self.out.vec().extend_from_slice(tail);
        }
        Ok(())
    }

    /// Ends the body.
    pub(super) async fn finish(
        mut self,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), ExchangeError> {
        self.begin()?;
        let Duplex { io, .. } = self.duplex;
        let is_ended = io.end(&mut self.out, self.delimiter, trailers);
        if !is_ended.map_err(|_| ExchangeError::Gone)? {
            self.flush().await?;
            io.end(&mut self.out, self.delimiter, trailers).map_err(|_| ExchangeError::Gone)?;
        }
        self.flush().await
    }

    /// Sends the buffered bytes. Called before each wait, so that a waiting connection holds no
    /// buffer.
    pub(super) async fn flush(&mut self) -> Result<(), ExchangeError> {
        self.begin()?;
        if !self.out.is_empty() {
            self.duplex.write(&mut [IoSlice::new(&self.out)]).await?;
            self.out = Output::default();
        }
        Ok(())
    }
}
