//! Discards request bodies that no handler reads, with a minimum rate.

use hurtle_http::request::ParseError;
use hurtle_http::request::fields::pairs;

use super::connection::{Connection, Ended};
use super::exchange::Exchange;
use crate::clock;
use crate::protocol::Protocol;
use crate::protocol::reading::{Piece, Reading};
use crate::rt;

/// Reads of one body before other connections run: a client that sends without a pause would not
/// let any of them wait.
const READS_MAX: u64 = 16;

/// Reads the rest of a body and discards it.
///
/// # Errors
/// The body is malformed, too large or too slow; `None`: the peer is gone.
pub(super) async fn discard_body<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    reading: &mut Reading,
    bytes_max: u64,
) -> Result<(), Option<ParseError>> {
    let mut progress = Progress { started_ms: clock::now_ms(), received: 0, data: 0, reads: 0 };
    loop {
        let buffered = connection.input.bytes().len();
        let piece = reading.next(&mut connection.input).map_err(Some)?;
        if let Piece::Data(len) = piece {
            connection.input.consume(len);
            progress.data += len as u64;
            exchange.count_body(len);
        }
        // Saturating, because a peer can announce a length or chunk size of 2^64 - 1.
        if progress.data.saturating_add(reading.announced()) > bytes_max {
            return Err(Some(ParseError::BodyTooLarge));
        }
        progress.received += (buffered - connection.input.bytes().len()) as u64;
        match piece {
            Piece::Data(_) => {}
            Piece::More => progress.more(connection, exchange, reading).await?,
            // `head_fields` limits trailer lines like header lines.
            Piece::End(lines) if pairs(&lines).count() > connection.worker.head_limits.fields => {
                return Err(Some(ParseError::TooManyFields));
            }
            Piece::End(_) => return Ok(()),
        }
    }
}

/// The progress of a body: after a grace period it must keep an average rate.
struct Progress {
    started_ms: u64,
    received: u64,
    data: u64,
    reads: u64,
}

impl Progress {
    /// Waits for more bytes.
    async fn more<T: Protocol>(
        &mut self,
        connection: &mut Connection<T>,
        exchange: &Exchange,
        reading: &mut Reading,
    ) -> Result<(), Option<ParseError>> {
        let pace = exchange.body_pace(&connection.worker.limits);
        let earned_ms = pace.earned_ms(self.received);
        let now_ms = clock::now_ms();
        let left_ms = self.started_ms.saturating_add(earned_ms).saturating_sub(now_ms);
        let wait_ms = left_ms.min(pace.pause_ms_max());
        connection.watch.set(now_ms.saturating_add(wait_ms));
        self.reads += 1;
        if self.reads.is_multiple_of(READS_MAX) {
            rt::give_way().await;
        }
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
