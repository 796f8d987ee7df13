//! One HTTP/2 connection of the generator: between the socket and its `Peer`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;

use super::peer::Peer;
use crate::load::channel::Channel;
use crate::load::link::{ConnectionLost, EndedRequest, Link, PeerError, Received};
use crate::load::wire::{self, OpenResult, Transfer};
use crate::load::{Expected, Job, Tls};
use crate::sample::ConnectionUse;

/// A place for a connection.
#[derive(Default)]
pub(in crate::load) struct Connection {
    state: ConnectionState,
    /// Distinguishes events of the present connection from those of earlier ones.
    generation: u32,
    /// `true`: responses state the status of gRPC.
    is_grpc: bool,
}

#[derive(Default)]
enum ConnectionState {
    #[default]
    Shut,
    Connecting(Channel),
    /// The handshake is under way, or complete.
    Open(Channel, Box<Peer>),
}

impl Link for Connection {
    const HAS_TIMERS: bool = false;
    const IS_MULTIPLEXED: bool = true;

    fn set_up(&mut self, job: &Job) {
        self.is_grpc = matches!(job.over, Some(ConnectionUse::Grpc(_)));
    }

    fn begin(&mut self, target: SocketAddr, _: Option<&Tls>) -> io::Result<bool> {
        self.generation = self.generation.wrapping_add(1);
        let OpenResult::Begun(socket) = wire::open(target)? else { return Ok(false) };
        self.state = ConnectionState::Connecting(Channel::new(socket));
        Ok(true)
    }

    fn shut(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.state = ConnectionState::Shut;
    }

    fn is_shut(&self) -> bool {
        matches!(self.state, ConnectionState::Shut)
    }

    fn token(&self, at: usize) -> u64 {
        (u64::from(self.generation) << 32) | at as u64
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            ConnectionState::Shut => None,
            ConnectionState::Connecting(channel) | ConnectionState::Open(channel, _) => {
                Some(channel.socket.as_fd())
            }
        }
    }

    fn connected(&mut self, tls: Option<&Tls>) -> io::Result<bool> {
        match std::mem::take(&mut self.state) {
            ConnectionState::Connecting(mut channel) if wire::connected(&channel.socket) => {
                if let Some(tls) = tls {
                    channel.secure(tls).map_err(io::Error::other)?;
                }
                let sent = !matches!(channel.flush(), Transfer::Broken);
                self.state = ConnectionState::Open(channel, Box::new(Peer::new(self.is_grpc)));
                Ok(sent)
            }
            ConnectionState::Open(channel, peer) => {
                self.state = ConnectionState::Open(channel, peer);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn is_ready(&self) -> bool {
        matches!(&self.state, ConnectionState::Open(_, peer) if peer.is_ready())
    }

    fn may_ask(&self) -> bool {
        matches!(&self.state, ConnectionState::Open(channel, peer)
            if channel.is_established() && !peer.is_leaving())
    }

    fn ask(&mut self, slot: usize, head: &[u8], body: Bytes) -> Result<u64, PeerError> {
        match &mut self.state {
            ConnectionState::Open(_, peer) => peer.ask(slot, head, body).map(u64::from),
            _ => Err(PeerError),
        }
    }

    fn cancel(&mut self, ticket: u64) {
        if let (ConnectionState::Open(_, peer), Ok(stream)) =
            (&mut self.state, u32::try_from(ticket))
        {
            peer.cancel(stream);
        }
    }

    fn is_leaving(&self) -> bool {
        matches!(&self.state, ConnectionState::Open(_, peer) if peer.is_leaving())
    }

    fn is_drained(&self) -> bool {
        matches!(&self.state, ConnectionState::Open(_, peer) if peer.is_drained())
    }

    fn streams_max(&self) -> u32 {
        match &self.state {
            ConnectionState::Open(_, peer) => peer.streams_max(),
            _ => 0,
        }
    }

    fn resumed(&self) -> bool {
        matches!(&self.state, ConnectionState::Open(channel, _) if channel.resumed())
    }

    fn flush(&mut self) -> Result<(), ConnectionLost> {
        let ConnectionState::Open(channel, peer) = &mut self.state else { return Ok(()) };
        if !channel.is_established() {
            return channel.send(&mut Vec::new());
        }
        loop {
            if channel.is_flushed() {
                peer.write_bodies();
            }
            let moved = if peer.out.is_empty() { channel.flush() } else { channel.push(&peer.out) };
            match moved {
                Transfer::Broken => return Err(ConnectionLost),
                Transfer::Blocked => return Ok(()),
                Transfer::Bytes(_) if peer.out.is_empty() => return Ok(()),
                Transfer::Bytes(count) => drop(peer.out.drain(..count)),
            }
            if !peer.out.is_empty() || !channel.is_flushed() {
                // An event tells when the socket takes more.
                return Ok(());
            }
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received {
        let ConnectionState::Open(channel, peer) = &mut self.state else {
            return Received::Nothing;
        };
        channel.receive(buffer, |plain| peer.feed(plain, expected, ended))
    }
}
