//! A connection to an upstream: in clear, or by TLS.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::tls_client::{TlsClient, handshake};
use super::{Attempt, Fill, Input, Output, Plain, SendQueue, Transport};
use crate::tls::describe_failure;

#[cfg(test)]
use super::memory::Memory as Clear;
#[cfg(not(test))]
use super::plain::Plain as Clear;

/// A connection to an upstream. In unit tests, those in clear are in memory.
#[derive(Debug)]
#[cfg_attr(test, allow(clippy::large_enum_variant))] // A connection in memory is large.
pub(crate) enum UpstreamSocket {
    Clear(Clear),
    Secure(Box<TlsClient>),
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The socket could not be connected.
    Refused(io::Error),
    /// The TLS handshake failed.
    Handshake(String),
}

impl UpstreamSocket {
    /// Connects to an address, and sends these bytes first.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn connect(
        address: SocketAddr,
        first: &[u8],
    ) -> Result<UpstreamSocket, ConnectError> {
        let socket = Clear::connect(address).await.map_err(ConnectError::Refused)?;
        send_first(&socket, first).await?;
        Ok(UpstreamSocket::Clear(socket))
    }

    /// Connects to a unix socket, and sends these bytes first.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn connect_unix(
        path: &Path,
        first: &[u8],
    ) -> Result<UpstreamSocket, ConnectError> {
        let socket = Clear::connect_unix(path).await.map_err(ConnectError::Refused)?;
        send_first(&socket, first).await?;
        Ok(UpstreamSocket::Clear(socket))
    }

    /// Connects to an address, sends these bytes first, and makes the TLS handshake with the
    /// upstream of this name. `true`: the upstream must select HTTP/2.
    ///
    /// # Errors
    /// Errors of the system or of the handshake.
    pub(crate) async fn connect_tls(
        (address, first): (SocketAddr, &[u8]),
        (config, is_http2): (&Arc<ClientConfig>, bool),
        name: &ServerName<'static>,
    ) -> Result<UpstreamSocket, ConnectError> {
        let socket = Plain::connect(address).await.map_err(ConnectError::Refused)?;
        send_first(&socket, first).await?;
        match handshake(socket, config, name.clone()).await {
            Ok(secure) if is_http2 && !secure.has_selected_http2() => {
                Err(ConnectError::Handshake("it does not offer HTTP/2 (ALPN h2)".to_owned()))
            }
            Ok(secure) => Ok(UpstreamSocket::Secure(Box::new(secure))),
            Err(e) => Err(ConnectError::Handshake(describe_failure(&e, name))),
        }
    }

    /// Returns whether the peer has neither sent data nor closed, as far as the runtime knows;
    /// usually without a system call.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match self {
            UpstreamSocket::Clear(socket) => socket.is_quiet(),
            UpstreamSocket::Secure(socket) => socket.is_quiet(),
        }
    }
}

/// Sends the first bytes of a connection.
async fn send_first(socket: &impl Transport, first: &[u8]) -> Result<(), ConnectError> {
    if first.is_empty() {
        return Ok(());
    }
    let mut output = Output::new();
    output.vec().extend_from_slice(first);
    let mut queue = SendQueue::default();
    queue.push(output);
    while !queue.is_empty() {
        let sent = poll_fn(|cx| socket.poll_send(cx, &mut queue, Attempt::Ready)).await;
        sent.map_err(ConnectError::Refused)?;
    }
    Ok(())
}

impl Transport for UpstreamSocket {
    fn is_secure(&self) -> bool {
        matches!(self, UpstreamSocket::Secure(_))
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            UpstreamSocket::Clear(socket) => socket.poll_readable(cx),
            UpstreamSocket::Secure(socket) => socket.poll_readable(cx),
        }
    }

    fn is_readable(&self) -> bool {
        match self {
            UpstreamSocket::Clear(socket) => socket.is_readable(),
            UpstreamSocket::Secure(socket) => socket.is_readable(),
        }
    }

    #[inline]
    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        fill: Fill,
    ) -> Poll<io::Result<usize>> {
        match self {
            UpstreamSocket::Clear(socket) => socket.poll_fill(cx, input, fill),
            UpstreamSocket::Secure(socket) => socket.poll_fill(cx, input, fill),
        }
    }

    #[inline]
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        match self {
            UpstreamSocket::Clear(socket) => socket.poll_send(cx, queue, attempt),
            UpstreamSocket::Secure(socket) => socket.poll_send(cx, queue, attempt),
        }
    }

    #[inline]
    fn poll_flush(&self, cx: &mut Context<'_>, attempt: Attempt) -> Poll<io::Result<()>> {
        match self {
            UpstreamSocket::Clear(socket) => socket.poll_flush(cx, attempt),
            UpstreamSocket::Secure(socket) => socket.poll_flush(cx, attempt),
        }
    }

    #[inline]
    fn flushed_bytes(&self) -> u64 {
        match self {
            UpstreamSocket::Clear(socket) => socket.flushed_bytes(),
            UpstreamSocket::Secure(socket) => socket.flushed_bytes(),
        }
    }

    fn sends_files(&self, len: u64) -> bool {
        match self {
            UpstreamSocket::Clear(socket) => socket.sends_files(len),
            UpstreamSocket::Secure(socket) => socket.sends_files(len),
        }
    }

    async fn reset(&self) {
        match self {
            UpstreamSocket::Clear(socket) => socket.reset().await,
            UpstreamSocket::Secure(socket) => socket.reset().await,
        }
    }

    fn finish(&self) {
        match self {
            UpstreamSocket::Clear(socket) => socket.finish(),
            UpstreamSocket::Secure(socket) => socket.finish(),
        }
    }

    fn abort(&self) {
        match self {
            UpstreamSocket::Clear(socket) => socket.abort(),
            UpstreamSocket::Secure(socket) => socket.abort(),
        }
    }
}
