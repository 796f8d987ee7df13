//! Sends a request to an upstream: its head, then its body as the client sends it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Body as _;
use hurtle_http::h1::chunked::encode_size;
use hurtle_http::h1::response::encode_trailers;

use super::wait::Waits;
use crate::body::RequestBody;
use crate::transport::{Attempt, Output, Transport, UpstreamSocket};

/// The unsent part of a request. Queued bytes survive a cancelled `run`.
pub(super) struct RequestSender {
    /// The head; later the framing of the next piece of the body.
    out: Output,
    data: Bytes,
    tail: &'static [u8],
    /// Bytes sent of `out`, `data` and `tail` together.
    sent: usize,
    body: RequestBody,
    state: State,
    chunked: bool,
    /// `true`: no byte of the body was read, so the request can be sent to another upstream.
    untouched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The body waits for 100 Continue (RFC 9110 section 10.1.1).
    Held,
    Body,
    /// The queued bytes are the last.
    Ending,
}

impl RequestSender {
    /// Sends a head and the body behind it; `held`: the body waits for [`RequestSender::release`].
    pub(super) fn new(head: Output, body: RequestBody, chunked: bool, held: bool) -> RequestSender {
        let state = match (body.is_end_stream(), held) {
            (true, _) => State::Ending,
            (false, true) => State::Held,
            (false, false) => State::Body,
        };
        RequestSender {
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

    /// Starts again on another connection; requires `is_untouched`.
    pub(super) fn begin(&mut self) {
        self.sent = 0;
    }

    pub(super) fn has_body(&self) -> bool {
        self.state != State::Ending || !self.untouched
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// `true` if the whole request is sent.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Ending && self.queued() == 0
    }

    pub(super) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// Allows the body to be sent.
    pub(super) fn release(&mut self) {
        if self.state == State::Held {
            self.state = State::Body;
        }
    }

    fn queued(&self) -> usize {
        self.out.len() + self.data.len() + self.tail.len() - self.sent
    }

    /// Sends queued bytes without waiting; `run` sends the rest and reports errors.
    pub(super) fn send_at_once(&mut self, io: &UpstreamSocket) {
        let mut context = Context::from_waker(Waker::noop());
        let left = [IoSlice::new(&self.out[self.sent..])];
        if let Poll::Ready(Ok(n)) = io.poll_write(&mut context, &left, Attempt::Ready) {
            self.sent += n;
        }
    }

    /// Sends everything that may be sent.
    ///
    /// # Errors
    /// The socket's.
    pub(super) async fn run(
        &mut self,
        io: &UpstreamSocket,
        waits: &Waits,
        stall_ms: u64,
    ) -> io::Result<()> {
        loop {
            while self.queued() > 0 {
                let _wait = waits.send(stall_ms);
                let mut bufs = [&self.out[..], &self.data[..], self.tail].map(IoSlice::new);
                // A write of a single buffer is cheaper than one of three.
                let count = if self.data.is_empty() && self.tail.is_empty() { 1 } else { 3 };
                let mut left = &mut bufs[..count];
                IoSlice::advance_slices(&mut left, self.sent);
                match poll_fn(|cx| io.poll_write(cx, left, Attempt::Ready)).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    n => self.sent += n,
                }
                waits.refresh(stall_ms);
            }
            if self.state != State::Body {
                return Ok(());
            }
            // Boxed, because most requests have no body and every future is as large as its largest
            // state.
            Box::pin(self.next()).await;
        }
    }

    /// Queues the body's next piece in place of the sent one.
    async fn next(&mut self) {
        self.untouched = false;
        let body = &mut self.body;
        let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        (self.out, self.sent, self.tail) = (Output::default(), 0, b"");
        drop(mem::take(&mut self.data));
        let frame = match next {
            None => return self.end(None),
            Some(Ok(frame)) => frame,
            // The client ended the body early; the reader of the exchange cancels it.
            Some(Err(_)) => return std::future::pending().await,
        };
        match frame.into_data() {
            Ok(data) => {
                // An empty chunk would end the body.
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
