//! Asks a new version of an application for a response, without waiting: a socket that the server
//! passes to a process accepts connections before the process does.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes that begin every response of HTTP/1.1.
const BEGINNING: &[u8] = b"HTTP/1.";

/// A request in flight; `None`: none was accepted yet.
#[derive(Debug, Default)]
pub(super) struct Probe(Option<UnixStream>);

impl Probe {
    /// Returns whether the application at `socket` has begun to answer a HEAD request for `path`,
    /// with any status. A connection that fails is made again by the next call.
    pub(super) fn is_answered(&mut self, socket: &Path, path: &str) -> bool {
        let Some(mut stream) = self.0.take().or_else(|| request(socket, path)) else {
            return false;
        };
        let mut beginning = [0; BEGINNING.len()];
        match stream.read(&mut beginning) {
            Ok(len) => beginning[..len] == *BEGINNING,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.0 = Some(stream);
                false
            }
            Err(_) => false,
        }
    }
}

fn request(socket: &Path, path: &str) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_nonblocking(true).ok()?;
    let head = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    // A new connection has room for it.
    stream.write_all(head.as_bytes()).ok().map(|()| stream)
}
