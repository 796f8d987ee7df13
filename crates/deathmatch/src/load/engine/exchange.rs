//! The engine's work on one connection: open it, shake hands, send a request, receive its response.

use std::io;

use rustix::event::epoll::EventFlags;

use super::{Engine, GONE, token};
use crate::load::Status;
use crate::load::channel::Channel;
use crate::load::pool::{Call, State};
use crate::load::reader::{Progress, ResponseFault};
use crate::load::tally::{Failure, Reply};
use crate::load::wire::{self, HEAD_RECEIVE_BYTES, OpenResult, Transfer};
use crate::sample::Offered;

/// Result of one receive.
enum Received {
    Bytes {
        step: Progress,
        /// The socket is drained.
        drained: bool,
    },
    Nothing,
    /// The server has ended its side.
    End,
    Broken,
    /// Not valid TLS.
    Garbled,
}

impl Engine<'_> {
    pub(super) fn open(&mut self, index: usize) -> io::Result<()> {
        let opened = match &self.job.client.socket {
            Some(path) => wire::open_unix(path)?,
            None => wire::open(self.job.target)?,
        };
        let slot = &mut self.pool.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.reused = false;
        let OpenResult::Begun(socket) = opened else { return self.refused(index) };
        slot.state = State::Connecting;
        self.poll.add(&socket, token(index, slot.generation))?;
        slot.channel = Some(Channel::new(socket));
        Ok(())
    }

    pub(super) fn send(&mut self, index: usize, now: u64) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        slot.reader.reset();
        slot.state = State::Busy { pushed: 0 };
        if let Some(call) = &mut slot.call {
            call.sent = now;
            call.bytes = 0;
        }
        self.push(index)
    }

    fn push(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let (State::Busy { pushed }, Some(channel), Some(call)) =
            (&mut slot.state, &mut slot.channel, &slot.call)
        else {
            return Ok(());
        };
        match channel.push(&self.job.requests[call.which][*pushed..]) {
            Transfer::Bytes(count) => *pushed += count,
            Transfer::Blocked => {}
            Transfer::Broken => return self.handle_close(index),
        }
        Ok(())
    }

    pub(super) fn handle(&mut self, event: u64, flags: EventFlags) -> io::Result<()> {
        let index = usize::try_from(event & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let Some(slot) = self.pool.slots.get_mut(index) else { return Ok(()) };
        if event != token(index, slot.generation) {
            return Ok(());
        }
        match slot.state {
            State::Shut => return Ok(()),
            State::Connecting => return self.connected(index),
            _ if flags.contains(EventFlags::OUT) => self.resume(index)?,
            _ => {}
        }
        let same = self.pool.slots[index].generation == (event >> 32) as u32;
        if same && flags.intersects(EventFlags::IN | GONE) {
            return self.take(index, flags.intersects(GONE));
        }
        Ok(())
    }

    /// Sends bytes that the socket did not accept before.
    fn resume(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let Some(channel) = &mut slot.channel else { return Ok(()) };
        let whole = slot.call.map_or(0, |call| self.job.requests[call.which].len());
        match slot.state {
            State::Busy { pushed } if pushed < whole || !channel.is_flushed() => self.push(index),
            State::Handshake if matches!(channel.flush(), Transfer::Broken) => {
                self.handle_close(index)
            }
            _ => Ok(()),
        }
    }

    fn connected(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let Some(channel) = slot.channel.as_mut().filter(|c| wire::connected(&c.socket)) else {
            return self.refused(index);
        };
        self.tally.connection();
        let Some(tls) = &self.job.tls else { return self.handle_established(index) };
        slot.state = State::Handshake;
        // A fault of the generator, before any byte was sent.
        channel.secure(tls).map_err(io::Error::other)?;
        match channel.flush() {
            Transfer::Broken => self.handle_close(index),
            _ => Ok(()),
        }
    }

    /// Continues on an established connection.
    fn handle_established(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        if slot.call.is_some() {
            let now = self.now();
            return self.send(index, now);
        }
        slot.reused = true;
        self.release(index, false);
        Ok(())
    }

    /// Continues after the handshake.
    fn handle_handshake_end(&mut self, index: usize) -> io::Result<()> {
        let now = self.now();
        let slot = &mut self.pool.slots[index];
        let Some(channel) = &mut slot.channel else { return Ok(()) };
        let Some(session) = &channel.session else { return Ok(()) };
        if !session.agreed() {
            return self.garbled(index);
        }
        // With the request the connection was made for, if any.
        let at = slot.call.map_or(now, |call| call.intended);
        self.tally.handshake(at, session.resumed());
        // If a request follows, both leave in one piece.
        if slot.call.is_none() && matches!(channel.flush(), Transfer::Broken) {
            return self.handle_close(index);
        }
        self.handle_established(index)
    }

    /// Receives until the response is complete or the socket drained.
    fn take(&mut self, index: usize, gone: bool) -> io::Result<()> {
        loop {
            let (step, drained) = match self.receive(index) {
                Received::Bytes { step, drained } => (step, drained && !gone),
                Received::Nothing => return Ok(()),
                Received::End => return self.ended(index),
                Received::Broken => return self.handle_close(index),
                Received::Garbled => return self.garbled(index),
            };
            let slot = &mut self.pool.slots[index];
            let is_established =
                || slot.channel.as_ref()?.session.as_ref().map(|s| s.is_established());
            match (slot.state, step) {
                (State::Handshake, Progress::More) if is_established() == Some(true) => {
                    self.handle_handshake_end(index)?;
                }
                (State::Busy { .. }, Progress::Done { wrong, .. }) if self.job.is_anew() => {
                    slot.state = State::Closing { wrong };
                }
                (State::Busy { .. }, Progress::Done { wrong, close }) => {
                    return self.complete(index, wrong, close || gone);
                }
                (State::Closing { wrong }, Progress::Done { wrong: more, .. }) => {
                    slot.state = State::Closing { wrong: wrong.or(more) };
                }
                // Unsolicited data (RFC 9112, 9.2).
                (_, Progress::Done { .. }) => return self.handle_close(index),
                (_, Progress::More) => {}
            }
            if drained {
                return Ok(());
            }
        }
    }

    /// Receives once, and reads the bytes.
    fn receive(&mut self, index: usize) -> Received {
        let expected = &self.job.expected;
        let slot = &mut self.pool.slots[index];
        let Some(channel) = &mut slot.channel else { return Received::Nothing };
        let busy = matches!(slot.state, State::Busy { .. });
        let secure = channel.session.as_mut();
        let discard = secure.is_none() && busy && slot.reader.may_discard(expected);
        let head_only = secure.is_none() && self.discards && slot.reader.in_head();
        let held = secure.as_ref().map_or(0, |session| session.held().len());
        if let Some(session) = &secure {
            self.buffer[..held].copy_from_slice(session.held());
        }
        let wanted = if head_only { HEAD_RECEIVE_BYTES } else { self.buffer.len() - held };
        let how = if discard { wire::discard } else { wire::receive };
        let count = match how(&channel.socket, &mut self.buffer[held..held + wanted]) {
            Transfer::Bytes(0) => return Received::End,
            Transfer::Bytes(count) => count,
            Transfer::Blocked => return Received::Nothing,
            Transfer::Broken => return Received::Broken,
        };
        self.tally.read(self.turn);
        let (reader, memo) = (&mut slot.reader, &mut self.memo);
        let bodyless = slot.call.is_some_and(|call| self.bodyless[call.which]);
        let (mut step, mut bytes) = (Progress::More, 0);
        let mut feed = |plain: &[u8]| {
            bytes += plain.len() as u64;
            step = match step {
                Progress::More if busy => reader.feed(plain, expected, memo, bodyless),
                _ => Progress::Done { wrong: Some(ResponseFault::Bytes), close: true },
            };
        };
        let received = &mut self.buffer[..held + count];
        if let Some(session) = secure {
            if session.open(received, feed).is_err() {
                return Received::Garbled;
            }
        } else if discard {
            step = reader.skip(count as u64, expected);
            bytes = count as u64;
        } else {
            feed(received);
        }
        if let Some(call) = &mut slot.call {
            call.bytes += bytes;
        }
        Received::Bytes { step, drained: count < wanted }
    }

    /// Handles the connection's end.
    fn ended(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let over = match slot.state {
            State::Busy { .. } => slot.reader.ended(&self.job.expected),
            State::Closing { wrong } => Some(Progress::Done { wrong, close: true }),
            _ => None,
        };
        match over {
            Some(Progress::Done { wrong, .. }) => self.complete(index, wrong, true),
            _ => self.handle_close(index),
        }
    }

    /// Handles a complete response: the next call, or the slot is free.
    fn complete(
        &mut self,
        index: usize,
        wrong: Option<ResponseFault>,
        close: bool,
    ) -> io::Result<()> {
        let now = self.now();
        let slot = &mut self.pool.slots[index];
        slot.reused = true;
        let Some(call) = slot.call.take() else { return Ok(()) };
        // A response before the end of its request ends the connection (RFC 9112, 9.5).
        let whole = State::Busy { pushed: self.job.requests[call.which].len() };
        let sent = slot.channel.as_mut().is_some_and(Channel::is_flushed) && slot.state == whole;
        let close = close || !sent;
        let Call { intended, which, began, sent, bytes, .. } = call;
        let status = Some(Status::Http(slot.reader.status()));
        let reply = Reply { intended, which, began, sent, ended: now, bytes, status };
        match wrong {
            Some(wrong) => self.tally.fail(intended, which, Failure::Response(wrong), 1),
            None => self.tally.reply(&reply),
        }
        let next = Call { began: now, left: call.left - 1, retried: false, ..call };
        let next = match self.job.offered {
            Offered::Closed { .. } if self.tally.is_open(now) => {
                self.tally.intend(now, 1);
                Some(Call { intended: now, left: 1, ..next })
            }
            Offered::Sessions { .. } if next.left > 0 => Some(next),
            _ => None,
        };
        let Some(mut next) = next else {
            self.calls -= 1;
            self.release(index, close || matches!(self.job.offered, Offered::Sessions { .. }));
            return Ok(());
        };
        if close {
            self.pool.slots[index].channel = None;
        }
        next.which = self.job.choose(&mut self.chosen);
        self.proceed(index, next, now)
    }

    /// Handles a connection that ended before the response. If it was an idle one, and no byte of
    /// the response came, the server may have closed it just before the request arrived: the
    /// request is sent once more on a new connection (RFC 9112, 9.3.1), and its time goes on.
    pub(super) fn handle_close(&mut self, index: usize) -> io::Result<()> {
        match self.pool.slots[index].state {
            State::Idle => {
                self.pool.drop_connection(index, self.now());
                return Ok(());
            }
            State::Closing { wrong } => return self.complete(index, wrong, true),
            _ => {}
        }
        let slot = &mut self.pool.slots[index];
        let raced = slot.reused && slot.reader.is_untouched();
        if let Some(call) = slot.call.as_mut().filter(|call| raced && !call.retried) {
            call.retried = true;
            slot.channel = None;
            return self.open(index);
        }
        self.fail(index, Failure::Reset);
        Ok(())
    }

    /// Fails a connection whose bytes cannot be decrypted or do not follow the protocol agreed on.
    fn garbled(&mut self, index: usize) -> io::Result<()> {
        match self.pool.slots[index].state {
            State::Idle => self.pool.drop_connection(index, self.now()),
            _ => self.fail(index, Failure::Tls),
        }
        Ok(())
    }
}
