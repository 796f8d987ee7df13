//! HTTP/1.1 over TLS as a `Link`: requests wait until the response before them is complete.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::channel::Channel;
use bytes::Bytes;

use super::link::{ConnectionLost, End, EndedRequest, Link, PeerError, Received};
use super::reader::{Memo, Progress, Reader};
use super::tally::Failure;
use super::wire::{self, OpenResult, Transfer};
use super::{Expected, Tls};

/// A place for a connection.
#[derive(Default)]
pub(super) struct Connection {
    open: Option<Open>,
    /// Distinguishes events of the present connection from those of earlier ones.
    generation: u32,
}

struct Open {
    channel: Channel,
    /// Requests that are not sent yet, with their slots.
    waiting: VecDeque<(usize, Vec<u8>)>,
    /// The slot of the request that was sent.
    current: Option<usize>,
    reader: Reader,
    memo: Memo,
    /// Bytes of the present response.
    bytes: u64,
}

impl Open {
    fn is_established(&self) -> bool {
        self.channel.session.as_ref().is_some_and(|session| session.is_established())
    }
}

impl Link for Connection {
    const HAS_TIMERS: bool = false;

    fn begin(&mut self, target: SocketAddr, _: Option<&Tls>) -> io::Result<bool> {
        self.generation = self.generation.wrapping_add(1);
        let OpenResult::Begun(socket) = wire::open(target)? else { return Ok(false) };
        self.open = Some(Open {
            channel: Channel::new(socket),
            waiting: VecDeque::new(),
            current: None,
            reader: Reader::default(),
            memo: Memo::default(),
            bytes: 0,
        });
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
        if open.channel.session.is_some() {
            return Ok(true);
        }
        if !wire::connected(&open.channel.socket) {
            return Ok(false);
        }
        let Some(tls) = tls else { return Ok(true) };
        open.channel.secure(tls).map_err(io::Error::other)?;
        Ok(!matches!(open.channel.flush(), Transfer::Broken))
    }

    fn is_ready(&self) -> bool {
        self.open.as_ref().is_some_and(Open::is_established)
    }

    /// All requests but one wait, however many there are.
    fn streams_max(&self) -> u32 {
        u32::MAX
    }

    fn resumed(&self) -> bool {
        let session = self.open.as_ref().and_then(|open| open.channel.session.as_ref());
        session.is_some_and(|session| session.resumed())
    }

    fn ask(&mut self, slot: usize, (request, _): (&[u8], Bytes)) -> Result<u64, PeerError> {
        let open = self.open.as_mut().ok_or(PeerError)?;
        open.waiting.push_back((slot, request.to_vec()));
        Ok(slot as u64)
    }

    /// A response cannot be given up without its connection.
    fn cancel(&mut self, _: u64) {
        self.shut();
    }

    fn flush(&mut self) -> Result<(), ConnectionLost> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let may_send = open.current.is_none() && open.is_established();
        let moved = match open.waiting.pop_front_if(|_| may_send) {
            Some((slot, request)) => {
                open.current = Some(slot);
                open.channel.push(&request)
            }
            None => open.channel.flush(),
        };
        if matches!(moved, Transfer::Broken) { Err(ConnectionLost) } else { Ok(()) }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received {
        let Some(open) = &mut self.open else { return Received::Nothing };
        let Open { channel, current, reader, memo, bytes, .. } = open;
        let Some(session) = &mut channel.session else { return Received::Nothing };
        let held = session.held().len();
        buffer[..held].copy_from_slice(session.held());
        let count = match wire::receive(&channel.socket, &mut buffer[held..]) {
            Transfer::Bytes(0) | Transfer::Broken => return Received::Lost(Failure::Reset),
            Transfer::Bytes(count) => count,
            Transfer::Blocked => return Received::Nothing,
        };
        let mut is_asked = true;
        let opened = session.open(&mut buffer[..held + count], |plain| {
            *bytes += plain.len() as u64;
            let progress = reader.feed(plain, expected, memo, false);
            // Bytes without a request violate the protocol; an end of the connection shows later.
            if current.is_none() {
                is_asked = false;
            }
            if let Progress::Done { wrong, .. } = progress
                && let Some(slot) = current.take()
            {
                let status = Some(reader.status());
                let bytes = std::mem::take(bytes);
                ended.push(EndedRequest { slot, how: End::Answer(wrong), bytes, status });
                reader.reset();
            }
        });
        match opened {
            Err(_) => Received::Lost(Failure::Tls),
            Ok(()) if !is_asked => Received::Lost(Failure::Reset),
            Ok(()) => Received::Some { drained: held + count < buffer.len() },
        }
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
