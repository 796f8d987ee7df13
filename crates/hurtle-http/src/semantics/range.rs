//! The Range field (RFC 9110 section 14.2). The caller checks that the method allows ranges;
//! [`conditional`](super::conditional) evaluates If-Range.

use std::ops::Range;

use super::fields;

/// Maximum number of ranges in a request. With more the field is ignored: many small parts cost the
/// server more than the whole (RFC 9110 section 17.15).
pub const RANGES_MAX: usize = 16;

/// The parts of a representation that a Range field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole representation: the field is ignored. Status 200.
    Whole,
    /// One part. Status 206.
    One(Range<u64>),
    /// Two or more parts that do not overlap, in the requested order. Status 206 with
    /// multipart/byteranges.
    Many(Vec<Range<u64>>),
    /// All ranges lie outside of the representation. Status 416.
    Unsatisfiable,
}

/// Selects the parts of a representation of `len` bytes. All returned ranges are non-empty and lie
/// within it.
///
/// RFC 9110 section 14.2 lets a server ignore any Range. This one ignores an unknown unit, a syntax
/// error, more than [`RANGES_MAX`] ranges, and ranges that overlap. So the parts never add up to
/// more than the whole.
pub fn select(field: &[u8], len: u64) -> Selection {
    let Some(range_set) = strip_unit(fields::trim_ows(field)) else { return Selection::Whole };
    let mut listed = 0;
    let mut selected: Vec<Range<u64>> = Vec::new();
    for element in fields::list(range_set) {
        listed += 1;
        let Some(spec) = RangeSpec::parse(element) else { return Selection::Whole };
        if listed > RANGES_MAX {
            return Selection::Whole;
        }
        let Some(range) = spec.within(len) else { continue };
        if selected.iter().any(|other| range.start < other.end && other.start < range.end) {
            return Selection::Whole;
        }
        selected.push(range);
    }
    match (listed, selected.as_mut_slice()) {
        // RFC 9110 section 14.1.1: a range set has at least one element.
        (0, _) => Selection::Whole,
        (_, []) => Selection::Unsatisfiable,
        (_, [only]) => Selection::One(only.clone()),
        _ => Selection::Many(selected),
    }
}

/// Returns `true` if a Range field has exactly one range, with valid syntax.
pub fn is_single(field: &[u8]) -> bool {
    let Some(range_set) = strip_unit(fields::trim_ows(field)) else { return false };
    let mut specs = fields::list(range_set).map(RangeSpec::parse);
    matches!((specs.next(), specs.next()), (Some(Some(_)), None))
}

/// Parses a Content-Range field (RFC 9110 section 14.4) into the range and the complete length.
/// `None`: the complete length is unknown, the range is not within it, or the syntax is wrong.
pub fn content_range(field: &[u8]) -> Option<(Range<u64>, u64)> {
    let (unit, range) = fields::trim_ows(field).split_at_checked(b"bytes ".len())?;
    let slash = range.iter().position(|&byte| byte == b'/')?;
    let dash = range[..slash].iter().position(|&byte| byte == b'-')?;
    let (first, last) = (number(&range[..dash])?, number(&range[dash + 1..slash])?);
    let len = number(&range[slash + 1..])?;
    let is_valid = unit.eq_ignore_ascii_case(b"bytes ") && first <= last && last < len;
    // `number` returns `u64::MAX` for what it cannot represent.
    (is_valid && len < u64::MAX).then(|| (first..last + 1, len))
}

/// Returns the part after `bytes=`. RFC 9110 section 14.1: unit names are case-insensitive.
fn strip_unit(field: &[u8]) -> Option<&[u8]> {
    const UNIT: &[u8] = b"bytes=";
    let (unit, range_set) = field.split_at_checked(UNIT.len())?;
    unit.eq_ignore_ascii_case(UNIT).then_some(range_set)
}

/// One range as written (RFC 9110 section 14.1.2).
enum RangeSpec {
    /// `first-last` or `first-`; both positions are inclusive.
    Int { first: u64, last: u64 },
    /// `-length`: the last `length` bytes.
    Suffix { length: u64 },
}

impl RangeSpec {
    fn parse(element: &[u8]) -> Option<RangeSpec> {
        let dash = element.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&element[..dash], &element[dash + 1..]);
        if first.is_empty() {
            return Some(RangeSpec::Suffix { length: number(last)? });
        }
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        // RFC 9110 section 14.1.1: a last position before the first is a syntax error, not
        // unsatisfiable.
        (first <= last).then_some(RangeSpec::Int { first, last })
    }

    fn within(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            RangeSpec::Int { first, last } => first..last.saturating_add(1).min(len),
            RangeSpec::Suffix { length } => len.saturating_sub(length)..len,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Parses a decimal number. A number too large for 64 bits gives `u64::MAX`, which is beyond any
/// representation.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(value.saturating_mul(10).saturating_add(u64::from(digit)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Selection::{Many, One, Unsatisfiable, Whole};
    use super::*;

    #[test]
    fn of_a_thousand_bytes() {
        let rows = [
            ("the first byte", "bytes=0-0", One(0..1)),
            ("the first half", "bytes=0-499", One(0..500)),
            ("to the end", "bytes=500-", One(500..1000)),
            ("everything, as a part", "bytes=0-", One(0..1000)),
            ("the last byte", "bytes=-1", One(999..1000)),
            ("a suffix longer than all is all", "bytes=-5000", One(0..1000)),
            ("a last position beyond the end is clamped", "bytes=990-2000", One(990..1000)),
            ("an absurd last position too", "bytes=990-99999999999999999999999", One(990..1000)),
            ("the unit in any case", "BYTES=0-0", One(0..1)),
            ("leading zeros", "bytes=007-0008", One(7..9)),
            ("whitespace around elements", "bytes= 0-0 ,\t2-2", Many(vec![0..1, 2..3])),
            ("empty elements", "bytes=,0-0,,", One(0..1)),
            ("adjacent ranges do not overlap", "bytes=0-9,10-19", Many(vec![0..10, 10..20])),
            ("the order asked for is kept", "bytes=-1,0-0", Many(vec![999..1000, 0..1])),
            ("of two the satisfiable one", "bytes=2000-,5-6", One(5..7)),
            ("at the end", "bytes=1000-", Unsatisfiable),
            ("beyond the end", "bytes=5000-6000", Unsatisfiable),
            ("an absurd first position", "bytes=99999999999999999999999-", Unsatisfiable),
            ("the last no bytes", "bytes=-0", Unsatisfiable),
            ("all of several", "bytes=1000-,-0", Unsatisfiable),
            ("overlapping by a byte", "bytes=0-10,10-20", Whole),
            ("the same twice", "bytes=0-0,0-0", Whole),
            ("one inside another", "bytes=0-,5-6", Whole),
            ("a suffix into another", "bytes=0-500,-600", Whole),
            ("last before first", "bytes=5-4", Whole),
            ("one bad element spoils the rest", "bytes=0-0,x", Whole),
            ("another unit", "lines=0-0", Whole),
            ("no unit", "0-0", Whole),
            ("a space before the equals sign", "bytes =0-0", Whole),
            ("a space inside a range", "bytes=0 - 0", Whole),
            ("a sign", "bytes=+1-2", Whole),
            ("a negative last position", "bytes=1--2", Whole),
            ("hexadecimal", "bytes=0x1-2", Whole),
            ("a lone dash", "bytes=-", Whole),
            ("no dash", "bytes=5", Whole),
            ("no ranges", "bytes=", Whole),
            ("only commas", "bytes=,,", Whole),
            ("an empty field", "", Whole),
        ];
        for (why, field, expected) in rows {
            assert_eq!(select(field.as_bytes(), 1000), expected, "{why}: {field}");
        }
    }

    #[test]
    fn content_ranges() {
        let rows = [
            ("bytes 0-0/1", Some((0..1, 1))),
            ("bytes 4-9/10", Some((4..10, 10))),
            (" BYTES 4-9/10 ", Some((4..10, 10))),
            ("bytes 4-10/10", None),
            ("bytes 5-4/10", None),
            ("bytes 4-9/*", None),
            ("bytes */10", None),
            ("bytes=4-9/10", None),
            ("lines 4-9/10", None),
            ("bytes 4-9", None),
            ("bytes 0-1/99999999999999999999999", None),
            ("bytes 4-9/10, bytes 4-9/10", None),
            ("", None),
        ];
        for (field, expected) in rows {
            assert_eq!(content_range(field.as_bytes()), expected, "{field}");
        }
    }

    #[test]
    fn single_ranges() {
        for (field, expected) in [
            ("bytes=0-0", true),
            ("bytes=5-", true),
            ("bytes=-5", true),
            ("bytes=0-0,2-3", false),
            ("bytes=0-0,x", false),
            ("bytes=5-4", false),
            ("lines=0-0", false),
            ("bytes=", false),
        ] {
            assert_eq!(is_single(field.as_bytes()), expected, "{field}");
        }
    }

    #[test]
    fn no_range_of_an_empty_representation_is_satisfiable() {
        for field in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"] {
            assert_eq!(select(field.as_bytes(), 0), Unsatisfiable, "{field}");
        }
        assert_eq!(select(b"bytes=x", 0), Whole, "a syntax error is still ignored");
    }

    #[test]
    fn more_ranges_than_the_limit_are_ignored() {
        let field = |count: usize| {
            let specs: Vec<_> = (0..count).map(|n| format!("{0}-{0}", n * 2)).collect();
            format!("bytes={}", specs.join(","))
        };
        let most = select(field(RANGES_MAX).as_bytes(), 1000);
        assert!(matches!(most, Many(ranges) if ranges.len() == RANGES_MAX));
        assert_eq!(select(field(RANGES_MAX + 1).as_bytes(), 1000), Whole);
        let unsatisfiable = format!("{},{}", field(RANGES_MAX), "5000-");
        assert_eq!(select(unsatisfiable.as_bytes(), 1000), Whole, "they count as well");
    }

    fn check(selection: Selection, len: u64) {
        let ranges = match selection {
            Whole | Unsatisfiable => return,
            One(range) => vec![range],
            Many(ranges) => {
                assert!((2..=RANGES_MAX).contains(&ranges.len()));
                ranges
            }
        };
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len));
        let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert!(total <= len, "parts add up to more than the whole");
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_whole(
            field in "bytes=([0-9]{0,3}-[0-9]{0,3},?){1,4}",
            len in 0_u64..1200,
        ) {
            check(select(field.as_bytes(), len), len);
        }

        #[test]
        fn ranges_of_any_numbers_lie_within_the_file(field in "bytes=[0-9]{0,21}-[0-9]{0,21}", len: u64) {
            check(select(field.as_bytes(), len), len);
        }

        #[test]
        fn no_bytes_make_it_panic(field: Vec<u8>, len: u64) {
            let field = [b"bytes=".as_slice(), &field].concat();
            check(select(&field, len), len);
        }
    }
}
