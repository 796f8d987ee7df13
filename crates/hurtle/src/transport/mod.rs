//! The byte channel between a connection's protocol and the kernel.
//!
//! `Transport` is the seam to the I/O engine: `Plain` is a socket, `Tls` is rustls on a socket;
//! tests have `memory`, whose splits, delays and failures a seed determines. Both directions carry
//! owned data: `Input` and `SendQueue`. `outgoing` sends response bodies, `meter` limits their
//! rate.

pub(crate) mod buffer;
pub(crate) mod handshake;
mod ktls;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod outgoing;
pub(crate) mod plain;
pub(crate) mod program;
pub(crate) mod quic;
mod residency;
mod send_queue;
pub(crate) mod tls;
mod tls_client;
pub(crate) mod upgrade;
mod upstream;

use std::io;
use std::task::{Context, Poll};

use crate::tls::ClientCertificate;

pub(crate) use self::ktls::TAKE_OVER_BYTES_MIN;
pub(crate) use buffer::{Fill, Input, Output, Taken};
pub(crate) use meter::{Addresses, Meter, address_key};
pub(crate) use outgoing::{Progress, Sender};
pub(crate) use plain::Plain;
pub(crate) use program::Program;
pub(crate) use send_queue::{FileRange, Front, Piece, SendQueue};
pub(crate) use tls::Tls;
pub(crate) use upgrade::{Offer, Pipe};
pub(crate) use upstream::{ConnectError, UpstreamSocket};

/// The mode of a write to a socket that the kernel has not reported as writable. The kernel reports
/// it only when a third of the socket's buffer is free, which takes long with a slow reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Wait until the socket is reported as writable.
    #[default]
    Ready,
    /// Try immediately.
    Forced,
    /// Try immediately, for the last time before the connection is closed. Bytes that the kernel
    /// has taken and holds back count as sent.
    Last,
}

/// A connected channel. Data is owned in both directions, so that an engine can keep a buffer while
/// the kernel works on it: `poll_fill` may own the buffer that it fills, and `poll_send` the pieces
/// that it accepted. Accepted bytes reach the kernel at the latest while `poll_send` or
/// `poll_flush` is polled. Before a caller waits for anything else, or closes, it must flush.
pub(crate) trait Transport {
    /// Returns whether the connection is encrypted.
    fn is_secure(&self) -> bool;

    /// Waits until a read may return data or the end. A channel without readiness returns
    /// immediately.
    fn poll_readable(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Returns whether data is known to be readable; costs a fraction of `poll_readable`. `false`
    /// means unknown.
    fn is_readable(&self) -> bool {
        false
    }

    /// Reads once and appends the bytes to `input`; returns their number, 0 at the end of the
    /// peer's data. An engine may own the buffer until the read is complete: bytes of a cancelled
    /// fill come with the next one. While it is pending, `input` holds no pooled buffer.
    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        fill: Fill,
    ) -> Poll<io::Result<usize>>;

    /// Takes bytes from the front of `queue`, which must not be empty; returns their number. Waits
    /// for those that were accepted before, and takes none while it is pending. An error may belong
    /// to accepted bytes.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>>;

    /// Waits until the kernel has all accepted bytes, and a close would not lose them. Reports
    /// errors of accepted bytes.
    fn poll_flush(&self, cx: &mut Context<'_>, attempt: Attempt) -> Poll<io::Result<()>>;

    /// Returns a number that grows with the bytes that the kernel takes of accepted pieces, to
    /// detect a stall; 0 if it takes them when they are accepted.
    fn flushed_bytes(&self) -> u64 {
        0
    }

    /// Returns whether the kernel should send `len` bytes of a file by itself: then a queue may
    /// hold ranges of files. Once true, it stays true.
    fn sends_files(&self, _len: u64) -> bool {
        false
    }

    /// Switches the sending of full segments only, for responses of many writes.
    fn fill_segments(&self, _on: bool) {}

    /// Waits until the peer resets the connection. A closed sending side is not a reset: the peer
    /// may wait for the response.
    fn reset(&self) -> impl Future<Output = ()>;

    /// Closes the sending side; reading continues.
    fn finish(&self);

    /// Sends the closing message of the channel, if it has one (TLS: close_notify).
    fn close(&self) {}

    /// Resets the connection, so that a truncated response does not look complete.
    fn abort(&self);

    /// Returns the number of the client authentication policy that the handshake met; 0: none.
    fn policy(&self) -> u32 {
        0
    }

    /// Returns the server name that the client requested (RFC 6066 section 3).
    fn server_name(&self) -> Option<String> {
        None
    }

    /// Returns the version of TLS and the cipher suite, for the log.
    fn cipher(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Returns the client's verified certificate.
    fn client(&self) -> Option<ClientCertificate> {
        None
    }
}
