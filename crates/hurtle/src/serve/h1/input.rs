//! What a connection reads: heads, bodies nobody wants, and, at its end, what a peer still sends.

use std::future::poll_fn;

use super::Connection;
use crate::clock;
use crate::h1::Sin;
use crate::h1::chunked::{Decoder, Step};
use crate::h1::framing::BodyLength;
use crate::h1::head::{Progress, Scan};
use crate::transport::buffer::Taken;

/// How long a closed connection is read on so that its peer can read the answer, in milliseconds:
/// in all, and without anything coming (RFC 9112 9.6).
const LINGER_MS_MAX: u64 = 30_000;
const LINGER_SILENCE_MS_MAX: u64 = 2_000;

/// Far enough to be never.
const NO_HURRY_MS: u64 = u64::MAX / 2;

/// How a wait for bytes ended badly.
enum Ended {
    /// The deadline passed.
    Late,
    /// The socket failed.
    Failed,
}

impl Connection {
    /// The next request's head. `None`: the peer, or its silence, ended the connection between
    /// requests.
    pub(super) async fn read_head(&mut self) -> Result<Option<Taken>, Sin> {
        let mut scan = Scan::default();
        let mut begun = false;
        let mut skipped = false;
        loop {
            let bytes = self.input.bytes();
            // RFC 9112 2.2: one empty line before a request line is ignored.
            if !skipped && bytes.starts_with(b"\r\n") {
                self.input.consume(2);
                skipped = true;
                continue;
            }
            let only_cr = !skipped && bytes == b"\r";
            if !bytes.is_empty() && !only_cr {
                match scan.advance(bytes, &self.worker.head_limits)? {
                    Progress::Complete(end) => return Ok(Some(self.input.take(end))),
                    Progress::Partial => {}
                }
            }
            let empty = self.input.bytes().is_empty();
            if self.ended {
                return if empty { Ok(None) } else { Err(Sin::RequestLine) };
            }
            if !begun {
                begun = !empty;
                self.set_head_deadline(begun);
            }
            self.watch.set_idle(!begun);
            let filled = self.fill().await;
            self.watch.set_idle(false);
            match filled {
                Ok(()) => {}
                // RFC 9110 15.5.9: 408 needs a request; silence between requests is none.
                Err(Ended::Late) if begun => return Err(Sin::HeadTooSlow),
                Err(Ended::Late | Ended::Failed) => return Ok(None),
            }
        }
    }

    fn set_head_deadline(&mut self, begun: bool) {
        let limits = &self.worker.limits;
        let limit = if begun { limits.head_timeout } else { limits.idle_timeout };
        let mut wait_ms = limit.as_millis() as u64;
        if !begun && self.worker.deadlines.is_draining() {
            wait_ms = 0;
        }
        self.watch.set(clock::now_ms() + wait_ms);
    }

    /// Waits for more bytes, or the peer's end, which it notes.
    async fn fill(&mut self) -> Result<(), Ended> {
        let (input, io) = (&mut self.input, &mut self.io);
        match self.watch.wait(poll_fn(|cx| input.poll_fill(io, cx))).await {
            Ok(Ok(0)) => {
                self.ended = true;
                Ok(())
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Ended::Failed),
            Err(_) => Err(Ended::Late),
        }
    }

    /// Whether a body is known from its head to be larger than is read.
    pub(super) fn is_too_large(&self, length: BodyLength) -> bool {
        matches!(length, BodyLength::Exactly(len) if len > self.worker.limits.body_bytes)
    }

    /// Reads a body and drops it. `Err(None)`: the peer is gone.
    pub(super) async fn discard_body(&mut self, length: BodyLength) -> Result<(), Option<Sin>> {
        let body_bytes_max = self.worker.limits.body_bytes;
        let mut pace = Pace { started_ms: clock::now_ms(), received: 0, data: 0 };
        match length {
            BodyLength::None => Ok(()),
            BodyLength::Exactly(_) if self.is_too_large(length) => Err(Some(Sin::BodyTooLarge)),
            BodyLength::Exactly(mut left) => loop {
                let here = self.input.bytes().len();
                let take = here.min(usize::try_from(left).unwrap_or(usize::MAX));
                self.input.consume(take);
                left -= take as u64;
                if left == 0 {
                    return Ok(());
                }
                pace.more(self, take).await?;
            },
            BodyLength::Chunked => {
                let mut decoder = Decoder::default();
                loop {
                    let bytes = self.input.bytes();
                    let here = bytes.len();
                    match decoder.decode(bytes).map_err(Some)? {
                        Step::Data { skip, len } => {
                            self.input.consume(skip + len);
                            pace.received += (skip + len) as u64;
                            pace.data += len as u64;
                            if pace.data > body_bytes_max {
                                return Err(Some(Sin::BodyTooLarge));
                            }
                        }
                        Step::NeedMore => {
                            self.input.consume(here);
                            pace.more(self, here).await?;
                        }
                        Step::End(n) => {
                            self.input.consume(n);
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Says that nothing more will come, then reads on until the peer has seen it: closing with
    /// bytes unread would reset the connection, and the answer with it.
    pub(super) async fn linger(mut self) {
        self.io.finish();
        let end_ms = clock::now_ms() + LINGER_MS_MAX;
        while !self.ended {
            let unread = self.input.bytes().len();
            self.input.consume(unread);
            self.watch.set(end_ms.min(clock::now_ms() + LINGER_SILENCE_MS_MAX));
            if clock::now_ms() >= end_ms || self.fill().await.is_err() {
                return;
            }
        }
    }
}

/// How fast a body comes: after a grace it must keep an average rate.
struct Pace {
    started_ms: u64,
    received: u64,
    data: u64,
}

impl Pace {
    /// Waits for more after `taken` bytes were used up.
    async fn more(&mut self, connection: &mut Connection, taken: usize) -> Result<(), Option<Sin>> {
        self.received += taken as u64;
        let limits = &connection.worker.limits;
        // A rate of 0 is any rate.
        let earned_ms = self
            .received
            .saturating_mul(1_000)
            .checked_div(limits.body_rate)
            .unwrap_or(NO_HURRY_MS);
        let grace_ms = limits.body_grace.as_millis() as u64;
        connection.watch.set(self.started_ms.saturating_add(grace_ms).saturating_add(earned_ms));
        match connection.fill().await {
            // RFC 9112 8: it may be half-closed, and is told.
            Ok(()) if connection.ended => Err(Some(Sin::BodyIncomplete)),
            Ok(()) => Ok(()),
            Err(Ended::Late) => Err(Some(Sin::BodyTooSlow)),
            Err(Ended::Failed) => Err(None),
        }
    }
}
