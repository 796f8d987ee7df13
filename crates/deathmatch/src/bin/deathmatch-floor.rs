//! The floor: the kernel's cost of receiving a request and sending a file. It is no server: it
//! searches the end of a head, looks its path up as written among the files it opened at the start
//! (of a very large folder: opens the file), and sends it. It drops bodies of uploads. All other
//! work of a server is left out on purpose.
//!
//! `deathmatch-floor PORT DIRECTORY WORKERS [FIELD]`, on 127.0.0.1. FIELD is in every response with
//! a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use slots::Slots;
use socket2::{Domain, Socket, Type};

/// Larger files go by sendfile: from here on it is cheaper than sending from memory.
const MEMORY_BYTES_MAX: u64 = 32 * 1024;
/// Still larger files leave in turns, between which other connections are served.
const AT_ONCE_BYTES_MAX: u64 = 1024 * 1024;
/// Files of a directory kept open or in memory. If there are more, each is opened per request.
const KEPT_MAX: usize = 4096;
/// Bytes of a file or an upload in one turn.
const TURN_BYTES: usize = 64 * 1024;
/// A longer head ends its connection.
const HEAD_BYTES_MAX: usize = 8 * 1024;
const BACKLOG: i32 = 4096;
/// Events taken at once.
const EVENTS: usize = 512;
/// Depth of nested folders.
const DEPTH_MAX: u32 = 16;
/// The listener's mark among the events; connections have their slot's.
const LISTENER: u64 = u64::MAX;
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const DROPPED: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let served = match words[..] {
        ["--version"] => writeln!(io::stdout(), "deathmatch-floor {}", env!("CARGO_PKG_VERSION")),
        [port, root, workers, ref field @ ..] if field.len() < 2 => {
            match (port.parse(), workers.parse()) {
                (Ok(port), Ok(workers)) => serve(port, Path::new(root), workers, field.first()),
                _ => Err(io::Error::other("PORT and WORKERS are numbers")),
            }
        }
        _ => Err(io::Error::other("usage: deathmatch-floor PORT DIRECTORY WORKERS [FIELD]")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "deathmatch-floor: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: u16, root: &Path, workers: usize, field: Option<&&str>) -> io::Result<()> {
    let field = field.map_or(String::new(), |field| format!("{field}\r\n"));
    let mut answers = Answers { field, by_path: HashMap::new() };
    answers.read_folder(root, "/", DEPTH_MAX)?;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listeners: Vec<TcpListener> =
        (0..workers.max(1)).map(|_| listen(addr)).collect::<io::Result<_>>()?;
    thread::scope(|scope| {
        let answers = &answers;
        let threads: Vec<_> =
            listeners.iter().map(|l| scope.spawn(|| Worker::run(l, answers))).collect();
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a worker panicked"))??;
        }
        Ok(())
    })
}

/// Each worker has a listener of its own, and the kernel spreads connections over them.
fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The response for a path.
enum Answer {
    Kept(Response),
    /// Made from this file when requested.
    Found(PathBuf),
}

/// A whole response, or a head and the file behind it.
struct Response {
    bytes: Vec<u8>,
    file: Option<(Arc<File>, u64)>,
}

struct Answers {
    /// A line in all of them, or nothing.
    field: String,
    by_path: HashMap<Vec<u8>, Answer>,
}

impl Answers {
    fn read_folder(&mut self, folder: &Path, path: &str, depth: u32) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        for entry in &entries {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let meta = fs::metadata(entry.path())?;
            if meta.is_file() {
                let answer = match entries.len() {
                    ..=KEPT_MAX => Answer::Kept(self.make(&entry.path(), meta.len())?),
                    _ => Answer::Found(entry.path()),
                };
                self.by_path.insert(format!("{path}{name}").into_bytes(), answer);
            } else if meta.is_dir() && depth > 0 {
                self.read_folder(&entry.path(), &format!("{path}{name}/"), depth - 1)?;
            }
        }
        Ok(())
    }

    fn make(&self, path: &Path, length: u64) -> io::Result<Response> {
        let kind = match path.extension().and_then(|end| end.to_str()) {
            Some("html") => "text/html",
            Some("txt") => "text/plain",
            Some("css") => "text/css",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        };
        let field = &self.field;
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{field}Content-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        let file = if length > MEMORY_BYTES_MAX {
            Some((Arc::new(File::open(path)?), length))
        } else {
            bytes.extend(fs::read(path)?);
            None
        };
        Ok(Response { bytes, file })
    }

    /// The response to `GET PATH HTTP/1.1`; the path is used as written.
    fn find(&self, head: &[u8]) -> Sending<'_> {
        let path = head.split(|&b| b == b' ').nth(1).unwrap_or_default();
        let file = |file: &Option<(Arc<File>, u64)>| file.clone().map(|(file, end)| (file, 0, end));
        match self.by_path.get(path) {
            Some(Answer::Kept(kept)) => {
                Sending { bytes: (&kept.bytes).into(), sent: 0, file: file(&kept.file) }
            }
            Some(Answer::Found(path)) => {
                match fs::metadata(path).and_then(|meta| self.make(path, meta.len())) {
                    Ok(made) => {
                        Sending { bytes: made.bytes.into(), sent: 0, file: file(&made.file) }
                    }
                    Err(_) => Sending { bytes: NOT_FOUND.into(), sent: 0, file: None },
                }
            }
            None => Sending { bytes: NOT_FOUND.into(), sent: 0, file: None },
        }
    }
}

struct Worker<'a> {
    answers: &'a Answers,
    epoll: rustix::fd::OwnedFd,
    connections: Slots<Connection<'a>>,
}

struct Connection<'a> {
    stream: TcpStream,
    /// The beginning of a head that has not ended.
    head: Vec<u8>,
    /// Bytes of an upload that are still to come.
    dropping: u64,
    sending: Option<Sending<'a>>,
    waits_to_send: bool,
}

/// A response being sent.
struct Sending<'a> {
    bytes: Cow<'a, [u8]>,
    /// Number of bytes sent.
    sent: usize,
    file: Option<(Arc<File>, u64, u64)>, // the file, where in it, its end
}

impl<'a> Worker<'a> {
    fn run(listener: &TcpListener, answers: &'a Answers) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let mut worker = Worker { answers, epoll, connections: Slots::default() };
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; TURN_BYTES];
        loop {
            events.clear();
            match epoll::wait(&worker.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => worker.accept(listener)?,
                    slot => worker.turn(slot, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                // Descriptors have run out; waiting clients are accepted when one is free.
                Err(_) => return Ok(()),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let connection = Connection {
                stream,
                head: Vec::new(),
                dropping: 0,
                sending: None,
                waits_to_send: false,
            };
            let slot = self.connections.insert(connection);
            if let Some(connection) = self.connections.at(slot) {
                epoll::add(
                    &self.epoll,
                    &connection.stream,
                    EventData::new_u64(slot),
                    EventFlags::IN,
                )?;
            }
        }
    }

    /// Handles a connection once, and closes it if it failed.
    fn turn(&mut self, slot: u64, buffer: &mut [u8]) {
        let Some(connection) = self.connections.at(slot) else { return };
        let outcome = connection.turn(self.answers, buffer).and_then(|waits| {
            if waits == connection.waits_to_send {
                return Ok(());
            }
            connection.waits_to_send = waits;
            let flags = if waits { EventFlags::OUT } else { EventFlags::IN };
            Ok(epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(slot), flags)?)
        });
        if outcome.is_err() {
            // Closing removes it from the epoll set.
            self.connections.remove(slot);
        }
    }
}

impl<'a> Connection<'a> {
    /// Handles the connection once; `true` if it waits to send. An error closes the connection.
    fn turn(&mut self, answers: &'a Answers, buffer: &mut [u8]) -> io::Result<bool> {
        if !self.send()? {
            return Ok(true);
        }
        if !self.waits_to_send {
            // With MSG_TRUNC the kernel drops the bytes without copying (tcp(7)).
            let (most, flags) = match usize::try_from(self.dropping) {
                Ok(0) => (HEAD_BYTES_MAX, RecvFlags::empty()),
                left => (left.map_or(TURN_BYTES, |left| left.min(TURN_BYTES)), RecvFlags::TRUNC),
            };
            let received = match recv(&self.stream, &mut buffer[..most], flags) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, n)) => n,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(e) => return Err(e.into()),
            };
            if self.dropping > 0 {
                return self.drop_upload(received as u64);
            }
            self.head.extend_from_slice(&buffer[..received]);
        }
        while let Some(end) = self.head.windows(4).position(|w| w == b"\r\n\r\n") {
            let upload = upload_bytes(&self.head[..end]);
            self.sending = upload.is_none().then(|| answers.find(&self.head[..end]));
            self.head.drain(..end + 4);
            let waits = match upload {
                Some(bytes) => {
                    self.dropping = bytes;
                    let received =
                        self.head.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
                    self.head.drain(..received);
                    self.drop_upload(received as u64)?
                }
                None => !self.send()?,
            };
            if waits {
                return Ok(true);
            }
        }
        if self.head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(false)
    }

    /// Counts dropped bytes of an upload, and responds after the last; `true` if it waits to send.
    fn drop_upload(&mut self, bytes: u64) -> io::Result<bool> {
        self.dropping -= bytes;
        if self.dropping == 0 {
            self.sending = Some(Sending { bytes: DROPPED.into(), sent: 0, file: None });
            return Ok(!self.send()?);
        }
        Ok(false)
    }

    /// Sends the response; `true` once all of it is sent.
    fn send(&mut self) -> io::Result<bool> {
        let Some(sending) = &mut self.sending else { return Ok(true) };
        let sent = sending.send(&self.stream);
        match sent {
            Ok(()) => self.sending = None,
            Err(Errno::AGAIN) => return Ok(false),
            Err(e) => return Err(e.into()),
        }
        Ok(true)
    }
}

impl Sending<'_> {
    fn send(&mut self, stream: impl AsFd) -> rustix::io::Result<()> {
        // With MSG_MORE the head waits for the file, so that both leave in one segment.
        let more = if self.file.is_some() { SendFlags::MORE } else { SendFlags::empty() };
        while self.sent < self.bytes.len() {
            self.sent += send(&stream, &self.bytes[self.sent..], SendFlags::NOSIGNAL | more)?;
        }
        let Some((file, at, end)) = &mut self.file else { return Ok(()) };
        let in_turns = *end > AT_ONCE_BYTES_MAX;
        while *at < *end {
            let rest = usize::try_from(*end - *at).unwrap_or(usize::MAX);
            let most = if in_turns { rest.min(TURN_BYTES) } else { rest };
            // The file has become shorter since it was opened.
            if sendfile(&stream, &*file, Some(at), most)? == 0 {
                return Err(Errno::IO);
            }
            if in_turns && *at < *end {
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    }
}

/// The length of a PUT's body, 0 if not stated; `None` for other requests.
fn upload_bytes(head: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"content-length:";
    let fields = head.strip_prefix(b"PUT ")?.split(|&b| b == b'\n');
    let mut named = fields.filter_map(|field| field.split_at_checked(NAME.len()));
    let value = named.find(|(name, _)| name.eq_ignore_ascii_case(NAME)).map(|(_, value)| value);
    let text = value.and_then(|value| std::str::from_utf8(value.trim_ascii()).ok());
    Some(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Connections by number; the number of a closed connection is used again.
mod slots {
    pub(super) struct Slots<T> {
        all: Vec<Option<T>>,
        free: Vec<u64>,
    }

    impl<T> Default for Slots<T> {
        fn default() -> Self {
            Slots { all: Vec::new(), free: Vec::new() }
        }
    }

    impl<T> Slots<T> {
        pub(super) fn insert(&mut self, value: T) -> u64 {
            let slot = self.free.pop().unwrap_or(self.all.len() as u64);
            match self.all.get_mut(slot as usize) {
                Some(place) => *place = Some(value),
                None => self.all.push(Some(value)),
            }
            slot
        }

        pub(super) fn at(&mut self, slot: u64) -> Option<&mut T> {
            self.all.get_mut(slot as usize)?.as_mut()
        }

        pub(super) fn remove(&mut self, slot: u64) {
            if let Some(place) = self.all.get_mut(slot as usize)
                && place.take().is_some()
            {
                self.free.push(slot);
            }
        }
    }
}
