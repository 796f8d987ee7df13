//! The body of a URL's response, requested once.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::{CONNECT_WITHIN, Url};
use crate::tls::Protocol;

/// Largest response, in bytes.
const BYTES_MAX: u64 = 64 << 20;

impl Url {
    /// The body of the response to a GET over HTTP/1.0, which ends with the connection.
    ///
    /// # Errors
    /// Any status but 200, an empty body, one with a transfer coding, and the network's.
    pub fn fetch(&self) -> Result<Vec<u8>, String> {
        let bad = |why: String| format!("{self}: {why}");
        let address = self.reach(Protocol::Http1, false).map_err(|e| e.to_string())?.address;
        let received = self.exchange(address).map_err(|e| bad(e.to_string()))?;
        if received.len() as u64 > BYTES_MAX {
            return Err(bad(format!("its response is longer than {} MiB", BYTES_MAX >> 20)));
        }
        let end = received.windows(4).position(|w| w == b"\r\n\r\n");
        let at = end.ok_or_else(|| bad("its response is not HTTP".to_owned()))? + 4;
        let head = String::from_utf8_lossy(&received[..at]).to_ascii_lowercase();
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            return Err(bad(format!("its status is `{status}`, not 200")));
        }
        if head.contains("\r\ntransfer-encoding:") {
            return Err(bad("its length is not announced, so it cannot be compared".to_owned()));
        }
        match &received[at..] {
            [] => Err(bad("its body is empty".to_owned())),
            body => Ok(body.to_vec()),
        }
    }

    fn exchange(&self, address: std::net::SocketAddr) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        stream.set_read_timeout(Some(CONNECT_WITHIN))?;
        stream.set_write_timeout(Some(CONNECT_WITHIN))?;
        let (path, host) = (&self.path, &self.authority);
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut received = Vec::new();
        stream.take(BYTES_MAX + 1).read_to_end(&mut received)?;
        Ok(received)
    }
}
