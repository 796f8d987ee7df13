//! `split_equals_whole`: it does not matter in which pieces bytes arrive.

use hurtle::h1::head::{HeadLimits, Progress, Scan};
use hurtle::h1::request::{self, Joined};

use crate::chunked::decode;

/// So wide that no limit is met: which is met first depends on the pieces.
const WIDE: HeadLimits = HeadLimits { head_bytes: 1 << 30, target_bytes: 1 << 30, fields: 1 << 10 };

/// The first byte says how long the pieces are; the rest, read as a head and as a chunked body,
/// comes to the same in pieces as at once.
pub fn split_equals_whole(data: &[u8]) {
    let Some((&piece, input)) = data.split_first() else { return };
    let piece = usize::from(piece).max(1);
    assert_eq!(head(input, piece), head(input, usize::MAX), "heads, in pieces of {piece}");
    assert_eq!(decode(input, piece), decode(input, usize::MAX), "bodies, in pieces of {piece}");
}

/// Where a head ends, if it is one. That it is none may be seen sooner in pieces, and by another
/// of its sins.
fn head(input: &[u8], piece: usize) -> Result<Option<usize>, ()> {
    let mut scan = Scan::default();
    let mut arrived = 0;
    while arrived < input.len() {
        arrived = arrived.saturating_add(piece).min(input.len());
        if let Progress::Complete(end) = scan.advance(&input[..arrived], &WIDE).map_err(drop)? {
            request::parse(&input[..end], &Joined::default(), &WIDE).map_err(drop)?;
            return Ok(Some(end));
        }
    }
    Ok(None)
}
