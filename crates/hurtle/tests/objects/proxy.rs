//! A proxy for HTTP/1.1 that injects faults. Each connection has one request; its response is read
//! whole and then sent as the fault says.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::child::PATIENCE;
use crate::store::AUTHORIZATION;

/// A fault of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The response is this status, and has no body.
    Status(u16),
    /// The connection is reset in place of a response.
    Reset,
    /// The body ends after this many bytes.
    Truncate(usize),
    /// The byte at the first place differs, and the body stops at the second one.
    CorruptAndStall(usize, usize),
    /// The body stops after this many bytes until [`Proxy::release`].
    Stall(usize),
    /// There is no response until [`Proxy::release`].
    Hold,
    /// The byte of the request's body at this place differs.
    CorruptRequest(usize),
    /// The service gets the request, and the connection is reset in place of its response.
    Lose,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    /// Faults of the next requests whose line contains the text.
    once: VecDeque<(String, Fault)>,
    /// The fault of all others.
    always: Option<(String, Fault)>,
    /// Method, target, Range and Google's condition of the requests.
    requests: Vec<String>,
    faults: usize,
    is_released: bool,
}

impl Proxy {
    pub(crate) fn start(service: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy { address: listener.local_addr().unwrap(), shared: Arc::default() };
        let accepting = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let proxy = accepting.clone();
                thread::spawn(move || proxy.forward(client, service));
            }
        });
        proxy
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request with this text in its line has a fault.
    pub(crate) fn once(&self, of: &str, fault: Fault) {
        self.shared.state.lock().unwrap().once.push_back((of.to_owned(), fault));
    }

    /// All requests with this text in their line have a fault.
    pub(crate) fn always(&self, of: &str, fault: Fault) {
        self.shared.state.lock().unwrap().always = Some((of.to_owned(), fault));
    }

    /// Ends all faults. Stalled responses stay so.
    pub(crate) fn end(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.once.clear();
        state.always = None;
    }

    /// Ends all faults, and stalled responses go on.
    pub(crate) fn release(&self) {
        self.end();
        self.shared.state.lock().unwrap().is_released = true;
        self.shared.released.notify_all();
    }

    /// Number of faults so far.
    pub(crate) fn faults(&self) -> usize {
        self.shared.state.lock().unwrap().faults
    }

    /// The requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state.lock().unwrap().requests)
    }

    fn forward(&self, mut client: TcpStream, service: SocketAddr) {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let Some((head, mut body)) = read_request(&mut client) else { return };
        let fault = self.note(&head);
        match fault {
            Some(Fault::Status(status)) => {
                let head = format!("HTTP/1.1 {status} Fault\r\n");
                let _ = client.write_all(
                    (head + "Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
                );
                return;
            }
            Some(Fault::Reset) => return reset(client),
            Some(Fault::Hold) => {
                self.wait();
                if has_left(&client) {
                    return;
                }
            }
            Some(Fault::CorruptRequest(at)) => body[at] ^= 1,
            _ => {}
        }
        let Some((head, mut body)) = respond(service, &head, &body) else { return };
        match fault {
            Some(Fault::Lose) => return reset(client),
            Some(Fault::Truncate(len)) => body.truncate(len),
            Some(Fault::CorruptAndStall(at, _)) => body[at] ^= 1,
            _ => {}
        }
        let _ = client.write_all(&head);
        if let Some(Fault::Stall(len) | Fault::CorruptAndStall(_, len)) = fault {
            let rest = body.split_off(len);
            let _ = client.write_all(&body);
            self.wait();
            body = rest;
        }
        let _ = client.write_all(&body);
        let _ = client.shutdown(Shutdown::Write);
        // Until the client has read all.
        let _ = client.read(&mut [0]);
    }

    /// Notes a request, and returns its fault.
    fn note(&self, head: &str) -> Option<Fault> {
        let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1");
        let mut noted = line.to_owned();
        for field in ["range: ", "x-goog-if-generation-match: "] {
            let values = head.lines().filter_map(|line| line.strip_prefix(field));
            values.for_each(|value| noted += &format!(" {value}"));
        }
        let mut state = self.shared.state.lock().unwrap();
        state.requests.push(noted);
        let once = state.once.iter().position(|(of, _)| line.contains(of.as_str()));
        let always = state.always.clone().filter(|(of, _)| line.contains(of.as_str()));
        let fault = match once {
            Some(at) => state.once.remove(at),
            None => always,
        };
        state.faults += usize::from(fault.is_some());
        fault.map(|(_, fault)| fault)
    }

    fn wait(&self) {
        let state = self.shared.state.lock().unwrap();
        let waits = |state: &mut State| !state.is_released;
        drop(self.shared.released.wait_timeout_while(state, PATIENCE, waits).unwrap());
    }
}

/// `true` if the client has closed the connection.
fn has_left(client: &TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let peeked = client.peek(&mut [0]);
    client.set_nonblocking(false).unwrap();
    !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn reset(client: TcpStream) {
    let socket = socket2::Socket::from(client);
    // Closing then sends a reset.
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

/// Reads the head, in lower-case names as the client sends them, and the body.
fn read_request(client: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end + 4].to_vec()).unwrap();
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let len: usize = len.map_or(0, |len| len.parse().unwrap());
            let mut body = bytes.split_off(end + 4);
            while body.len() < len {
                match client.read(&mut piece) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return None,
                    Ok(n) => body.extend(&piece[..n]),
                }
            }
            return Some((head, body));
        }
        match client.read(&mut piece) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend(&piece[..n]),
        }
    }
}

/// Sends a request to the service, and reads the response, whose connection ends with it.
fn respond(service: SocketAddr, head: &str, body: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut stream = TcpStream::connect(service).ok()?;
    let is_signed = head.contains("\r\nauthorization: AWS4");
    // The service takes no credentials of Google, an empty token here.
    let lines = head.trim_end().lines().filter(|line| !line.starts_with("authorization: Bearer"));
    let mut head = lines.collect::<Vec<_>>().join("\r\n") + "\r\nconnection: close\r\n";
    if !is_signed {
        head += AUTHORIZATION;
    }
    head += "\r\n";
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).ok()?;
    let end = memchr::memmem::find(&response, b"\r\n\r\n")?;
    let body = response.split_off(end + 4);
    Some((response, body))
}
