//! Pseudorandom numbers of a simulation, determined by its seed.

/// One in this many pieces is tiny.
const TINY_PART: u64 = 4;

/// Maximum size of a tiny piece, in bytes.
const TINY_BYTES_MAX: u64 = 16;

/// Pseudorandom numbers: SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the sequence of one part of a simulation.
    pub(crate) fn new(seed: u64, part: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ part);
        random.next();
        random
    }

    /// Returns the next number.
    #[allow(clippy::should_implement_trait)] // An endless sequence is no iterator.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Returns `true` with probability `1 / part`.
    pub(crate) fn is_one_in(&mut self, part: u64) -> bool {
        self.next().is_multiple_of(part)
    }

    /// Returns a random element of `of`, which must not be empty.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.within(0, of.len() as u64 - 1) as usize]
    }

    /// Returns the size of the next piece, from 1 to `max` bytes.
    pub(super) fn piece(&mut self, max: usize) -> usize {
        let max = max as u64;
        let most = if self.is_one_in(TINY_PART) { max.min(TINY_BYTES_MAX) } else { max };
        self.within(1, most) as usize
    }
}
