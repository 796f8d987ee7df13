//! HTTP/1.1 as a `Link`: one request at a time.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;

use super::channel::Channel;
use super::link::{ConnectionLost, End, EndedRequest, Link, PeerError, Received};
use super::reader::{Memo, Progress, Reader};
use super::tally::Failure;
use super::wire::{self, OpenResult};
use super::{Expected, Status, Tls};

/// A place for a connection.
#[derive(Default)]
pub(super) struct Connection {
    open: Option<Box<Open>>,
    /// Distinguishes events of the present connection from those of earlier ones.
    generation: u32,
}

struct Open {
    channel: Channel,
    is_connected: bool,
    responses: Responses,
    /// Bytes of a request that the socket has not taken yet.
    out: Vec<u8>,
}

/// The responses of one connection.
#[derive(Default)]
struct Responses {
    /// The slot of the request that was sent.
    current: Option<usize>,
    /// `true`: that request was a HEAD, whose response has no body (RFC 9112, 6.3).
    is_head: bool,
    reader: Reader,
    memo: Memo,
    /// Bytes of the present response.
    bytes: u64,
    /// `true` after a first response.
    is_used: bool,
    /// `true`: the server closes the connection.
    closes: bool,
}

impl Responses {
    fn feed(
        &mut self,
        plain: &[u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        // Bytes without a request violate the protocol.
        let slot = self.current.ok_or(PeerError)?;
        self.bytes += plain.len() as u64;
        let progress = self.reader.feed(plain, expected, &mut self.memo, self.is_head);
        self.note(slot, progress, ended);
        Ok(())
    }

    fn note(&mut self, slot: usize, progress: Progress, ended: &mut Vec<EndedRequest>) {
        let Progress::Done { wrong, close } = progress else { return };
        self.current = None;
        self.is_used = true;
        self.closes |= close;
        let status = Some(Status::Http(self.reader.status()));
        let bytes = std::mem::take(&mut self.bytes);
        ended.push(EndedRequest { slot, how: End::Answer(wrong), bytes, status });
        self.reader.reset();
    }

    /// Handles the end of the connection, which may be that of a response. A request to which a
    /// server did not begin to respond on a kept connection may be sent again (RFC 9112, 9.3.1).
    fn end(&mut self, expected: &Expected, ended: &mut Vec<EndedRequest>) {
        let Some(slot) = self.current else { return };
        if self.reader.is_untouched() && self.is_used {
            self.current = None;
            ended.push(EndedRequest { slot, how: End::Unprocessed, bytes: 0, status: None });
        } else if let Some(progress) = self.reader.ended(expected) {
            self.note(slot, progress, ended);
        }
    }
}

impl Link for Connection {
    const HAS_TIMERS: bool = false;
    const IS_MULTIPLEXED: bool = false;

    fn begin(&mut self, target: SocketAddr, _: Option<&Tls>) -> io::Result<bool> {
        self.generation = self.generation.wrapping_add(1);
        let OpenResult::Begun(socket) = wire::open(target)? else { return Ok(false) };
        self.open = Some(Box::new(Open {
            channel: Channel::new(socket),
            is_connected: false,
            responses: Responses::default(),
            out: Vec::new(),
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
        self.open.as_ref().is_some_and(|open| open.is_connected && open.channel.is_established())
    }

    fn may_ask(&self) -> bool {
        self.is_ready() && !self.is_drained()
    }

    fn streams_max(&self) -> u32 {
        1
    }

    fn resumed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.channel.resumed())
    }

    fn ask(&mut self, slot: usize, head: &[u8], _: Bytes) -> Result<u64, PeerError> {
        let open = self.open.as_mut().filter(|open| open.responses.current.is_none());
        let open = open.ok_or(PeerError)?;
        open.responses.current = Some(slot);
        open.responses.is_head = head.starts_with(b"HEAD ");
        open.out.extend_from_slice(head);
        Ok(slot as u64)
    }

    /// A response cannot be given up without its connection.
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
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received {
        let Some(open) = &mut self.open else { return Received::Nothing };
        let Open { channel, responses, .. } = &mut **open;
        let received = channel.receive(buffer, |plain| responses.feed(plain, expected, ended));
        if matches!(received, Received::Lost(Failure::Reset)) {
            responses.end(expected, ended);
        }
        received
    }

    fn is_drained(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.responses.closes)
    }

    fn is_shut(&self) -> bool {
        self.open.is_none()
    }

    fn shut(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.open = None;
    }
}
