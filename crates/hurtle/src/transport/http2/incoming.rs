//! A request's body, from frames to the bytes that its head announces in HTTP/1.1's words.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;

use crate::h1::chunked::encode_size;
use crate::h1::response::encode_trailers;

/// The request's body on its way in.
pub(super) struct Body {
    frames: RecvStream,
    chunked: bool,
    /// What goes before the data: a chunk's framing.
    framing: Vec<u8>,
    data: Bytes,
    over: bool,
}

impl Body {
    pub(super) fn new(frames: RecvStream, chunked: bool) -> Body {
        Body { frames, chunked, framing: Vec::new(), data: Bytes::new(), over: false }
    }

    /// Gives what is there, without waiting if anything is.
    pub(super) fn read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut filled = 0;
        while filled < into.len() {
            if !self.framing.is_empty() {
                let given = take_front(&mut into[filled..], &self.framing);
                self.framing.drain(..given);
                filled += given;
                continue;
            }
            filled += self.give_data(&mut into[filled..])?;
            if !self.data.is_empty() || !self.framing.is_empty() {
                continue;
            }
            if self.over {
                break;
            }
            match self.next(cx) {
                Poll::Ready(next) => next?,
                Poll::Pending if filled > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(filled))
    }

    fn give_data(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.data.is_empty() {
            return Ok(0);
        }
        let given = take_front(into, &self.data);
        drop(self.data.split_to(given));
        // The peer may send as much more.
        self.frames.flow_control().release_capacity(given).map_err(io::Error::other)?;
        if self.data.is_empty() && self.chunked {
            self.framing.extend_from_slice(b"\r\n");
        }
        Ok(given)
    }

    /// Waits for the next frame.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(data) = ready!(self.frames.poll_data(cx)) {
            self.data = data.map_err(io::Error::other)?;
            if self.chunked && !self.data.is_empty() {
                encode_size(self.data.len(), &mut self.framing);
            }
            return Poll::Ready(Ok(()));
        }
        let trailers = ready!(self.frames.poll_trailers(cx)).map_err(io::Error::other)?;
        self.over = true;
        if self.chunked {
            self.framing.extend_from_slice(b"0\r\n");
            encode_trailers(&trailers.unwrap_or_default(), &mut self.framing);
            self.framing.extend_from_slice(b"\r\n");
        }
        Poll::Ready(Ok(()))
    }
}

fn take_front(into: &mut [u8], from: &[u8]) -> usize {
    let n = into.len().min(from.len());
    into[..n].copy_from_slice(&from[..n]);
    n
}
