//! The socket of a connection during one exchange, for a handler that sends while the request's
//! body arrives.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use http::StatusCode;

use super::exchange::Exchange;
use super::pace::BodyPace;
use crate::clock::NEVER;
use crate::config::Limits;
use crate::handler::client::{ExchangeError, InterimSender, Sending};
use crate::metrics::Counter;
use crate::protocol::reading::Reading;
use crate::protocol::{InterimFields, Protocol};
use crate::transport::{Attempt, Input, Meter, Output, SendQueue};

/// A connection's socket during one exchange.
pub(super) struct Duplex<'a, T> {
    pub(super) io: &'a T,
    exchange: &'a Exchange,
    /// Bytes received from clients; `None`: the connection of the stream counts them.
    received: Option<&'a Counter>,
    /// `true` if bytes wait for the peer to read earlier ones.
    queued: Cell<bool>,
    /// `true` if the handler got a frame of the body since it was polled.
    has_fed: Cell<bool>,
    /// The lowest rate of the request body.
    pub(super) pace: BodyPace,
    /// Time by which the peer must send more bytes, in milliseconds, if the exchange waits for
    /// them.
    more_by_ms: Cell<u64>,
}

impl<'a, T: Protocol> Duplex<'a, T> {
    /// Creates the socket of an exchange that sends and receives nothing yet.
    pub(super) fn new(
        io: &'a T,
        exchange: &'a Exchange,
        limits: &Limits,
        received: &'a Counter,
    ) -> Duplex<'a, T> {
        let (queued, has_fed, more_by_ms) = (Cell::new(false), Cell::new(false), Cell::new(NEVER));
        let pace = exchange.body_pace(limits);
        let received = io.raw().map(|_| received);
        Duplex { io, exchange, received, queued, has_fed, pace, more_by_ms }
    }
}

/// Ends the deadline for more bytes once none are awaited.
struct AwaitedUntil<'a>(&'a Cell<u64>);

impl Drop for AwaitedUntil<'_> {
    fn drop(&mut self) {
        self.0.set(NEVER);
    }
}

impl<T: Protocol> Duplex<'_, T> {
    /// Reads more bytes, with a deadline of `by_ms`. Returns 0 at the end of the peer's data. It is
    /// cancel-safe: a read that is dropped loses no bytes.
    pub(super) async fn fill(
        &self,
        input: &mut Input,
        reading: &mut Reading,
        by_ms: u64,
    ) -> io::Result<usize> {
        self.more_by_ms.set(by_ms);
        let _awaited = AwaitedUntil(&self.more_by_ms);
        let filled = poll_fn(|cx| self.io.poll_fill(cx, input, reading)).await;
        if let (Some(received), Ok(bytes)) = (self.received, &filled) {
            received.add(*bytes as u64);
        }
        filled
    }

    /// Records that the handler got a frame of the request's body, or its end.
    pub(super) fn record_feed(&self) {
        self.has_fed.set(true);
    }

    /// Returns whether the handler got a frame of the body since the last call.
    pub(super) fn takes_feed(&self) -> bool {
        self.has_fed.take()
    }

    /// Returns the time by which the peer must send more bytes, in milliseconds; `NEVER`: none are
    /// awaited.
    pub(super) fn more_by_ms(&self) -> u64 {
        self.more_by_ms.get()
    }

    /// Returns the bytes that the peer's side has taken, if more of them wait.
    pub(super) fn moved_while_queued(&self) -> Option<u64> {
        self.queued.get().then(|| self.sent_bytes() + self.io.flushed_bytes())
    }

    /// Counts bytes of the request's body.
    pub(super) fn count_body(&self, bytes: usize) {
        self.exchange.count_body(bytes);
    }

    /// Returns the bytes of the response that were sent.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.exchange.sent.moved.get()
    }

    /// Counts bytes that were sent without `send`.
    pub(super) fn count(&self, bytes: usize) {
        self.exchange.sent.moved.set(self.sent_bytes() + bytes as u64);
    }

    /// Sends an interim response.
    async fn interim(
        &self,
        status: StatusCode,
        fields: InterimFields<'_>,
    ) -> Result<(), ExchangeError> {
        let mut out = Output::new();
        self.io.encode_interim(out.vec(), status, fields);
        let mut queue = SendQueue::default();
        queue.push(out);
        self.send(&mut queue, false).await
    }

    /// Returns the bytes to write together, at most `most`.
    pub(super) fn piece_bytes(&self, most: usize) -> usize {
        let share = self.exchange.sent.share.as_deref();
        let piece = share.map_or(u64::MAX, Meter::piece_bytes);
        usize::try_from(piece).map_or(most, |piece| piece.min(most))
    }

    /// Sends all pieces, as fast as the rate limit allows; `is_last`: they end the response.
    /// Cancel-safe: the queue keeps what the protocol has not taken.
    pub(super) async fn send(
        &self,
        queue: &mut SendQueue,
        is_last: bool,
    ) -> Result<(), ExchangeError> {
        if let Some(share) = &self.exchange.sent.share {
            share.pass(queue.len() as u64).await;
        }
        self.queued.set(true);
        let sent = poll_fn(|cx| {
            let sent = self.poll_send(cx, queue, is_last);
            if sent.is_pending() {
                self.exchange.sent.attempt.set(Attempt::Ready);
            }
            sent
        });
        let sent = sent.await;
        self.queued.set(false);
        sent.map_err(|_| ExchangeError::Gone)
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        is_last: bool,
    ) -> Poll<io::Result<()>> {
        let attempt = self.exchange.sent.attempt.get();
        while !queue.is_empty() {
            match ready!(self.io.poll_send(cx, queue, attempt))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.count(n),
            }
        }
        // Before the end, tries go on with the next bytes.
        let attempt = match attempt {
            Attempt::Forced if !is_last => Attempt::Last,
            attempt => attempt,
        };
        self.io.poll_flush(cx, attempt)
    }

    /// Sets the mode of writes until one moves nothing.
    pub(super) fn insist(&self, attempt: Attempt) {
        self.exchange.sent.attempt.set(attempt);
    }
}

impl<T: Protocol> InterimSender for Duplex<'_, T> {
    fn send<'a>(&'a self, status: StatusCode, fields: InterimFields<'a>) -> Sending<'a> {
        Box::pin(self.interim(status, fields))
    }
}
