//! A TLS connection: rustls on a socket. It encrypts writes and keeps them until the kernel has
//! taken them, or lets the kernel encrypt (`ktls`). `handshake` creates the connection.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker, ready};

use rustls::ServerConnection;

use super::ktls::{self, Sending, TAKE_OVER_BYTES_MIN};
use super::{Attempt, FileRun, Fill, Input, Plain, Transport};
use crate::tls::{ClientCertificate, HTTP2};

/// Bytes encrypted at once: four full records (RFC 8446 section 5.1). They bound the unsent data of
/// a slow client.
const WRITE_BYTES: usize = 64 << 10;

/// Maximum overhead of encrypting them, and of rustls' own messages, in bytes.
const OVERHEAD_BYTES_MAX: usize = 1 << 10;

/// Maximum number of buffers in one write: a head and a body, or HTTP/2 frames.
const BUFS_MAX: usize = 16;

/// A connected socket with a TLS session on it.
#[derive(Debug)]
pub struct Tls {
    socket: Plain,
    session: RefCell<Box<ServerConnection>>,
    policy: u32,
    client: OnceCell<Option<ClientCertificate>>,
    sending: RefCell<Sending>,
    /// `true` if rustls has no decrypted bytes left; only the socket may have more.
    drained: Cell<bool>,
    /// Bytes encrypted of a pending write.
    unfinished: Cell<usize>,
    /// Bytes that the kernel has taken of it, if rustls encrypts.
    taken: Cell<u64>,
}

impl Tls {
    /// Creates a connection from a session whose handshake is complete.
    pub(super) fn new(
        socket: Plain,
        mut session: Box<ServerConnection>,
        policy: u32,
        sending: Sending,
    ) -> Tls {
        session.set_buffer_limit(Some(WRITE_BYTES + OVERHEAD_BYTES_MAX));
        let (session, sending) = (RefCell::new(session), RefCell::new(sending));
        Tls {
            socket,
            session,
            policy,
            client: OnceCell::new(),
            sending,
            drained: Cell::new(false),
            unfinished: Cell::new(0),
            taken: Cell::new(0),
        }
    }

    /// Returns whether the handshake selected HTTP/2 (ALPN, RFC 7301).
    pub fn speaks_http2(&self) -> bool {
        self.session.borrow().alpn_protocol() == Some(HTTP2)
    }

    /// Writes the queued bytes, then returns how many of the caller's bytes they were. New bytes
    /// are encrypted only when none are queued, so that the result counts bytes that the kernel
    /// has.
    fn write_by(
        &self,
        bufs: &[IoSlice<'_>],
        write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        if self.unfinished.get() == 0 {
            self.begin(&session);
            self.unfinished.set(encrypt(&mut session, bufs)?);
        }
        ready!(self.put_all_out(&mut session, write))?;
        Poll::Ready(Ok(self.unfinished.take()))
    }

    /// Marks the start of a write, unless bytes are queued.
    fn begin(&self, session: &ServerConnection) {
        if !session.wants_write() {
            self.taken.set(0);
        }
    }

    /// Writes all queued bytes.
    fn put_all_out(
        &self,
        session: &mut ServerConnection,
        mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        while session.wants_write() {
            let n = ready!(put_out(session, |bufs: &[IoSlice<'_>]| {
                let n = ready!(write(bufs))?;
                self.sending.borrow_mut().passed(bufs, n);
                Poll::Ready(Ok(n))
            }))?;
            self.taken.set(self.taken.get() + n as u64);
        }
        Poll::Ready(Ok(()))
    }

    fn is_by_kernel(&self) -> bool {
        self.sending.borrow().is_by_kernel()
    }

    /// Makes the kernel encrypt from now on. This needs the socket to take rustls' queued output
    /// (tickets on a fresh connection) at once.
    fn hand_over(&self) -> bool {
        let mut session = self.session.borrow_mut();
        let mut cx = Context::from_waker(Waker::noop());
        let write = |bufs: &[IoSlice<'_>]| self.socket.poll_write(&mut cx, bufs, Attempt::Ready);
        if self.unfinished.get() > 0
            || ktls::has_to_say(&mut session)
                && !matches!(self.put_all_out(&mut session, write), Poll::Ready(Ok(())))
        {
            return false;
        }
        self.taken.set(0);
        self.sending.borrow_mut().take_over(&session, self.socket.as_fd())
    }

    /// Makes the kernel encrypt some of `len` bytes; returns their number. The last bytes count
    /// only once the kernel has room again: until then kTLS may hold bytes that a close would lose.
    fn give(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        write: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.unfinished.get() == 0 {
            self.sending.borrow().check()?;
            let n = ready!(write(cx))?;
            self.sending.borrow_mut().took(n);
            if n < len {
                return Poll::Ready(Ok(n));
            }
            self.unfinished.set(n);
        }
        ready!(self.socket.poll_roomy(cx))?;
        Poll::Ready(Ok(self.unfinished.take()))
    }

    /// Works like `give`, but counts all bytes that the kernel has taken. Used when a stall check
    /// must know about progress.
    fn give_anyway(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        write: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match self.unfinished.take() {
            0 => self.give(cx, len, write),
            taken => Poll::Ready(Ok(taken)),
        }
    }

    /// Sends close_notify if the socket takes it at once; closing does not wait.
    fn say_goodbye(&self) {
        if self.is_by_kernel() {
            // The peer may be gone.
            let _ = ktls::say_goodbye(self.socket.as_fd());
            return;
        }
        let mut session = self.session.borrow_mut();
        // RFC 8446 section 6.1: without close_notify the peer treats the data as truncated. A
        // pending write is truncated, so none follows it.
        if self.unfinished.get() == 0 {
            session.send_close_notify();
        }
        let mut cx = Context::from_waker(Waker::noop());
        let write = |bufs: &[IoSlice<'_>]| self.socket.poll_write(&mut cx, bufs, Attempt::Ready);
        // The peer may be gone.
        let _ = flush(&mut session, write);
    }
}

impl Transport for Tls {
    fn is_secure(&self) -> bool {
        true
    }

    fn sends_files(&self, len: u64) -> bool {
        let may_hand_over = match &*self.sending.borrow() {
            Sending::Own => return false,
            Sending::Kernel { .. } => return true,
            Sending::Either(_) => len >= TAKE_OVER_BYTES_MIN,
        };
        may_hand_over && self.hand_over()
    }

    fn is_readable(&self) -> bool {
        !self.drained.get() || self.socket.is_readable()
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With kernel encryption, a read can complete although no data has arrived.
        match self.drained.get() && !self.is_by_kernel() {
            true => self.socket.poll_readable(cx),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        fill: Fill,
    ) -> Poll<io::Result<usize>> {
        // Checked first, so that no buffer is lent while nothing can be read.
        if fill == Fill::Head && input.holds_no_buffer() && !self.is_readable() {
            ready!(self.poll_readable(cx))?;
        }
        let mut session = self.session.borrow_mut();
        let read = |into: &mut [u8]| match fill {
            Fill::HeadEagerly => self.socket.poll_read_eagerly(cx, into),
            Fill::Head | Fill::Body | Fill::Response => self.socket.poll_read(cx, into),
        };
        input.poll_fill_by(fill, |into| {
            read_by(&mut session, &self.sending.borrow(), &self.drained, into, read)
        })
    }

    fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let write =
            |cx: &mut Context<'_>, bufs: &[IoSlice<'_>]| self.socket.poll_write(cx, bufs, attempt);
        match (self.is_by_kernel(), attempt) {
            (false, _) => self.write_by(bufs, |bufs| write(cx, bufs)),
            (true, Attempt::Ready) => self.give(cx, total(bufs), |cx| write(cx, bufs)),
            (true, Attempt::Forced) => self.give_anyway(cx, total(bufs), |cx| write(cx, bufs)),
        }
    }

    fn holds_write(&self) -> bool {
        self.is_by_kernel() && self.unfinished.get() > 0
    }

    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        head: &[u8],
        run: FileRun<'_>,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let whole = head.len() + run.len;
        let send = |cx: &mut Context<'_>| self.socket.poll_send_file(cx, head, run, attempt);
        match attempt {
            Attempt::Ready => self.give(cx, whole, send),
            Attempt::Forced => self.give_anyway(cx, whole, send),
        }
    }

    fn taken_of_waiting(&self) -> u64 {
        self.taken.get()
    }

    async fn reset(&self) {
        self.socket.reset().await;
    }

    fn finish(&self) {
        self.say_goodbye();
        self.socket.finish();
    }

    fn close(&self) {
        self.say_goodbye();
    }

    fn abort(&self) {
        self.socket.abort();
    }

    fn policy(&self) -> u32 {
        self.policy
    }

    fn server_name(&self) -> Option<String> {
        self.session.borrow().server_name().map(str::to_owned)
    }

    fn client(&self) -> Option<ClientCertificate> {
        let proved = || self.session.borrow().peer_certificates().map(ClientCertificate::new);
        self.client.get_or_init(proved).clone()
    }
}

/// Encrypts as many bytes as are encrypted at once; returns their number.
fn encrypt(session: &mut ServerConnection, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut left = WRITE_BYTES;
    if bufs.is_empty() {
        return Ok(0);
    }
    let mut some = [IoSlice::new(&[]); BUFS_MAX];
    for (slot, buf) in some.iter_mut().zip(bufs) {
        *slot = IoSlice::new(&buf[..buf.len().min(left)]);
        left -= slot.len();
    }
    session.writer().write_vectored(&some)
}

fn total(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter().map(|buf| buf.len()).sum()
}

/// Reads decrypted bytes as soon as there are some. Skips rustls while it is known to have none.
fn read_by(
    session: &mut ServerConnection,
    sending: &Sending,
    drained: &Cell<bool>,
    into: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    loop {
        if sending.is_over(session) {
            return Poll::Ready(Ok(0));
        }
        if !drained.get() {
            match session.reader().read(into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => drained.set(true),
                // 0 is the peer's close_notify; an end without it is `UnexpectedEof`.
                read => {
                    drained.set(is_drained(session));
                    return Poll::Ready(read);
                }
            }
        }
        let taken = ready!(take_in(session, &mut read));
        drained.set(false);
        taken?;
    }
}

/// Returns whether rustls has neither unread decrypted bytes nor the peer's end.
fn is_drained(session: &mut ServerConnection) -> bool {
    let waits = |e: io::Error| e.kind() == io::ErrorKind::WouldBlock;
    session.reader().fill_buf().is_err_and(waits)
}

/// Reads once from the socket into the session.
pub(super) fn take_in(
    session: &mut ServerConnection,
    mut read: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    let n = ready!(pending(session.read_tls(&mut Reader(&mut read))))?;
    let state = session.process_new_packets();
    Poll::Ready(state.map(|_| n).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// Writes all queued bytes.
pub(super) fn flush(
    session: &mut ServerConnection,
    mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<()>> {
    while session.wants_write() {
        ready!(put_out(session, &mut write))?;
    }
    Poll::Ready(Ok(()))
}

/// Writes queued bytes once.
fn put_out(
    session: &mut ServerConnection,
    write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    match ready!(pending(session.write_tls(&mut Writer(write)))) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(written),
    }
}

/// Adapts a polled socket to the blocking interface that rustls uses.
struct Reader<F>(F);
struct Writer<F>(F);

impl<F: FnMut(&mut [u8]) -> Poll<io::Result<usize>>> Read for Reader<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        would_block((self.0)(into))
    }
}

impl<F: FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>> Write for Writer<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        would_block((self.0)(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn would_block<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn pending<T>(done: io::Result<T>) -> Poll<io::Result<T>> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}
