//! The WebSocket protocol (RFC 6455) as a `Link`: a connection is upgraded once, then carries one
//! message at a time, and the server's next message is its response.

mod frames;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use bytes::Bytes;

use super::channel::Channel;
use super::head;
use super::link::{ConnectionLost, End, EndedRequest, Link, PeerError, Received};
use super::wire::{self, OpenResult};
use super::{Expected, Job, Tls};
use frames::{Event, Frames};

pub use frames::{content, message, ping};

/// A place for a connection.
#[derive(Default)]
pub(super) struct Connection {
    /// The request that upgrades the connection.
    handshake: Vec<u8>,
    /// A unix domain socket in place of the address.
    path: Option<PathBuf>,
    open: Option<Box<Open>>,
    /// Distinguishes events of the present connection from those of earlier ones.
    generation: u32,
}

struct Open {
    channel: Channel,
    is_connected: bool,
    dialogue: Dialogue,
    /// Bytes of the upgrade and of frames that the socket has not taken yet.
    out: Vec<u8>,
}

/// The state of the upgrade and of the messages.
#[derive(Default)]
struct Dialogue {
    /// The server's response to the upgrade, until it is complete.
    head: Vec<u8>,
    is_upgraded: bool,
    frames: Frames,
    /// The message whose response is awaited.
    asked: Option<Asked>,
    /// Bytes of the response so far.
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Asked {
    slot: usize,
    /// `true`: its response is a pong.
    is_ping: bool,
}

/// The server is told, so that it does not report a lost connection.
impl Drop for Open {
    fn drop(&mut self) {
        if self.dialogue.is_upgraded && self.out.is_empty() {
            // If the socket does not take it, it is lost.
            let _ = self.channel.send(&mut frames::close());
        }
    }
}

impl Dialogue {
    /// Reads bytes that the server has sent. Answers to pings are added to `out`.
    fn feed(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        let mut response = std::mem::take(&mut self.head);
        let bytes = if self.is_upgraded {
            bytes
        } else {
            let seen = response.len();
            response.extend_from_slice(bytes);
            let Some(end) = head::end(&response, seen) else {
                self.head = response;
                return if seen > head::HEAD_BYTES_MAX { Err(PeerError) } else { Ok(()) };
            };
            // Before the load it was checked that the response has everything else.
            let status = head::parse(&response[..end], false).map(|head| head.status);
            if status != Some(101) {
                return Err(PeerError);
            }
            self.is_upgraded = true;
            &response[end..]
        };
        let Dialogue { frames, asked, bytes: received, .. } = self;
        frames.feed(bytes, |event| {
            let is_response = match event {
                Event::Piece(count) => {
                    *received += count;
                    false
                }
                Event::Message => asked.is_some_and(|asked| !asked.is_ping),
                Event::Pong => asked.is_some_and(|asked| asked.is_ping),
                Event::Ping(payload) => {
                    out.extend(frames::pong(payload));
                    false
                }
                Event::Close => return Err(PeerError),
            };
            if let Some(Asked { slot, .. }) = asked.take_if(|_| is_response) {
                let bytes = std::mem::take(received);
                ended.push(EndedRequest { slot, how: End::Answer(None), bytes, status: None });
            }
            Ok(())
        })
    }
}

impl Link for Connection {
    const HAS_TIMERS: bool = false;
    const IS_MULTIPLEXED: bool = false;

    fn set_up(&mut self, job: &Job) {
        self.handshake = job.requests.first().cloned().unwrap_or_default();
        self.path.clone_from(&job.client.socket);
    }

    fn begin(&mut self, target: SocketAddr, _: Option<&Tls>) -> io::Result<bool> {
        self.generation = self.generation.wrapping_add(1);
        let opened = match &self.path {
            Some(path) => wire::open_unix(path)?,
            None => wire::open(target)?,
        };
        let OpenResult::Begun(socket) = opened else { return Ok(false) };
        self.open = Some(Box::new(Open {
            channel: Channel::new(socket),
            is_connected: false,
            dialogue: Dialogue::default(),
            out: self.handshake.clone(),
        }));
        Ok(true)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.open.as_ref().map(|open| open.channel.socket.as_fd())
    }

    fn token(&self, at: usize) -> u64 {
        (u64::from(self.generation) << 32) | at as u64
    }

    fn connected(&mut self, tls: Option<&Tls>) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        if open.is_connected {
            return Ok(true);
        }
        if !wire::connected(&open.channel.socket) {
            return Ok(false);
        }
        open.is_connected = true;
        if let Some(tls) = tls {
            open.channel.secure(tls).map_err(io::Error::other)?;
        }
        Ok(self.flush().is_ok())
    }

    fn is_ready(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.dialogue.is_upgraded)
    }

    fn streams_max(&self) -> u32 {
        1
    }

    fn resumed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.channel.resumed())
    }

    fn ask(&mut self, slot: usize, _: &[u8], frame: Bytes) -> Result<u64, PeerError> {
        let open = self.open.as_mut().ok_or(PeerError)?;
        open.dialogue.asked = Some(Asked { slot, is_ping: frames::is_ping(&frame) });
        // Bytes that came before belong to no message.
        open.dialogue.bytes = 0;
        open.out.extend_from_slice(&frame);
        Ok(slot as u64)
    }

    /// A late response would be taken for that of the next message.
    fn cancel(&mut self, _: u64) {
        self.shut();
    }

    fn flush(&mut self) -> Result<(), ConnectionLost> {
        match &mut self.open {
            Some(open) if open.is_connected => open.channel.send(&mut open.out),
            _ => Ok(()),
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        _: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received {
        let Some(open) = &mut self.open else { return Received::Nothing };
        let Open { channel, dialogue, out, .. } = &mut **open;
        channel.receive(buffer, |plain| dialogue.feed(plain, out, ended))
    }

    fn is_drained(&self) -> bool {
        false
    }

    fn is_shut(&self) -> bool {
        self.open.is_none()
    }

    fn shut(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.open = None;
    }
}
