//! Sends a response in a way that depends on its size and on the page cache. A small body leaves
//! with its head in one write. A file follows its head by `sendfile(2)`, or is copied if the
//! channel encrypts it here. Sending takes bounded turns, so that other connections run. File bytes
//! are sent only once they are in memory, because a disk read would block the event loop.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use super::buffer::Piece;
use super::meter::{Hold, Meter};
use super::{Attempt, FileRun, Output, Transport};
use crate::body::{Body, FileSlice, OpenFile, Part, WINDOW_BYTES};
use crate::config::Sendfile;
use crate::disk::Disk;
use crate::{clock, rt, sys};

/// Maximum size of a body that is copied behind its head, in bytes: one buffer costs less than two.
const COPY_BYTES_MAX: usize = 4 << 10;

/// Size of a body's first turn, in bytes. Most files leave in one turn, which costs a quarter less
/// than four (1 MiB over loopback) and takes less than 0.1 ms. A later turn also has this size if
/// only long bodies were sent since the last.
const LONG_TURN_BYTES: u64 = 1 << 20;

/// Minimum size of a body that leaves in full segments only, in bytes. This takes two more calls:
/// at 1 MiB it saves a sixth of the processor time, at 256 KiB nothing.
const FLOW_BYTES_MIN: u64 = WINDOW_BYTES;

/// Distance of residency samples, in bytes: the kernel reads ahead and evicts in larger ranges.
const SAMPLE_BYTES: u64 = 32 << 10;

/// A bounded range of a file, after which other connections run.
#[derive(Clone, Copy)]
struct Turn<'a> {
    file: &'a Arc<OpenFile>,
    offset: u64,
    end: u64,
    /// `true` if no byte of the file was sent before, so that no sent byte can contradict an edit.
    first: bool,
    /// `true` if the turn ends the range of the file.
    last: bool,
    /// `true` if the body takes several turns.
    long: bool,
}

/// The progress of a response, for stall detection.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes that the kernel has taken.
    pub moved: Cell<u64>,
    /// Bytes that the kernel has taken of a pending write.
    pub waiting: Cell<u64>,
    /// The mode of writes that ignore readiness, until one moves nothing. The kernel reports a
    /// socket as writable only when a third of its buffer is free, which takes long with a slow
    /// reader.
    pub insist: Cell<Insist>,
    /// `true` if the response waits for a rate limit, not for the peer.
    pub held: Cell<bool>,
    /// The rate limit shared by all connections of the client address.
    pub share: Option<Arc<Meter>>,
}

/// The mode of writes to a socket that is not reported as writable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Insist {
    /// Wait for the socket.
    #[default]
    No,
    /// Try to write. The last bytes of a response count as sent only when the kernel does not hold
    /// them back.
    Early,
    /// Try once more before the peer is given up; bytes that the kernel holds count as sent.
    Last,
}

impl Insist {
    /// Returns the mode of a write; `is_last`: it ends the response.
    fn attempt(self, io: &impl Transport, is_last: bool) -> Attempt {
        match self {
            Insist::Early if is_last && io.holds_write() => Attempt::Ready,
            Insist::No => Attempt::Ready,
            Insist::Early | Insist::Last => Attempt::Forced,
        }
    }
}

impl Progress {
    /// Records the result of a write; one that moved nothing ends the tries.
    fn wrote<T>(&self, written: &Poll<io::Result<T>>) {
        if written.is_pending() {
            self.insist.set(Insist::No);
        }
    }

    /// Returns a number that changes with each byte that moves.
    pub fn mark(&self) -> u64 {
        self.moved.get() + self.waiting.get()
    }
}

/// The means of sending that a worker's connections share.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Reads file ranges that are not in memory.
    pub disk: Disk,
    /// The configuration of `sendfile`.
    pub sendfile: Sendfile,
}

impl Sender {
    /// Sends a head and a body; returns when the kernel has taken both. Counts the bytes in `sent`.
    ///
    /// # Errors
    /// Errors of the socket; `UnexpectedEof` or `InvalidData` if the file was truncated or edited.
    /// The connection must be dropped then, because its framing is broken.
    pub async fn send<T: Transport>(
        &self,
        io: &T,
        mut head: Output,
        body: &Body,
        sent: &Progress,
    ) -> io::Result<()> {
        match body {
            Body::Empty => send_bytes(io, &head, sent).await,
            Body::Bytes(bytes) if sent.share.is_some() => {
                Box::pin(held(io, &head, bytes, sent)).await
            }
            Body::Bytes(bytes) if bytes.len() <= COPY_BYTES_MAX => {
                head.vec().extend_from_slice(bytes);
                write(io, &head, &[], sent).await
            }
            Body::Bytes(bytes) => write(io, &head, bytes, sent).await,
            Body::File(slice) => {
                let hold = Hold::new(slice.file.rate, sent);
                self.file(io, &head, slice, sent, hold.as_deref()).await
            }
            Body::Parts(parts) => Box::pin(self.parts(io, &head, parts, sent)).await,
            // The protocol adds the framing of streamed bodies.
            Body::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns whether the start of a body is known to be in memory.
    pub fn is_warm(&self, body: &Body, now_ms: u64) -> bool {
        match body {
            Body::File(slice) => slice.file.is_warm(slice.offset, now_ms),
            _ => true,
        }
    }

    /// Reads the first turn of a body into memory.
    ///
    /// # Errors
    /// Errors of the disk; `TimedOut` if it did not answer.
    pub async fn warm(&self, body: &Body) -> io::Result<()> {
        let Body::File(slice) = body else { return Ok(()) };
        let len = slice.len.min(LONG_TURN_BYTES);
        self.ensure_resident(&slice.file, slice.offset, slice.offset + len).await
    }

    async fn parts(
        &self,
        io: &impl Transport,
        head: &[u8],
        parts: &[Part],
        sent: &Progress,
    ) -> io::Result<()> {
        let rate = parts.iter().find_map(|part| match part {
            Part::File(slice) => Some(slice.file.rate),
            Part::Bytes(_) => None,
        });
        let hold = Hold::new(rate.unwrap_or(0), sent);
        write(io, head, &[], sent).await?;
        for part in parts {
            match part {
                Part::Bytes(bytes) => write(io, bytes, &[], sent).await?,
                Part::File(slice) => {
                    self.file(io, &[], slice, sent, hold.as_deref()).await?;
                }
            }
        }
        Ok(())
    }

    async fn file<T: Transport>(
        &self,
        io: &T,
        head: &[u8],
        slice: &FileSlice,
        sent: &Progress,
        hold: Option<&Hold<'_>>,
    ) -> io::Result<()> {
        let (mut head, mut offset) = (head, slice.offset);
        let end = slice.offset + slice.len;
        let long = slice.len > LONG_TURN_BYTES;
        // Rate-limited bytes leave without delay.
        let is_flow = slice.len > FLOW_BYTES_MIN && hold.is_none();
        if is_flow {
            io.fill_segments(true);
        }
        let mut others = None;
        let by_kernel = self.sendfile != Sendfile::Off && io.sends_files(slice.len);
        while offset < end {
            let first = offset == slice.offset;
            let before = others;
            others = long.then(rt::long_turn);
            let alone = others == before;
            let turn_bytes = if first || alone { LONG_TURN_BYTES } else { WINDOW_BYTES };
            let mut turn_end = end.min(offset + turn_bytes);
            if let Some(hold) = hold {
                // The first piece includes the head, which is small.
                let paid = head.len() as u64;
                let len = Box::pin(hold.pass(paid + turn_end - offset)).await;
                turn_end = offset + len.saturating_sub(paid).max(1);
            }
            let last = turn_end == end;
            let turn = Turn { file: &slice.file, offset, end: turn_end, first, last, long };
            // Rare cases are boxed: a future is as large as its largest wait.
            if !by_kernel {
                Box::pin(self.copy_turn(io, head, turn, sent)).await?;
            } else {
                self.ensure_resident(&slice.file, offset, turn_end).await?;
                send_turn(io, head, turn, sent).await?;
            }
            head = &[];
            offset = turn_end;
            if offset < end {
                rt::give_way().await;
            }
        }
        if is_flow {
            io.fill_segments(false);
        }
        if head.is_empty() { Ok(()) } else { write(io, head, &[], sent).await }
    }

    /// Waits until `offset..end` is in memory.
    async fn ensure_resident(&self, file: &Arc<OpenFile>, offset: u64, end: u64) -> io::Result<()> {
        let now_ms = clock::now_ms();
        let mut at = offset;
        while at < end {
            // Windows are aligned to the file, so that responses with different ranges share them.
            let window_end = end.min((at / WINDOW_BYTES + 1) * WINDOW_BYTES);
            if !file.is_warm(at, now_ms) {
                if !is_resident(file, at, window_end)? {
                    // The rest of the turn is likely to be missing, too.
                    return self.read_ahead(file, at, end).await;
                }
                file.set_warm(at, now_ms);
            }
            at = window_end;
        }
        Ok(())
    }

    /// Reads `offset..end` on the disk threads, which brings it into the page cache.
    async fn read_ahead(&self, file: &Arc<OpenFile>, offset: u64, end: u64) -> io::Result<()> {
        let reader = Arc::clone(file);
        let read = self.disk.run(file.lane, move || reader.read_ahead(offset, end));
        Box::pin(read).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let now_ms = clock::now_ms();
        let mut at = offset.next_multiple_of(WINDOW_BYTES);
        while at < end && end >= file.stamp.len.min(at + WINDOW_BYTES) {
            file.set_warm(at, now_ms);
            at += WINDOW_BYTES;
        }
        Ok(())
    }

    /// Reads a piece of a file, of at most `room` bytes. If it is not in memory, the disk threads
    /// read up to `end`.
    ///
    /// # Errors
    /// Errors of the disk; `UnexpectedEof` if the file ends early.
    pub async fn read_piece(
        &self,
        file: &Arc<OpenFile>,
        offset: u64,
        end: u64,
        room: usize,
    ) -> io::Result<Bytes> {
        let (piece, read) = self.read(file, offset, end, room).await?;
        Ok(piece.into_bytes(read))
    }

    async fn read(
        &self,
        file: &Arc<OpenFile>,
        offset: u64,
        end: u64,
        room: usize,
    ) -> io::Result<(Piece, usize)> {
        let len = room.min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        let mut piece = Piece::lend();
        let into = &mut piece.room()[..len];
        let read = match sys::read_resident(file.as_fd(), into, offset) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.read_ahead(file, offset, end).await?;
                rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *into, offset))?
            }
            read => read?,
        };
        match read {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok((piece, read)),
        }
    }

    async fn copy_turn<T: Transport>(
        &self,
        io: &T,
        head: &[u8],
        turn: Turn<'_>,
        sent: &Progress,
    ) -> io::Result<()> {
        let Turn { file, mut offset, end, first, .. } = turn;
        let (mut head, mut others) = (head, !first);
        // The first piece includes the head; both fill whole TLS records.
        let mut whole = Piece::BYTES.saturating_sub(head.len()).max(Piece::BYTES / 2);
        while offset < end {
            let room = mem::replace(&mut whole, Piece::BYTES);
            let (mut piece, read) = self.read(file, offset, end, room).await?;
            if others && !file.is_intact() {
                file.check_intact().await?;
            }
            others = true;
            offset += read as u64;
            write(io, mem::take(&mut head), &piece.room()[..read], sent).await?;
        }
        Ok(())
    }
}

/// Sends a head, perhaps with a small body behind it, like `Sender::send`.
///
/// # Errors
/// Errors of the socket.
pub async fn send_bytes(io: &impl Transport, bytes: &[u8], sent: &Progress) -> io::Result<()> {
    match sent.share {
        Some(_) => Box::pin(held(io, bytes, &[], sent)).await,
        None => write(io, bytes, &[], sent).await,
    }
}

/// Sends bytes in memory at the client's rate limit.
async fn held(io: &impl Transport, head: &[u8], rest: &[u8], sent: &Progress) -> io::Result<()> {
    let Some(hold) = Hold::new(0, sent) else { return Ok(()) };
    // The first piece includes the head, which is small.
    let (mut head, mut rest, mut paid) = (head, rest, head.len() as u64);
    loop {
        let len = hold.pass(paid + rest.len() as u64).await.saturating_sub(paid).max(1);
        let len = rest.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        write(io, head, &rest[..len], sent).await?;
        (head, rest, paid) = (&[], &rest[len..], 0);
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Writes two byte slices as one.
async fn write(
    io: &impl Transport,
    first: &[u8],
    second: &[u8],
    sent: &Progress,
) -> io::Result<()> {
    let (mut first, mut second) = (first, second);
    while !first.is_empty() || !second.is_empty() {
        let n = poll_fn(|cx| {
            let both = [IoSlice::new(first), IoSlice::new(second)];
            let bufs = if second.is_empty() { &both[..1] } else { &both[..] };
            let written = io.poll_write(cx, bufs, sent.insist.get().attempt(io, true));
            sent.wrote(&written);
            sent.waiting.set(io.taken_of_waiting());
            written
        })
        .await?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        sent.moved.set(sent.moved.get() + n as u64);
        let of_first = n.min(first.len());
        first = &first[of_first..];
        second = &second[n - of_first..];
    }
    Ok(())
}

async fn send_turn(
    io: &impl Transport,
    head: &[u8],
    turn: Turn<'_>,
    sent: &Progress,
) -> io::Result<()> {
    let Turn { file, mut offset, end, first, last, long } = turn;
    let (mut head, mut others) = (head, !first);
    while offset < end {
        // A turn is much smaller than `usize::MAX`.
        let len = (end - offset) as usize;
        let n = poll_fn(|cx| {
            if long {
                rt::long_turn();
            }
            // Checked after each wait, since the wait for a slow client may be long.
            if others && !file.is_intact() {
                return Poll::Ready(Ok(None));
            }
            others = true;
            let run = FileRun { file: file.as_fd(), offset, len };
            let taken = io.poll_send_file(cx, head, run, sent.insist.get().attempt(io, last));
            sent.wrote(&taken);
            taken.map_ok(Some)
        })
        .await?;
        let Some(n) = n else {
            Box::pin(file.check_intact()).await?;
            others = false;
            continue;
        };
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sent.moved.set(sent.moved.get() + n as u64);
        let of_head = n.min(head.len());
        head = &head[of_head..];
        offset += (n - of_head) as u64;
    }
    Ok(())
}

fn is_resident(file: &OpenFile, offset: u64, end: u64) -> io::Result<bool> {
    // A probe starts the kernel's read-ahead; a probe of one byte would read a cold file in small
    // parts.
    let first = if file.is_unseen(offset) { Piece::BYTES.min((end - offset) as usize) } else { 1 };
    let mut probe = vec![0; first];
    let mut at = offset;
    loop {
        match sys::read_resident(file.as_fd(), &mut probe, at) {
            Ok(read) if read < probe.len() => return Ok(false),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        }
        if at + probe.len() as u64 >= end {
            return Ok(true);
        }
        at = (at + SAMPLE_BYTES.max(probe.len() as u64)).min(end - 1);
        probe.truncate(1);
    }
}
