//! Limits the bytes of the streams beside the requests to a rate.

use super::bulk::PIECE_BYTES;

/// Seconds of the rate that may be made up for after a pause of the server or the generator: these
/// machines pause for some milliseconds.
const MADE_UP_S: f64 = 0.02;

pub(super) struct Bucket {
    /// Bytes a nanosecond; `None`: unlimited.
    rate: Option<f64>,
    most: f64,
    held: f64,
    filled: u64,
}

impl Bucket {
    /// `rate`: in bytes a second.
    pub(super) fn new(rate: Option<f64>) -> Bucket {
        let most = rate.map_or(0.0, |rate| (rate * MADE_UP_S).max(PIECE_BYTES as f64));
        Bucket { rate: rate.map(|rate| rate / 1e9), most, held: 0.0, filled: 0 }
    }

    /// Bytes that may be moved now.
    pub(super) fn allowed(&mut self, now: u64) -> usize {
        let Some(rate) = self.rate else { return usize::MAX };
        self.held = self.most.min(self.held + rate * now.saturating_sub(self.filled) as f64);
        self.filled = now;
        self.held as usize
    }

    /// Bytes beyond the allowance delay later ones.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.held -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Moves whole pieces at intervals until the end; returns their bytes.
    fn moved(bucket: &mut Bucket, mut now: u64, end: u64, step: u64) -> usize {
        let mut all = 0;
        while now < end {
            if bucket.allowed(now) >= PIECE_BYTES {
                bucket.spend(PIECE_BYTES);
                all += PIECE_BYTES;
            }
            now += step;
        }
        all
    }

    #[test]
    fn a_rate_is_kept_to_a_piece() {
        for (sentence, rate, step) in [
            ("a slow one, looked at often", 1e6, 1_000),
            ("a fast one, looked at seldom", 1e9, 60_000),
        ] {
            let all = moved(&mut Bucket::new(Some(rate)), 0, 2_000 * MS, step) as f64;
            assert!((all - 2.0 * rate).abs() <= PIECE_BYTES as f64 * 2.0, "{sentence}: {all}");
        }
        assert_eq!(Bucket::new(None).allowed(0), usize::MAX, "without a rate all is allowed");
    }

    #[test]
    fn a_pause_adds_a_bounded_burst() {
        let mut bucket = Bucket::new(Some(1e9));
        moved(&mut bucket, 0, 100 * MS, 1_000);
        let after = bucket.allowed(10_000 * MS);
        assert_eq!(after, (1e9 * MADE_UP_S) as usize, "ten seconds were lost, not saved");
    }
}
