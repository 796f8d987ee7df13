//! Runs a target without libFuzzer: the seeds unchanged, then changed at random. It is not guided
//! by coverage, so it finds shallow bugs only. The same seed number gives the same inputs on every
//! machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::Target;

/// Maximum length of a generated input, in bytes.
const INPUT_BYTES_MAX: usize = 4096;
/// Maximum number of changes to one input.
const CHANGES_MAX: usize = 8;
/// Bytes with a meaning in HTTP or in numbers.
const TELLING: &[u8] = b"\r\n\t \0:;,=/%.-*?#&\"\\09afAFz~\x7f\x80\xff";

/// End of a run.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this many inputs in addition to the seeds.
    Inputs(u64),
    /// After this time.
    Elapsed(Duration),
}

/// The first input that made a target panic.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The input.
    pub input: Vec<u8>,
    /// Number of inputs tried before it.
    pub after: u64,
}

/// Runs `target` with `seeds` and with inputs derived from them. Returns the number of inputs.
/// `seed` starts the random numbers. A panic's message goes to standard error.
pub fn drive(target: Target, seeds: &[Vec<u8>], seed: u64, until: Until) -> Result<u64, Found> {
    let mut tried = 0;
    let mut one = |input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        tried += 1;
        outcome.map_err(|_| Found { input: input.to_vec(), after: tried - 1 })
    };
    one(b"")?;
    for input in seeds {
        one(input)?;
    }
    let mut random = Random(seed);
    let mut generated = 0;
    let started = Instant::now();
    while match until {
        Until::Inputs(inputs) => generated < inputs,
        Until::Elapsed(time) => started.elapsed() < time,
    } {
        one(&random.input(seeds))?;
        generated += 1;
    }
    Ok(tried)
}

/// SplitMix64: small, sufficient, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        match self.below(2) {
            0 => TELLING[self.below(TELLING.len())],
            _ => self.next() as u8,
        }
    }

    fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = match seeds.get(self.below(seeds.len() + 1)) {
            Some(seed) => seed.clone(),
            None => (0..self.below(64)).map(|_| self.byte()).collect(),
        };
        for _ in 0..=self.below(CHANGES_MAX) {
            self.change(&mut input, seeds);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let end = at + self.below(input.len() - at + 1).min(64);
        match self.below(7) {
            0 => input.insert(at, self.byte()),
            1 => drop(input.drain(at..end)),
            2 => input.extend_from_within(at..end),
            3 => input.truncate(at),
            4 if !seeds.is_empty() => {
                let other = &seeds[self.below(seeds.len())];
                input.truncate(at);
                input.extend_from_slice(&other[self.below(other.len() + 1)..]);
            }
            5 if at < input.len() => input[at] ^= 1 << self.below(8),
            _ if at < input.len() => input[at] = self.byte(),
            _ => input.push(self.byte()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, INPUT_BYTES_MAX, Random, Until, drive};
    use crate::Target;

    const INPUTS: Until = Until::Inputs(20_000);

    #[test]
    fn a_panic_is_found_and_the_same_one_again() {
        let no_percent = Target { name: "a", run: |data| assert!(!data.contains(&b'%')) };
        let seeds = [b"/a/b".to_vec()];
        let found = drive(no_percent, &seeds, 1, INPUTS).unwrap_err();
        assert!(found.input.contains(&b'%') && found.after > 1, "{found:?}");
        assert_eq!(drive(no_percent, &seeds, 1, INPUTS), Err(found));
    }

    #[test]
    fn seeds_come_first_and_unchanged() {
        let not_that = Target { name: "a", run: |data| assert_ne!(data, b"exactly this") };
        let seeds = [b"x".to_vec(), b"exactly this".to_vec()];
        let found = drive(not_that, &seeds, 1, INPUTS);
        assert_eq!(found, Err(Found { input: seeds[1].clone(), after: 2 }));
    }

    #[test]
    fn a_target_without_fault_gets_every_input() {
        let fine = Target { name: "a", run: |_| {} };
        assert_eq!(drive(fine, &[], 1, Until::Inputs(100)), Ok(101));
    }

    #[test]
    fn inputs_are_many_and_short_enough() {
        let mut random = Random(1);
        let seeds = [vec![b'a'; INPUT_BYTES_MAX]];
        let inputs: Vec<Vec<u8>> = (0..1000).map(|_| random.input(&seeds)).collect();
        assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
        let different: std::collections::HashSet<_> = inputs.iter().collect();
        assert!(different.len() > 900, "{} of 1000", different.len());
    }
}
