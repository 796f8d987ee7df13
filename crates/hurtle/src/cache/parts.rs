//! The bytes of an incomplete response: parts of one representation, all with the same strong
//! validator.

use std::ops::Range;

use bytes::Bytes;

use super::Charge;

/// Maximum number of parts of one response that are stored.
const PARTS_MAX: usize = 64;

/// Memory of a part in addition to its bytes, in bytes.
pub(super) const PART_BYTES: u64 = 64;

/// Parts of a representation. They do not overlap and are in order.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// The length of the whole representation, in bytes.
    len: u64,
    parts: Vec<Part>,
}

/// A run of bytes, which are charged; shared by the versions of a response.
#[derive(Clone, Debug)]
struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Parts {
    /// Creates an incomplete representation without bytes. `len` is the length of the whole.
    pub(crate) fn new(len: u64) -> Parts {
        Parts { len, parts: Vec::new() }
    }

    /// Returns the length of the whole representation, in bytes.
    pub(crate) fn complete_len(&self) -> u64 {
        self.len
    }

    /// Returns the number of parts.
    pub(super) fn count(&self) -> u64 {
        self.parts.len() as u64
    }

    /// Returns whether all bytes are stored.
    pub(super) fn is_whole(&self) -> bool {
        self.covers(&(0..self.len))
    }

    /// Returns whether all bytes of a range are stored.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        let mut reached = range.start;
        for part in &self.parts {
            if part.start <= reached && reached < part.end() {
                reached = part.end();
            }
        }
        reached >= range.end
    }

    /// Returns the bytes of a range that is stored, as slices in order.
    pub(crate) fn slices(&self, range: &Range<u64>) -> Vec<Bytes> {
        let slice = |part: &Part| {
            let (start, end) = (part.start.max(range.start), part.end().min(range.end));
            // Both lie within the part, so the differences are less than its length.
            (start < end).then(|| {
                part.bytes.slice((start - part.start) as usize..(end - part.start) as usize)
            })
        };
        self.parts.iter().filter_map(slice).collect()
    }

    /// Adds bytes of the same representation, which are charged. `reserve` charges memory for parts
    /// that are copied together. `None`: the bytes lie outside, or there are too many parts.
    pub(super) fn with(
        &self,
        start: u64,
        bytes: &Bytes,
        reserve: impl Fn(u64) -> Option<Charge>,
    ) -> Option<Parts> {
        let end = start.checked_add(bytes.len() as u64).filter(|end| *end <= self.len)?;
        let mut parts = self.parts.clone();
        for gap in self.gaps(start..end) {
            let slice = bytes.slice((gap.start - start) as usize..(gap.end - start) as usize);
            parts.push(Part { start: gap.start, bytes: slice });
        }
        parts.sort_by_key(|part| part.start);
        merge(&mut parts, reserve);
        (parts.len() <= PARTS_MAX).then_some(Parts { len: self.len, parts })
    }

    /// Returns the ranges within `range` that are not stored.
    fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut reached) = (Vec::new(), range.start);
        for part in &self.parts {
            let start = part.start.min(range.end);
            if reached < start {
                gaps.push(reached..start);
            }
            reached = reached.max(part.end());
        }
        if reached < range.end {
            gaps.push(reached..range.end);
        }
        gaps
    }

    /// Returns the bytes, which must be whole; they are charged. `None`: `reserve` has no memory.
    pub(super) fn join(&self, reserve: impl Fn(u64) -> Option<Charge>) -> Option<Bytes> {
        match self.parts.as_slice() {
            [only] => Some(only.bytes.clone()),
            parts => {
                let charge = reserve(self.len)?;
                Some(charge.of(parts.iter().flat_map(|part| &part.bytes).copied().collect()))
            }
        }
    }
}

/// Joins adjacent parts of similar length, or any if there are too many. A byte is copied only into
/// a part that is at least half as long again, so the copies of a byte grow with the logarithm of
/// the length.
fn merge(parts: &mut Vec<Part>, reserve: impl Fn(u64) -> Option<Charge>) {
    let mut at = 1;
    while at < parts.len() {
        let (left, right) = (&parts[at - 1], &parts[at]);
        let (a, b) = (left.bytes.len(), right.bytes.len());
        let is_similar = a.min(b) >= a.max(b) / 2;
        if left.end() == right.start
            && (is_similar || parts.len() > PARTS_MAX)
            && let Some(charge) = reserve((a + b) as u64 + PART_BYTES)
        {
            let bytes = charge.of([&*left.bytes, &*right.bytes].concat().into());
            parts[at - 1] = Part { start: left.start, bytes };
            parts.remove(at);
            // The longer part may now be similar to the one before it.
            at = at.saturating_sub(1).max(1);
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::charge::Space;
    use super::*;

    const LEN: u64 = 300;

    fn whole() -> Vec<u8> {
        (0..LEN).map(|n| (n % 251) as u8).collect()
    }

    proptest! {
        #[test]
        fn any_sequence_of_parts_gives_the_bytes_of_the_whole(
            ranges in proptest::collection::vec((0..LEN, 1..40_u64), 1..200),
            wanted in (0..LEN, 1..LEN),
        ) {
            let (whole, space) = (whole(), Space::new(1 << 20));
            let mut parts = Parts::new(LEN);
            let mut stored = vec![false; LEN as usize];
            for (start, len) in ranges {
                let range = start as usize..(start + len).min(LEN) as usize;
                let bytes = Bytes::copy_from_slice(&whole[range.clone()]);
                let bytes = space.charge(bytes.len() as u64).unwrap().of(bytes);
                if let Some(more) = parts.with(start, &bytes, |len| space.charge(len)) {
                    parts = more;
                    stored[range].fill(true);
                }
                prop_assert!(parts.parts.len() <= PARTS_MAX);
                prop_assert!(parts.parts.windows(2).all(|two| two[0].end() <= two[1].start));
            }
            let wanted = wanted.0..(wanted.0 + wanted.1).min(LEN);
            let (from, to) = (wanted.start as usize, wanted.end as usize);
            prop_assert_eq!(parts.covers(&wanted), stored[from..to].iter().all(|stored| *stored));
            if parts.covers(&wanted) {
                prop_assert_eq!(parts.slices(&wanted).concat(), &whole[from..to]);
            }
            prop_assert_eq!(parts.is_whole(), stored.iter().all(|stored| *stored));
            if parts.is_whole() {
                prop_assert_eq!(&*parts.join(|len| space.charge(len)).unwrap(), &*whole);
            }
            let sent = parts.slices(&(0..LEN));
            drop(parts);
            prop_assert_eq!(space.used() == 0, sent.is_empty(), "slices are charged");
            drop(sent);
            prop_assert_eq!(space.used(), 0);
        }
    }

    #[test]
    fn parts_are_few_and_lie_within_the_whole() {
        let space = Space::new(1 << 20);
        let add = |parts: &Parts, start: u64, bytes: &'static [u8]| {
            parts.with(start, &Bytes::from_static(bytes), |len| space.charge(len))
        };
        let mut parts = Parts::new(LEN);
        for n in 0..PARTS_MAX as u64 {
            parts = add(&parts, n * 3, b"a").unwrap();
        }
        assert!(add(&parts, 3 * PARTS_MAX as u64, b"a").is_none(), "one too many");
        assert!(add(&parts, 1, b"bc").is_some(), "it fills a gap");
        assert!(add(&parts, LEN - 1, b"ab").is_none(), "beyond the end");
        assert!(add(&parts, u64::MAX, b"ab").is_none());
    }

    #[test]
    fn bytes_that_arrive_in_order_are_in_few_parts() {
        let space = Space::new(1 << 20);
        let mut parts = Parts::new(4_000);
        for start in 0..4_000 {
            let byte = Bytes::from_static(b"x");
            parts = parts.with(start, &byte, |len| space.charge(len)).unwrap();
            assert!(parts.parts.len() < 20, "{}", parts.parts.len());
        }
        assert!(parts.is_whole());
    }
}
