//! A TLS connection: rustls on a socket. It encrypts what is written and keeps it until the kernel
//! has it; making the connection is `handshake`'s part.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll, Waker, ready};

use rustix::io::Errno;
use rustls::ServerConnection;

use super::{Plain, Transport};
use crate::tls::ClientCertificate;

/// What is encrypted at once: four full records (RFC 8446 5.1), what a slow client's unsent part
/// may hold.
const WRITE_BYTES: usize = 64 << 10;

/// Buffers of one write: a head, a body, and what delimits it.
const BUFS_MAX: usize = 4;

/// A connected socket with a TLS session on it.
#[derive(Debug)]
pub struct Tls {
    socket: Plain,
    session: RefCell<Box<ServerConnection>>,
    policy: u32,
    client: OnceCell<Option<ClientCertificate>>,
    /// Bytes encrypted of a write that is not over.
    unfinished: Cell<usize>,
    /// What the kernel has taken of it.
    taken: Cell<u64>,
}

impl Tls {
    /// A session whose handshake is over.
    pub(super) fn new(socket: Plain, session: Box<ServerConnection>, policy: u32) -> Tls {
        let session = RefCell::new(session);
        Tls {
            socket,
            session,
            policy,
            client: OnceCell::new(),
            unfinished: Cell::new(0),
            taken: Cell::new(0),
        }
    }

    /// Writes what is queued, and then says how much of the caller's bytes that was. New bytes are
    /// only encrypted when none are queued, so that what is reported is what the kernel has.
    fn write_by(
        &self,
        bufs: &[IoSlice<'_>],
        mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        if self.unfinished.get() == 0 {
            self.taken.set(0);
            self.unfinished.set(encrypt(&mut session, bufs)?);
        }
        while session.wants_write() {
            let n = ready!(put_out(&mut session, &mut write))?;
            self.taken.set(self.taken.get() + n as u64);
        }
        Poll::Ready(Ok(self.unfinished.take()))
    }

    /// Says goodbye as far as the socket takes it at once: whoever closes does not wait.
    fn say_goodbye(&self) {
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
    const SECURE: bool = true;
    const SENDS_FILES: bool = false;

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let socket = &mut self.socket;
        let read = |into: &mut [u8]| socket.poll_read(cx, into);
        read_by(self.session.get_mut(), into, read)
    }

    fn poll_read_shared(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = |into: &mut [u8]| self.socket.poll_read_shared(cx, into);
        read_by(&mut self.session.borrow_mut(), into, read)
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
        self.write_by(bufs, |bufs| self.socket.poll_write_shared(cx, bufs))
    }

    fn write_anyway(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_by(bufs, |bufs| match rustix::io::writev(&self.socket, bufs) {
            Err(Errno::AGAIN | Errno::INTR) => self.socket.poll_write_shared(cx, bufs),
            written => Poll::Ready(written.map_err(io::Error::from)),
        })
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
    let mut some = [IoSlice::new(&[]); BUFS_MAX];
    for (slot, buf) in some.iter_mut().zip(bufs) {
        *slot = IoSlice::new(&buf[..buf.len().min(left)]);
        left -= slot.len();
    }
    session.writer().write_vectored(&some)
}

/// Decrypted bytes, once there are some.
fn read_by(
    session: &mut ServerConnection,
    into: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    loop {
        match session.reader().read(into) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            // 0 is the peer's goodbye; its end without one is `UnexpectedEof`.
            read => return Poll::Ready(read),
        }
        ready!(take_in(session, &mut read))?;
    }
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
