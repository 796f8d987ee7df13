//! Rate limits on frames that cost the peer little and the server much. Each kind of frame has an
//! allowance that refills with time. A frame beyond it ends the connection with ENHANCE_YOUR_CALM.

use super::frame::Reason;

/// Frames that require a reply or do nothing: PING, SETTINGS, PRIORITY, frames of unknown kinds,
/// and empty DATA.
const CHATTER: Rate = Rate { burst: 500, per_second: 100 };

/// Streams that the peer opens and resets (CVE-2023-44487). A browser that leaves a page resets
/// many.
const RESETS: Rate = Rate { burst: 200, per_second: 50 };

/// Streams that the server resets because of malformed requests or late frames.
const BREACHES: Rate = Rate { burst: 64, per_second: 5 };

/// WINDOW_UPDATE. `BYTES_PER_UPDATE` sent bytes allow one more.
const UPDATES: Rate = Rate { burst: 2_000, per_second: 200 };
const BYTES_PER_UPDATE: u64 = 256;

/// Small DATA frames that do not end their stream, as an interactive client sends them.
const SMALL_DATA: Rate = Rate { burst: 10_000, per_second: 2_000 };

/// Bytes from which DATA is not small.
pub(super) const SMALL_DATA_BYTES: usize = 32;

/// The allowance of a kind of frame.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    per_second: u32,
}

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

#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// In thousandths of a frame.
    left: u32,
    filled_ms: u64,
}

impl Flood {
    pub(super) fn new(now_ms: u64) -> Flood {
        Flood(RATES.map(|rate| Allowance { left: rate.burst * 1_000, filled_ms: now_ms }))
    }

    /// Counts a frame.
    ///
    /// # Errors
    /// ENHANCE_YOUR_CALM: the allowance is used up.
    pub(super) fn count(&mut self, kind: Kind, now_ms: u64) -> Result<(), Reason> {
        let (rate, allowance) = (RATES[kind as usize], &mut self.0[kind as usize]);
        let passed_ms = now_ms.saturating_sub(allowance.filled_ms);
        allowance.filled_ms = now_ms;
        allowance.fill(rate, passed_ms.saturating_mul(u64::from(rate.per_second)));
        allowance.left = allowance.left.checked_sub(1_000).ok_or(Reason::ENHANCE_YOUR_CALM)?;
        Ok(())
    }

    /// Counts sent bytes, for which the peer may send WINDOW_UPDATE.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.0[Kind::Update as usize].fill(UPDATES, bytes as u64 * 1_000 / BYTES_PER_UPDATE);
    }
}

impl Allowance {
    fn fill(&mut self, rate: Rate, thousandths: u64) {
        let full = rate.burst * 1_000;
        let left = u64::from(self.left).saturating_add(thousandths);
        self.left = u32::try_from(left).map_or(full, |left| left.min(full));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowances_end_and_fill_with_time() {
        let mut flood = Flood::new(0);
        let mut pass = |n: u32, now_ms| (0..n).all(|_| flood.count(Kind::Reset, now_ms).is_ok());
        assert!(pass(200, 0));
        assert!(!pass(1, 0));
        assert!(pass(50, 1_000));
        assert!(!pass(1, 1_000));
        assert!(pass(200, u64::MAX), "it fills up, and not beyond");
        assert!(!pass(1, u64::MAX));
    }

    #[test]
    fn sent_bytes_allow_window_updates() {
        let mut flood = Flood::new(0);
        for n in 0..20_000 {
            flood.sent(1_000);
            assert_eq!(flood.count(Kind::Update, 0), Ok(()), "update {n}");
        }
    }
}
