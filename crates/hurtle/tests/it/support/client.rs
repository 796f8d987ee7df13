//! A client that sends exactly the given bytes and parses responses strictly: an error fails the
//! test.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit of a read, after which the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a server under test.
#[derive(Debug)]
pub(crate) struct Client {
    /// The socket, for operations that this type does not have.
    pub(crate) stream: TcpStream,
    /// Bytes read beyond the last response.
    unread: Vec<u8>,
    ended: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Fields in the order received; bytes beyond ASCII as Latin-1.
    pub(crate) fields: Vec<(String, String)>,
    /// Content, decoded if it was chunked.
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// A field's value; the test fails if the field occurs twice.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice in {self:?}");
        value
    }

    /// The body as text.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The fields by name, without those that depend on the time.
    pub(crate) fn stable_fields(&self) -> Vec<(String, String)> {
        let mut fields = self.fields.clone();
        fields.retain(|(name, _)| name != "Date");
        fields.sort();
        fields
    }
}

impl Client {
    /// Connects without sending anything.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::of(TcpStream::connect(address).unwrap())
    }

    /// Uses an open connection.
    pub(crate) fn of(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, unread: Vec::new(), ended: false }
    }

    /// Sends bytes. Errors are ignored: a later read fails if the server is gone.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends bytes in pieces of these sizes, then the rest in one piece.
    pub(crate) fn send_split(&mut self, bytes: &[u8], sizes: impl IntoIterator<Item = usize>) {
        let mut rest = bytes;
        for size in sizes {
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            if piece.is_empty() || self.stream.write_all(piece).is_err() {
                break;
            }
            rest = tail;
        }
        self.send(rest);
    }

    /// Shuts down the sending direction.
    pub(crate) fn half_close(&mut self) {
        // The server may have closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends a request without a body and reads its response; see `Server::get`.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, target: &str) -> Response {
        let (target, fields) = target.split_once('\n').unwrap_or((target, ""));
        let mut request = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.contains("Host:") {
            request.push_str("Host: test.example\r\n");
        }
        for line in fields.lines() {
            request.push_str(line);
            request.push_str("\r\n");
        }
        self.send(request + "\r\n");
        self.answer(method)
    }

    /// Reads one response to a GET, which may be an interim one.
    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        self.answer("GET")
    }

    /// Reads one response to `method`.
    #[track_caller]
    pub(crate) fn answer(&mut self, method: &str) -> Response {
        match self.try_answer(method) {
            Ok(response) => response,
            Err(problem) => panic!("{problem}"),
        }
    }

    /// Asserts that the server closes the connection without another byte.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        if let Err(problem) = self.try_end() {
            panic!("{problem}");
        }
    }

    /// Asserts that the server answers another request on this connection.
    #[track_caller]
    pub(crate) fn expect_open(&mut self) {
        if let Err(problem) = self.try_open() {
            panic!("{problem}");
        }
    }

    /// Reads all bytes up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while !self.ended {
            self.fill("the end").unwrap();
        }
        std::mem::take(&mut self.unread)
    }

    /// Like `expect_end`, with an error instead of a panic.
    pub(crate) fn try_end(&mut self) -> Result<(), String> {
        while !self.ended && self.unread.is_empty() {
            self.fill("the end of the connection")?;
        }
        match self.unread.as_slice() {
            [] => Ok(()),
            more => Err(format!("more than was expected: {}", more.escape_ascii())),
        }
    }

    /// Like `expect_open`, with an error instead of a panic.
    pub(crate) fn try_open(&mut self) -> Result<(), String> {
        self.send("OPTIONS * HTTP/1.1\r\nHost: still.there\r\nX-Probe: yes\r\n\r\n");
        let answer = self.try_answer("OPTIONS").map_err(|e| format!("not open: {e}"))?;
        match answer.status {
            204 => Ok(()),
            _ => Err(format!("not open as expected: {answer:?}")),
        }
    }

    /// Like `answer`, with an error instead of a panic.
    pub(crate) fn try_answer(&mut self, method: &str) -> Result<Response, String> {
        let head_end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at;
            }
            self.fill_or_fail("an answer's head")?;
        };
        let head: Vec<u8> = self.unread.drain(..head_end + 4).collect();
        let mut response = parse_head(&head[..head_end])?;
        let bodiless =
            method == "HEAD" || response.status < 200 || matches!(response.status, 204 | 304);
        if bodiless {
            return Ok(response);
        }
        let chunked = response.field("Transfer-Encoding") == Some("chunked");
        response.body = match response.field("Content-Length") {
            Some(length) => self.take(length.parse().map_err(|_| format!("length {length}"))?)?,
            None if chunked => self.chunks()?,
            None => return Err(format!("a body without a length: {response:?}")),
        };
        Ok(response)
    }

    fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(&line, 16).map_err(|_| format!("size {line:?}"))?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size)?);
            if !self.line()?.is_empty() {
                return Err("a chunk is longer than its size".to_owned());
            }
        }
    }

    fn line(&mut self) -> Result<String, String> {
        let end = loop {
            if let Some(at) = find(&self.unread, b"\r\n") {
                break at;
            }
            self.fill_or_fail("a line")?;
        };
        let line: Vec<u8> = self.unread.drain(..end + 2).collect();
        Ok(latin1(&line[..end]))
    }

    fn take(&mut self, len: usize) -> Result<Vec<u8>, String> {
        while self.unread.len() < len {
            self.fill_or_fail("the rest of a body")?;
        }
        Ok(self.unread.drain(..len).collect())
    }

    fn fill_or_fail(&mut self, what: &str) -> Result<(), String> {
        self.fill(what)?;
        if self.ended {
            let got = self.unread.escape_ascii();
            return Err(format!("the connection ended instead of {what}; got so far: {got}"));
        }
        Ok(())
    }

    /// Reads once. A reset is an error, because it may discard bytes in flight.
    fn fill(&mut self, what: &str) -> Result<(), String> {
        let mut piece = [0; 64 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => self.ended = true,
                Ok(n) => self.unread.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => {
                    let got = self.unread.escape_ascii();
                    return Err(format!("{e} instead of {what}; got so far: {got}"));
                }
            }
            return Ok(());
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Response, String> {
    let text = latin1(head);
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..4)?.strip_suffix(' ')?.parse().ok())
        .ok_or_else(|| format!("not a status line: {status_line:?}"))?;
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("no field: {line:?}"))?;
        let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if name.is_empty() || !name.bytes().all(token) || value.contains(['\r', '\n', '\0']) {
            return Err(format!("no field: {line:?}"));
        }
        fields.push((name.to_owned(), value.to_owned()));
    }
    Ok(Response { status, fields, body: Vec::new() })
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}
