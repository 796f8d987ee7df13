//! The floor: the kernel's cost of receiving a request and sending a file. It is no server: it
//! searches the end of a head, looks its path up as written among the files it opened at the start
//! (of a very large folder: opens the file), and sends it. It drops bodies of uploads. All other
//! work of a server is left out on purpose.
//!
//! `deathmatch-floor PORT DIRECTORY WORKERS [FIELD]`, on 127.0.0.1. FIELD is in every response with
//! a file.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;

use deathmatch_floors::{
    Answers, Arguments, HEAD_BYTES_MAX, HEAD_END, Sending, Slots, TURN_BYTES, head_end,
};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

const PROGRAM: &str = "deathmatch-floor";
/// Events taken at once.
const EVENTS: usize = 512;
/// The listener's mark among the events; connections have their slot's.
const LISTENER: u64 = u64::MAX;
const DROPPED: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let served = match words[..] {
        ["--version"] => writeln!(io::stdout(), "{PROGRAM} {}", env!("CARGO_PKG_VERSION")),
        _ => Arguments::read(PROGRAM, &words).and_then(|arguments| serve(&arguments)),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "{PROGRAM}: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> io::Result<()> {
    let answers = Answers::read(&arguments.root, &arguments.field)?;
    let listeners = arguments.listeners()?;
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

impl<'a> Worker<'a> {
    fn run(listener: &TcpListener, answers: &'a Answers) -> io::Result<()> {
        listener.set_nonblocking(true)?;
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
                    slot => worker.turn(slot as u32, &mut buffer),
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
                    EventData::new_u64(slot.into()),
                    EventFlags::IN,
                )?;
            }
        }
    }

    /// Handles a connection once, and closes it if it failed.
    fn turn(&mut self, slot: u32, buffer: &mut [u8]) {
        let Some(connection) = self.connections.at(slot) else { return };
        let outcome = connection.turn(self.answers, buffer).and_then(|waits| {
            if waits == connection.waits_to_send {
                return Ok(());
            }
            connection.waits_to_send = waits;
            let flags = if waits { EventFlags::OUT } else { EventFlags::IN };
            Ok(epoll::modify(
                &self.epoll,
                &connection.stream,
                EventData::new_u64(slot.into()),
                flags,
            )?)
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
        while let Some(end) = head_end(&self.head) {
            let upload = upload_bytes(&self.head[..end]);
            self.sending = upload.is_none().then(|| answers.find(&self.head[..end]));
            self.head.drain(..end + HEAD_END.len());
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
            self.sending = Some(Sending::from_memory(DROPPED));
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

/// The length of a PUT's body, 0 if not stated; `None` for other requests.
fn upload_bytes(head: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"content-length:";
    let fields = head.strip_prefix(b"PUT ")?.split(|&b| b == b'\n');
    let mut named = fields.filter_map(|field| field.split_at_checked(NAME.len()));
    let value = named.find(|(name, _)| name.eq_ignore_ascii_case(NAME)).map(|(_, value)| value);
    let text = value.and_then(|value| std::str::from_utf8(value.trim_ascii()).ok());
    Some(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}
