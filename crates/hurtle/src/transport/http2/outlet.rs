//! How a stream's data leaves: within its windows, within what the connection keeps for all, and, of
//! a known length, in turn.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::SendStream;

use super::{Channel, SEND_BYTES_MAX};
use crate::semantics::priority::Priority;

/// A stream's.
pub(super) struct Outlet {
    stream: u32,
    priority: Priority,
    channel: Rc<Channel>,
}

impl Outlet {
    pub(super) fn new(stream: u32, priority: Priority, channel: Rc<Channel>) -> Outlet {
        Outlet { stream, priority, channel }
    }

    /// Waits until some of so many bytes may be queued; how many.
    pub(super) fn room(
        &self,
        frames: &mut SendStream<Bytes>,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        if !self.channel.backlog.has_room(self.stream, cx) {
            return yielded(frames, cx);
        }
        let most = most.min(SEND_BYTES_MAX);
        frames.reserve_capacity(most);
        loop {
            match frames.capacity() {
                0 => match frames.poll_capacity(cx) {
                    Poll::Ready(Some(grown)) => drop(grown.map_err(io::Error::other)?),
                    Poll::Ready(None) => {
                        return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                    }
                    Poll::Pending => {
                        self.channel.backlog.forget(self.stream);
                        return Poll::Pending;
                    }
                },
                n => return Poll::Ready(Ok(n.min(most))),
            }
        }
    }

    /// The same, once it is this stream's turn.
    pub(super) fn room_in_turn(
        &self,
        frames: &mut SendStream<Bytes>,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let turns = &self.channel.turns;
        if turns.is_passed_over(self.stream) {
            ready!(self.room(frames, cx, most))?;
            turns.come_back(self.stream);
        }
        if !turns.has(self.stream, self.priority, cx) {
            return yielded(frames, cx);
        }
        let room = self.room(frames, cx, most);
        if room.is_pending() {
            turns.stands(self.stream);
        }
        room
    }

    pub(super) fn send(
        &self,
        frames: &mut SendStream<Bytes>,
        bytes: Bytes,
        last: bool,
    ) -> io::Result<()> {
        self.channel.backlog.add(self.stream, bytes.len());
        frames.send_data(bytes, last).map_err(io::Error::other)
    }

    /// The same, in this stream's turn.
    pub(super) fn send_in_turn(
        &self,
        frames: &mut SendStream<Bytes>,
        bytes: Bytes,
        last: bool,
    ) -> io::Result<()> {
        self.send(frames, bytes, last)?;
        match last {
            true => self.channel.turns.leave(self.stream),
            false => self.channel.turns.sent(self.stream),
        }
        Ok(())
    }

    /// It has nothing more to send.
    pub(super) fn leave(&self) {
        self.channel.turns.leave(self.stream);
        self.channel.backlog.forget(self.stream);
    }

    /// What has left, while that is what it waits for: it is not the peer who is late.
    pub(super) fn sent_by_others(&self) -> u64 {
        let Channel { turns, backlog, pulse, .. } = &*self.channel;
        let waits = turns.is_waiting(self.stream) || backlog.holds(self.stream);
        if waits { pulse.sent() } else { 0 }
    }
}

/// Waits for what is not the peer's to give. What was kept for it others may have; it learns all the
/// same when nobody wants it any more.
fn yielded(frames: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    frames.reserve_capacity(0);
    frames.poll_reset(cx).map(|_| Err(io::ErrorKind::BrokenPipe.into()))
}
