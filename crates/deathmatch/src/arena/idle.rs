//! Idle connections: each is kept open after the response to its first request and sends nothing
//! more. The server's memory is read before and after they are opened.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::entrant::Server;
use super::request::request;
use super::turn::{Turn, TurnError};
use crate::machine::Snapshot;
use crate::plan::Work;
use crate::sample::IdleUse;

/// Time within which a connection must be accepted and its request answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Descriptors left to the rest of the process, the generator's connections included.
const DESCRIPTORS_SPARE: u64 = 1024;

/// Open connections without requests.
pub(super) struct IdleConnections {
    sockets: Vec<TcpStream>,
    /// Memory before and after.
    pub(super) used: IdleUse,
}

/// Reason for which connections could not be opened.
pub(super) enum IdleError {
    /// A fault of the server.
    Server(String),
    /// A limit of this machine.
    Machine(io::Error),
}

impl<T> Turn<'_, T> {
    /// Opens idle connections to the server, each with a request for the work's file.
    pub(super) fn open_idle(
        &self,
        server: &Server,
        work: &Work,
        count: u32,
    ) -> Result<IdleConnections, TurnError> {
        if server.pids().is_none() {
            return Err(TurnError::Contender("memory elsewhere cannot be read".to_owned()));
        }
        if server.trust().is_some() {
            return Err(TurnError::Contender("idle connections are in clear text".to_owned()));
        }
        let files = &self.plan.files;
        let bytes = files.iter().find(|f| f.name == work.file).map_or(0, |file| file.bytes);
        let request = request(&server.authority(), &server.url_path(&work.file));
        IdleConnections::open(server, count, &request, bytes).map_err(|e| match e {
            IdleError::Server(why) => TurnError::Contender(why),
            IdleError::Machine(e) => TurnError::Run(e),
        })
    }
}

impl IdleConnections {
    /// Opens them, one after the other, each with one request for a file of that length.
    pub(super) fn open(
        server: &Server,
        count: u32,
        request: &[u8],
        body_bytes: u64,
    ) -> Result<IdleConnections, IdleError> {
        check_descriptors(count, "idle connections")?;
        let before_bytes = resident(server);
        let mut sockets = Vec::new();
        for number in 1..=count {
            let opened = first_request(server.addr(), request, body_bytes);
            sockets.push(opened.map_err(|e| match e.kind() {
                io::ErrorKind::AddrNotAvailable => IdleError::Machine(e),
                _ => IdleError::Server(format!("idle connection {number} of {count} failed: {e}")),
            })?);
        }
        let used = IdleUse { connections: count, before_bytes, after_bytes: resident(server) };
        Ok(IdleConnections { sockets, used })
    }

    /// Checks that the server has closed none.
    ///
    /// # Errors
    /// The number of closed ones, in words.
    pub(super) fn check_open(&self) -> Result<(), String> {
        let is_closed = |socket: &&TcpStream| {
            let mut byte = [0];
            // An idle connection has nothing to receive: bytes, such as a 408, precede its end.
            let peeked = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut byte));
            !matches!(peeked, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
        };
        match self.sockets.iter().filter(is_closed).count() {
            0 => Ok(()),
            closed => Err(format!("it closed {closed} of {} idle connections", self.sockets.len())),
        }
    }
}

/// Checks that this process may open so many connections.
pub(super) fn check_descriptors(count: u32, what: &str) -> Result<(), IdleError> {
    let needed = u64::from(count) + DESCRIPTORS_SPARE;
    if getrlimit(Resource::Nofile).current.is_some_and(|most| most < needed) {
        let why = format!("{count} {what}: raise the descriptor limit (ulimit -n {needed})");
        return Err(IdleError::Machine(io::Error::other(why)));
    }
    Ok(())
}

/// Resident memory of all a server's processes, in bytes.
pub(super) fn resident(server: &Server) -> u64 {
    let look = || Snapshot::take(&server.pids().unwrap_or_default());
    look().until(&look(), 0.0).0.resident_bytes
}

fn first_request(target: SocketAddr, request: &[u8], body_bytes: u64) -> io::Result<TcpStream> {
    const HEAD_BYTES_MAX: usize = 16 * 1024;
    let mut socket = TcpStream::connect_timeout(&target, ANSWER_WITHIN)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    socket.write_all(request)?;
    let mut response = Vec::new();
    let mut piece = [0; 4096];
    let body = loop {
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => response.extend_from_slice(&piece[..count]),
        }
        if let Some(end) = response.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if response.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the response's head does not end"));
        }
    };
    if !response.starts_with(b"HTTP/1.1 200 ") {
        return Err(io::Error::other("the response is not 200"));
    }
    let left = body_bytes.saturating_sub((response.len() - body) as u64);
    let got = io::copy(&mut Read::by_ref(&mut socket).take(left), &mut io::sink())?;
    match got == left {
        true => Ok(socket),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const BODY: &[u8] = b"hello";

    /// A server that answers each connection once, and keeps it open or closes it.
    fn server(status: &'static str, keeps: bool) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut request = [0; 64];
                let _ = socket.read(&mut request);
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", BODY.len());
                let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(BODY));
                if keeps {
                    kept.push(socket);
                }
            }
        });
        Server::Elsewhere(address.into())
    }

    fn open(server: &Server) -> Result<IdleConnections, IdleError> {
        IdleConnections::open(server, 3, b"GET / HTTP/1.1\r\n\r\n", BODY.len() as u64)
    }

    #[test]
    fn connections_stay_open_after_one_response() {
        let Ok(idle) = open(&server("200 OK", true)) else { panic!("they were not opened") };
        assert_eq!(idle.used.connections, 3);
        assert_eq!(idle.check_open(), Ok(()));
    }

    #[test]
    fn a_server_that_closes_them_is_found_out() {
        let Ok(idle) = open(&server("200 OK", false)) else { panic!("they were not opened") };
        // Each close arrives before or with the read of this byte.
        idle.sockets.iter().for_each(|mut socket| assert_eq!(socket.read(&mut [0]).unwrap(), 0));
        assert_eq!(idle.check_open(), Err("it closed 3 of 3 idle connections".to_owned()));
    }

    #[test]
    fn an_error_response_is_the_servers_fault() {
        let Err(IdleError::Server(why)) = open(&server("503 No", true)) else {
            panic!("503 was accepted")
        };
        assert_eq!(why, "idle connection 1 of 3 failed: the response is not 200");
    }
}
