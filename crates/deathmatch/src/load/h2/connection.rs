//! One HTTP/2 connection of the generator: between the socket and its `Peer`.

use std::os::fd::OwnedFd;

use rustls::Error;

use super::peer::{EndedRequest, Peer, PeerError};
use crate::load::channel::Channel;
use crate::load::tally::Failure;
use crate::load::wire::{self, Transfer};
use crate::load::{Expected, Tls};

/// A place for a connection.
#[derive(Default)]
pub(super) struct Connection {
    state: State,
    /// Distinguishes events of the present connection from those of earlier ones.
    generation: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Shut,
    Connecting(Channel),
    /// The handshake is under way, or complete.
    Open(Channel, Box<Peer>),
}

/// Result of a receive.
pub(super) enum Received {
    Nothing,
    Some {
        /// The socket is drained.
        drained: bool,
    },
    Lost(Failure),
}

/// The connection is lost.
pub(super) struct ConnectionLost;

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

    /// Checks that the server accepted the connection; then begins the handshake, unless it has
    /// begun.
    pub(super) fn connected(&mut self, tls: &Tls) -> Result<bool, Error> {
        match std::mem::take(&mut self.state) {
            State::Connecting(mut channel) if wire::connected(&channel.socket) => {
                channel.secure(tls)?;
                let sent = !matches!(channel.flush(), Transfer::Broken);
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

    /// Its peer, once it accepts requests.
    pub(super) fn ready(&mut self) -> Option<&mut Peer> {
        match &mut self.state {
            State::Open(_, peer) if peer.is_ready() => Some(peer),
            _ => None,
        }
    }

    /// `true` if the server goes away and every stream has ended.
    pub(super) fn is_drained(&self) -> bool {
        matches!(&self.state, State::Open(_, peer) if peer.is_drained())
    }

    /// Streams the server allows.
    pub(super) fn streams_max(&mut self) -> u32 {
        self.ready().map_or(0, |peer| peer.streams_max())
    }

    /// `true` if the handshake was resumed.
    pub(super) fn resumed(&self) -> bool {
        let State::Open(channel, _) = &self.state else { return false };
        channel.session.as_ref().is_some_and(|session| session.resumed())
    }

    /// Sends waiting bytes.
    pub(super) fn flush(&mut self) -> Result<(), ConnectionLost> {
        let State::Open(channel, peer) = &mut self.state else { return Ok(()) };
        let is_established =
            channel.session.as_ref().is_some_and(|session| session.is_established());
        let moved = if is_established && !peer.out.is_empty() {
            let moved = channel.push(&peer.out);
            peer.out.clear();
            moved
        } else {
            channel.flush()
        };
        if matches!(moved, Transfer::Broken) { Err(ConnectionLost) } else { Ok(()) }
    }

    /// Receives once; adds ended requests to `ended`.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received {
        let State::Open(channel, peer) = &mut self.state else { return Received::Nothing };
        let Some(session) = &mut channel.session else { return Received::Nothing };
        let was_established = session.is_established();
        let held = session.held().len();
        buffer[..held].copy_from_slice(session.held());
        let count = match wire::receive(&channel.socket, &mut buffer[held..]) {
            Transfer::Bytes(0) | Transfer::Broken => return Received::Lost(Failure::Reset),
            Transfer::Bytes(count) => count,
            Transfer::Blocked => return Received::Nothing,
        };
        let mut fed = Ok(());
        let opened = session.open(&mut buffer[..held + count], |plain| {
            if fed.is_ok() {
                fed = peer.feed(plain, expected, ended);
            }
        });
        let agreed = was_established || !session.is_established() || session.agreed();
        match (opened, fed) {
            (Err(_), _) => Received::Lost(Failure::Tls),
            (Ok(()), _) if !agreed => Received::Lost(Failure::Tls),
            (Ok(()), Err(PeerError)) => Received::Lost(Failure::Http2),
            (Ok(()), Ok(())) => Received::Some { drained: held + count < buffer.len() },
        }
    }
}
