//! The byte channel between a connection's protocol and the kernel.
//!
//! `Transport` is the seam to the I/O engine: `Plain` is a socket, `Tls` is rustls on a socket;
//! tests have `memory`, whose splits, delays and failures a seed decides. `outgoing` sends response
//! bodies, `meter` limits their rate.

pub mod buffer;
pub mod handshake;
mod ktls;
#[cfg(test)]
pub mod memory;
pub mod meter;
pub mod outgoing;
pub mod plain;
pub mod program;
pub mod tls;
pub mod upgrade;

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use crate::tls::ClientCertificate;

pub use self::ktls::TAKE_OVER_BYTES_MIN;
pub use buffer::{Fill, Input, Output, Taken};
pub use meter::{Addresses, Meter};
pub use outgoing::{Insist, Progress, Sender};
pub use plain::Plain;
pub use program::Program;
pub use tls::Tls;
pub use upgrade::{Offer, Pipe};

/// The mode of a write to a socket that the kernel has not reported as writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Wait until the socket is reported as writable.
    Ready,
    /// Try at once. The kernel reports a socket as writable only when a third of its buffer is
    /// free, which takes long with a slow reader.
    Forced,
}

/// A range of a file's bytes.
#[derive(Clone, Copy, Debug)]
pub struct FileRun<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: usize,
}

/// A connection to an upstream.
#[cfg(not(test))]
pub type UpstreamSocket = Plain;
/// A connection to an upstream: in unit tests, one in memory.
#[cfg(test)]
pub type UpstreamSocket = memory::Memory;

/// A connected channel. After a pending write the caller must offer the same bytes again, perhaps
/// with more behind them, because the channel may have encrypted them already.
pub trait Transport {
    /// Returns whether the connection is encrypted.
    fn is_secure(&self) -> bool;

    /// Waits until a read may return something; a channel that cannot tell returns at once.
    fn poll_readable(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Returns whether data is known to be readable; costs a fraction of `poll_readable`. `false`
    /// means unknown.
    fn is_readable(&self) -> bool {
        false
    }

    /// Reads once and appends the bytes to `input`; returns their number, 0 at the end of the peer's
    /// data. An engine may own the buffer until the read is complete: bytes of a cancelled fill come
    /// with the next one. While it is pending, `input` holds no pooled buffer.
    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        fill: Fill,
    ) -> Poll<io::Result<usize>>;

    /// Writes once; returns the bytes that the kernel has taken. `attempt` selects whether to write
    /// to a socket that is not reported as writable.
    fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        attempt: Attempt,
    ) -> Poll<io::Result<usize>>;

    /// Returns whether the kernel took the last write whole, but a close could lose its end, so
    /// that the write stays pending. A forced write counts as sent.
    fn holds_write(&self) -> bool {
        false
    }

    /// Returns whether the kernel should send `len` bytes of a file by itself. Once true, it stays
    /// true.
    fn sends_files(&self, _len: u64) -> bool {
        false
    }

    /// Sends `head`, then a range of `file`; returns the bytes taken of both together. Only if
    /// `sends_files` is true.
    fn poll_send_file(
        &self,
        _cx: &mut Context<'_>,
        _head: &[u8],
        _run: FileRun<'_>,
        _attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Switches the sending of full segments only, for responses of many writes.
    fn fill_segments(&self, _on: bool) {}

    /// Returns the bytes that the kernel has taken of pending writes, to detect a stall.
    fn taken_of_waiting(&self) -> u64 {
        0
    }

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

    /// Returns the server name that the client asked for.
    fn server_name(&self) -> Option<String> {
        None
    }

    /// Returns the client's verified certificate.
    fn client(&self) -> Option<ClientCertificate> {
        None
    }
}
