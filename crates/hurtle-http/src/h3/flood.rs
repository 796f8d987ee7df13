//! Rate limits on frames and instructions that cost the peer little and the server much. Each kind
//! has an allowance that refills with time. Beyond it, the connection ends with H3_EXCESSIVE_LOAD.

use super::error::{Code, Error};
use crate::allowance::{Allowance, Rate};

/// Frames of the control stream, and unidirectional streams of unknown types.
const CHATTER: Rate = Rate { burst: 500, per_second: 100 };

/// Streams that the peer opens in vain: it cancels them (CVE-2023-44487), as a browser does that
/// leaves a page, or their head is beyond the limit.
const RESETS: Rate = Rate { burst: 200, per_second: 50 };

/// Streams that the server resets because of malformed requests.
const BREACHES: Rate = Rate { burst: 64, per_second: 5 };

/// Small DATA frames, as an interactive client sends them, and frames of unknown types on request
/// streams.
const SMALL_FRAMES: Rate = Rate { burst: 10_000, per_second: 2_000 };

/// Instructions of the encoder stream. A Duplicate has one byte, and copies an entry of up to the
/// whole table.
const INSTRUCTIONS: Rate = Rate { burst: 10_000, per_second: 2_000 };

/// Bytes from which DATA is not small.
pub(super) const SMALL_DATA_BYTES: u64 = 32;

/// Kinds of frames and instructions with an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chatter,
    Reset,
    Breach,
    SmallFrame,
    Instruction,
}

const RATES: [Rate; 5] = [CHATTER, RESETS, BREACHES, SMALL_FRAMES, INSTRUCTIONS];

const REASONS: [&str; 5] = [
    "too many frames on the control stream",
    "too many requests that are cancelled or have too large a head",
    "too many malformed requests",
    "too many small frames",
    "too many instructions for the dynamic table",
];

/// The remaining allowances of a connection.
#[derive(Debug)]
pub(super) struct Flood([Allowance; RATES.len()]);

impl Flood {
    pub(super) fn new(now_ms: u64) -> Flood {
        Flood(RATES.map(|rate| Allowance::new(rate, now_ms)))
    }

    /// Counts `count` frames or instructions.
    ///
    /// # Errors
    /// H3_EXCESSIVE_LOAD: the allowance is used up.
    pub(super) fn count(&mut self, kind: Kind, count: u32, now_ms: u64) -> Result<(), Error> {
        let at = kind as usize;
        match self.0[at].take(RATES[at], count, now_ms) {
            true => Ok(()),
            false => Err(Error::connection(Code::EXCESSIVE_LOAD, REASONS[at])),
        }
    }
}
