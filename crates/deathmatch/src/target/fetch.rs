//! The body of a URL's response, requested once.

use std::io::{self, Read, Write};

use super::{CONNECT_WITHIN, Reached, Url, plain};
use crate::tls::{Protocol, Stream};

/// Largest response, in bytes.
const BYTES_MAX: u64 = 64 << 20;

impl Url {
    /// The body of the response to a GET over HTTP/1.0, which ends with its length or with the
    /// connection.
    ///
    /// # Errors
    /// Any status but 200, an empty body, one with a transfer coding, and the network's.
    pub fn fetch(&self, insecure: bool) -> Result<Vec<u8>, String> {
        let bad = |why: String| format!("{self}: {why}");
        let reached = self.reach(Protocol::Http1, insecure).map_err(|e| e.to_string())?;
        let received = self.exchange(&reached).map_err(|e| bad(plain(&e)))?;
        if received.len() as u64 > BYTES_MAX {
            return Err(bad(format!("its response is longer than {} MiB", BYTES_MAX >> 20)));
        }
        let at = head_end(&received).ok_or_else(|| bad("its response is not HTTP".to_owned()))?;
        let head = String::from_utf8_lossy(&received[..at]).to_ascii_lowercase();
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            return Err(bad(format!("its status is `{status}`, not 200")));
        }
        if head.contains("\r\ntransfer-encoding:") {
            return Err(bad("its length is not announced, so it cannot be compared".to_owned()));
        }
        let length = length(&received[..at]);
        if let Some(length) = length.filter(|length| *length != received.len() - at) {
            let had = received.len() - at;
            return Err(bad(format!("its body ended after {had} of {length} bytes")));
        }
        match &received[at..] {
            [] => Err(bad("its body is empty".to_owned())),
            body => Ok(body.to_vec()),
        }
    }

    fn exchange(&self, reached: &Reached) -> io::Result<Vec<u8>> {
        let mut stream = Stream::connect(reached.address, reached.trust.as_ref(), CONNECT_WITHIN)?;
        let (path, host) = (&self.path, &self.authority);
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut received = Vec::new();
        let mut stream = stream.take(BYTES_MAX + 1);
        let mut piece = [0; 16 * 1024];
        // Not to the end of the connection, which some servers keep in spite of the request.
        while !is_whole(&received) {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => received.extend_from_slice(&piece[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(received)
    }
}

/// `true` once a response has all bytes that its head announces.
fn is_whole(received: &[u8]) -> bool {
    let Some(at) = head_end(received) else { return false };
    length(&received[..at]).is_some_and(|length| received.len() - at >= length)
}

/// Length of a head, with its empty line.
fn head_end(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

/// The announced length of the body.
fn length(head: &[u8]) -> Option<usize> {
    let head = String::from_utf8_lossy(head);
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    value.trim().parse().ok()
}
