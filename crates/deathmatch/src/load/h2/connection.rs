//! One connection of the generator's that speaks HTTP/2: from the socket to what its peer makes of the
//! bytes, and back.

use std::os::fd::OwnedFd;

use rustls::Error;

use super::peer::{Ended, Over, Peer};
use crate::load::channel::Channel;
use crate::load::tally::Failure;
use crate::load::wire::{self, Moved};
use crate::load::{Expected, Tls};

/// A place for a connection.
#[derive(Default)]
pub(super) struct Connection {
    state: State,
    /// Tells events of the present connection from those of its predecessors.
    generation: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Shut,
    Connecting(Channel),
    /// The handshake is under way, or over.
    Open(Channel, Box<Peer>),
}

/// How a receive went.
pub(super) enum Went {
    Nothing,
    Some {
        /// There is no more.
        drained: bool,
    },
    Lost(Failure),
}

/// The server is gone.
pub(super) struct Gone;

impl Connection {
    pub(super) fn begin(&mut self, socket: OwnedFd) {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Connecting(Channel::new(socket));
    }

    pub(super) fn shut(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Shut;
    }

    pub(super) fn is_shut(&self) -> bool {
        matches!(self.state, State::Shut)
    }

    pub(super) fn token(&self, at: usize) -> u64 {
        (u64::from(self.generation) << 32) | at as u64
    }

    pub(super) fn socket(&self) -> Option<&OwnedFd> {
        match &self.state {
            State::Shut => None,
            State::Connecting(channel) | State::Open(channel, _) => Some(&channel.socket),
        }
    }

    /// The server accepted it, if it did; then the handshake begins, unless it has.
    pub(super) fn connected(&mut self, tls: &Tls) -> Result<bool, Error> {
        match std::mem::take(&mut self.state) {
            State::Connecting(mut channel) if wire::connected(&channel.socket) => {
                channel.secure(tls)?;
                let sent = !matches!(channel.flush(), Moved::Broken);
                self.state = State::Open(channel, Box::new(Peer::new()));
                Ok(sent)
            }
            State::Open(channel, peer) => {
                self.state = State::Open(channel, peer);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Its peer, once requests may be made of it.
    pub(super) fn ready(&mut self) -> Option<&mut Peer> {
        match &mut self.state {
            State::Open(_, peer) if peer.is_ready() => Some(peer),
            _ => None,
        }
    }

    /// Streams the server allows.
    pub(super) fn streams_max(&mut self) -> u32 {
        self.ready().map_or(0, |peer| peer.streams_max())
    }

    /// Whether the handshake was a resumed one.
    pub(super) fn resumed(&self) -> bool {
        let State::Open(channel, _) = &self.state else { return false };
        channel.session.as_ref().is_some_and(|session| session.resumed())
    }

    /// Sends what there is to say.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        let State::Open(channel, peer) = &mut self.state else { return Ok(()) };
        let stands = channel.session.as_ref().is_some_and(|session| session.stands());
        let moved = if stands && !peer.out.is_empty() {
            let moved = channel.push(&peer.out);
            peer.out.clear();
            moved
        } else {
            channel.flush()
        };
        if matches!(moved, Moved::Broken) { Err(Gone) } else { Ok(()) }
    }

    /// Receives once; what ended by it is added.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: &Expected,
        ended: &mut Vec<Ended>,
    ) -> Went {
        let State::Open(channel, peer) = &mut self.state else { return Went::Nothing };
        let Some(session) = &mut channel.session else { return Went::Nothing };
        let stood = session.stands();
        let held = session.held().len();
        buffer[..held].copy_from_slice(session.held());
        let count = match wire::receive(&channel.socket, &mut buffer[held..]) {
            Moved::Bytes(0) | Moved::Broken => return Went::Lost(Failure::Reset),
            Moved::Bytes(count) => count,
            Moved::Blocked => return Went::Nothing,
        };
        let mut fed = Ok(());
        let opened = session.open(&mut buffer[..held + count], |plain| {
            if fed.is_ok() {
                fed = peer.feed(plain, expected, ended);
            }
        });
        let agreed = stood || !session.stands() || session.agreed();
        match (opened, fed) {
            (Err(_), _) => Went::Lost(Failure::Tls),
            (Ok(()), _) if !agreed => Went::Lost(Failure::Tls),
            (Ok(()), Err(Over)) => Went::Lost(Failure::Http2),
            (Ok(()), Ok(())) => Went::Some { drained: held + count < buffer.len() },
        }
    }
}
