//! A request on its way out: its head, then its body as the client sends it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Body as _;

use super::wait::Waits;
use crate::body::RequestBody;
use crate::h1::chunked::encode_size;
use crate::h1::response::encode_trailers;
use crate::transport::{Output, Plain, Transport};

/// What is left to send of a request. What is queued survives a `run` that is given up.
pub(super) struct Pump {
    /// The head; once the body is begun, what frames its next piece.
    out: Output,
    data: Bytes,
    tail: &'static [u8],
    /// Bytes of `out`, `data` and `tail` together that are sent.
    sent: usize,
    body: RequestBody,
    state: State,
    chunked: bool,
    /// Nothing of the body was asked for: the request can still be sent to somebody else.
    untouched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The body waits for the upstream's leave (RFC 9110 10.1.1).
    Held,
    Body,
    /// What is queued is the last.
    Ending,
}

impl Pump {
    /// Of a head and, unless `bodiless`, the body behind it; `held`: only once it is released.
    pub(super) fn new(head: Output, body: RequestBody, chunked: bool, held: bool) -> Pump {
        let state = match (body.is_end_stream(), held) {
            (true, _) => State::Ending,
            (false, true) => State::Held,
            (false, false) => State::Body,
        };
        Pump {
            out: head,
            data: Bytes::new(),
            tail: b"",
            sent: 0,
            body,
            state,
            chunked,
            untouched: true,
        }
    }

    /// Begins anew, on another connection; only what is untouched can.
    pub(super) fn begin(&mut self) {
        self.sent = 0;
    }

    pub(super) fn has_body(&self) -> bool {
        self.state != State::Ending || !self.untouched
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// Whether the whole request is sent.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Ending && self.queued() == 0
    }

    pub(super) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// The upstream may have the body.
    pub(super) fn release(&mut self) {
        if self.state == State::Held {
            self.state = State::Body;
        }
    }

    fn queued(&self) -> usize {
        self.out.len() + self.data.len() + self.tail.len() - self.sent
    }

    /// Sends what is queued if that can be done at once; else what is left of it is for `run`, and so
    /// is what is wrong.
    pub(super) fn send_at_once(&mut self, io: &Plain) {
        let mut context = Context::from_waker(Waker::noop());
        let left = [IoSlice::new(&self.out[self.sent..])];
        if let Poll::Ready(Ok(n)) = io.poll_write_shared(&mut context, &left) {
            self.sent += n;
        }
    }

    /// Sends all that may be sent.
    ///
    /// # Errors
    /// The socket's.
    pub(super) async fn run(&mut self, io: &Plain, waits: &Waits, stall_ms: u64) -> io::Result<()> {
        loop {
            while self.queued() > 0 {
                let _wait = waits.send(stall_ms);
                let mut bufs = [&self.out[..], &self.data[..], self.tail].map(IoSlice::new);
                // One that is empty is none: a single buffer is cheaper to send.
                let count = if self.data.is_empty() && self.tail.is_empty() { 1 } else { 3 };
                let mut left = &mut bufs[..count];
                IoSlice::advance_slices(&mut left, self.sent);
                match poll_fn(|cx| io.poll_write_shared(cx, left)).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    n => self.sent += n,
                }
                waits.refresh(stall_ms);
            }
            if self.state != State::Body {
                return Ok(());
            }
            // In a box: most requests have no body, and are as large as their largest wait.
            Box::pin(self.next()).await;
        }
    }

    /// Queues the body's next piece, in place of what was sent.
    async fn next(&mut self) {
        self.untouched = false;
        let body = &mut self.body;
        let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        (self.out, self.sent, self.tail) = (Output::default(), 0, b"");
        drop(mem::take(&mut self.data));
        let frame = match next {
            None => return self.end(None),
            Some(Ok(frame)) => frame,
            // The client broke off: the exchange is about to be ended by whoever reads it.
            Some(Err(_)) => return std::future::pending().await,
        };
        match frame.into_data() {
            Ok(data) => {
                // A chunk of no bytes would be the last one.
                if self.chunked && !data.is_empty() {
                    encode_size(data.len(), self.out.vec());
                    self.tail = b"\r\n";
                }
                self.data = data;
                if self.body.is_end_stream() {
                    if self.chunked {
                        let empty = self.data.is_empty();
                        self.tail = if empty { b"0\r\n\r\n" } else { b"\r\n0\r\n\r\n" };
                    }
                    self.state = State::Ending;
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                self.end(Some(&trailers));
            }
        }
    }

    fn end(&mut self, trailers: Option<&http::HeaderMap>) {
        self.state = State::Ending;
        if self.chunked {
            let out = self.out.vec();
            out.extend_from_slice(b"0\r\n");
            if let Some(trailers) = trailers {
                encode_trailers(trailers, out);
            }
            out.extend_from_slice(b"\r\n");
        }
    }
}
