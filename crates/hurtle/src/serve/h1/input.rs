//! What a connection reads: heads, bodies nobody wants, and, at its end, what a peer still sends.

use std::future::poll_fn;
use std::io;

use super::super::deadline::Late;
use super::Connection;
use super::reading::{Piece, Reading};
use crate::clock;
use crate::config::{Limits, Schedule};
use crate::h1::Sin;
use crate::h1::framing::BodyLength;
use crate::h1::head::{Progress, Scan};
use crate::transport::Transport;
use crate::transport::buffer::Taken;

/// How long a closed connection is read on so that its peer can read the answer, in milliseconds:
/// in all, and without anything coming (RFC 9112 9.6).
const LINGER_MS_MAX: u64 = 30_000;
const LINGER_SILENCE_MS_MAX: u64 = 2_000;

/// How long a connection made while the server stops is waited for, in milliseconds.
const FIRST_REQUEST_MS_MAX: u64 = 250;

/// What ends a head, with the end of the line before.
const EMPTY_LINE: &[u8] = b"\r\n\r\n";

/// Far enough to be never.
const NO_HURRY_MS: u64 = u64::MAX / 2;

/// How a wait for bytes ended badly.
enum Ended {
    /// The deadline passed.
    Late,
    /// The socket failed.
    Failed,
}

impl<T: Transport> Connection<T> {
    /// The next request's head, and perhaps what came behind it. `None`: the peer, or its silence,
    /// ended the connection between requests.
    pub(super) async fn read_head(&mut self) -> Result<Option<Taken>, Sin> {
        let mut scan = Scan::default();
        let mut begun = false;
        let mut skipped = false;
        let mut came = false;
        loop {
            let bytes = self.input.bytes();
            // RFC 9112 2.2: one empty line before a request line is ignored.
            if !skipped && bytes.starts_with(b"\r\n") {
                self.input.consume(2);
                skipped = true;
                continue;
            }
            // Usually it came whole, in one read, and nothing else did: then who reads it finds its
            // end. Of several, the first alone is read so: what is behind it is put back.
            if (came || T::IS_HTTP2) && !begun && bytes.ends_with(EMPTY_LINE) {
                let n = bytes.len();
                return Ok(Some(self.input.take(n)));
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
                Ok(()) => came = true,
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
            // After a handshake, or a long way, the first request may be right behind.
            wait_ms = if self.served == 0 { FIRST_REQUEST_MS_MAX } else { 0 };
        }
        self.watch.set(clock::now_ms() + wait_ms);
    }

    /// Waits for more bytes, or the peer's end, which it notes.
    async fn fill(&mut self) -> Result<(), Ended> {
        let (input, io) = (&mut self.input, &mut self.io);
        let waits = self.worker.schedule == Schedule::Wait;
        let filled = self.watch.wait(poll_fn(|cx| match waits {
            true => input.poll_fill(io, cx),
            false => input.poll_fill_eagerly(io, cx),
        }));
        let filled = filled.await;
        self.note(&filled)
    }

    /// The same of a body.
    async fn fill_body(&mut self) -> Result<(), Ended> {
        let (input, io) = (&mut self.input, &mut self.io);
        let filled = self.watch.wait(poll_fn(|cx| input.poll_fill_body(io, cx))).await;
        self.note(&filled)
    }

    fn note(&mut self, filled: &Result<io::Result<usize>, Late>) -> Result<(), Ended> {
        match filled {
            Ok(Ok(n)) => {
                self.ended |= *n == 0;
                Ok(())
            }
            Ok(Err(_)) => Err(Ended::Failed),
            Err(Late) => Err(Ended::Late),
        }
    }

    /// Whether a body is known from its head to be larger than is read.
    pub(super) fn is_too_large(&self, length: BodyLength) -> bool {
        matches!(length, BodyLength::Exactly(len) if len > self.worker.limits.body_bytes)
    }

    /// Reads what is left of a body and drops it. `Err(None)`: the peer is gone.
    pub(super) async fn discard_body(
        &mut self,
        reading: &mut Reading,
        bytes_max: u64,
    ) -> Result<(), Option<Sin>> {
        if matches!(reading, Reading::Exactly(len) if *len > bytes_max) {
            return Err(Some(Sin::BodyTooLarge));
        }
        let mut pace = Pace { started_ms: clock::now_ms(), received: 0, data: 0 };
        loop {
            let here = self.input.bytes().len();
            let piece = reading.next(&mut self.input).map_err(Some)?;
            if let Piece::Data(len) = piece {
                self.input.consume(len);
                pace.data += len as u64;
                if pace.data > bytes_max {
                    return Err(Some(Sin::BodyTooLarge));
                }
            }
            pace.received += (here - self.input.bytes().len()) as u64;
            match piece {
                Piece::Data(_) => {}
                Piece::More => pace.more(self).await?,
                Piece::End(_) => return Ok(()),
            }
        }
    }

    /// Says that nothing more will come, then reads on until the peer has seen it: closing with
    /// bytes unread would reset the connection, and the answer with it.
    pub(super) async fn linger(&mut self) {
        self.io.finish();
        let end_ms = clock::now_ms() + LINGER_MS_MAX;
        while !self.ended {
            let unread = self.input.bytes().len();
            self.input.consume(unread);
            self.watch.set(end_ms.min(clock::now_ms() + LINGER_SILENCE_MS_MAX));
            if clock::now_ms() >= end_ms || self.fill_body().await.is_err() {
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
    /// Waits for more.
    async fn more<T: Transport>(
        &mut self,
        connection: &mut Connection<T>,
    ) -> Result<(), Option<Sin>> {
        let earned_ms = earned_ms(&connection.worker.limits, self.received);
        connection.watch.set(self.started_ms.saturating_add(earned_ms));
        match connection.fill_body().await {
            // RFC 9112 8: it may be half-closed, and is told.
            Ok(()) if connection.ended => Err(Some(Sin::BodyIncomplete)),
            Ok(()) => Ok(()),
            Err(Ended::Late) => Err(Some(Sin::BodyTooSlow)),
            Err(Ended::Failed) => Err(None),
        }
    }
}

/// How long a client may have taken to send so many bytes of a body.
pub(super) fn earned_ms(limits: &Limits, received: u64) -> u64 {
    let grace_ms = limits.body_grace.as_millis() as u64;
    // A rate of 0 is any rate.
    let at_rate = received.saturating_mul(1_000).checked_div(limits.body_rate);
    grace_ms.saturating_add(at_rate.unwrap_or(NO_HURRY_MS))
}
