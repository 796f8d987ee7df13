//! A connection of the generator's, in clear or encrypted.

use std::os::fd::OwnedFd;

use rustls::Error;

use super::tls::{Session, Tls};
use super::wire::{self, Moved};

/// A socket, and what is encrypted on it.
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    pub(super) session: Option<Box<Session>>,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Channel {
        Channel { socket, session: None }
    }

    /// Begins a handshake on a connection that stands; its hello waits to be sent.
    pub(super) fn secure(&mut self, tls: &Tls) -> Result<(), Error> {
        self.session = Some(Box::new(Session::new(tls)?));
        Ok(())
    }

    /// Sends. How many of these bytes are on their way; encrypted, it is all or none, and some may wait
    /// for the socket.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Moved {
        let Some(session) = &mut self.session else { return wire::push(&self.socket, bytes) };
        if !bytes.is_empty() && session.seal(bytes).is_err() {
            return Moved::Broken;
        }
        match self.flush() {
            Moved::Broken => Moved::Broken,
            _ => Moved::Bytes(bytes.len()),
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self) -> Moved {
        let Some(session) = &mut self.session else { return Moved::Bytes(0) };
        let out = session.out();
        if out.is_empty() {
            return Moved::Bytes(0);
        }
        let moved = wire::push(&self.socket, out);
        if let Moved::Bytes(count) = moved {
            out.drain(..count);
        }
        moved
    }

    /// Whether nothing waits.
    pub(super) fn is_flushed(&mut self) -> bool {
        self.session.as_mut().is_none_or(|session| session.out().is_empty())
    }
}
