//! An external stat helper, as lighttpd used before it had threads: a FastCGI authorizer (FastCGI
//! 1.0, 6.3) that looks up the file of each request, so that lighttpd finds its inode in memory and
//! does not wait for a disk. It allows every file that exists; lighttpd sends it.
//!
//! `deathmatch-stat`, with a listening socket as standard input, as lighttpd starts it
//! (`bin-path`).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use rustix::io::Errno;
use rustix::net::{Shutdown, accept, shutdown};

/// One thread for each download of the plan `cold`, so that no look-up waits for another.
const THREADS: usize = 64;
/// lighttpd never sends more parameters for a request.
const PARAMS_BYTES_MAX: usize = 64 * 1024;

/// The only version, and the kinds of records used here (FastCGI 1.0, 8).
const VERSION: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDOUT: u8 = 6;

fn main() -> ExitCode {
    let threads: Vec<_> = (0..THREADS).map(|_| thread::spawn(serve)).collect();
    for thread in threads {
        if let Ok(Err(e)) = thread.join() {
            let _ = writeln!(io::stderr(), "deathmatch-stat: standard input: {e}");
        }
    }
    ExitCode::FAILURE
}

fn serve() -> io::Result<()> {
    let listener = io::stdin();
    loop {
        match accept(&listener) {
            // A client that leaves before the response is lighttpd's concern.
            Ok(connection) => drop(converse(&File::from(connection))),
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Handles one request; lighttpd sends one on each connection.
fn converse(mut connection: &File) -> io::Result<()> {
    let mut requests = BufReader::new(connection);
    let params = params(&mut requests)?;
    let path = pairs(&params).find(|(name, _)| *name == b"SCRIPT_FILENAME");
    let path = path.map_or(Path::new(""), |(_, path)| Path::new(OsStr::from_bytes(path)));
    let head: &[u8] = match fs::metadata(path) {
        Ok(_) => b"Status: 200\r\n\r\n",
        Err(_) => b"Status: 404\r\n\r\n",
    };
    connection.write_all(&answer(head))?;
    shutdown(connection, Shutdown::Write)?;
    // Closing a socket with unread data could lose the response.
    io::copy(&mut requests, &mut io::sink()).map(|_| ())
}

/// All parameters of a request, which end with an empty record of them.
fn params(requests: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut params = Vec::new();
    loop {
        let mut head = [0; 8];
        requests.read_exact(&mut head)?;
        let [VERSION, kind, _, _, high, low, padding, _] = head else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        requests.read_exact(&mut content)?;
        match kind {
            PARAMS if length == 0 => return Ok(params),
            PARAMS => params.extend_from_slice(&content[..length]),
            _ => {}
        }
        if params.len() > PARAMS_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Names and values (FastCGI 1.0, 3.4); a truncated pair is left out.
fn pairs(mut params: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name, rest) = length(params)?;
        let (value, rest) = length(rest)?;
        let (name, rest) = rest.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        params = rest;
        Some((name, value))
    })
}

/// A length of one byte, or of four, the first of which then has its highest bit set.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ ..0x80, rest @ ..] => Some((usize::from(*short), rest)),
        [a, b, c, d, rest @ ..] => {
            Some((u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize, rest))
        }
        _ => None,
    }
}

/// The answer to request 1, the only one on its connection.
fn answer(head: &[u8]) -> Vec<u8> {
    // Far below the record's limit of 64 KB.
    let length = head.len() as u8;
    let record = |kind, length| [VERSION, kind, 0, 1, 0, length, 0, 0];
    let complete = [0; 8];
    let parts: [&[u8]; 5] = [
        &record(STDOUT, length),
        head,
        &record(STDOUT, 0),
        &record(END_REQUEST, complete.len() as u8),
        &complete,
    ];
    parts.concat()
}
