//! How an answer leaves, decided from its size and from what is in memory, not by a switch:
//! small bodies with their head in one write; files head first and then by `sendfile(2)`, as one
//! flow, or copied where the channel hides them from the kernel; in bounded turns, after which
//! other connections have theirs; and no byte of a file before it is in memory, since reading it
//! would hold the loop.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::buffer::Piece;
use super::meter::{Hold, Meter};
use super::{Output, Transport};
use crate::body::{Body, FileSlice, OpenFile, Part, WINDOW_BYTES};
use crate::config::Sendfile;
use crate::disk::Disk;
use crate::{clock, rt, sys};

/// A body in memory this small is copied behind its head: one buffer is cheaper to send than two.
const COPY_BYTES_MAX: usize = 4 << 10;

/// A body's first turn is longer than the others: most files leave in one, which costs a quarter
/// less than four (1 MiB over loopback), and still holds the loop for less than 0.1 ms. So is
/// each turn since whose last one only long bodies had theirs.
const LONG_TURN_BYTES: u64 = 1 << 20;

/// A body longer than this leaves in full segments only, which takes two calls more: at 1 MiB that
/// saves a sixth of the processor time, at 256 KiB nothing.
const FLOW_BYTES_MIN: u64 = WINDOW_BYTES;

/// Residency is sampled at this distance: the kernel reads ahead, and gives up, in larger runs.
const SAMPLE_BYTES: u64 = 32 << 10;

/// A bounded run of a file's bytes, after which other connections have their turn.
#[derive(Clone, Copy)]
struct Turn<'a> {
    file: &'a Arc<OpenFile>,
    offset: u64,
    end: u64,
    /// No byte of the file has left before: there is nothing yet that it could contradict.
    first: bool,
    /// The body takes more turns than one.
    long: bool,
}

/// How far an answer has got, for whoever watches it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes the kernel has taken.
    pub moved: Cell<u64>,
    /// Bytes it has taken of a write that is not over.
    pub waiting: Cell<u64>,
    /// The next write is to be tried though the socket is not said to be writable: the kernel says
    /// so only once a third of its buffer is free, which a slow reader takes long for.
    pub insist: Cell<bool>,
    /// It waits for a limit, not for the peer.
    pub held: Cell<bool>,
    /// What all that goes to this client is held to.
    pub share: Option<Arc<Meter>>,
}

impl Progress {
    /// A number that changes whenever something moves.
    pub fn mark(&self) -> u64 {
        self.moved.get() + self.waiting.get()
    }
}

/// What a worker's connections send by.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Reads what is not in memory.
    pub disk: Disk,
    /// Whether files may go by `sendfile`.
    pub sendfile: Sendfile,
}

impl Sender {
    /// Sends a head and the body behind it; returns when the kernel has taken all of it. `sent`
    /// counts the bytes as they go, for whoever watches the progress.
    ///
    /// # Errors
    /// The socket's; `UnexpectedEof` or `InvalidData` if the file became shorter or was edited
    /// meanwhile. After any of them the connection must be dropped: its framing is broken.
    pub async fn send<T: Transport>(
        &self,
        io: &mut T,
        mut head: Output,
        body: &Body,
        sent: &Progress,
    ) -> io::Result<()> {
        match body {
            Body::Empty => send_bytes(io, &head, sent).await,
            Body::Bytes(bytes) if sent.share.is_some() => {
                Box::pin(held(io, &head, bytes, sent)).await
            }
            Body::Bytes(bytes) if T::IS_HTTP2 => {
                // Each has a frame of its own.
                write(io, &head, &[], sent).await?;
                write_shareable(io, bytes.clone(), sent).await
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
            // How frames are told apart is the protocol's matter.
            Body::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether the beginning of a body can leave without waiting for the disk, as far as is known.
    pub fn is_warm(&self, body: &Body, now_ms: u64) -> bool {
        match body {
            Body::File(slice) => slice.file.is_warm(slice.offset, now_ms),
            _ => true,
        }
    }

    /// Returns once a body's first turn can leave without waiting for the disk.
    ///
    /// # Errors
    /// The disk's; `TimedOut` if it gave no answer.
    pub async fn warm(&self, body: &Body) -> io::Result<()> {
        let Body::File(slice) = body else { return Ok(()) };
        let len = slice.len.min(LONG_TURN_BYTES);
        self.ensure_resident(&slice.file, slice.offset, slice.offset + len).await
    }

    async fn parts(
        &self,
        io: &mut impl Transport,
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
        io: &mut T,
        head: &[u8],
        slice: &FileSlice,
        sent: &Progress,
        hold: Option<&Hold<'_>>,
    ) -> io::Result<()> {
        let (mut head, mut offset) = (head, slice.offset);
        let end = slice.offset + slice.len;
        let long = slice.len > LONG_TURN_BYTES;
        // What a limit lets go is not held back.
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
                // A head is small: the first piece pays for it.
                let paid = head.len() as u64;
                let len = Box::pin(hold.pass(paid + turn_end - offset)).await;
                turn_end = offset + len.saturating_sub(paid).max(1);
            }
            let turn = Turn { file: &slice.file, offset, end: turn_end, first, long };
            // The rare ways are boxed: a connection is as large as its largest wait.
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

    /// Returns once `offset..end` can be read without waiting for the disk.
    async fn ensure_resident(&self, file: &Arc<OpenFile>, offset: u64, end: u64) -> io::Result<()> {
        let now_ms = clock::now_ms();
        let mut at = offset;
        while at < end {
            // Windows are those of the file, so that answers with different ranges share them.
            let window_end = end.min((at / WINDOW_BYTES + 1) * WINDOW_BYTES);
            if !file.is_warm(at, now_ms) {
                if !is_resident(file, at, window_end)? {
                    // What is missing here is likely to be missing in the rest of the turn.
                    return self.read_ahead(file, at, end).await;
                }
                file.set_warm(at, now_ms);
            }
            at = window_end;
        }
        Ok(())
    }

    /// Has `offset..end` read by the disk threads, so that the kernel has it.
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

    async fn copy_turn<T: Transport>(
        &self,
        io: &mut T,
        head: &[u8],
        turn: Turn<'_>,
        sent: &Progress,
    ) -> io::Result<()> {
        let Turn { file, mut offset, end, first, .. } = turn;
        let (mut head, mut others) = (head, !first);
        if T::IS_HTTP2 && !head.is_empty() {
            // A frame of its own.
            write(io, mem::take(&mut head), &[], sent).await?;
        }
        // The head goes with the first piece, and both fill whole TLS records.
        let mut whole = Piece::BYTES.saturating_sub(head.len()).max(Piece::BYTES / 2);
        while offset < end {
            let room = room(io, sent).await?.min(mem::replace(&mut whole, Piece::BYTES));
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
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if others {
                check_unchanged(file)?;
            }
            others = true;
            offset += read as u64;
            if T::IS_HTTP2 {
                write_shareable(io, piece.into_bytes(read), sent).await?;
            } else {
                write(io, mem::take(&mut head), &piece.room()[..read], sent).await?;
            }
        }
        Ok(())
    }
}

/// Sends a head, perhaps with a small body right behind it, as `Sender::send` does.
///
/// # Errors
/// The socket's.
pub async fn send_bytes(io: &mut impl Transport, bytes: &[u8], sent: &Progress) -> io::Result<()> {
    match sent.share {
        Some(_) => Box::pin(held(io, bytes, &[], sent)).await,
        None => write(io, bytes, &[], sent).await,
    }
}

/// Sends what is in memory as its client's limit allows.
async fn held(
    io: &mut impl Transport,
    head: &[u8],
    rest: &[u8],
    sent: &Progress,
) -> io::Result<()> {
    let Some(hold) = Hold::new(0, sent) else { return Ok(()) };
    // A head is small: the first piece pays for it.
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

/// Waits until something would be taken; how much.
async fn room(io: &mut impl Transport, sent: &Progress) -> io::Result<usize> {
    poll_fn(|cx| {
        let room = io.poll_room(cx);
        sent.waiting.set(io.taken_of_waiting());
        room
    })
    .await
}

/// Writes bytes that the channel may keep.
async fn write_shareable(
    io: &mut impl Transport,
    mut bytes: Bytes,
    sent: &Progress,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| {
            let written = io.poll_write_shareable(cx, &bytes);
            sent.waiting.set(io.taken_of_waiting());
            written
        })
        .await?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        sent.moved.set(sent.moved.get() + n as u64);
        bytes.advance(n);
    }
    Ok(())
}

/// Writes two runs of bytes as one.
async fn write(
    io: &mut impl Transport,
    first: &[u8],
    second: &[u8],
    sent: &Progress,
) -> io::Result<()> {
    let (mut first, mut second) = (first, second);
    while !first.is_empty() || !second.is_empty() {
        let n = poll_fn(|cx| {
            let both = [IoSlice::new(first), IoSlice::new(second)];
            let bufs = if second.is_empty() { &both[..1] } else { &both[..] };
            let insist = sent.insist.take();
            let written = if insist { io.write_anyway(cx, bufs) } else { io.poll_write(cx, bufs) };
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
    io: &mut impl Transport,
    head: &[u8],
    turn: Turn<'_>,
    sent: &Progress,
) -> io::Result<()> {
    let Turn { file, mut offset, end, first, long } = turn;
    let (mut head, mut others) = (head, !first);
    while offset < end {
        // A turn is far below what `usize` holds.
        let len = (end - offset) as usize;
        let n = poll_fn(|cx| {
            if long {
                rt::long_turn();
            }
            // Not before a wait but after it, each time: a slow client's may be long.
            if others {
                check_unchanged(file)?;
            }
            others = true;
            match sent.insist.take() {
                true => io.send_file_anyway(cx, head, file.as_fd(), offset, len),
                false => io.poll_send_file(cx, head, file.as_fd(), offset, len),
            }
        })
        .await?;
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

/// A file edited in place while it is being sent is no file any more: what went out and what is
/// left belong to two. The connection must end before the answer looks complete.
fn check_unchanged(file: &OpenFile) -> io::Result<()> {
    if file.is_unchanged() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn is_resident(file: &OpenFile, offset: u64, end: u64) -> io::Result<bool> {
    // What a probe misses the kernel begins to read: a byte would have a cold file read in bits.
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
