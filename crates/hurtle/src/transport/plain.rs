//! A cleartext stream socket, TCP or unix, on the runtime's readiness.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use super::{Attempt, Fill, Front, Input, SendQueue, Transport};
use crate::sys;

/// Maximum number of 4 KiB reads on a connection that is refused; a usual head takes one.
const TURNED_AWAY_READS_MAX: usize = 8;

/// Maximum number of buffers in one write: a head and a body, or HTTP/2 frames.
pub(super) const SLICES_MAX: usize = 16;

/// A timeout of 0, for a poll that must not wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A connected socket without TLS.
#[derive(Debug)]
pub(crate) enum Plain {
    Tcp(TcpStream),
    /// A unix stream socket.
    Unix(UnixStream),
}

impl Plain {
    /// Connects to an address.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Plain> {
        let stream = TcpStream::connect(address).await?;
        // Each request leaves in few writes, so Nagle's algorithm would only delay it.
        stream.set_nodelay(true)?;
        Ok(Plain::Tcp(stream))
    }

    /// Connects to the first address of a name that accepts the connection.
    ///
    /// # Errors
    /// Errors of the system or the name service.
    pub(crate) async fn connect_by_name(name: &str, port: u16) -> io::Result<Plain> {
        let stream = TcpStream::connect((name, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Plain::Tcp(stream))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn connect_unix(path: &Path) -> io::Result<Plain> {
        UnixStream::connect(path).await.map(Plain::Unix)
    }

    /// Returns whether the peer has neither sent data nor closed, as far as the runtime knows;
    /// usually without a system call.
    pub(crate) fn is_quiet(&mut self) -> bool {
        if !self.is_readable() {
            return true;
        }
        let mut context = Context::from_waker(Waker::noop());
        self.poll_read(&mut context, &mut [0]).is_pending()
    }

    /// Returns the local address; `None` for a unix socket.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        match self {
            Plain::Tcp(s) => s.local_addr().ok().map(|address| address.ip().to_canonical()),
            Plain::Unix(_) => None,
        }
    }

    /// Reads once if the runtime reports the socket as readable. `None`: nothing can be read.
    fn read(&self, into: &mut [u8]) -> Option<io::Result<usize>> {
        let mut taken = 0;
        let read = || {
            taken = rustix::net::recv(self, &mut *into, RecvFlags::empty())?.0;
            match taken == 0 || taken == into.len() {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            }
        };
        let read = match self {
            Plain::Tcp(s) => s.try_io(Interest::READABLE, read),
            Plain::Unix(s) => s.try_io(Interest::READABLE, read),
        };
        match read {
            _ if taken > 0 => Some(Ok(taken)),
            Ok(()) => Some(Ok(0)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) => Some(Err(e)),
        }
    }

    /// Reads once. After a short read, the runtime marks the socket as drained, so that the next
    /// call waits without a system call.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(read) = self.read(into) {
                return Poll::Ready(read);
            }
            ready!(self.poll_readable(cx))?;
        }
    }

    /// Reads once; after a short read the next call calls the kernel again.
    pub(super) fn poll_read_eagerly(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx))?;
            let read = match self {
                Plain::Tcp(s) => s.try_read(into),
                Plain::Unix(s) => s.try_read(into),
            };
            match read {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Writes `len` bytes once by `call` if the runtime reports the socket as writable. `None`: it
    /// is not. After a partial write the runtime marks it as not writable.
    #[inline]
    fn write(
        &self,
        len: usize,
        call: impl FnOnce() -> rustix::io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let mut taken = 0;
        let write = || {
            taken = call()?;
            match taken == len {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            }
        };
        let written = match self {
            Plain::Tcp(s) => s.try_io(Interest::WRITABLE, write),
            Plain::Unix(s) => s.try_io(Interest::WRITABLE, write),
        };
        match written {
            _ if taken > 0 => Some(Ok(taken)),
            Ok(()) => Some(Ok(0)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) => Some(Err(e)),
        }
    }

    #[inline]
    fn poll_write_by(
        &self,
        cx: &mut Context<'_>,
        attempt: Attempt,
        len: usize,
        call: impl Fn() -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if attempt != Attempt::Ready {
            match call() {
                Err(Errno::AGAIN | Errno::INTR) => {}
                written => return Poll::Ready(written.map_err(io::Error::from)),
            }
        }
        loop {
            // Usually there is room.
            if let Some(written) = self.write(len, &call) {
                return Poll::Ready(written);
            }
            ready!(self.poll_writable(cx))?;
        }
    }

    /// Writes once; returns the bytes that the kernel has taken.
    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        if let [one] = bufs {
            return self.poll_write_one(cx, one, attempt);
        }
        let len = bufs.iter().map(|buf| buf.len()).sum();
        self.poll_write_by(cx, attempt, len, || rustix::io::writev(self, bufs))
    }

    /// Writes one buffer. rustix calls the kernel directly: the C library's thread cancellation
    /// costs more than the call.
    #[inline(never)]
    fn poll_write_one(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        self.poll_write_by(cx, attempt, bytes.len(), || match self {
            Plain::Tcp(s) => rustix::net::send(s, bytes, sys::NO_SIGNAL),
            Plain::Unix(s) => rustix::io::write(s, bytes),
        })
    }

    /// Sends several pieces, or a range of a file.
    fn poll_send_more(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let sent = match queue.front() {
            None => return Poll::Ready(Ok(0)),
            Some(Front::One(bytes)) => self.poll_write_one(cx, bytes, attempt),
            Some(Front::Many) => {
                let mut slots = [IoSlice::new(&[]); SLICES_MAX];
                let count = queue.slices(&mut slots, usize::MAX);
                self.poll_write(cx, &slots[..count], attempt)
            }
            Some(Front::File { head, file, offset, len }) => {
                self.poll_send_file(cx, attempt, || match head.is_empty() {
                    true => sys::send_file(self.as_fd(), file.as_fd(), offset, len),
                    false => sys::send_head_and_file(self.as_fd(), head, file.as_fd(), offset, len),
                })
            }
        };
        let sent = ready!(sent)?;
        queue.consume(sent);
        Poll::Ready(Ok(sent))
    }

    /// Sends a range of a file once by `send`.
    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        attempt: Attempt,
        send: impl Fn() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if attempt != Attempt::Ready {
            match send() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
        loop {
            ready!(self.poll_writable(cx))?;
            let sent = match self {
                Plain::Tcp(s) => s.try_io(Interest::WRITABLE, &send),
                Plain::Unix(s) => s.try_io(Interest::WRITABLE, &send),
            };
            match sent {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Plain::Tcp(s) => s.poll_write_ready(cx),
            Plain::Unix(s) => s.poll_write_ready(cx),
        }
    }

    /// Sends a short response on a fresh socket and closes the sending side. The peer's data is
    /// discarded first: closing with unread bytes would reset the connection and lose the response.
    pub(crate) fn say(&self, answer: &[u8]) {
        let socket = socket2::SockRef::from(self);
        let mut socket = &*socket;
        let mut unread = [0; 4 << 10];
        for _ in 0..TURNED_AWAY_READS_MAX {
            if !matches!(socket.read(&mut unread), Ok(n) if n == unread.len()) {
                break;
            }
        }
        // A fresh socket accepts a short response immediately; an error means that the peer has
        // closed.
        let _ = socket.write(answer);
        self.finish();
    }

    /// Waits until the kernel has room: then TCP's own buffer holds all bytes that were written.
    pub(super) fn poll_roomy(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Plain::Tcp(s) = self else { return Poll::Ready(Ok(())) };
        loop {
            ready!(s.poll_write_ready(cx))?;
            let result = s.try_io(Interest::WRITABLE, || {
                let mut fds = [PollFd::new(s, PollFlags::OUT)];
                match rustix::event::poll(&mut fds, Some(&AT_ONCE))? {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            match result {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl Transport for Plain {
    fn is_secure(&self) -> bool {
        false
    }

    fn sends_files(&self, _len: u64) -> bool {
        true
    }

    fn is_readable(&self) -> bool {
        let readiness = match self {
            Plain::Tcp(s) => s.try_io(Interest::READABLE, || Ok(())),
            Plain::Unix(s) => s.try_io(Interest::READABLE, || Ok(())),
        };
        readiness.is_ok()
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Plain::Tcp(s) => s.poll_read_ready(cx),
            Plain::Unix(s) => s.poll_read_ready(cx),
        }
    }

    #[inline]
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
        input.poll_fill_by(fill, |into| match fill {
            Fill::HeadEagerly => self.poll_read_eagerly(cx, into),
            Fill::Head | Fill::Body | Fill::Response => self.poll_read(cx, into),
        })
    }

    #[inline]
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let Some(bytes) = queue.sole() else { return self.poll_send_more(cx, queue, attempt) };
        let sent = ready!(self.poll_write_one(cx, bytes, attempt))?;
        queue.consume(sent);
        Poll::Ready(Ok(sent))
    }

    /// Returns immediately: `poll_send` passes all bytes to the kernel.
    fn poll_flush(&self, _cx: &mut Context<'_>, _attempt: Attempt) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn fill_segments(&self, on: bool) {
        if let Plain::Tcp(socket) = self {
            sys::fill_segments(socket.as_fd(), on);
        }
    }

    async fn reset(&self) {
        // Waits for readability first, which costs less and also reports resets; usually nothing
        // arrives.
        let _ = poll_fn(|cx| self.poll_readable(cx)).await;
        // An error here means that the runtime is shutting down.
        let _ = match self {
            Plain::Tcp(s) => Box::pin(s.ready(Interest::ERROR)).await,
            Plain::Unix(s) => Box::pin(s.ready(Interest::ERROR)).await,
        };
    }

    fn abort(&self) {
        // The connection may be gone; a unix socket has no resets.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }

    fn finish(&self) {
        // The connection may be gone.
        let _ = socket2::SockRef::from(self).shutdown(Shutdown::Write);
    }
}

impl AsFd for Plain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Plain::Tcp(s) => s.as_fd(),
            Plain::Unix(s) => s.as_fd(),
        }
    }
}
