//! Sends complete bodies. Pieces of a file are read when there is room for them, and never block on
//! the disk.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;

use super::FrameStream;
use super::stream::Stream;
use crate::body::{Body, FileSlice, Part};
use crate::rt;
use crate::transport::meter::Hold;
use crate::transport::{Progress, Sender};

/// A smaller part of a piece is copied, so that a queued part does not hold the whole piece.
const SHARED_PART: usize = 2;

impl<F: FrameStream> Stream<F> {
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
    pub(super) async fn send_held(
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

    /// Sends bytes in memory as the flow control windows allow.
    pub(super) async fn send_bytes(
        &self,
        mut bytes: Bytes,
        is_last: bool,
        sent: &Progress,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.room(bytes.len(), sent).await?;
            let piece = match room * SHARED_PART < bytes.len() {
                true => Bytes::copy_from_slice(&bytes.split_to(room)),
                false => bytes.split_to(room),
            };
            self.put(piece, is_last && bytes.is_empty())?;
            sent.moved.set(sent.moved.get() + room as u64);
        }
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
        // Bytes that the limit of the rate allows and that are not sent yet.
        let mut allowed = 0;
        while offset < end {
            let piece_bytes = self.frames.piece_bytes();
            let mut wanted =
                usize::try_from(end - offset).map_or(piece_bytes, |n| n.min(piece_bytes));
            if let Some(hold) = hold {
                if allowed == 0 {
                    allowed = hold.pass(wanted as u64).await.max(1);
                }
                wanted = usize::try_from(allowed).map_or(wanted, |n| n.min(wanted));
            }
            let room = self.room(wanted, sent).await?;
            let mut piece = sender.read_piece(&slice.file, offset, end, room.min(wanted)).await?;
            // An edit in place makes the rest belong to another version of the file.
            if offset > slice.offset && !slice.file.is_intact() {
                slice.file.check_intact().await?;
            }
            // Other streams may have used the room during the waits; the bytes that no longer fit
            // are read again.
            piece.truncate(self.frames.room_now(piece.len())?);
            if piece.is_empty() {
                continue;
            }
            offset += piece.len() as u64;
            allowed = allowed.saturating_sub(piece.len() as u64);
            sent.moved.set(sent.moved.get() + piece.len() as u64);
            self.put(piece, is_last && offset == end)?;
            if F::GIVES_WAY && offset < end {
                rt::give_way().await;
            }
        }
        Ok(())
    }

    async fn room(&self, wanted: usize, sent: &Progress) -> io::Result<usize> {
        poll_fn(|cx| {
            let room = self.frames.poll_room(cx, wanted);
            sent.flushed.set(self.frames.flushed_bytes());
            room
        })
        .await
    }
}
