//! A connection of the generator, in clear text or encrypted.

use std::os::fd::OwnedFd;

use rustls::Error;

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

    /// Sends waiting bytes.
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

    /// `true` if no bytes wait to be sent.
    pub(super) fn is_flushed(&mut self) -> bool {
        self.session.as_mut().is_none_or(|session| session.output().is_empty())
    }
}
