//! Rate limits on frames that cost the peer little and the server much: an allowance refills with
//! time up to a burst.

/// The allowance of a kind of frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) burst: u32,
    pub(crate) per_second: u32,
}

/// The remaining allowance of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// In thousandths of a frame.
    left: u32,
    filled_ms: u64,
}

impl Allowance {
    pub(crate) fn new(rate: Rate, now_ms: u64) -> Allowance {
        Allowance { left: rate.burst * 1_000, filled_ms: now_ms }
    }

    /// Counts `count` frames; `false` if the allowance does not suffice.
    pub(crate) fn take(&mut self, rate: Rate, count: u32, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.filled_ms);
        self.filled_ms = now_ms;
        self.fill(rate, passed_ms.saturating_mul(u64::from(rate.per_second)));
        match self.left.checked_sub(count.saturating_mul(1_000)) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }

    /// Adds thousandths of a frame.
    pub(crate) fn fill(&mut self, rate: Rate, thousandths: u64) {
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
        let rate = Rate { burst: 200, per_second: 50 };
        let mut allowance = Allowance::new(rate, 0);
        let mut pass = |n: u32, now_ms| (0..n).all(|_| allowance.take(rate, 1, now_ms));
        assert!(pass(200, 0));
        assert!(!pass(1, 0));
        assert!(pass(50, 1_000));
        assert!(!pass(1, 1_000));
        assert!(pass(200, u64::MAX), "it fills up, and not beyond");
        assert!(!pass(1, u64::MAX));
        let mut allowance = Allowance::new(rate, 0);
        assert!(allowance.take(rate, 199, 0));
        assert!(!allowance.take(rate, 2, 0), "two at once");
        assert!(!allowance.take(rate, u32::MAX, 0));
        assert!(allowance.take(rate, 1, 0));
    }
}
