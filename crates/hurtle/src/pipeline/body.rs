//! Discards request bodies that no handler reads, with a minimum rate.

use std::future::poll_fn;
use std::io;

use hurtle_http::request::ParseError;
use hurtle_http::request::fields::pairs;

use super::Connection;
use crate::clock;
use crate::deadline::DeadlineError;
use crate::protocol::Protocol;
use crate::protocol::reading::{Piece, Reading};

/// Longest pause within a request body, in milliseconds. The average rate alone would let a fast
/// client pause for hours before its average is too low.
const BODY_PAUSE_MS_MAX: u64 = 60_000;

/// A deadline far enough in the future to never pass.
const NO_HURRY_MS: u64 = u64::MAX / 2;

/// An unsuccessful wait for bytes.
pub(crate) enum Ended {
    /// The deadline passed.
    Late,
    /// The socket failed.
    Failed,
}

impl<T: Protocol> Connection<T> {
    /// Waits for more bytes of a body. Sets `ended` if the peer closes its sending side.
    pub(crate) async fn fill_body(&mut self, reading: &mut Reading) -> Result<(), Ended> {
        let (input, io) = (&mut self.input, &self.io);
        let filled = self.watch.wait(poll_fn(|cx| io.poll_fill(cx, input, reading))).await;
        self.note(&filled)
    }

    pub(crate) fn note(
        &mut self,
        filled: &Result<io::Result<usize>, DeadlineError>,
    ) -> Result<(), Ended> {
        match filled {
            Ok(Ok(n)) => {
                self.ended |= *n == 0;
                self.metrics.received.add(*n as u64);
                Ok(())
            }
            Ok(Err(_)) => Err(Ended::Failed),
            Err(DeadlineError) => Err(Ended::Late),
        }
    }

    /// Checks the number of trailer lines, which `head_fields` limits like that of header lines.
    pub(super) fn check_trailers(&self, lines: &[u8]) -> Result<(), ParseError> {
        match pairs(lines).count() > self.worker.head_limits.fields {
            true => Err(ParseError::TooManyFields),
            false => Ok(()),
        }
    }

    /// Reads the rest of a body and discards it. `Err(None)`: the peer is gone.
    pub(super) async fn discard_body(
        &mut self,
        reading: &mut Reading,
        bytes_max: u64,
    ) -> Result<(), Option<ParseError>> {
        let mut progress = Progress { started_ms: clock::now_ms(), received: 0, data: 0 };
        loop {
            let buffered = self.input.bytes().len();
            let piece = reading.next(&mut self.input).map_err(Some)?;
            if let Piece::Data(len) = piece {
                self.input.consume(len);
                progress.data += len as u64;
                self.exchange.request_bytes.set(self.exchange.request_bytes.get() + len as u64);
            }
            // Saturating, because a peer can announce a length or chunk size of 2^64 - 1.
            if progress.data.saturating_add(reading.announced()) > bytes_max {
                return Err(Some(ParseError::BodyTooLarge));
            }
            progress.received += (buffered - self.input.bytes().len()) as u64;
            match piece {
                Piece::Data(_) => {}
                Piece::More => progress.more(self, reading).await?,
                Piece::End(trailers) => return self.check_trailers(&trailers).map_err(Some),
            }
        }
    }
}

/// The progress of a body: after a grace period it must keep an average rate.
struct Progress {
    started_ms: u64,
    received: u64,
    data: u64,
}

impl Progress {
    /// Waits for more bytes.
    async fn more<T: Protocol>(
        &mut self,
        connection: &mut Connection<T>,
        reading: &mut Reading,
    ) -> Result<(), Option<ParseError>> {
        let pace = connection.exchange.body_pace(&connection.worker.limits);
        let earned_ms = pace.earned_ms(self.received);
        let now_ms = clock::now_ms();
        let left_ms = self.started_ms.saturating_add(earned_ms).saturating_sub(now_ms);
        let wait_ms = left_ms.min(pace.pause_ms_max());
        connection.watch.set(now_ms.saturating_add(wait_ms));
        match connection.fill_body(reading).await {
            // RFC 9112 section 8: the peer may have closed one direction only, so it gets an error
            // response.
            Ok(()) if connection.ended && !matches!(reading, Reading::Ended(_)) => {
                Err(Some(ParseError::BodyIncomplete))
            }
            Ok(()) => Ok(()),
            Err(Ended::Late) => Err(Some(ParseError::BodyTooSlow)),
            Err(Ended::Failed) => Err(None),
        }
    }
}

/// The lowest rate of a request body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyPace {
    /// Bytes a second; 0: any.
    pub(super) rate: u64,
    /// Time during which the body may be slower, in milliseconds.
    pub(super) grace_ms: u64,
}

impl BodyPace {
    /// Returns the time in milliseconds that a client may take to send `received` bytes.
    pub(super) fn earned_ms(self, received: u64) -> u64 {
        let at_rate = received.saturating_mul(1_000).checked_div(self.rate);
        self.grace_ms.saturating_add(at_rate.unwrap_or(NO_HURRY_MS))
    }

    /// Returns the longest pause within the body, in milliseconds.
    pub(super) fn pause_ms_max(self) -> u64 {
        match self.rate {
            0 => NO_HURRY_MS,
            _ => BODY_PAUSE_MS_MAX.max(self.grace_ms),
        }
    }
}
