//! `split_equals_whole`: splitting the input does not change the result.

use hurtle_http::h1::head::{Progress, Scan};
use hurtle_http::h1::request;
use hurtle_http::request::{HeadLimits, Joined};

use crate::chunked::decode;

/// Limits that no input reaches: which one is exceeded first depends on the pieces.
const WIDE: HeadLimits = HeadLimits { head_bytes: 1 << 30, target_bytes: 1 << 30, fields: 1 << 10 };

/// The first byte is the size of the pieces. The rest, parsed as a head and as a chunked body,
/// gives the same result in pieces as at once.
pub fn split_equals_whole(data: &[u8]) {
    let Some((&piece, input)) = data.split_first() else { return };
    let piece = usize::from(piece).max(1);
    assert_eq!(head(input, piece), head(input, usize::MAX), "heads, in pieces of {piece}");
    assert_eq!(decode(input, piece), decode(input, usize::MAX), "bodies, in pieces of {piece}");
}

/// Length of the head. Errors are not distinguished: in pieces another error may be found first.
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
