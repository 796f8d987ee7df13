//! The upstream's end of a tunnel: a connection, or a stream of one (RFC 8441).

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use super::link::Channel;
use super::place::Place;
use crate::protocol::reading::Reading;
use crate::transport::{Attempt, Fill, Input, SendQueue, Transport};

/// An upstream that has switched protocols. It keeps nothing of the configuration.
pub(crate) struct TunnelEnd {
    channel: Channel,
    /// The state of reading from a stream, whose body is the tunnel's bytes (RFC 8441 section 5).
    reading: RefCell<Reading>,
    /// Held for its `Drop`.
    _place: Option<Place>,
}

impl TunnelEnd {
    pub(super) fn new(channel: Channel, place: Option<Place>) -> TunnelEnd {
        TunnelEnd { channel, reading: RefCell::new(Reading::Frames), _place: place }
    }

    /// Reads more bytes. 0 is the end.
    ///
    /// # Errors
    /// Those of the channel.
    pub(crate) fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
    ) -> Poll<io::Result<usize>> {
        match &self.channel {
            Channel::Socket(io) => io.poll_fill(cx, input, Fill::Body),
            Channel::Stream(stream) => {
                let mut reading = self.reading.borrow_mut();
                match *reading {
                    Reading::Frames => stream.poll_fill(cx, input, &mut reading),
                    _ => Poll::Ready(Ok(0)),
                }
            }
        }
    }

    /// Takes bytes from the front of the queue.
    ///
    /// # Errors
    /// Those of the channel.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
    ) -> Poll<io::Result<usize>> {
        match &self.channel {
            Channel::Socket(io) => io.poll_send(cx, queue, Attempt::Ready),
            Channel::Stream(stream) => {
                let room = ready!(stream.poll_room(cx, queue.len()))?;
                Poll::Ready(stream.put(queue.take_bytes(room), false).map(|()| room))
            }
        }
    }

    /// Waits until the taken bytes are on their way.
    ///
    /// # Errors
    /// Those of the channel.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.channel {
            Channel::Socket(io) => io.poll_flush(cx, Attempt::Ready),
            // The connection's task writes the frames.
            Channel::Stream(_) => Poll::Ready(Ok(())),
        }
    }

    /// Ends the sending side; receiving goes on.
    pub(crate) fn finish(&self) {
        match &self.channel {
            Channel::Socket(io) => io.finish(),
            // The upstream may be gone.
            Channel::Stream(stream) => drop(stream.end(None)),
        }
    }
}
