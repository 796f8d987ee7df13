//! A TLS connection: rustls on a socket. It encrypts what is written and keeps it until the kernel
//! has it, or has the kernel encrypt (`ktls`); making the connection is `handshake`'s part.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, Waker, ready};

use rustix::io::Errno;
use rustls::ServerConnection;

use super::ktls::{self, Sending, TAKE_OVER_BYTES_MIN};
use super::{Plain, Transport};
use crate::tls::{ClientCertificate, HTTP2};

/// What is encrypted at once: four full records (RFC 8446 5.1), what a slow client's unsent part
/// may hold.
const WRITE_BYTES: usize = 64 << 10;

/// What their encryption adds, and what rustls has to say by itself, at most.
const OVERHEAD_BYTES_MAX: usize = 1 << 10;

/// Buffers of one write: a head, a body, and what delimits it.
const BUFS_MAX: usize = 4;

/// A connected socket with a TLS session on it.
#[derive(Debug)]
pub struct Tls {
    socket: Plain,
    session: RefCell<Box<ServerConnection>>,
    policy: u32,
    client: OnceCell<Option<ClientCertificate>>,
    sending: RefCell<Sending>,
    /// All that rustls has decrypted was read, and there may be more: the socket knows.
    drained: Cell<bool>,
    /// Bytes encrypted of a write that is not over.
    unfinished: Cell<usize>,
    /// What the kernel has taken of it, where rustls encrypts.
    taken: Cell<u64>,
}

impl Tls {
    /// A session whose handshake is over.
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

    /// Whether the handshake settled on HTTP/2 (RFC 7301).
    pub fn speaks_http2(&self) -> bool {
        self.session.borrow().alpn_protocol() == Some(HTTP2)
    }

    /// Writes what is queued, and then says how much of the caller's bytes that was. New bytes are
    /// only encrypted when none are queued, so that what is reported is what the kernel has.
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

    /// What is encrypted now is the first of a write, unless some is queued.
    fn begin(&self, session: &ServerConnection) {
        if !session.wants_write() {
            self.taken.set(0);
        }
    }

    /// Writes all that is queued.
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

    /// Has the kernel encrypt from now on, if nothing stands in the way: the socket takes at once
    /// what rustls has to say first (tickets, on a fresh connection).
    fn hand_over(&mut self) -> bool {
        let mut session = self.session.borrow_mut();
        let mut cx = Context::from_waker(Waker::noop());
        let write = |bufs: &[IoSlice<'_>]| self.socket.poll_write_shared(&mut cx, bufs);
        if self.unfinished.get() > 0
            || ktls::has_to_say(&mut session)
                && !matches!(self.put_all_out(&mut session, write), Poll::Ready(Ok(())))
        {
            return false;
        }
        self.taken.set(0);
        self.sending.borrow_mut().take_over(&session, self.socket.as_fd())
    }

    /// Has the kernel encrypt some of `len` bytes; how many. All of them only once it has room for
    /// more: until then its TLS may hold what TCP has not taken, and a close would lose that.
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

    /// The same at a time when whoever watches wants to know whether anything moves: what the kernel
    /// has taken has.
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

    /// Says goodbye as far as the socket takes it at once: whoever closes does not wait.
    fn say_goodbye(&self) {
        if self.is_by_kernel() {
            // The peer may be gone.
            let _ = ktls::say_goodbye(self.socket.as_fd());
            return;
        }
        let mut session = self.session.borrow_mut();
        // RFC 8446 6.1: without it a peer must take what it got for cut short. Not behind a write
        // that is not over, whose end then is.
        if self.unfinished.get() == 0 {
            session.send_close_notify();
        }
        let mut cx = Context::from_waker(Waker::noop());
        let write = |bufs: &[IoSlice<'_>]| self.socket.poll_write_shared(&mut cx, bufs);
        // The peer may be gone.
        let _ = flush(&mut session, write);
    }
}

impl Transport for Tls {
    fn is_secure(&self) -> bool {
        true
    }

    fn sends_files(&mut self, len: u64) -> bool {
        match self.sending.get_mut() {
            Sending::Own => false,
            Sending::Either(_) => len >= TAKE_OVER_BYTES_MIN && self.hand_over(),
            Sending::Kernel { .. } => true,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let socket = &mut self.socket;
        let read = |into: &mut [u8]| socket.poll_read(cx, into);
        read_by(self.session.get_mut(), self.sending.get_mut(), &self.drained, into, read)
    }

    fn is_readable(&self) -> bool {
        !self.drained.get() || self.socket.is_readable()
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Where the kernel encrypts, a read may be over though nothing has come.
        match self.drained.get() && !self.is_by_kernel() {
            true => self.socket.poll_readable(cx),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_read_likely(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &mut self.socket;
        let read = |into: &mut [u8]| socket.poll_read_likely(cx, into);
        read_by(self.session.get_mut(), self.sending.get_mut(), &self.drained, into, read)
    }

    fn poll_read_shared(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = |into: &mut [u8]| self.socket.poll_read_shared(cx, into);
        let mut session = self.session.borrow_mut();
        read_by(&mut session, &self.sending.borrow(), &self.drained, into, read)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, bufs)
    }

    fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_by_kernel() {
            return self.give(cx, total(bufs), |cx| self.socket.poll_write_shared(cx, bufs));
        }
        self.write_by(bufs, |bufs| self.socket.poll_write_shared(cx, bufs))
    }

    fn take_ahead(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        // What a write that is not over was offered is offered again.
        if self.is_by_kernel() || self.unfinished.get() > 0 {
            return Ok(0);
        }
        self.begin(&self.session.borrow());
        encrypt(self.session.get_mut(), bufs)
    }

    fn write_anyway(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |cx: &mut Context<'_>, bufs: &[IoSlice<'_>]| match rustix::io::writev(
            &self.socket,
            bufs,
        ) {
            Err(Errno::AGAIN | Errno::INTR) => self.socket.poll_write_shared(cx, bufs),
            written => Poll::Ready(written.map_err(io::Error::from)),
        };
        if self.is_by_kernel() {
            return self.give_anyway(cx, total(bufs), |cx| write(cx, bufs));
        }
        self.write_by(bufs, |bufs| write(cx, bufs))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        let whole = head.len() + len;
        self.give(cx, whole, |cx| self.socket.poll_send_file_shared(cx, head, file, offset, len))
    }

    fn send_file_anyway(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        let send =
            |cx: &mut Context<'_>| self.socket.send_file_anyway_shared(cx, head, file, offset, len);
        self.give_anyway(cx, head.len() + len, send)
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

    fn close(&mut self) {
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

/// Gives the session as much of these as is encrypted at once; how much.
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

/// Decrypted bytes, once there are some. rustls is not asked for any while it is known to have none.
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
                // 0 is the peer's goodbye; its end without one is `UnexpectedEof`.
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

/// Whether nothing is decrypted that nobody has read, nor any end come.
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

/// Writes all that is queued.
pub(super) fn flush(
    session: &mut ServerConnection,
    mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<()>> {
    while session.wants_write() {
        ready!(put_out(session, &mut write))?;
    }
    Poll::Ready(Ok(()))
}

/// Writes once what is queued.
fn put_out(
    session: &mut ServerConnection,
    write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    match ready!(pending(session.write_tls(&mut Writer(write)))) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(written),
    }
}

/// rustls knows sockets that block or would; these stand between it and one that is polled.
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
