//! Sends complete bodies. Pieces of a file are read when QUIC takes bytes, and never block on the
//! disk.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;

use super::super::Protocol as _;
use super::stream::Stream;
use crate::body::{Body, FileSlice, Part};
use crate::rt;
use crate::transport::buffer::BODY_BYTES;
use crate::transport::meter::Hold;
use crate::transport::{Progress, Sender};

/// Requests in progress from which pieces of files are small, because each may be held while flow
/// control blocks; and the size of small pieces in bytes.
const MANY_STREAMS: usize = 9;
const SMALL_PIECE_BYTES: usize = 16 << 10;

impl Stream {
    /// Sends a body that is not empty, after its head.
    pub(super) async fn send_body(
        &self,
        sender: &Sender,
        body: &Body,
        sent: &Progress,
    ) -> io::Result<()> {
        match body {
            Body::Empty => Ok(()),
            Body::Bytes(bytes) => {
                let hold = Hold::new(0, sent);
                self.send_held(bytes.clone(), true, sent, hold.as_deref()).await
            }
            Body::File(slice) => {
                let hold = Hold::new(slice.file.rate, sent);
                self.send_file(sender, slice, true, sent, hold.as_deref()).await
            }
            Body::Parts(parts) => Box::pin(self.send_parts(sender, parts, sent)).await,
            // `BodyWriter` sends streamed bodies.
            Body::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn send_parts(&self, sender: &Sender, parts: &[Part], sent: &Progress) -> io::Result<()> {
        let rate = parts.iter().find_map(|part| match part {
            Part::File(slice) => Some(slice.file.rate),
            Part::Bytes(_) => None,
        });
        let hold = Hold::new(rate.unwrap_or(0), sent);
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            match part {
                Part::Bytes(bytes) => {
                    self.send_held(bytes.clone(), is_last, sent, hold.as_deref()).await?;
                }
                Part::File(slice) => {
                    self.send_file(sender, slice, is_last, sent, hold.as_deref()).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends bytes in memory at the client's rate limit.
    async fn send_held(
        &self,
        mut bytes: Bytes,
        is_last: bool,
        sent: &Progress,
        hold: Option<&Hold<'_>>,
    ) -> io::Result<()> {
        let Some(hold) = hold else { return self.send_bytes(bytes, is_last, sent).await };
        while !bytes.is_empty() {
            let allowed = hold.pass(bytes.len() as u64).await.max(1);
            let len = usize::try_from(allowed).map_or(bytes.len(), |len| len.min(bytes.len()));
            let piece = bytes.split_to(len);
            self.send_bytes(piece, is_last && bytes.is_empty(), sent).await?;
        }
        Ok(())
    }

    /// Sends bytes in memory, which QUIC shares.
    pub(super) async fn send_bytes(
        &self,
        bytes: Bytes,
        is_last: bool,
        sent: &Progress,
    ) -> io::Result<()> {
        self.taken(sent).await?;
        let len = bytes.len();
        self.put(bytes, is_last)?;
        sent.moved.set(sent.moved.get() + len as u64);
        Ok(())
    }

    async fn send_file(
        &self,
        sender: &Sender,
        slice: &FileSlice,
        is_last: bool,
        sent: &Progress,
        hold: Option<&Hold<'_>>,
    ) -> io::Result<()> {
        let mut offset = slice.offset;
        let end = slice.offset + slice.len;
        while offset < end {
            let is_many = self.shared.streams() >= MANY_STREAMS;
            let piece_bytes = if is_many { SMALL_PIECE_BYTES } else { BODY_BYTES };
            let mut wanted =
                usize::try_from(end - offset).map_or(piece_bytes, |n| n.min(piece_bytes));
            if let Some(hold) = hold {
                let allowed = hold.pass(wanted as u64).await.max(1);
                wanted = usize::try_from(allowed).map_or(wanted, |n| n.min(wanted));
            }
            self.taken(sent).await?;
            let piece = sender.read_piece(&slice.file, offset, end, wanted).await?;
            // An edit in place makes the rest belong to another version of the file.
            if offset > slice.offset && !slice.file.is_intact() {
                slice.file.check_intact().await?;
            }
            offset += piece.len() as u64;
            sent.moved.set(sent.moved.get() + piece.len() as u64);
            self.put(piece, is_last && offset == end)?;
            if offset < end {
                rt::give_way().await;
            }
        }
        Ok(())
    }

    /// Waits until QUIC has all bytes of the response so far.
    pub(super) async fn taken(&self, sent: &Progress) -> io::Result<()> {
        poll_fn(|cx| {
            let taken = self.poll_taken(cx);
            sent.flushed.set(self.flushed_bytes());
            taken
        })
        .await
    }
}
