//! Writes a response whose body is produced in pieces: adds framing, joins small pieces, and sends
//! in bounded turns.

use std::mem;

use http::HeaderMap;
use hurtle_http::message::response::Delimiter;

use super::duplex::Duplex;
use crate::handler::client::{Data, ExchangeError, Frame};
use crate::protocol::Protocol;
use crate::rt;
use crate::transport::{Output, SendQueue};

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

    pub(super) async fn write(&mut self, frame: Frame<'_>) -> Result<(), ExchangeError> {
        match frame {
            Frame::Data(data, is_last) => self.data(data, is_last).await,
            Frame::Flush => self.flush().await,
            Frame::End(trailers) => self.finish(trailers.as_ref()).await,
        }
    }

    fn begin(&mut self) -> Result<(), ExchangeError> {
        if !mem::replace(&mut self.is_begun, true) {
            let len = self.out.len();
            self.duplex.io.begin(&mut self.out).map_err(|_| ExchangeError::Gone)?;
            self.duplex.count(len - self.out.len());
        }
        Ok(())
    }

    /// Sends a piece of the body, or buffers it until the next piece or `flush`. `is_last`: the
    /// caller calls `finish` next.
    pub(super) async fn data(
        &mut self,
        data: Data<'_>,
        is_last: bool,
    ) -> Result<(), ExchangeError> {
        let len = data.bytes().len();
        if len == 0 {
            // An empty chunk would end the body (RFC 9112 section 7.1).
            return Ok(());
        }
        self.begin()?;
        let tail = self.duplex.io.frame(&mut self.out, self.delimiter, len);
        if len <= GATHER_BYTES_MAX {
            self.out.vec().extend_from_slice(data.bytes());
            data.consume();
            self.out.vec().extend_from_slice(tail);
            if self.out.len() > GATHER_BYTES_MAX {
                self.flush().await?;
            }
        } else {
            let mut queue = SendQueue::default();
            queue.push(mem::take(&mut self.out));
            queue.push(data.into_piece());
            match is_last {
                true => self.out.vec().extend_from_slice(tail),
                false => queue.push(tail),
            }
            self.send(&mut queue, is_last).await?;
        }
        self.turn_bytes += len;
        if self.turn_bytes >= TURN_BYTES {
            self.turn_bytes = 0;
            rt::give_way().await;
        }
        Ok(())
    }

    /// Sends the pieces in bounded turns; a short remainder is part of the last turn.
    async fn send(&mut self, queue: &mut SendQueue, is_last: bool) -> Result<(), ExchangeError> {
        let turn_bytes = self.duplex.piece_bytes(TURN_BYTES);
        while queue.len() > turn_bytes + GATHER_BYTES_MAX {
            self.duplex.send(&mut queue.split_to(turn_bytes), false).await?;
            rt::give_way().await;
        }
        self.duplex.send(queue, is_last).await
    }

    pub(super) async fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), ExchangeError> {
        self.begin()?;
        let Duplex { io, .. } = self.duplex;
        let is_ended = io.end(&mut self.out, self.delimiter, trailers);
        if !is_ended.map_err(|_| ExchangeError::Gone)? {
            self.flush().await?;
            io.end(&mut self.out, self.delimiter, trailers).map_err(|_| ExchangeError::Gone)?;
        }
        self.flush_as(true).await
    }

    /// Sends the buffered bytes. Called before each wait, so that a waiting connection holds no
    /// buffer.
    pub(super) async fn flush(&mut self) -> Result<(), ExchangeError> {
        self.flush_as(false).await
    }

    async fn flush_as(&mut self, is_last: bool) -> Result<(), ExchangeError> {
        self.begin()?;
        // The end waits until the kernel has the bytes of earlier writes, too.
        if is_last || !self.out.is_empty() {
            let mut queue = SendQueue::default();
            queue.push(mem::take(&mut self.out));
            self.duplex.send(&mut queue, is_last).await?;
        }
        Ok(())
    }
}
