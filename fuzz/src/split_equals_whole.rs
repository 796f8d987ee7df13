//! `split_equals_whole`: it does not matter in which pieces bytes arrive.

use hurtle::h1::Sin;
use hurtle::h1::head::{HeadLimits, Progress, Scan};

use crate::chunked::decode;

/// So wide that no limit is met; a sin is then the same whenever it is seen.
const WIDE: HeadLimits = HeadLimits { head_bytes: 1 << 30, target_bytes: 1 << 30, fields: 1 << 10 };

/// The first byte says how long the pieces are; the rest, read as a head and as a chunked body,
/// comes to the same in pieces as at once.
pub fn split_equals_whole(data: &[u8]) {
    let Some((&piece, input)) = data.split_first() else { return };
    let piece = usize::from(piece).max(1);
    assert_eq!(scan(input, piece), scan(input, usize::MAX), "heads, in pieces of {piece}");
    assert_eq!(decode(input, piece), decode(input, usize::MAX), "bodies, in pieces of {piece}");
}

fn scan(input: &[u8], piece: usize) -> Result<Progress, Sin> {
    let mut scan = Scan::default();
    let mut arrived = 0;
    while arrived < input.len() {
        arrived = arrived.saturating_add(piece).min(input.len());
        match scan.advance(&input[..arrived], &WIDE)? {
            Progress::Partial => {}
            complete => return Ok(complete),
        }
    }
    Ok(Progress::Partial)
}
