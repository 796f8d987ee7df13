//! Serves an HTTP/1.1 connection: reads a head, runs the exchange, sometimes gives way, then
//! continues or closes.

use std::future::poll_fn;

use hurtle_http::h1::head::{Progress, Scan};
use hurtle_http::h1::{self, request};
use hurtle_http::request::{Joined, ParseError, RequestHead};

use super::{LINGER_MS_MAX, LINGER_SILENCE_MS_MAX};
use crate::config::Schedule;
use crate::pipeline::worker::Worker;
use crate::pipeline::{Connection, Ended, Next, refuse, run_exchange};
use crate::protocol::Protocol as _;
use crate::protocol::h1::H1;
use crate::protocol::reading::Reading;
use crate::transport::buffer::Taken;
use crate::transport::{Fill, Input, Transport};
use crate::{clock, rt};

/// Start of the HTTP/2 preface (RFC 9113 section 3.4); no HTTP/1.1 request line matches it.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Pipelined requests that a connection answers before other connections run.
const PIPELINED_MAX: u64 = 16;

/// Requests that a connection answers before others run, if each arrived before it was awaited.
const UNWAITED_MAX: u64 = 128;

/// Empty lines before a request line that are ignored; Apache ignores as many.
const EMPTY_LINES_MAX: u32 = 10;

/// Time to wait for the first request of a connection while the server stops, in milliseconds.
const FIRST_REQUEST_MS_MAX: u64 = 250;

/// The end of a head, with the end of the line before.
const EMPTY_LINE: &[u8] = b"\r\n\r\n";

impl<T: Transport> Connection<H1<T>> {
    /// Serves the connection to its end. If the peer speaks HTTP/2 (RFC 9113 section 3.3), returns
    /// the channel and the bytes read from it.
    #[allow(clippy::manual_async_fn)] // An async fn would store its arguments twice.
    pub(crate) fn run(mut self) -> impl Future<Output = Option<(T, Input)>> {
        async move {
            loop {
                let head = self.read_head().await;
                let joined = Joined::default();
                let next = match head {
                    // Matched by reference, to avoid copying the request.
                    Ok(Some(head)) => match &self.parse(&head, &joined) {
                        Ok((request, rest)) => {
                            self.input.put_back(rest);
                            run_exchange(&mut self, request).await
                        }
                        Err(_) if self.is_preface(&head) => return Some(self.into_parts(&head)),
                        Err(error) => {
                            Box::pin(refuse(&mut self, *error, h1::partial_line(&head))).await
                        }
                    },
                    Ok(None) => Next::Close,
                    Err(_) if self.is_preface(self.input.bytes()) => {
                        return Some(self.into_parts(b""));
                    }
                    Err(error) => Box::pin(self.refuse_unread(error)).await,
                };
                if next != Next::Request {
                    self.end(next).await;
                    return None;
                }
                if self.has_had_its_turn() {
                    rt::give_way().await;
                }
            }
        }
    }

    fn parse<'a>(
        &self,
        head: &'a [u8],
        joined: &'a Joined,
    ) -> Result<(RequestHead<'a>, &'a [u8]), ParseError> {
        let Worker { head_limits, sections, .. } = &*self.worker;
        request::parse_cached(head, joined, head_limits, sections)
    }

    /// Returns whether the bytes begin HTTP/2 in clear. Over TLS, ALPN decides.
    fn is_preface(&self, head: &[u8]) -> bool {
        self.served == 0 && !self.io.is_secure() && head.starts_with(PREFACE)
    }

    /// Returns the channel, and the unserved bytes: `head`, and the input behind it.
    fn into_parts(self, head: &[u8]) -> (T, Input) {
        let early = [head, self.input.bytes()].concat();
        (self.io.0, Input::holding(early))
    }

    /// Returns whether other connections run before the next read. Usually that read waits anyway,
    /// unless requests have arrived already.
    fn has_had_its_turn(&self) -> bool {
        let max = if self.input.bytes().is_empty() { UNWAITED_MAX } else { PIPELINED_MAX };
        self.worker.schedule == Schedule::Yield || self.served.is_multiple_of(max)
    }

    /// Sends the response to an error that precedes the first request, then closes.
    pub(crate) async fn turn_down(mut self, error: ParseError) {
        let next = self.refuse_unread(error).await;
        self.end(next).await;
    }

    /// Refuses a request whose head was not read whole.
    async fn refuse_unread(&mut self, error: ParseError) -> Next {
        let head = self.input.bytes().to_vec();
        refuse(self, error, h1::partial_line(&head)).await
    }

    async fn end(&mut self, next: Next) {
        match next {
            // Nothing is unread, so dropping the socket sends a FIN.
            Next::Request | Next::Close => self.io.0.close(),
            Next::Linger => Box::pin(self.linger()).await,
            Next::Drop => {}
            Next::Abort => self.io.0.abort(),
        }
    }
}

impl<T: Transport> Connection<H1<T>> {
    /// Returns the next request head, perhaps with bytes behind it. `None`: the peer or the idle
    /// timeout ended the connection between requests.
    pub(super) async fn read_head(&mut self) -> Result<Option<Taken>, ParseError> {
        let mut scan = Scan::default();
        let mut begun = false;
        let mut skipped = 0;
        let mut received = false;
        loop {
            let bytes = self.input.bytes();
            // RFC 9112 section 2.2: empty lines before a request line are ignored.
            if skipped < EMPTY_LINES_MAX && bytes.starts_with(b"\r\n") {
                self.input.consume(2);
                skipped += 1;
                continue;
            }
            // Usually one read brings exactly one head; the parser then finds its end. If it holds
            // several, the bytes behind the first are put back.
            if received && !begun && bytes.ends_with(EMPTY_LINE) {
                let n = bytes.len();
                return Ok(Some(self.input.take(n)));
            }
            let only_cr = skipped < EMPTY_LINES_MAX && bytes == b"\r";
            if !bytes.is_empty() && !only_cr {
                match scan.advance(bytes, &self.worker.head_limits)? {
                    Progress::Complete(end) => return Ok(Some(self.input.take(end))),
                    Progress::Partial => {}
                }
            }
            let empty = self.input.bytes().is_empty();
            if self.ended {
                return if empty { Ok(None) } else { Err(ParseError::RequestLine) };
            }
            if !begun {
                begun = !empty;
                self.set_head_deadline(begun);
            }
            self.watch.set_http1_idle(!begun);
            let filled = self.fill().await;
            self.watch.set_http1_idle(false);
            match filled {
                Ok(()) => received = true,
                // RFC 9110 section 15.5.9: 408 applies to an incomplete request only.
                Err(Ended::Late) if begun => return Err(ParseError::HeadTooSlow),
                Err(Ended::Late | Ended::Failed) => return Ok(None),
            }
        }
    }

    fn set_head_deadline(&mut self, begun: bool) {
        let limits = &self.worker.limits;
        let limit = if begun { limits.head_timeout } else { limits.idle_timeout };
        let now_ms = clock::now_ms();
        let mut at_ms = now_ms + limit.as_millis() as u64;
        if !begun && self.worker.deadlines.is_draining() {
            // The first request may follow shortly after a handshake or a long network path.
            let wait_ms = if self.served == 0 { FIRST_REQUEST_MS_MAX } else { 0 };
            at_ms = at_ms.min((now_ms + wait_ms).max(self.worker.deadlines.grace_until_ms()));
        }
        self.watch.set(at_ms);
    }

    /// Waits for more bytes. Sets `ended` at the end of the peer's data.
    async fn fill(&mut self) -> Result<(), Ended> {
        let (input, io) = (&mut self.input, &mut self.io.0);
        let (worker, slot) = (&mut self.worker, &self.slot);
        let waits = worker.schedule == Schedule::Wait;
        let fill = if waits { Fill::Head } else { Fill::HeadEagerly };
        let filled = self.watch.wait(poll_fn(|cx| {
            let filled = io.poll_fill(cx, input, fill);
            if filled.is_pending() {
                slot.update(worker);
            }
            filled
        }));
        let filled = filled.await;
        self.note(&filled)
    }

    /// Reads until the peer has seen the end of the response. Closing with unread bytes would reset
    /// the connection and lose the response.
    pub(super) async fn linger(&mut self) {
        self.io.0.finish();
        let end_ms = clock::now_ms() + LINGER_MS_MAX;
        for number in 1_u64.. {
            if self.ended {
                return;
            }
            if number.is_multiple_of(PIPELINED_MAX) {
                rt::give_way().await;
            }
            let unread = self.input.bytes().len();
            self.input.consume(unread);
            self.watch.set(end_ms.min(clock::now_ms() + LINGER_SILENCE_MS_MAX));
            if clock::now_ms() >= end_ms || self.fill_body(&mut Reading::Done).await.is_err() {
                return;
            }
        }
    }
}
