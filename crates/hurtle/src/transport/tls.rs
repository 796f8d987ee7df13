//! A TLS connection: rustls on a socket. It encrypts accepted bytes and owns the ciphertext until
//! the kernel has taken it, or lets the kernel encrypt (`ktls`). `handshake` creates the
//! connection.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::ops::DerefMut;
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker, ready};

use rustls::{ConnectionCommon, HandshakeKind, ProtocolVersion, ServerConnection, SideData};

use super::ktls::{self, Sending, TAKE_OVER_BYTES_MIN};
use super::plain::SLICES_MAX;
use super::{Attempt, Fill, Input, Plain, SendQueue, Transport};
use crate::metrics::TlsVersion;
use crate::tls::{ClientCertificate, HTTP2};

/// Bytes encrypted at once: four full records (RFC 8446 section 5.1). They bound the unsent data of
/// a slow client.
pub(super) const WRITE_BYTES: usize = 64 << 10;

/// Maximum overhead of encrypting them, and of rustls' own messages, in bytes.
pub(super) const OVERHEAD_BYTES_MAX: usize = 1 << 10;

/// A connected socket with a TLS session on it.
#[derive(Debug)]
pub(crate) struct Tls {
    socket: Plain,
    session: RefCell<Box<ServerConnection>>,
    policy: u32,
    client: OnceCell<Option<ClientCertificate>>,
    sending: RefCell<Sending>,
    /// `true` if rustls has no decrypted bytes left; only the socket may have more.
    drained: Cell<bool>,
    /// `true` if accepted bytes are not flushed.
    is_unfinished: Cell<bool>,
    /// Bytes of ciphertext that the kernel has taken from rustls.
    flushed: Cell<u64>,
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
            is_unfinished: Cell::new(false),
            flushed: Cell::new(0),
        }
    }

    /// Returns the version of TLS.
    pub(crate) fn version(&self) -> TlsVersion {
        match self.session.borrow().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        }
    }

    /// Returns whether the handshake resumed a session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.borrow().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns whether the handshake selected HTTP/2 (ALPN, RFC 7301).
    pub(crate) fn speaks_http2(&self) -> bool {
        self.session.borrow().alpn_protocol() == Some(HTTP2)
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
            self.flushed.set(self.flushed.get() + n as u64);
        }
        Poll::Ready(Ok(()))
    }

    fn is_by_kernel(&self) -> bool {
        self.sending.borrow().is_by_kernel()
    }

    /// Makes the kernel encrypt from now on. This needs the socket to take rustls' queued output
    /// (tickets on a fresh connection) immediately.
    fn hand_over(&self) -> bool {
        let mut session = self.session.borrow_mut();
        let mut cx = Context::from_waker(Waker::noop());
        let write = |bufs: &[IoSlice<'_>]| self.socket.poll_write(&mut cx, bufs, Attempt::Ready);
        if ktls::has_to_say(&mut session)
            && !matches!(self.put_all_out(&mut session, write), Poll::Ready(Ok(())))
        {
            return false;
        }
        self.is_unfinished.set(false);
        self.sending.borrow_mut().take_over(&session, self.socket.as_fd())
    }

    /// Writes the ciphertext of accepted bytes.
    fn poll_flush_own(
        &self,
        cx: &mut Context<'_>,
        session: &mut ServerConnection,
        attempt: Attempt,
    ) -> Poll<io::Result<()>> {
        if self.is_unfinished.get() {
            ready!(self.put_all_out(session, |bufs| self.socket.poll_write(cx, bufs, attempt)))?;
            self.is_unfinished.set(false);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends close_notify if the socket accepts it immediately; closing does not wait.
    fn say_goodbye(&self) {
        if self.is_by_kernel() {
            // The peer may be gone.
            let _ = ktls::say_goodbye(self.socket.as_fd());
            return;
        }
        let mut session = self.session.borrow_mut();
        // RFC 8446 section 6.1: without close_notify the peer treats the data as truncated. A
        // pending write is truncated, so none follows it.
        if !self.is_unfinished.get() {
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
            let sending = self.sending.borrow();
            let is_over = |session: &mut ServerConnection| sending.is_over(session);
            read_by(&mut **session, is_over, &self.drained, into, read)
        })
    }

    /// Encrypts new bytes only when the ciphertext of earlier ones is sent, so that a slow client
    /// costs `WRITE_BYTES`.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        if self.is_by_kernel() {
            self.sending.borrow().check()?;
            let sent = ready!(self.socket.poll_send(cx, queue, attempt))?;
            self.sending.borrow_mut().took(sent);
            self.is_unfinished.set(true);
            return Poll::Ready(Ok(sent));
        }
        let mut session = self.session.borrow_mut();
        ready!(self.poll_flush_own(cx, &mut session, attempt))?;
        let sent = encrypt(&mut session, queue)?;
        self.is_unfinished.set(true);
        match self.poll_flush_own(cx, &mut session, attempt) {
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(sent)),
        }
    }

    /// With kernel encryption, waits until the kernel has room again: until then it may hold bytes
    /// that a close would lose.
    fn poll_flush(&self, cx: &mut Context<'_>, attempt: Attempt) -> Poll<io::Result<()>> {
        if !self.is_unfinished.get() {
            return Poll::Ready(Ok(()));
        }
        if !self.is_by_kernel() {
            return self.poll_flush_own(cx, &mut self.session.borrow_mut(), attempt);
        }
        // The end waits for room.
        if attempt != Attempt::Last {
            ready!(self.socket.poll_roomy(cx))?;
            self.is_unfinished.set(false);
        }
        Poll::Ready(Ok(()))
    }

    fn flushed_bytes(&self) -> u64 {
        self.flushed.get()
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

    fn cipher(&self) -> Option<(&'static str, &'static str)> {
        let suite = self.session.borrow().negotiated_cipher_suite()?.suite();
        let version = match self.version() {
            TlsVersion::Tls12 => "TLSv1.2",
            TlsVersion::Tls13 => "TLSv1.3",
        };
        Some((version, suite.as_str().unwrap_or("unknown")))
    }

    fn client(&self) -> Option<ClientCertificate> {
        let proved = || self.session.borrow().peer_certificates().map(ClientCertificate::new);
        self.client.get_or_init(proved).clone()
    }
}

/// Takes and encrypts up to `WRITE_BYTES`; returns the number of bytes taken.
pub(super) fn encrypt<D>(
    session: &mut ConnectionCommon<D>,
    queue: &mut SendQueue,
) -> io::Result<usize> {
    let mut slots = [IoSlice::new(&[]); SLICES_MAX];
    let count = queue.slices(&mut slots, WRITE_BYTES);
    if count == 0 {
        // A file at the front: only kernel encryption can send it.
        return Err(io::ErrorKind::Unsupported.into());
    }
    let n = session.writer().write_vectored(&slots[..count])?;
    queue.consume(n);
    Ok(n)
}

/// Reads decrypted bytes as soon as there are some. Skips rustls while it is known to have none.
/// `is_over` ends the reading.
pub(super) fn read_by<S, D: SideData>(
    session: &mut S,
    is_over: impl Fn(&mut S) -> bool,
    drained: &Cell<bool>,
    into: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>>
where
    S: DerefMut<Target = ConnectionCommon<D>>,
{
    loop {
        if is_over(session) {
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
fn is_drained<D>(session: &mut ConnectionCommon<D>) -> bool {
    let waits = |e: io::Error| e.kind() == io::ErrorKind::WouldBlock;
    session.reader().fill_buf().is_err_and(waits)
}

/// Reads once from the socket into the session.
pub(super) fn take_in<D: SideData>(
    session: &mut ConnectionCommon<D>,
    mut read: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    let n = ready!(pending(session.read_tls(&mut Reader(&mut read))))?;
    let state = session.process_new_packets();
    Poll::Ready(state.map(|_| n).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// Writes all queued bytes.
pub(super) fn flush<D: SideData>(
    session: &mut ConnectionCommon<D>,
    mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<()>> {
    while session.wants_write() {
        ready!(put_out(session, &mut write))?;
    }
    Poll::Ready(Ok(()))
}

/// Writes queued bytes once.
pub(super) fn put_out<D: SideData>(
    session: &mut ConnectionCommon<D>,
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
