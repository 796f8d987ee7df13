//! Sends a response in a way that depends on its size and on the page cache. A small body leaves
//! with its head in one write. A file follows its head by `sendfile(2)`, or is copied if the
//! channel encrypts it here. Sending takes bounded turns, so that other connections run. File bytes
//! are sent only once they are in memory, because a disk read would block the event loop.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::buffer::BODY_BYTES;
use super::meter::{Hold, Meter};
use super::residency::Residency;
use super::{Attempt, FileRange, Output, SendQueue, Transport};
use crate::body::{Body, FileSlice, OpenFile, Part, WINDOW_BYTES};
use crate::config::Sendfile;
use crate::disk::Disk;
use crate::rt;

/// Maximum size of a body that is copied after its head, in bytes. One buffer costs less than two.
const COPY_BYTES_MAX: usize = 4 << 10;

/// Size of a body's first turn, in bytes. Most files leave in one turn, which costs a quarter less
/// than four (1 MiB over loopback) and takes less than 0.1 ms. A later turn also has this size if
/// only long bodies were sent since the last.
const LONG_TURN_BYTES: u64 = 1 << 20;

/// Minimum size of a body that leaves in full segments only, in bytes. This takes two more calls:
/// at 1 MiB it saves a sixth of the processor time, at 256 KiB nothing.
const FLOW_BYTES_MIN: u64 = WINDOW_BYTES;

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
pub(crate) struct Progress {
    /// Bytes that the transport has accepted.
    pub moved: Cell<u64>,
    /// The transport's `flushed_bytes`.
    pub flushed: Cell<u64>,
    /// The mode of writes, until one moves nothing; then `Ready`.
    pub attempt: Cell<Attempt>,
    /// `true` if the response waits for a rate limit, not for the peer.
    pub held: Cell<bool>,
    /// The rate limit shared by all connections of the client address.
    pub share: Option<Arc<Meter>>,
}

impl Progress {
    /// Sends from the front of a queue and counts the bytes. A write that moves nothing ends the
    /// tries.
    fn poll_send(
        &self,
        io: &impl Transport,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
    ) -> Poll<io::Result<usize>> {
        let sent = io.poll_send(cx, queue, self.attempt.get());
        self.flushed.set(io.flushed_bytes());
        match sent {
            Poll::Ready(Ok(n)) => self.moved.set(self.moved.get() + n as u64),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.attempt.set(Attempt::Ready),
        }
        sent
    }

    /// Waits until the kernel has all bytes; `is_last`: they end the response. Before the end,
    /// tries go on with the next bytes instead of waiting for those that the kernel holds back.
    fn poll_flush(
        &self,
        io: &impl Transport,
        cx: &mut Context<'_>,
        is_last: bool,
    ) -> Poll<io::Result<()>> {
        let attempt = match self.attempt.get() {
            Attempt::Forced if !is_last => Attempt::Last,
            attempt => attempt,
        };
        let flushed = io.poll_flush(cx, attempt);
        self.flushed.set(io.flushed_bytes());
        if flushed.is_pending() {
            self.attempt.set(Attempt::Ready);
        }
        flushed
    }

    /// Returns a number that changes with each byte that moves.
    pub(crate) fn mark(&self) -> u64 {
        self.moved.get() + self.flushed.get()
    }
}

/// The means of sending that a worker's connections share.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
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
    pub(crate) async fn send<T: Transport>(
        &self,
        io: &T,
        mut head: Output,
        body: &Body,
        sent: &Progress,
    ) -> io::Result<()> {
        let is_copied = sent.share.is_none();
        if let Body::Bytes(bytes) = body
            && bytes.len() <= COPY_BYTES_MAX
            && is_copied
        {
            head.vec().extend_from_slice(bytes);
        }
        let mut queue = SendQueue::default();
        queue.push(head);
        match body {
            Body::Empty => send(io, &mut queue, sent).await,
            Body::Bytes(bytes) => {
                if bytes.len() > COPY_BYTES_MAX || !is_copied {
                    queue.push(bytes.clone());
                }
                send(io, &mut queue, sent).await
            }
            Body::File(slice) => {
                let hold = Hold::new(slice.file.rate, sent);
                self.file(io, &mut queue, slice, sent, hold.as_deref()).await
            }
            Body::Parts(parts) => Box::pin(self.parts(io, &mut queue, parts, sent)).await,
            // The protocol adds the framing of streamed bodies.
            Body::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns whether the start of a body is known to be in memory.
    pub(crate) fn is_warm(&self, body: &Body, now_ms: u64) -> bool {
        match body {
            Body::File(slice) => slice.file.is_warm(slice.offset, now_ms),
            _ => true,
        }
    }

    /// Reads the first turn of a body into memory.
    ///
    /// # Errors
    /// Errors of the disk; `TimedOut` if it did not answer.
    pub(crate) async fn warm(&self, body: &Body) -> io::Result<()> {
        let Body::File(slice) = body else { return Ok(()) };
        let len = slice.len.min(LONG_TURN_BYTES);
        let end = slice.offset + len;
        let mut ahead = None;
        let residency = Residency::new(&self.disk, &slice.file, end, &mut ahead);
        residency.before_head().ensure(slice.offset, end).await
    }

    async fn parts(
        &self,
        io: &impl Transport,
        queue: &mut SendQueue,
        parts: &[Part],
        sent: &Progress,
    ) -> io::Result<()> {
        let rate = parts.iter().find_map(|part| match part {
            Part::File(slice) => Some(slice.file.rate),
            Part::Bytes(_) => None,
        });
        let hold = Hold::new(rate.unwrap_or(0), sent);
        write(io, queue, sent).await?;
        for part in parts {
            match part {
                Part::Bytes(bytes) => {
                    queue.push(bytes.clone());
                    write(io, queue, sent).await?;
                }
                Part::File(slice) => {
                    self.file(io, queue, slice, sent, hold.as_deref()).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends the queued head, then a range of a file.
    #[allow(clippy::manual_async_fn)] // An async fn would store its arguments twice.
    fn file<T: Transport>(
        &self,
        io: &T,
        queue: &mut SendQueue,
        slice: &FileSlice,
        sent: &Progress,
        hold: Option<&Hold<'_>>,
    ) -> impl Future<Output = io::Result<()>> {
        async move {
            let mut offset = slice.offset;
            let end = slice.offset + slice.len;
            let long = slice.len > LONG_TURN_BYTES;
            // Rate-limited bytes leave without delay.
            let is_flow = slice.len > FLOW_BYTES_MIN && hold.is_none();
            if is_flow {
                io.fill_segments(true);
            }
            let mut others = None;
            let by_kernel = self.sendfile != Sendfile::Off && io.sends_files(slice.len);
            // A connection is as large as its largest wait, so nothing else is kept over one.
            let mut ahead = None;
            while offset < end {
                let first = offset == slice.offset;
                let before = others;
                others = long.then(rt::long_turn);
                let alone = others == before;
                let turn_bytes = if first || alone { LONG_TURN_BYTES } else { WINDOW_BYTES };
                let mut turn_end = end.min(offset + turn_bytes);
                if let Some(hold) = hold {
                    // The first piece includes the head, which is small.
                    let paid = queue.len() as u64;
                    let len = Box::pin(hold.pass(paid + turn_end - offset)).await;
                    turn_end = offset + len.saturating_sub(paid).max(1);
                }
                let last = turn_end == end;
                let turn = Turn { file: &slice.file, offset, end: turn_end, first, last, long };
                // Rare cases are boxed: a future is as large as its largest wait.
                let mut residency = Residency::new(&self.disk, &slice.file, end, &mut ahead);
                residency.follow(offset).await.map_err(lost)?;
                if !by_kernel {
                    Box::pin(copy_turn(io, queue, turn, sent, residency)).await?;
                } else {
                    residency.ensure(offset, turn_end).await.map_err(lost)?;
                    send_turn(io, queue, turn, sent).await?;
                }
                offset = turn_end;
                if offset < end {
                    rt::give_way().await;
                }
            }
            if is_flow {
                io.fill_segments(false);
            }
            if queue.is_empty() { Ok(()) } else { write(io, queue, sent).await }
        }
    }

    /// Reads a piece of a file, of at most `room` bytes, before `end`. If it is not in memory, the
    /// disk threads read it and what follows, up to `AHEAD_BYTES`.
    ///
    /// # Errors
    /// Errors of the disk; `UnexpectedEof` if the file ends early.
    pub(crate) async fn read_piece(
        &self,
        file: &Arc<OpenFile>,
        offset: u64,
        end: u64,
        room: usize,
    ) -> io::Result<Bytes> {
        let mut ahead = None;
        let mut residency = Residency::new(&self.disk, file, end, &mut ahead);
        Ok(residency.read(offset, end, room).await.map_err(lost)?.into_bytes())
    }
}

/// Logs why a file cannot be read on. The error is that of a file that was edited: the response is
/// cut, and its client is not at fault.
fn lost(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => e,
        _ => {
            tracing::error!("a file cannot be read on: {e}; its response is cut");
            io::Error::new(io::ErrorKind::InvalidData, e)
        }
    }
}

/// Sends the queued head, then the turn's range of the file, by copies.
async fn copy_turn(
    io: &impl Transport,
    queue: &mut SendQueue,
    turn: Turn<'_>,
    sent: &Progress,
    mut residency: Residency<'_>,
) -> io::Result<()> {
    let Turn { file, mut offset, end, first, .. } = turn;
    let mut others = !first;
    // The first piece includes the head; both fill whole TLS records.
    let mut whole = BODY_BYTES.saturating_sub(queue.len()).max(BODY_BYTES / 2);
    while offset < end {
        let room = mem::replace(&mut whole, BODY_BYTES);
        let piece = residency.read(offset, end, room).await.map_err(lost)?;
        if others && !file.is_intact() {
            file.check_intact().await?;
        }
        others = true;
        offset += piece.len() as u64;
        queue.push(piece);
        write(io, queue, sent).await?;
    }
    Ok(())
}

/// Sends the pieces of a queue at the client's rate limit; returns when the kernel has them.
///
/// # Errors
/// Errors of the socket.
pub(crate) async fn send(
    io: &impl Transport,
    queue: &mut SendQueue,
    sent: &Progress,
) -> io::Result<()> {
    match sent.share {
        Some(_) => Box::pin(held(io, queue, sent)).await,
        None => write(io, queue, sent).await,
    }
}

/// Sends bytes in memory at the client's rate limit.
async fn held(io: &impl Transport, queue: &mut SendQueue, sent: &Progress) -> io::Result<()> {
    let Some(hold) = Hold::new(0, sent) else { return Ok(()) };
    while !queue.is_empty() {
        let len = hold.pass(queue.len() as u64).await;
        let mut piece = queue.split_to(usize::try_from(len).unwrap_or(usize::MAX).max(1));
        write(io, &mut piece, sent).await?;
    }
    Ok(())
}

/// Sends the pieces of a queue; returns when the kernel has them.
async fn write(io: &impl Transport, queue: &mut SendQueue, sent: &Progress) -> io::Result<()> {
    poll_fn(|cx| {
        while !queue.is_empty() {
            if ready!(sent.poll_send(io, cx, queue))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        sent.poll_flush(io, cx, true)
    })
    .await
}

/// Sends the queued head, then the turn's range of the file.
#[allow(clippy::manual_async_fn)] // See `Sender::file`.
fn send_turn(
    io: &impl Transport,
    queue: &mut SendQueue,
    turn: Turn<'_>,
    sent: &Progress,
) -> impl Future<Output = io::Result<()>> {
    async move {
        let Turn { file, offset, end, first, last, long } = turn;
        // A turn is much smaller than `usize::MAX`.
        queue.push(FileRange { file: Arc::clone(file), offset, len: (end - offset) as usize });
        let mut others = !first;
        while !queue.is_empty() {
            let n = poll_fn(|cx| {
                if long {
                    rt::long_turn();
                }
                // Checked after each wait, since the wait for a slow client may be long.
                if others && !file.is_intact() {
                    return Poll::Ready(Ok(None));
                }
                others = true;
                sent.poll_send(io, cx, queue).map_ok(Some)
            });
            match n.await? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
                None => {
                    Box::pin(file.check_intact()).await?;
                    others = false;
                }
            }
        }
        poll_fn(|cx| sent.poll_flush(io, cx, last)).await
    }
}
