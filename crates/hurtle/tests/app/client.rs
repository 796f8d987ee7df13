//! A client that sends exactly the given bytes and reads no more than requested.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit of a read, after which the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a server under test.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::of(TcpStream::connect(address).unwrap())
    }

    /// Uses an open connection.
    pub(crate) fn of(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, unread: Vec::new() }
    }

    /// Sends bytes. Errors are ignored: a later read fails if the server is gone.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends bytes in pieces of this size.
    pub(crate) fn send_split(&mut self, bytes: &[u8], size: usize) {
        bytes.chunks(size).for_each(|piece| self.send(piece));
    }

    /// Shuts down the sending direction.
    pub(crate) fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn reset(self) {
        let socket = socket2::Socket::from(self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Reads a response head, without `Date` and the empty line.
    #[track_caller]
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            match self.line().as_str() {
                "" => return head,
                date if date.starts_with("Date: ") => {}
                line => head = head + line + "\n",
            }
        }
    }

    /// Reads a line, without its line end.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            self.fill("a line");
        }
    }

    #[track_caller]
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            self.fill("more");
        }
        self.unread.drain(..len).collect()
    }

    /// Reads a chunk's data; empty for the last chunk.
    #[track_caller]
    pub(crate) fn chunk(&mut self) -> String {
        String::from_utf8(self.chunk_bytes()).unwrap()
    }

    /// Reads a chunked body without trailers.
    #[track_caller]
    pub(crate) fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let data = self.chunk_bytes();
            if data.is_empty() {
                assert_eq!(self.line(), "", "no trailers");
                return body;
            }
            body.extend(data);
        }
    }

    #[track_caller]
    fn chunk_bytes(&mut self) -> Vec<u8> {
        let len = usize::from_str_radix(&self.line(), 16).unwrap();
        if len == 0 {
            return Vec::new();
        }
        let data = self.take(len);
        assert_eq!(self.line(), "", "a chunk ends where its size says");
        data
    }

    /// Reads a complete response: its head, and its body by its framing. Trailers follow the body,
    /// each with a line feed.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> (String, String) {
        let head = self.head();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if let Some(length) = length {
            let body = self.take(length.parse().unwrap());
            return (head, String::from_utf8(body).unwrap());
        }
        if !head.contains("Transfer-Encoding: chunked\n") {
            return (head, String::new());
        }
        let mut body = String::new();
        loop {
            match self.chunk().as_str() {
                "" => break,
                data => body += data,
            }
        }
        loop {
            match self.line().as_str() {
                "" => return (head, body),
                line => body = body + line + "\n",
            }
        }
    }

    /// Reads everything up to the end of the connection.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> String {
        self.stream.read_to_end(&mut self.unread).unwrap();
        String::from_utf8(std::mem::take(&mut self.unread)).unwrap()
    }

    /// Asserts that the server resets the connection.
    #[track_caller]
    pub(crate) fn expect_reset(&mut self) {
        let end = self.stream.read_to_end(&mut self.unread);
        assert_eq!(end.map_err(|e| e.kind()), Err(ErrorKind::ConnectionReset));
    }

    /// Asserts that the connection ends before `len` more bytes.
    #[track_caller]
    pub(crate) fn expect_early_end(&mut self, len: usize, what: &str) {
        let end = self.stream.read_to_end(&mut self.unread);
        let waits = end.is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
        assert!(
            !waits && self.unread.len() < len,
            "{what}: {} of {len} bytes came",
            self.unread.len()
        );
    }

    #[track_caller]
    fn fill(&mut self, what: &str) {
        let mut piece = [0; 64 << 10];
        let n = loop {
            match self.stream.read(&mut piece) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                n => break n,
            }
        };
        let got = self.unread.escape_ascii();
        match n {
            Ok(0) => panic!("the end instead of {what}; got so far: {got}"),
            Ok(n) => self.unread.extend_from_slice(&piece[..n]),
            Err(e) => panic!("{e} instead of {what}; got so far: {got}"),
        }
    }
}
