//! A connection of the generator, in clear text or encrypted.

use std::os::fd::OwnedFd;

use rustls::Error;

use super::link::{ConnectionLost, PeerError, Received};
use super::tally::Failure;
use super::tls::{Session, Tls};
use super::wire::{self, Transfer};

/// A socket and its encryption.
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    pub(super) session: Option<Box<Session>>,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Channel {
        Channel { socket, session: None }
    }

    /// Begins a handshake on an established connection; its hello waits to be sent.
    pub(super) fn secure(&mut self, tls: &Tls) -> Result<(), Error> {
        self.session = Some(Box::new(Session::new(tls)?));
        Ok(())
    }

    /// Sends; returns the number of accepted bytes. With TLS all or none are accepted, and some may
    /// still wait for the socket.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Transfer {
        let Some(session) = &mut self.session else { return wire::push(&self.socket, bytes) };
        if !bytes.is_empty() && session.seal(bytes).is_err() {
            return Transfer::Broken;
        }
        match self.flush() {
            Transfer::Broken => Transfer::Broken,
            _ => Transfer::Bytes(bytes.len()),
        }
    }

    pub(super) fn flush(&mut self) -> Transfer {
        let Some(session) = &mut self.session else { return Transfer::Bytes(0) };
        let out = session.output();
        if out.is_empty() {
            return Transfer::Bytes(0);
        }
        let moved = wire::push(&self.socket, out);
        if let Transfer::Bytes(count) = moved {
            out.drain(..count);
        }
        moved
    }

    /// `true` once bytes may be sent over a connection: at once in clear text.
    pub(super) fn is_established(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_established())
    }

    /// `true` if the handshake was resumed.
    pub(super) fn resumed(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.resumed())
    }

    /// Sends these bytes once it is established, as far as the socket takes them; the others stay,
    /// and an event tells when it takes more.
    pub(super) fn send(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectionLost> {
        let is_ready = self.is_established() && !out.is_empty();
        let moved = if is_ready { self.push(out) } else { self.flush() };
        match moved {
            Transfer::Broken => return Err(ConnectionLost),
            Transfer::Bytes(count) if is_ready => drop(out.drain(..count)),
            _ => {}
        }
        Ok(())
    }

    /// Receives once; `feed` gets the bytes, decrypted.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        mut feed: impl FnMut(&[u8]) -> Result<(), PeerError>,
    ) -> Received {
        let held = self.session.as_ref().map_or(0, |session| session.held().len());
        if let Some(session) = &self.session {
            buffer[..held].copy_from_slice(session.held());
        }
        let count = match wire::receive(&self.socket, &mut buffer[held..]) {
            Transfer::Bytes(0) | Transfer::Broken => return Received::Lost(Failure::Reset),
            Transfer::Bytes(count) => count,
            Transfer::Blocked => return Received::Nothing,
        };
        let drained = held + count < buffer.len();
        let Some(session) = &mut self.session else {
            return match feed(&buffer[..count]) {
                Ok(()) => Received::Some { drained },
                Err(PeerError) => Received::Lost(Failure::Protocol),
            };
        };
        let was_established = session.is_established();
        let mut fed = Ok(());
        let opened = session.open(&mut buffer[..held + count], |plain| {
            if fed.is_ok() {
                fed = feed(plain);
            }
        });
        let agreed = was_established || !session.is_established() || session.agreed();
        match (opened, fed) {
            (Err(_), _) => Received::Lost(Failure::Tls),
            (Ok(()), _) if !agreed => Received::Lost(Failure::Tls),
            (Ok(()), Err(PeerError)) => Received::Lost(Failure::Protocol),
            (Ok(()), Ok(())) => Received::Some { drained },
        }
    }

    /// `true` if no bytes wait to be sent.
    pub(super) fn is_flushed(&mut self) -> bool {
        self.session.as_mut().is_none_or(|session| session.output().is_empty())
    }
}
