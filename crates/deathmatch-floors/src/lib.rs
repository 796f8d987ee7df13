//! Common parts of the floors, the programs that show the kernel's cost of receiving a request and
//! sending a file: arguments, listeners, responses, and connections by number. The floors differ in
//! their loops alone: `deathmatch-floor` waits with epoll, `deathmatch-floor-uring` is beside this
//! library.

#![forbid(unsafe_code)]

mod answers;
mod slots;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use socket2::{Domain, Socket, Type};

pub use answers::{Answers, Sending, TURN_BYTES};
pub use slots::Slots;

/// A longer head ends its connection.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// End of a head.
pub const HEAD_END: &[u8] = b"\r\n\r\n";
const BACKLOG: i32 = 4096;

/// Arguments of a floor: `PORT DIRECTORY WORKERS [FIELD]`.
#[derive(Debug)]
pub struct Arguments {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Directory of the files.
    pub root: PathBuf,
    /// Number of threads, at least 1.
    pub workers: usize,
    /// A field line of every response with a file, with its CRLF, or nothing.
    pub field: String,
}

impl Arguments {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// Their number is wrong, or PORT or WORKERS is not a number.
    pub fn read(program: &str, words: &[&str]) -> io::Result<Arguments> {
        let [port, root, workers, field @ ..] = words else { return Err(usage(program)) };
        if field.len() > 1 {
            return Err(usage(program));
        }
        let numbers = port.parse().ok().zip(workers.parse::<usize>().ok());
        let (port, workers) =
            numbers.ok_or_else(|| io::Error::other("PORT and WORKERS are numbers"))?;
        let field = field.first().map_or(String::new(), |field| format!("{field}\r\n"));
        Ok(Arguments { port, root: root.into(), workers: workers.max(1), field })
    }

    /// A listener for each worker: the kernel spreads connections over them.
    ///
    /// # Errors
    /// The port is in use.
    pub fn listeners(&self) -> io::Result<Vec<TcpListener>> {
        (0..self.workers).map(|_| listen(self.port)).collect()
    }
}

/// Position of the end of a head.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END)
}

fn usage(program: &str) -> io::Error {
    io::Error::other(format!("usage: {program} PORT DIRECTORY WORKERS [FIELD]"))
}

/// Its connections have TCP_NODELAY, which Linux copies from the listener.
fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
