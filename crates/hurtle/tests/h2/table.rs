//! Rows for connections that send bytes after their preface: the bytes and the expected result.

use std::net::SocketAddr;
use std::panic::catch_unwind;

use crate::support::Server;
use crate::wire::*;

/// Expected result of a connection.
pub(crate) enum Expected {
    /// The connection ends with this code.
    Ends(u32),
    /// This stream is reset with this code, and the connection continues.
    Resets(u32, u32),
    /// Stream 1 gets a response whose status field begins with this byte; the connection continues.
    Answers(u8),
    /// The server sends nothing about it.
    Passes,
}

/// Statuses as indices of HPACK's static table (RFC 7541 appendix A).
pub(crate) const OK: u8 = 0x88;
pub(crate) const NO_CONTENT: u8 = 0x89;
pub(crate) const BAD_REQUEST: u8 = 0x8c;
/// The first byte of a status that is not in the static table.
pub(crate) const ANOTHER: u8 = 0x48;

/// A request for a file.
pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a.txt")];

/// Fields of a request whose method takes a body.
pub(crate) const POST: [(&str, &str); 4] = [(":method", "POST"), GET[1], GET[2], GET[3]];

/// A head of stream 1 without END_STREAM.
pub(crate) fn open(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &block(fields))
}

/// A head of stream 1 with END_STREAM.
pub(crate) fn whole(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields))
}

/// Checks the rows, each on a new connection. The initial window is 0, so streams stay open on the
/// server's side.
#[track_caller]
pub(crate) fn check(rows: Vec<(&str, Vec<u8>, Expected)>) {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wrong = Vec::new();
    for (why, bytes, expected) in rows {
        let found = catch_unwind(|| mismatch(server.address, &bytes, &expected));
        match found {
            Ok(None) => {}
            Ok(Some(found)) => wrong.push(format!("{why}: {found}")),
            Err(_) => wrong.push(format!("{why}: nothing")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Sends the bytes; a description of the result if it is not `expected`.
fn mismatch(server: SocketAddr, bytes: &[u8], expected: &Expected) -> Option<String> {
    let mut wire = Wire::begin(server, &[(INITIAL_WINDOW_SIZE, 0)]);
    wire.send(bytes);
    match *expected {
        Expected::Ends(code) => {
            let end = wire.end();
            return (end != Some(code)).then(|| format!("{end:?}, not {code}"));
        }
        Expected::Resets(stream, code) => match wire.find(RST_STREAM) {
            Ok(reset) if (reset.stream, reset.code()) == (stream, code) => {}
            found => return Some(format!("{found:?}")),
        },
        Expected::Answers(status) => match wire.find(HEADERS) {
            Ok(answer) if answer.payload[0] == status => {}
            found => return Some(format!("{found:?}")),
        },
        Expected::Passes => {}
    }
    wire.expect_open();
    None
}
