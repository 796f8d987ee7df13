//! What the engine does on one connection: opens it, shakes hands, sends a request, takes its answer.

use std::io;

use rustix::event::epoll::EventFlags;

use super::{Engine, GONE, token};
use crate::load::channel::Channel;
use crate::load::pool::{Call, State};
use crate::load::reader::{Step, Wrong};
use crate::load::tally::{Failure, Reply};
use crate::load::wire::{self, HEAD_RECEIVE_BYTES, Moved, Opened};
use crate::sample::Offered;

/// What one receive brought.
enum Came {
    Bytes {
        step: Step,
        /// There is no more.
        drained: bool,
    },
    Nothing,
    /// The server sends no more.
    End,
    Broken,
    /// Not TLS, or not as it must be.
    Garbled,
}

impl Engine<'_> {
    pub(super) fn open(&mut self, index: usize) -> io::Result<()> {
        let opened = wire::open(self.job.target)?;
        let slot = &mut self.pool.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.reused = false;
        let Opened::Begun(socket) = opened else { return self.refused(index) };
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
            Moved::Bytes(count) => *pushed += count,
            Moved::Blocked => {}
            Moved::Broken => return self.broken(index),
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

    /// Sends what the socket did not take before.
    fn resume(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let Some(channel) = &mut slot.channel else { return Ok(()) };
        let whole = slot.call.map_or(0, |call| self.job.requests[call.which].len());
        match slot.state {
            State::Busy { pushed } if pushed < whole || !channel.is_flushed() => self.push(index),
            State::Handshake if matches!(channel.flush(), Moved::Broken) => self.broken(index),
            _ => Ok(()),
        }
    }

    fn connected(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let Some(channel) = slot.channel.as_mut().filter(|c| wire::connected(&c.socket)) else {
            return self.refused(index);
        };
        let Some(tls) = &self.job.tls else { return self.stands(index) };
        slot.state = State::Handshake;
        // Its own fault, and that before anything was sent.
        channel.secure(tls).map_err(io::Error::other)?;
        match channel.flush() {
            Moved::Broken => self.broken(index),
            _ => Ok(()),
        }
    }

    /// The connection can be used.
    fn stands(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        if slot.call.is_some() {
            let now = self.now();
            return self.send(index, now);
        }
        slot.reused = true;
        self.release(index, false);
        Ok(())
    }

    /// The handshake is over.
    fn shaken(&mut self, index: usize) -> io::Result<()> {
        let now = self.now();
        let slot = &mut self.pool.slots[index];
        let Some(channel) = &mut slot.channel else { return Ok(()) };
        let Some(session) = &channel.session else { return Ok(()) };
        if !session.agreed() {
            return self.garbled(index);
        }
        // With the request it was made for, where there is one.
        let at = slot.call.map_or(now, |call| call.intended);
        self.tally.handshake(at, session.resumed());
        // Before a request it leaves with that in one piece.
        if slot.call.is_none() && matches!(channel.flush(), Moved::Broken) {
            return self.broken(index);
        }
        self.stands(index)
    }

    /// Receives until the answer is over or the socket drained.
    fn take(&mut self, index: usize, gone: bool) -> io::Result<()> {
        loop {
            let (step, drained) = match self.receive(index) {
                Came::Bytes { step, drained } => (step, drained && !gone),
                Came::Nothing => return Ok(()),
                Came::End => return self.ended(index),
                Came::Broken => return self.broken(index),
                Came::Garbled => return self.garbled(index),
            };
            let slot = &mut self.pool.slots[index];
            let stands = || slot.channel.as_ref()?.session.as_ref().map(|s| s.stands());
            match (slot.state, step) {
                (State::Handshake, Step::More) if stands() == Some(true) => self.shaken(index)?,
                (State::Busy { .. }, Step::Done { wrong, .. }) if self.job.anew() => {
                    slot.state = State::Closing { wrong };
                }
                (State::Busy { .. }, Step::Done { wrong, close }) => {
                    return self.complete(index, wrong, close || gone);
                }
                (State::Closing { wrong }, Step::Done { wrong: more, .. }) => {
                    slot.state = State::Closing { wrong: wrong.or(more) };
                }
                // Data came that nobody asked for (RFC 9112, 9.2).
                (_, Step::Done { .. }) => return self.broken(index),
                (_, Step::More) => {}
            }
            if drained {
                return Ok(());
            }
        }
    }

    /// Receives once, and has it read.
    fn receive(&mut self, index: usize) -> Came {
        let expected = &self.job.expected;
        let slot = &mut self.pool.slots[index];
        let Some(channel) = &mut slot.channel else { return Came::Nothing };
        let busy = matches!(slot.state, State::Busy { .. });
        let secure = channel.session.as_mut();
        let discard = secure.is_none() && busy && slot.reader.may_discard(expected);
        let head_only = secure.is_none() && self.discards && slot.reader.in_head();
        let held = secure.as_ref().map_or(0, |session| session.held().len());
        if let Some(session) = &secure {
            self.buffer[..held].copy_from_slice(session.held());
        }
        let asked = if head_only { HEAD_RECEIVE_BYTES } else { self.buffer.len() - held };
        let how = if discard { wire::discard } else { wire::receive };
        let count = match how(&channel.socket, &mut self.buffer[held..held + asked]) {
            Moved::Bytes(0) => return Came::End,
            Moved::Bytes(count) => count,
            Moved::Blocked => return Came::Nothing,
            Moved::Broken => return Came::Broken,
        };
        self.tally.read(self.turn);
        let (reader, memo) = (&mut slot.reader, &mut self.memo);
        let (mut step, mut bytes) = (Step::More, 0);
        let mut feed = |plain: &[u8]| {
            bytes += plain.len() as u64;
            step = match step {
                Step::More if busy => reader.feed(plain, expected, memo, self.bodyless),
                _ => Step::Done { wrong: Some(Wrong::Bytes), close: true },
            };
        };
        let came = &mut self.buffer[..held + count];
        if let Some(session) = secure {
            if session.open(came, feed).is_err() {
                return Came::Garbled;
            }
        } else if discard {
            step = reader.skip(count as u64, expected);
            bytes = count as u64;
        } else {
            feed(came);
        }
        if let Some(call) = &mut slot.call {
            call.bytes += bytes;
        }
        Came::Bytes { step, drained: count < asked }
    }

    /// The server ended the connection.
    fn ended(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.pool.slots[index];
        let over = match slot.state {
            State::Busy { .. } => slot.reader.ended(&self.job.expected),
            State::Closing { wrong } => Some(Step::Done { wrong, close: true }),
            _ => None,
        };
        match over {
            Some(Step::Done { wrong, .. }) => self.complete(index, wrong, true),
            _ => self.broken(index),
        }
    }

    /// An answer is over: the next call, or the slot is free.
    fn complete(&mut self, index: usize, wrong: Option<Wrong>, close: bool) -> io::Result<()> {
        let now = self.now();
        let slot = &mut self.pool.slots[index];
        slot.reused = true;
        let Some(call) = slot.call.take() else { return Ok(()) };
        // An answer that came before its request had left ends the connection (RFC 9112, 9.5).
        let whole = State::Busy { pushed: self.job.requests[call.which].len() };
        let sent = slot.channel.as_mut().is_some_and(Channel::is_flushed) && slot.state == whole;
        let close = close || !sent;
        let Call { intended, began, sent, bytes, .. } = call;
        match wrong {
            Some(wrong) => self.tally.fail(intended, Failure::Wrong(wrong), 1),
            None => self.tally.reply(&Reply { intended, began, sent, ended: now, bytes }),
        }
        let next = Call { began: now, left: call.left - 1, retried: false, ..call };
        let next = match self.job.offered {
            Offered::Closed { .. } if now < self.tally.to() => {
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
        next.which = self.choose();
        self.proceed(index, next, now)
    }

    /// The connection ended before the answer did. Where it had stood before and nothing of the
    /// answer came, the server may have closed it just before the request reached it: that is sent
    /// once more over a new one (RFC 9112, 9.3.1), and its time goes on.
    pub(super) fn broken(&mut self, index: usize) -> io::Result<()> {
        match self.pool.slots[index].state {
            State::Idle => {
                self.pool.lose(index, self.now());
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

    /// What came cannot be decrypted, or is not what was agreed on.
    fn garbled(&mut self, index: usize) -> io::Result<()> {
        match self.pool.slots[index].state {
            State::Idle => self.pool.lose(index, self.now()),
            _ => self.fail(index, Failure::Tls),
        }
        Ok(())
    }
}
