//! Sends and receives on one connection at the same time, for a handler that reads the request body
//! while it responds. One deadline covers both directions.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use hurtle_http::request::ParseError;

use super::Connection;
use super::body::BodyPace;
use super::upload::Upload;
use crate::clock::{self, NEVER};
use crate::handler::client::{ExchangeError, InterimSender, Sending};
use crate::handler::wait::Waits;
use crate::protocol::reading::Reading;
use crate::protocol::{InterimFields, Protocol};
use crate::rt::First;
use crate::transport::{Input, Meter, Output, SendQueue};

/// Polls of a handler in one turn, if the body's frames have arrived that it waits for. With two, the
/// head of a request to an upstream and the first part of its body leave in one write over HTTP/2.
const POLLS_MAX: usize = 2;

/// A connection's socket during one exchange.
pub(super) struct Duplex<'a, T> {
    pub(super) io: &'a T,
    /// Bytes the kernel has taken.
    sent: &'a Cell<u64>,
    /// Bytes of the request's body.
    request_bytes: &'a Cell<u64>,
    /// The rate limit shared by all connections of the client address.
    share: Option<&'a Meter>,
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

impl<T: Protocol> Connection<T> {
    /// Runs `work` while the request body is fed to its reader, until the peer is gone. `waits`
    /// holds the deadline of an upstream.
    pub(super) async fn beside<R>(
        &mut self,
        upload: &mut Upload,
        waits: &Waits,
        work: impl AsyncFnOnce(&Duplex<'_, T>) -> R,
    ) -> Result<R, ExchangeError> {
        let Connection { io, input, ended, worker, watch, sent, exchange, .. } = self;
        let request_bytes = &exchange.request_bytes;
        let stall_ms = exchange.write_stall_ms(&worker.limits);
        let pace = exchange.body_pace(&worker.limits);
        let (share, sent) = (sent.share.as_deref(), &sent.moved);
        let (queued, has_fed, more_by_ms) = (Cell::new(false), Cell::new(false), Cell::new(NEVER));
        let duplex = Duplex { io, sent, pace, request_bytes, share, queued, has_fed, more_by_ms };
        let mut work = pin!(work(&duplex));
        let mut upload = pin!(upload.run(&duplex, input, ended, worker));
        let mut both = poll_fn(|cx| {
            for _ in 0..POLLS_MAX {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(First::A(done));
                }
                if let Poll::Ready(error) = upload.as_mut().poll(cx) {
                    return Poll::Ready(First::B(error));
                }
                if !duplex.has_fed.take() {
                    break;
                }
            }
            Poll::Pending
        });
        let mut seen = None;
        let mut taken_by_ms = NEVER;
        let mut due = || {
            // The application has no deadline. Only unread response bytes and awaited request bytes
            // count against the peer.
            let moved = duplex.queued.get().then(|| sent.get() + io.flushed_bytes());
            if moved != seen {
                seen = moved;
                taken_by_ms = moved.map_or(NEVER, |_| clock::now_ms() + stall_ms);
            }
            taken_by_ms.min(duplex.more_by_ms.get()).min(waits.due_ms())
        };
        loop {
            let ended = watch.wait_until(&mut both, &mut due).await;
            let (now_ms, body_by_ms) = (clock::now_ms(), duplex.more_by_ms.get());
            return match ended {
                Ok(First::A(done)) => Ok(done),
                Ok(First::B(error)) => Err(error),
                Err(_) if body_by_ms <= now_ms => {
                    Err(ExchangeError::ParseError(ParseError::BodyTooSlow))
                }
                Err(_) if waits.due_ms() <= now_ms => match waits.note_late() {
                    true => continue,
                    false => Err(ExchangeError::UpstreamTimeout),
                },
                Err(_) => Err(ExchangeError::Stalled),
            };
        }
    }
}

impl<T: Protocol> Duplex<'_, T> {
    /// Reads more bytes, with a deadline of `by_ms`. Returns 0 at the end of the peer's data.
    pub(super) async fn fill(
        &self,
        input: &mut Input,
        reading: &mut Reading,
        by_ms: u64,
    ) -> io::Result<usize> {
        self.more_by_ms.set(by_ms);
        let filled = poll_fn(|cx| self.io.poll_fill(cx, input, reading)).await;
        self.more_by_ms.set(NEVER);
        filled
    }

    /// Records that the handler got a frame of the request's body, or its end.
    pub(super) fn record_feed(&self) {
        self.has_fed.set(true);
    }

    /// Counts bytes of the request's body.
    pub(super) fn count_request(&self, bytes: usize) {
        self.request_bytes.set(self.request_bytes.get() + bytes as u64);
    }

    /// Returns the bytes of the response that were sent.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent.get()
    }

    /// Counts bytes that were sent without `send`.
    pub(super) fn count(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
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
        self.send(&mut queue).await
    }

    /// Returns the bytes to write together, at most `most`.
    pub(super) fn piece_bytes(&self, most: usize) -> usize {
        let piece = self.share.map_or(u64::MAX, Meter::piece_bytes);
        usize::try_from(piece).map_or(most, |piece| piece.min(most))
    }

    /// Sends all pieces, as fast as the rate limit allows. Cancel-safe: the queue keeps what the
    /// protocol has not taken.
    pub(super) async fn send(&self, queue: &mut SendQueue) -> Result<(), ExchangeError> {
        if let Some(share) = self.share {
            share.pass(queue.len() as u64).await;
        }
        self.queued.set(true);
        let sent = poll_fn(|cx| self.poll_send(cx, queue)).await;
        self.queued.set(false);
        sent.map_err(|_| ExchangeError::Gone)
    }

    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        while !queue.is_empty() {
            match ready!(self.io.poll_send(cx, queue))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.sent.set(self.sent.get() + n as u64),
            }
        }
        self.io.poll_flush(cx)
    }
}

impl<T: Protocol> InterimSender for Duplex<'_, T> {
    fn send<'a>(&'a self, status: StatusCode, fields: InterimFields<'a>) -> Sending<'a> {
        Box::pin(self.interim(status, fields))
    }
}
