//! Slow clients: each has requested a large file and reads little of it, or has begun a request
//! whose large body it sends slowly. The server's memory is read before they are opened and after
//! the requests beside them.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::entrant::Server;
use super::idle::{IdleError, check_descriptors, resident};
use super::request::request;
use super::turn::{Turn, TurnError};
use crate::load::SlowClients;
use crate::plan::Work;
use crate::sample::{Beside, IdleUse};

/// Time within which a connection must be accepted.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(5);

/// Segments of a client on Ethernet. Those of loopback have 64 KB, and the kernel would buffer ten
/// of them for each connection (Linux, `tcp_init_buffer_space`).
const SEGMENT_BYTES: u32 = 1460;

impl<T> Turn<'_, T> {
    /// Opens the slow clients of a work; `None` if it has none.
    pub(super) fn open_slow(
        &self,
        server: &Server,
        work: &Work,
    ) -> Result<Option<(SlowClients, IdleUse)>, TurnError> {
        let Some((count, beside)) = work.slow().zip(work.beside.as_ref()) else { return Ok(None) };
        if server.pids().is_none() {
            return Err(TurnError::Contender("memory elsewhere cannot be read".to_owned()));
        }
        let (host, path) = (server.authority(), server.url_path(&beside.file));
        let request = match beside.sends {
            true => post(&host, &path, beside.file_bytes),
            false => request(&host, &path),
        };
        let opened = open(server, count, beside, &request).map_err(|e| match e {
            IdleError::Server(why) => TurnError::Contender(why),
            IdleError::Machine(e) => TurnError::Run(e),
        });
        opened.map(Some)
    }
}

fn open(
    server: &Server,
    count: u32,
    beside: &Beside,
    request: &[u8],
) -> Result<(SlowClients, IdleUse), IdleError> {
    check_descriptors(count, "slow clients")?;
    let before_bytes = resident(server);
    let mut sockets = Vec::new();
    for number in 1..=count {
        let opened = asked(server.addr(), request);
        sockets.push(opened.map_err(|e| match e.kind() {
            io::ErrorKind::AddrNotAvailable => IdleError::Machine(e),
            _ => IdleError::Server(format!("slow client {number} of {count} failed: {e}")),
        })?);
    }
    let bytes_per_s = beside.bytes_per_s.unwrap_or_default() / f64::from(count);
    let used = IdleUse { connections: count, before_bytes, after_bytes: before_bytes };
    Ok((SlowClients { sockets, bytes_per_s, sends: beside.sends }, used))
}

/// The head of a request with a body of so many bytes.
fn post(host: &str, path: &str, bytes: u64) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: deathmatch\r\n");
    format!("{head}Content-Length: {bytes}\r\n\r\n").into_bytes()
}

/// A connection that has sent its request, or the head of it.
fn asked(target: SocketAddr, request: &[u8]) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.set_tcp_mss(SEGMENT_BYTES)?;
    socket.connect_timeout(&target.into(), ACCEPTED_WITHIN)?;
    let mut socket = TcpStream::from(socket);
    socket.write_all(request)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
