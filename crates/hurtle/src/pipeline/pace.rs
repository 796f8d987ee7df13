//! The rate of a request's body that a client must keep.

/// Longest pause within a request body, in milliseconds. The average rate alone would let a fast
/// client pause for hours before its average is too low.
const BODY_PAUSE_MS_MAX: u64 = 60_000;

/// A deadline far enough in the future to never pass.
const NO_HURRY_MS: u64 = u64::MAX / 2;

/// Maximum silence of a tunnel or of a gRPC client's stream of messages, in milliseconds. Protocols
/// with shorter pings (WebSocket) keep it open; abandoned tunnels are closed.
pub(super) const SILENCE_MS_MAX: u64 = 3_600_000;

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
