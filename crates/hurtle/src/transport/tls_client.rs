//! A TLS connection to an upstream: rustls on a socket. The connect timeout covers the handshake.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::tls::{OVERHEAD_BYTES_MAX, WRITE_BYTES, encrypt, flush, put_out, read_by, take_in};
use super::{Attempt, Fill, Input, Plain, SendQueue, Transport};
use crate::tls::HTTP2;

/// A connected socket with a TLS session on it, of which this is the client.
#[derive(Debug)]
pub(crate) struct TlsClient {
    socket: Plain,
    session: RefCell<ClientConnection>,
    /// `true` if rustls has no decrypted bytes left; only the socket may have more.
    drained: Cell<bool>,
    /// `true` if accepted bytes are not flushed.
    is_unfinished: Cell<bool>,
    /// Bytes of ciphertext that the kernel has taken.
    flushed: Cell<u64>,
}

/// Makes the handshake with the upstream of this name.
///
/// # Errors
/// Errors of the socket, or of rustls. The upstream has received an alert.
pub(super) async fn handshake(
    socket: Plain,
    config: &Arc<ClientConfig>,
    name: ServerName<'static>,
) -> io::Result<TlsClient> {
    let session = ClientConnection::new(Arc::clone(config), name);
    let mut session = session.map_err(io::Error::other)?;
    while session.is_handshaking() {
        poll_fn(|cx| flush(&mut session, |bufs| socket.poll_write(cx, bufs, Attempt::Ready)))
            .await?;
        if !session.is_handshaking() {
            break;
        }
        match poll_fn(|cx| take_in(&mut session, |into| socket.poll_read(cx, into))).await {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(e) => {
                // The alert leaves if the socket accepts it immediately.
                let mut cx = Context::from_waker(Waker::noop());
                let write = |bufs: &[IoSlice<'_>]| socket.poll_write(&mut cx, bufs, Attempt::Ready);
                let _: Poll<_> = flush(&mut session, write);
                return Err(e);
            }
        }
    }
    // The last flight leaves with the request.
    session.set_buffer_limit(Some(WRITE_BYTES + OVERHEAD_BYTES_MAX));
    Ok(TlsClient {
        socket,
        session: RefCell::new(session),
        drained: Cell::new(false),
        is_unfinished: Cell::new(true),
        flushed: Cell::new(0),
    })
}

impl TlsClient {
    /// Returns whether the peer has selected HTTP/2 (RFC 7301).
    pub(super) fn has_selected_http2(&self) -> bool {
        self.session.borrow().alpn_protocol() == Some(HTTP2)
    }

    /// Returns whether the peer has neither sent data nor closed. Session tickets are no data.
    pub(super) fn is_quiet(&self) -> bool {
        if !self.is_readable() {
            return true;
        }
        let mut cx = Context::from_waker(Waker::noop());
        self.poll_read(&mut cx, &mut [0]).is_pending()
    }

    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        let read = |into: &mut [u8]| self.socket.poll_read(cx, into);
        read_by(&mut *session, |_| false, &self.drained, into, read)
    }

    /// Writes the ciphertext of accepted bytes.
    fn poll_flush_session(
        &self,
        cx: &mut Context<'_>,
        session: &mut ClientConnection,
        attempt: Attempt,
    ) -> Poll<io::Result<()>> {
        if self.is_unfinished.get() {
            while session.wants_write() {
                let write = |bufs: &[IoSlice<'_>]| self.socket.poll_write(cx, bufs, attempt);
                let n = ready!(put_out(session, write))?;
                self.flushed.set(self.flushed.get() + n as u64);
            }
            self.is_unfinished.set(false);
        }
        Poll::Ready(Ok(()))
    }
}

impl Transport for TlsClient {
    fn is_secure(&self) -> bool {
        true
    }

    fn is_readable(&self) -> bool {
        !self.drained.get() || self.socket.is_readable()
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.drained.get() {
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
        input.poll_fill_by(fill, |into| self.poll_read(cx, into))
    }

    /// Encrypts new bytes only when the ciphertext of earlier ones is sent, so that a slow upstream
    /// costs `WRITE_BYTES`.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        ready!(self.poll_flush_session(cx, &mut session, attempt))?;
        let sent = encrypt(&mut session, queue)?;
        self.is_unfinished.set(true);
        match self.poll_flush_session(cx, &mut session, attempt) {
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(sent)),
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, attempt: Attempt) -> Poll<io::Result<()>> {
        self.poll_flush_session(cx, &mut self.session.borrow_mut(), attempt)
    }

    fn flushed_bytes(&self) -> u64 {
        self.flushed.get()
    }

    async fn reset(&self) {
        self.socket.reset().await;
    }

    /// Sends close_notify (RFC 8446 section 6.1) if nothing waits to be sent, and closes the
    /// sending side.
    fn finish(&self) {
        let mut session = self.session.borrow_mut();
        if !self.is_unfinished.get() {
            session.send_close_notify();
            let mut cx = Context::from_waker(Waker::noop());
            let write =
                |bufs: &[IoSlice<'_>]| self.socket.poll_write(&mut cx, bufs, Attempt::Ready);
            // The upstream may be gone.
            let _: Poll<_> = flush(&mut session, write);
        }
        self.socket.finish();
    }

    fn abort(&self) {
        self.socket.abort();
    }
}
