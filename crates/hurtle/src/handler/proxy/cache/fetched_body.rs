//! The body of a response that a cache fetches, on its way from the upstream.

use bytes::Bytes;

use super::super::super::wait::Waits;
use super::super::{Source, UpstreamRequest};
use crate::cache::{Cache, Flight, Live};
use crate::protocol::reading::{Piece, Reading};
use crate::rt;
use crate::transport::Input;

/// Bytes of a body that are moved before other tasks run.
const TURN_BYTES: usize = 256 << 10;

/// A body that is being read from the upstream.
pub(super) struct FetchedBody<'a> {
    pub live: &'a Live,
    pub reading: Reading,
    pub flight: &'a mut Option<Flight>,
    pub waits: &'a Waits,
    /// Longest wait for more bytes, in milliseconds.
    pub within_ms: u64,
}

impl FetchedBody<'_> {
    /// Reads the body to its end.
    ///
    /// # Errors
    /// The reason why it is truncated.
    pub(super) async fn run(
        mut self,
        source: &mut Source<'_>,
        input: &mut Input,
        cache: &Cache,
    ) -> Result<(), String> {
        let broke = |why: &dyn std::fmt::Display| format!("truncated response: {why}");
        let mut turn_bytes = 0;
        loop {
            match self.reading.next(input).map_err(|error| broke(&error))? {
                Piece::Data(len) => {
                    let kept = self.live.push(&input.bytes()[..len], cache);
                    input.consume(len);
                    if !kept {
                        // Other clients can no longer join: part of the body is dropped.
                        drop(self.flight.take());
                        if !self.live.room().await {
                            return Err("the response is too large for the cache, and no \
                                        client reads it"
                                .to_owned());
                        }
                    }
                    turn_bytes += len;
                    if turn_bytes >= TURN_BYTES {
                        turn_bytes = 0;
                        rt::give_way().await;
                    }
                }
                Piece::End(_) => return Ok(()),
                Piece::More => match source
                    .fill(input, Some(&mut self.reading), self.waits, Some(self.within_ms))
                    .await
                {
                    Ok(0) if matches!(self.reading, Reading::Ended(_)) => {}
                    Ok(0) => return Err(broke(&"the connection ended early")),
                    Ok(_) => {}
                    Err(e) => return Err(broke(&e)),
                },
            }
        }
    }
}

/// Returns the whole body if it arrived with its head.
pub(super) fn take_received(upstream: &mut UpstreamRequest, len: Option<u64>) -> Option<Bytes> {
    let len = usize::try_from(len?).ok()?;
    let link = upstream.link()?;
    if link.input.bytes().len() < len {
        return None;
    }
    let body = Bytes::copy_from_slice(&link.input.bytes()[..len]);
    if len > 0 {
        link.input.consume(len);
    }
    Some(body)
}
