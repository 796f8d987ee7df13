//! Rate limits on frames that cost the peer little and the server much. Each kind of frame has an
//! allowance that refills with time. A frame beyond it ends the connection with ENHANCE_YOUR_CALM.

use super::frame::Reason;
use crate::allowance::{Allowance, Rate};

/// Frames that require a reply or do nothing: PING, SETTINGS, PRIORITY, frames of unknown kinds,
/// and empty DATA.
const CHATTER: Rate = Rate { burst: 500, per_second: 100 };

/// Streams that the peer opens in vain: it resets them (CVE-2023-44487), as a browser does that
/// leaves a page, or the server refuses them because of their number or the size of their head.
pub(super) const RESETS: Rate = Rate { burst: 200, per_second: 50 };

/// Streams that the server resets because of malformed requests or late frames.
const BREACHES: Rate = Rate { burst: 64, per_second: 5 };

/// WINDOW_UPDATE. `BYTES_PER_UPDATE` sent bytes allow one more.
const UPDATES: Rate = Rate { burst: 2_000, per_second: 200 };
const BYTES_PER_UPDATE: u64 = 256;

/// Small DATA frames that do not end their stream, as an interactive client or a stream of short
/// gRPC messages sends them.
const SMALL_DATA: Rate = Rate { burst: 10_000, per_second: 20_000 };

/// Bytes from which DATA is not small.
pub(super) const SMALL_DATA_BYTES: usize = 32;

/// Kinds of frames with an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chatter,
    Reset,
    Breach,
    Update,
    SmallData,
}

const RATES: [Rate; 5] = [CHATTER, RESETS, BREACHES, UPDATES, SMALL_DATA];

/// The remaining allowances of a connection.
#[derive(Debug)]
pub(super) struct Flood([Allowance; RATES.len()]);

impl Flood {
    pub(super) fn new(now_ms: u64) -> Flood {
        Flood(RATES.map(|rate| Allowance::new(rate, now_ms)))
    }

    /// Counts a frame.
    ///
    /// # Errors
    /// ENHANCE_YOUR_CALM: the allowance is used up.
    pub(super) fn count(&mut self, kind: Kind, now_ms: u64) -> Result<(), Reason> {
        let (rate, allowance) = (RATES[kind as usize], &mut self.0[kind as usize]);
        if allowance.take(rate, 1, now_ms) { Ok(()) } else { Err(Reason::ENHANCE_YOUR_CALM) }
    }

    /// Counts a sent frame of a message. The peer may answer each with a PING, as gRPC does to
    /// measure the bandwidth, and with WINDOW_UPDATE for the stream and the connection.
    pub(super) fn sent_frame(&mut self) {
        self.0[Kind::Chatter as usize].fill(CHATTER, 1_000);
        self.0[Kind::Update as usize].fill(UPDATES, 2_000);
    }

    /// Counts sent bytes, for which the peer may send WINDOW_UPDATE.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.0[Kind::Update as usize].fill(UPDATES, bytes as u64 * 1_000 / BYTES_PER_UPDATE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_allow_window_updates() {
        let mut flood = Flood::new(0);
        for n in 0..20_000 {
            flood.sent(1_000);
            assert_eq!(flood.count(Kind::Update, 0), Ok(()), "update {n}");
        }
    }
}
