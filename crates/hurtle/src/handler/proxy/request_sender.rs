//! Sends a request to an upstream: its head, then its body as the client sends it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use http_body::Body as _;
use hurtle_http::h1::chunked::encode_size;
use hurtle_http::h1::response::encode_trailers;

use super::wait::Waits;
use crate::body::RequestBody;
use crate::transport::{Attempt, Output, SendQueue, Transport, UpstreamSocket};

/// The unsent part of a request. Queued bytes survive a cancelled `run`.
pub(super) struct RequestSender {
    /// The head, kept for another attempt until the body is read.
    head: Output,
    queue: SendQueue,
    /// `true` if taken bytes are not flushed.
    is_unflushed: bool,
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
    /// Sends a head, then the body; `held`: the body waits for [`RequestSender::release`].
    pub(super) fn new(head: Output, body: RequestBody, chunked: bool, held: bool) -> RequestSender {
        let state = match (body.is_end_stream(), held) {
            (true, _) => State::Ending,
            (false, true) => State::Held,
            (false, false) => State::Body,
        };
        RequestSender {
            head,
            queue: SendQueue::default(),
            is_unflushed: false,
            body,
            state,
            chunked,
            untouched: true,
        }
    }

    /// Starts on a connection; again only if `is_untouched`.
    pub(super) fn begin(&mut self) {
        self.queue.clear();
        self.queue.push(self.head.share());
        self.is_unflushed = false;
    }

    pub(super) fn has_body(&self) -> bool {
        self.state != State::Ending || !self.untouched
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// `true` if the whole request is sent.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Ending && self.is_sent()
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

    fn is_sent(&self) -> bool {
        self.queue.is_empty() && !self.is_unflushed
    }

    /// Sends queued bytes without waiting; `run` sends the rest and reports errors.
    pub(super) fn send_at_once(&mut self, io: &UpstreamSocket) {
        let mut context = Context::from_waker(Waker::noop());
        // Errors show again in `run`.
        let _ = self.poll_send(io, &mut context);
    }

    fn poll_send(&mut self, io: &UpstreamSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            if ready!(io.poll_send(cx, &mut self.queue, Attempt::Ready))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_unflushed = true;
        }
        ready!(io.poll_flush(cx, Attempt::Ready))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
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
            if !self.is_sent() {
                let mut wait = Some(waits.send(stall_ms));
                let mut moved = (self.queue.len(), io.flushed_bytes());
                poll_fn(|cx| {
                    let sent = self.poll_send(io, cx);
                    let now = (self.queue.len(), io.flushed_bytes());
                    if now != moved {
                        moved = now;
                        drop(wait.take());
                        wait = Some(waits.send(stall_ms));
                        waits.refresh(stall_ms);
                    }
                    sent
                })
                .await?;
            }
            if self.state != State::Body {
                return Ok(());
            }
            // Boxed, because most requests have no body and every future is as large as its largest
            // state.
            Box::pin(self.next()).await;
        }
    }

    /// Queues the body's next piece.
    async fn next(&mut self) {
        self.untouched = false;
        let body = &mut self.body;
        let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        self.head = Output::default();
        let frame = match next {
            None => return self.end(None),
            Some(Ok(frame)) => frame,
            // The client ended the body early; the reader of the exchange cancels it.
            Some(Err(_)) => return std::future::pending().await,
        };
        match frame.into_data() {
            Ok(data) => {
                let is_end = self.body.is_end_stream();
                let tail: &'static [u8] = match (self.chunked, data.is_empty()) {
                    (false, _) => b"",
                    // An empty chunk would end the body.
                    (true, true) if is_end => b"0\r\n\r\n",
                    (true, true) => b"",
                    (true, false) => {
                        let mut size = Output::new();
                        encode_size(data.len(), size.vec());
                        self.queue.push(size);
                        if is_end { b"\r\n0\r\n\r\n" } else { b"\r\n" }
                    }
                };
                self.queue.push(data);
                self.queue.push(tail);
                if is_end {
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
            let mut out = Output::new();
            out.vec().extend_from_slice(b"0\r\n");
            if let Some(trailers) = trailers {
                encode_trailers(trailers, out.vec());
            }
            out.vec().extend_from_slice(b"\r\n");
            self.queue.push(out);
        }
    }
}
