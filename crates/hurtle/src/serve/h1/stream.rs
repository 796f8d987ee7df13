//! Sends an answer whose body comes frame by frame: each frame leaves as it comes.

use std::fmt::Display;
use std::io::IoSlice;

use bytes::Bytes;
use http::HeaderMap;

use super::duplex::{Broken, Duplex};
use crate::body::Stream;
use crate::h1::chunked::encode_size;
use crate::h1::response::{Delimiter, encode_trailers};
use crate::rt;
use crate::transport::{Output, Transport};

/// A frame this small is copied behind what goes before it: one buffer is cheaper than three.
const COPY_BYTES_MAX: usize = 4 << 10;

/// What one connection sends before the others have their turn, if nothing makes it wait.
const TURN_BYTES: usize = 256 << 10;

/// The end of a chunked body without trailers.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// An answer on its way.
pub(super) struct Sending<'a, T> {
    pub(super) duplex: &'a Duplex<'a, T>,
    /// What waits to go with the next frame: the head, at first.
    pub(super) out: Output,
    pub(super) delimiter: Delimiter,
    /// Whether the client wants trailers.
    pub(super) trailers: bool,
}

impl<T: Transport> Sending<'_, T> {
    /// Sends the whole body.
    pub(super) async fn run(mut self, mut stream: Stream) -> Result<(), Broken> {
        let mut turn_bytes = 0;
        loop {
            let frame = match stream.frame_at_once().await {
                Some(frame) => frame,
                None => {
                    self.flush().await?;
                    stream.frame().await
                }
            };
            let Some(frame) = frame else { return self.finish(None).await };
            match frame.map_err(|error| broke(&error))?.into_data() {
                Ok(data) => {
                    turn_bytes += data.len();
                    let last = stream.is_end();
                    if self.data(&data, last).await? {
                        return Ok(());
                    }
                }
                Err(frame) => return self.finish(frame.into_trailers().ok()).await,
            }
            if turn_bytes >= TURN_BYTES {
                turn_bytes = 0;
                rt::give_way().await;
            }
        }
    }

    /// Sends a frame of data; true: the body is over.
    async fn data(&mut self, data: &Bytes, last: bool) -> Result<bool, Broken> {
        let mut over = last;
        let mut tail: &[u8] = b"";
        match &mut self.delimiter {
            // A chunk of no bytes would be the last one.
            Delimiter::Chunked if data.is_empty() => return Ok(false),
            Delimiter::Chunked => {
                encode_size(data.len(), self.out.vec());
                tail = if last { b"\r\n0\r\n\r\n" } else { b"\r\n" };
            }
            Delimiter::Length(left) => {
                let len = data.len() as u64;
                // More than was said must not look like the next answer.
                *left = left.checked_sub(len).ok_or_else(|| broke(&"it is longer than it said"))?;
                over = *left == 0;
            }
            Delimiter::Given | Delimiter::Close => {}
        }
        if data.len() <= COPY_BYTES_MAX {
            self.out.vec().extend_from_slice(data);
            self.out.vec().extend_from_slice(tail);
            self.flush().await?;
        } else {
            self.pieces(data, tail).await?;
        }
        if last && !over {
            return Err(broke(&"it is shorter than it said"));
        }
        Ok(over)
    }

    /// Sends a large frame in turns.
    async fn pieces(&mut self, data: &[u8], tail: &[u8]) -> Result<(), Broken> {
        let mut pieces = data.chunks(self.duplex.piece_bytes(TURN_BYTES)).peekable();
        while let Some(piece) = pieces.next() {
            let more = pieces.peek().is_some();
            let tail = if more { b"" } else { tail };
            self.duplex.write(&mut [&self.out, piece, tail].map(IoSlice::new)).await?;
            self.out = Output::default();
            if more {
                rt::give_way().await;
            }
        }
        Ok(())
    }

    /// Ends the body.
    async fn finish(mut self, trailers: Option<HeaderMap>) -> Result<(), Broken> {
        match self.delimiter {
            Delimiter::Length(left) if left > 0 => {
                self.flush().await?;
                return Err(broke(&"it is shorter than it said"));
            }
            Delimiter::Chunked => match trailers.filter(|_| self.trailers) {
                None => self.out.vec().extend_from_slice(LAST_CHUNK),
                Some(trailers) => {
                    self.out.vec().extend_from_slice(b"0\r\n");
                    encode_trailers(&trailers, self.out.vec());
                    self.out.vec().extend_from_slice(b"\r\n");
                }
            },
            _ => {}
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        if !self.out.is_empty() {
            self.duplex.write(&mut [IoSlice::new(&self.out)]).await?;
            // While the next frame is waited for, no buffer is held.
            self.out = Output::default();
        }
        Ok(())
    }
}

/// The client learns it from the missing end; the operator, from the log.
fn broke(error: &dyn Display) -> Broken {
    tracing::warn!("an answer's body broke off: {error}");
    Broken::Answer
}
