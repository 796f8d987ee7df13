//! Checks that a server answers with a file's own bytes, before and after it is measured: several
//! requests on one connection, every response compared with the file byte by byte.
//!
//! It parses HTTP by itself, apart from the load generator, so that the two cannot share a fault.

mod decoded;
mod http2;
mod http3;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

pub use http2::verify_http2;
pub use http3::verify_http3;

use crate::tls::{Stream, Trust};

/// Requests for a file on one connection: it must be kept alive twice.
const REQUESTS: u32 = 3;
/// Longest time without a byte.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Files from this size on are requested once: their connections are kept for the other files.
const LARGE_BYTES: usize = 64 << 20;
/// Slowest rate of a server for a complete check, in bytes a second.
const RATE_MIN: f64 = 20e6;
/// Largest size of a head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// The responses were right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The value as the server wrote it.
    pub content_type: String,
    /// The head's length, blank line included; of HTTP/2 that of its fields, before HPACK.
    pub head_bytes: usize,
}

/// The first wrong response, and its fault.
#[derive(Debug)]
pub struct VerifyError {
    /// Path of the request.
    pub path: String,
    /// Number of the response on the connection, from 1.
    pub answer: u32,
    pub fault: Fault,
}

/// A fault of a response.
#[derive(Debug)]
pub enum Fault {
    /// The connection failed: nothing listens there, or the address cannot be reached.
    Unreachable(SocketAddr, io::Error),
    /// The connection was lost.
    Io(io::Error),
    /// The connection ended before a response: it was not kept alive.
    NotKept,
    /// The server announced that it would close.
    WillClose(String),
    /// Not the head of an HTTP/1.x answer.
    Head(String),
    /// Another status than 200, or 2xx to an upload.
    Status(String),
    /// A content or transfer coding: the bytes on the wire are not the file's.
    Coded(String),
    /// The announced length, as text, since it may be missing.
    Length(String, usize),
    /// The media type is missing, or does not belong to this name.
    Type(String),
    /// The first byte that differs: offset, received, expected.
    Byte(usize, u8, u8),
    /// It ended early: bytes received, bytes expected.
    Short(usize, usize),
    /// More bytes than announced.
    Surplus(usize),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Fault::Unreachable(addr, e) = &self.fault {
            return write!(f, "no connection to {addr}: {e}");
        }
        write!(f, "{}, answer {} on a connection: ", self.path, self.answer)?;
        match &self.fault {
            Fault::Unreachable(_, e) | Fault::Io(e) => write!(f, "{e}"),
            Fault::NotKept => write!(f, "the connection was not kept alive"),
            Fault::WillClose(field) => write!(f, "the connection is not kept alive (`{field}`)"),
            Fault::Head(why) => write!(f, "not the head of an HTTP answer: {why}"),
            Fault::Status(line) => write!(f, "status is `{line}`"),
            Fault::Coded(field) => write!(f, "the file is sent coded (`{field}`)"),
            Fault::Length(what, expected) => {
                write!(f, "Content-Length is {what}, the file has {expected} bytes")
            }
            Fault::Type(why) => write!(f, "{why}"),
            Fault::Byte(at, got, expected) => {
                write!(f, "byte {at} is {got:#04x} and should be {expected:#04x}")
            }
            Fault::Short(got, expected) => {
                write!(f, "the body ended after {got} of {expected} bytes")
            }
            Fault::Surplus(n) => write!(f, "{n} unexpected bytes follow the body"),
        }
    }
}

impl std::error::Error for VerifyError {}

/// Requests a path and compares the response with the file; with a certificate, over TLS.
pub fn verify(
    addr: SocketAddr,
    trust: Option<&Trust>,
    path: &str,
    expected: &[u8],
) -> Result<Verified, VerifyError> {
    let wrong = |answer, fault| VerifyError { path: path.to_owned(), answer, fault };
    let mut connection =
        Connection::open(addr, trust).map_err(|e| wrong(1, Fault::Unreachable(addr, e)))?;
    let mut seen = None;
    for answer in 1..=requests(expected) {
        let verified = connection.ask(path, expected, answer > 1).map_err(|f| wrong(answer, f))?;
        seen.get_or_insert(verified);
    }
    // There was at least one response.
    seen.ok_or_else(|| wrong(1, Fault::NotKept))
}

/// Number of requests for a file.
fn requests(file: &[u8]) -> u32 {
    if file.len() < LARGE_BYTES { REQUESTS } else { 1 }
}

/// Longest time of all requests for a file.
fn time_max(file: &[u8]) -> Duration {
    let bytes = file.len() as f64 * f64::from(requests(file));
    SILENCE_MAX + Duration::from_secs_f64(bytes / RATE_MIN)
}

/// Requests a path of a host once and compares the response with the file. The server may close the
/// connection, as HTTP/1.0 does, and then needs no Content-Length.
pub fn verify_once(
    addr: SocketAddr,
    trust: Option<&Trust>,
    host: &str,
    path: &str,
    expected: &[u8],
) -> Result<Verified, VerifyError> {
    let wrong = |fault| VerifyError { path: path.to_owned(), answer: 1, fault };
    let connection = Connection::open(addr, trust);
    let mut connection = connection.map_err(|e| wrong(Fault::Unreachable(addr, e)))?;
    connection.is_kept = false;
    connection.host = host.to_owned();
    connection.ask(path, expected, false).map_err(wrong)
}

/// Uploads bytes to a path; checks that the server accepts them (RFC 9110, 9.3.4).
pub fn upload(addr: SocketAddr, path: &str, bytes: &[u8]) -> Result<(), VerifyError> {
    let wrong = |fault| VerifyError { path: path.to_owned(), answer: 1, fault };
    let put = || {
        let mut connection = Connection::open(addr, None).map_err(Fault::Io)?;
        let length = bytes.len();
        let head =
            format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        connection.stream.write_all(head.as_bytes()).map_err(Fault::Io)?;
        connection.stream.write_all(bytes).map_err(Fault::Io)?;
        let head_bytes = connection.receive_head(false)?;
        let text = String::from_utf8_lossy(&connection.buffer[..head_bytes]);
        let status_line = text.lines().next().unwrap_or_default().to_owned();
        match status_line.strip_prefix("HTTP/1.1 2") {
            Some(_) => Ok(()),
            None => Err(Fault::Status(status_line)),
        }
    };
    put().map_err(wrong)
}

struct Connection {
    stream: Stream,
    /// Received bytes that are not parsed yet.
    buffer: Vec<u8>,
    /// The Host field.
    host: String,
    /// The server must keep it alive.
    is_kept: bool,
}

impl Connection {
    fn open(addr: SocketAddr, trust: Option<&Trust>) -> io::Result<Connection> {
        let stream = Stream::connect(addr, trust, SILENCE_MAX)?;
        Ok(Connection { stream, buffer: Vec::new(), host: "localhost".to_owned(), is_kept: true })
    }

    fn ask(&mut self, path: &str, expected: &[u8], kept: bool) -> Result<Verified, Fault> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.stream.write_all(request.as_bytes()).map_err(|e| connection_fault(e, kept))?;
        let head_bytes = self.receive_head(kept)?;
        let content_type =
            check_head(&self.buffer[..head_bytes], path, expected.len(), self.is_kept)?;
        self.buffer.drain(..head_bytes);
        self.check_body(expected)?;
        Ok(Verified { content_type, head_bytes })
    }

    /// Receives a head into the buffer; returns its length. `kept`: the connection was used before.
    fn receive_head(&mut self, kept: bool) -> Result<usize, Fault> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                return Ok(at + 4);
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(Fault::Head(format!("it is longer than {HEAD_BYTES_MAX} bytes")));
            }
            if self.receive().map_err(|e| connection_fault(e, kept))? == 0 {
                let none = self.buffer.is_empty() && kept;
                return Err(if none { Fault::NotKept } else { Fault::Head(shown(&self.buffer)) });
            }
        }
    }

    fn check_body(&mut self, expected: &[u8]) -> Result<(), Fault> {
        let mut at = 0;
        loop {
            let rest = &expected[at..];
            let differs = self.buffer.iter().zip(rest).position(|(got, expected)| got != expected);
            if let Some(n) = differs {
                return Err(Fault::Byte(at + n, self.buffer[n], rest[n]));
            }
            if self.buffer.len() > rest.len() {
                return Err(Fault::Surplus(self.buffer.len() - rest.len()));
            }
            at += self.buffer.len();
            self.buffer.clear();
            if at == expected.len() {
                return Ok(());
            }
            if self.receive().map_err(Fault::Io)? == 0 {
                return Err(Fault::Short(at, expected.len()));
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let before = self.buffer.len();
        self.buffer.resize(before + READ_BYTES, 0);
        let received = loop {
            match self.stream.read(&mut self.buffer[before..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        self.buffer.truncate(before + received.as_ref().map_or(0, |n| *n));
        received.map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {SILENCE_MAX:?}"))
            }
            _ => e,
        })
    }
}

fn connection_fault(e: io::Error, kept: bool) -> Fault {
    match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset if kept => Fault::NotKept,
        _ => Fault::Io(e),
    }
}

/// Checks that a head belongs to this file; returns the content type.
fn check_head(head: &[u8], path: &str, expected: usize, kept: bool) -> Result<String, Fault> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let mut words = status_line.split(' ');
    let version = words.next().unwrap_or_default();
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Fault::Head(shown(head)));
    }
    if words.next() != Some("200") {
        return Err(Fault::Status(status_line.to_owned()));
    }
    let (mut length, mut kind, mut persists) = (None, None, version == "HTTP/1.1");
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.split_once(':');
        let (name, value) = colon.ok_or_else(|| Fault::Head(format!("no colon in `{line}`")))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if length.is_some_and(|old| old != value) => {
                return Err(Fault::Length(
                    format!("both {} and {value}", length.unwrap_or("")),
                    expected,
                ));
            }
            "content-length" => length = Some(value),
            "content-type" => kind = Some(value),
            "content-encoding" | "transfer-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(Fault::Coded(line.to_owned()));
            }
            // RFC 9112, 9.3: 1.1 persists unless closed, 1.0 only if it says so.
            "connection" if kept && value.eq_ignore_ascii_case("close") => {
                return Err(Fault::WillClose(line.to_owned()));
            }
            "connection" if value.eq_ignore_ascii_case("keep-alive") => persists = true,
            _ => {}
        }
    }
    let is_open_ended = !kept && length.is_none();
    if !is_open_ended && length.and_then(|length| length.parse().ok()) != Some(expected) {
        return Err(Fault::Length(length.unwrap_or("missing").to_owned(), expected));
    }
    if kept && !persists {
        return Err(Fault::WillClose(status_line.to_owned()));
    }
    check_type(kind, path)
}

/// Expected media types by name; other names only need a valid type.
const TYPES: &[(&str, &str)] =
    &[(".html", "text/html"), (".txt", "text/plain"), (".css", "text/css"), (".png", "image/png")];

fn check_type(kind: Option<&str>, path: &str) -> Result<String, Fault> {
    let kind = kind.ok_or_else(|| Fault::Type("it has no Content-Type".to_owned()))?;
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let wanted = TYPES.iter().find(|(end, _)| path.ends_with(end)).map(|(_, kind)| *kind);
    let is_one = essence.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    if !is_one || wanted.is_some_and(|wanted| wanted != essence) {
        let wanted = wanted.unwrap_or("a type such as application/octet-stream");
        return Err(Fault::Type(format!("Content-Type is `{kind}` and should be {wanted}")));
    }
    Ok(kind.to_owned())
}

/// The beginning of received bytes, for a message.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    match bytes {
        [] => "the connection was closed without an answer".to_owned(),
        _ => format!("`{}`", bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii()),
    }
}
