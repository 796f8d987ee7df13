//! Between a connection's protocol and the kernel: bytes come in, answers leave.
//!
//! `Transport` is the seam for other channels and other engines (io_uring): `Plain` is a socket,
//! `Tls` one with rustls on it, `http2::Stream` one of many on either. `outgoing` decides how a body leaves, `meter` when, where that is
//! limited.

pub mod buffer;
pub mod handshake;
pub mod http2;
mod ktls;
pub mod meter;
pub mod outgoing;
pub mod plain;
pub mod program;
pub mod tls;
pub mod upgrade;

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::tls::ClientCertificate;

pub use self::ktls::TAKE_OVER_BYTES_MIN;
pub use buffer::{Input, Output, Taken};
pub use meter::{Addresses, Meter};
pub use outgoing::{Progress, Sender};
pub use plain::Plain;
pub use program::Program;
pub use tls::Tls;
pub use upgrade::{Offer, Pipe};

/// A connected channel. What was offered to a write that had to wait is offered again, perhaps with
/// more behind it: a channel may have made a message of it already.
pub trait Transport {
    /// Whether it is one stream of an HTTP/2 connection.
    const IS_HTTP2: bool = false;

    /// Whether nobody on the way can read it.
    fn is_secure(&self) -> bool;

    /// Reads once; 0 is the peer's end.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Whether a read may find something: a channel that cannot tell says yes.
    fn poll_readable(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Whether something is known to be here to read: that costs a fraction of `poll_readable`, which
    /// is for who would wait. No is no answer.
    fn is_readable(&self) -> bool {
        false
    }

    /// As `poll_read`, where something is likely to be there: `poll_readable` has just said yes, or a
    /// wait for it is over.
    fn poll_read_likely(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read(cx, into)
    }

    /// As `poll_read`, while something else may be writing.
    fn poll_read_shared(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes once; what is said to be written, the kernel has.
    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>])
    -> Poll<io::Result<usize>>;

    /// The same, while something else may be reading.
    fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// The same, whether the socket is said to be writable or not.
    fn write_anyway(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Takes bytes that are to leave with the next write, by a channel that copies what it is given
    /// whenever it is (to encrypt it): how many of them. They are not offered again, and a write of
    /// nothing is over when they have left.
    ///
    /// # Errors
    /// The channel's.
    fn take_ahead(&mut self, _bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(0)
    }

    /// Writes once, of bytes that others may keep: a channel that has to, keeps these and no copy.
    fn poll_write_shareable(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        self.poll_write(cx, &[IoSlice::new(bytes)])
    }

    /// Waits until some of an answer's body would be taken; how much. So that nobody holds in memory
    /// what cannot leave.
    fn poll_room(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(usize::MAX))
    }

    /// Whether the kernel can put `len` bytes of a file into it, and had better. It stays so.
    fn sends_files(&mut self, _len: u64) -> bool {
        false
    }

    /// Sends `head`, then a run of `file`, as one flow; returns the bytes taken of both together.
    /// Only where it `sends_files`.
    fn poll_send_file(
        &mut self,
        _cx: &mut Context<'_>,
        _head: &[u8],
        _file: BorrowedFd<'_>,
        _offset: u64,
        _len: usize,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// The same, perhaps though the socket is not said to be writable.
    fn send_file_anyway(
        &mut self,
        _cx: &mut Context<'_>,
        _head: &[u8],
        _file: BorrowedFd<'_>,
        _offset: u64,
        _len: usize,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Whether only full segments leave until it is said otherwise: where many writes are one flow.
    fn fill_segments(&self, _on: bool) {}

    /// Bytes the kernel has taken of writes that are not over: how one that seems to stand moves.
    fn taken_of_waiting(&self) -> u64 {
        0
    }

    /// Waits until the peer resets the connection. That it has said its last word is none: it may
    /// be waiting for the answer.
    fn reset(&self) -> impl Future<Output = ()>;

    /// Tells the peer that nothing more will come; reading goes on.
    fn finish(&self);

    /// Says what is to be said before the connection is closed in good order.
    fn close(&mut self) {}

    /// Closes so that the peer cannot take what it got for a whole answer: by a reset.
    fn abort(&self);

    /// Which of the sites' ways to authenticate clients was kept to; 0: none was asked for.
    fn policy(&self) -> u32 {
        0
    }

    /// The name that the client has asked for, if it did.
    fn server_name(&self) -> Option<String> {
        None
    }

    /// Who the client has proved to be.
    fn client(&self) -> Option<ClientCertificate> {
        None
    }
}
