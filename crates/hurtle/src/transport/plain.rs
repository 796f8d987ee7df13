//! A cleartext stream socket under the runtime's readiness: the calls, and nothing of what is sent.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

use super::Transport;
use crate::sys;

/// Reads of 4 KiB spent on a connection there is no room for: a usual head takes one.
const TURNED_AWAY_READS_MAX: usize = 8;

/// What a socket that has nothing queued takes at once.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// How long is waited for what the kernel is only asked.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A connected socket.
#[derive(Debug)]
pub enum Plain {
    /// TCP.
    Tcp(TcpStream),
    /// A unix stream socket.
    Unix(UnixStream),
}

impl Plain {
    /// Connects to an address.
    ///
    /// # Errors
    /// The system's.
    pub async fn connect(address: SocketAddr) -> io::Result<Plain> {
        let stream = TcpStream::connect(address).await?;
        // Requests leave in as few writes as they can: none has to wait for the one before it.
        stream.set_nodelay(true)?;
        Ok(Plain::Tcp(stream))
    }

    /// Connects to the first address of a name that takes a connection.
    ///
    /// # Errors
    /// The system's, or the name service's.
    pub async fn connect_by_name(name: &str, port: u16) -> io::Result<Plain> {
        let stream = TcpStream::connect((name, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Plain::Tcp(stream))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// The system's.
    pub async fn connect_unix(path: &Path) -> io::Result<Plain> {
        UnixStream::connect(path).await.map(Plain::Unix)
    }

    /// Whether the peer has neither said anything nor gone, as far as the runtime knows: usually no
    /// system call.
    pub fn is_quiet(&mut self) -> bool {
        if !self.is_readable() {
            return true;
        }
        let mut context = Context::from_waker(Waker::noop());
        self.poll_read(&mut context, &mut [0]).is_pending()
    }

    /// The address the peer has connected to; a unix socket has none.
    pub fn own_address(&self) -> Option<IpAddr> {
        match self {
            Plain::Tcp(s) => s.local_addr().ok().map(|address| address.ip().to_canonical()),
            Plain::Unix(_) => None,
        }
    }

    /// Reads once, if the runtime knows of something to read; `None`: there is nothing.
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

    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, bufs) {
            // Not by the C library, whose way to a thread's cancellation costs more than the call.
            (Plain::Tcp(s), [one]) => {
                s.try_io(Interest::WRITABLE, || Ok(rustix::net::send(self, one, sys::NO_SIGNAL)?))
            }
            (Plain::Tcp(s), _) => s.try_write_vectored(bufs),
            (Plain::Unix(s), _) => s.try_write_vectored(bufs),
        }
    }

    /// Says one short thing on a fresh socket, and that nothing more will come. What the peer has
    /// sent is taken and dropped first: closing with bytes unread would reset the connection, and
    /// the answer with it.
    pub fn say(&self, answer: &[u8]) {
        let socket = socket2::SockRef::from(self);
        let mut socket = &*socket;
        let mut unread = [0; 4 << 10];
        for _ in 0..TURNED_AWAY_READS_MAX {
            if !matches!(socket.read(&mut unread), Ok(n) if n == unread.len()) {
                break;
            }
        }
        // A fresh socket takes this much at once, or the peer is gone.
        let _ = socket.write(answer);
        self.finish();
    }

    /// As `poll_send_file`, while something else may be reading.
    pub(super) fn poll_send_file_shared(
        &self,
        cx: &mut Context<'_>,
        head: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(match self {
                Plain::Tcp(s) => s.poll_write_ready(cx),
                Plain::Unix(s) => s.poll_write_ready(cx),
            })?;
            let socket = self.as_fd();
            let send = || {
                if head.is_empty() {
                    sys::send_file(socket, file, offset, len)
                } else {
                    sys::send_head_and_file(socket, head, file, offset, len)
                }
            };
            let sent = match self {
                Plain::Tcp(s) => s.try_io(Interest::WRITABLE, send),
                Plain::Unix(s) => s.try_io(Interest::WRITABLE, send),
            };
            match sent {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// As `send_file_anyway`, while something else may be reading.
    pub(super) fn send_file_anyway_shared(
        &self,
        cx: &mut Context<'_>,
        head: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        if head.is_empty() {
            match sys::send_file(self.as_fd(), file, offset, len) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
        self.poll_send_file_shared(cx, head, file, offset, len)
    }

    /// Waits until the kernel has room for more: then nothing of what it took lies outside of TCP's
    /// own buffer.
    pub(super) fn poll_roomy(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Plain::Tcp(s) = self else { return Poll::Ready(Ok(())) };
        loop {
            ready!(s.poll_write_ready(cx))?;
            let asked = s.try_io(Interest::WRITABLE, || {
                let mut fds = [PollFd::new(s, PollFlags::OUT)];
                match rustix::event::poll(&mut fds, Some(&AT_ONCE))? {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            match asked {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                asked => return Poll::Ready(asked),
            }
        }
    }
}

impl Transport for Plain {
    fn is_secure(&self) -> bool {
        false
    }

    fn sends_files(&mut self, _len: u64) -> bool {
        true
    }

    /// After a short read the runtime knows that the socket is drained, as if it had said so: the next
    /// call waits without a system call.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx))?;
            if let Some(read) = self.read(into) {
                return Poll::Ready(read);
            }
        }
    }

    fn poll_read_likely(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.read(into) {
            Some(read) => Poll::Ready(read),
            None => self.poll_read(cx, into),
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What is small goes as a whole, mostly. After a part the runtime has to learn that no more does.
        if let [one] = bufs
            && one.len() <= SMALL_BYTES_MAX
        {
            return self.poll_write_shared(cx, bufs);
        }
        match (self, bufs) {
            (Plain::Tcp(s), [one]) => Pin::new(s).poll_write(cx, one),
            (Plain::Tcp(s), _) => Pin::new(s).poll_write_vectored(cx, bufs),
            (Plain::Unix(s), _) => Pin::new(s).poll_write_vectored(cx, bufs),
        }
    }

    fn fill_segments(&self, on: bool) {
        if let Plain::Tcp(socket) = self {
            sys::fill_segments(socket.as_fd(), on);
        }
    }

    fn write_anyway(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match rustix::io::writev(self.as_fd(), bufs) {
            Err(Errno::AGAIN | Errno::INTR) => self.poll_write(cx, bufs),
            written => Poll::Ready(written.map_err(io::Error::from)),
        }
    }

    fn send_file_anyway(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        self.send_file_anyway_shared(cx, head, file, offset, len)
    }

    fn is_readable(&self) -> bool {
        let asked = match self {
            Plain::Tcp(s) => s.try_io(Interest::READABLE, || Ok(())),
            Plain::Unix(s) => s.try_io(Interest::READABLE, || Ok(())),
        };
        asked.is_ok()
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Plain::Tcp(s) => s.poll_read_ready(cx),
            Plain::Unix(s) => s.poll_read_ready(cx),
        }
    }

    /// After a short read the next call asks the
    /// kernel again.
    fn poll_read_shared(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
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

    fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            // There is room, mostly.
            match self.try_write(bufs) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
            ready!(match self {
                Plain::Tcp(s) => s.poll_write_ready(cx),
                Plain::Unix(s) => s.poll_write_ready(cx),
            })?;
        }
    }

    async fn reset(&self) {
        // A reset can be read, as much else can. To wait for that costs less, and mostly nothing comes.
        let _ = poll_fn(|cx| self.poll_readable(cx)).await;
        // An error here is the runtime's end, and with it the connection's.
        let _ = match self {
            Plain::Tcp(s) => Box::pin(s.ready(Interest::ERROR)).await,
            Plain::Unix(s) => Box::pin(s.ready(Interest::ERROR)).await,
        };
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_send_file_shared(cx, head, file, offset, len)
    }

    fn abort(&self) {
        // It may be gone already; and a unix socket has no resets.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }

    fn finish(&self) {
        // It may be gone already.
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
