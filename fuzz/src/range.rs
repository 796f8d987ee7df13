//! `range`: the ranges selected by a Range field.

use hurtle_http::semantics::range::{RANGES_MAX, Selection, select};

/// Lengths of the representation.
const LENGTHS: [u64; 5] = [0, 1, 100, 10_000, u64::MAX];

/// Parts are non-empty, lie within the representation, do not overlap, and are limited in number.
pub fn range(field: &[u8]) {
    for len in LENGTHS {
        let mut parts = match select(field, len) {
            Selection::Whole | Selection::Unsatisfiable => continue,
            Selection::One(part) => vec![part],
            Selection::Many(parts) => parts,
        };
        assert!(parts.len() <= RANGES_MAX, "{} parts", parts.len());
        assert!(parts.iter().all(|part| !part.is_empty() && part.end <= len), "{parts:?} of {len}");
        parts.sort_by_key(|part| part.start);
        assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start), "{parts:?} overlap");
    }
}
