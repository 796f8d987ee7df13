//! Formats and parses HTTP-date (RFC 9110 section 5.6.7). The caller supplies the time.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// Length of an IMF-fixdate, in bytes.
pub const LEN: usize = 29;

/// 9999-12-31 23:59:59 in seconds since 1970: the last time with a four-digit year.
const UNIX_SECS_MAX: u64 = 253_402_300_799;

/// Formats seconds since 1970 as IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`. A time after
/// the year 9999 is formatted as the last second of that year.
pub fn format(unix_secs: u64) -> [u8; LEN] {
    let since_epoch = Duration::from_secs(unix_secs.min(UNIX_SECS_MAX));
    let mut out = [0; LEN];
    write!(out.as_mut_slice(), "{}", HttpDate::from(UNIX_EPOCH + since_epoch))
        .expect("an IMF-fixdate has a fixed length, LEN");
    out
}

/// Parses an HTTP-date in any of its three forms to seconds since 1970. `None` if the date is
/// malformed, does not exist, has the wrong weekday, or is before 1970. Two-digit years (RFC 850)
/// mean 1970 to 2069.
pub fn parse(value: &[u8]) -> Option<u64> {
    let date: HttpDate = str::from_utf8(value).ok()?.parse().ok()?;
    Some(SystemTime::from(date).duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Like `parse`, but ignores the case of letters, as caches should (RFC 9111 4.2), and the weekday,
/// which says nothing that the date does not say.
pub fn parse_leniently(value: &[u8]) -> Option<u64> {
    parse(value).or_else(|| {
        let end = value.iter().position(|byte| matches!(byte, b',' | b' '))?;
        if value.len() > LEN_MAX {
            return None;
        }
        let (name, rest) = value.split_at(end);
        let names = WEEKDAYS.iter().map(|weekday| match name.len() {
            3 => &weekday[..3],
            _ => weekday,
        });
        let rest = in_title_case(rest);
        names.map(|name| [name.as_bytes(), &rest].concat()).find_map(|date| parse(&date))
    })
}

/// Length of the longest date, of RFC 850: `Wednesday, 06-Nov-94 08:49:37 GMT`.
const LEN_MAX: usize = 33;

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Capitalises words, and the zone as a whole.
fn in_title_case(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_ascii_lowercase();
    for at in 1..text.len() {
        if !text[at - 1].is_ascii_alphabetic() {
            text[at].make_ascii_uppercase();
        }
    }
    if text.ends_with(b" Gmt") {
        let zone = text.len() - 3;
        text[zone..].make_ascii_uppercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn read() {
        let rows: &[(&str, &str, Option<u64>)] = &[
            ("IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("asctime", "Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("asctime with two digits of day", "Wed Nov 16 08:49:37 1994", Some(784_975_777)),
            ("the epoch", "Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("29 February of a leap year", "Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800)),
            ("29 February of another year", "Sat, 29 Feb 2025 00:00:00 GMT", None),
            ("30 February", "Fri, 30 Feb 2024 00:00:00 GMT", None),
            ("a weekday that day was not", "Mon, 06 Nov 1994 08:49:37 GMT", None),
            ("before 1970", "Wed, 31 Dec 1969 23:59:59 GMT", None),
            ("a zone other than GMT", "Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("lower case", "sun, 06 nov 1994 08:49:37 gmt", None),
            ("hour 24", "Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("ISO 8601", "1994-11-06T08:49:37Z", None),
            ("two dates in one field", "Sun, 06 Nov 1994 08:49:37 GMT, x", None),
            ("empty", "", None),
        ];
        for (why, value, expected) in rows {
            assert_eq!(parse(value.as_bytes()), *expected, "{why}: {value:?}");
        }
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 GM\xd4"), None, "not ASCII");
    }

    #[test]
    fn read_leniently() {
        let time = Some(784_111_777);
        for (why, value, expected) in [
            ("as it should be", "Sun, 06 Nov 1994 08:49:37 GMT", time),
            ("lower case", "sun, 06 nov 1994 08:49:37 gmt", time),
            ("upper case", "SUN, 06 NOV 1994 08:49:37 GMT", time),
            ("asctime", "Sun Nov  6 08:49:37 1994", time),
            ("asctime of another weekday", "Mon Nov  6 08:49:37 1994", time),
            ("asctime in lower case", "mon nov  6 08:49:37 1994", time),
            ("RFC 850 of another weekday", "Monday, 06-Nov-94 08:49:37 GMT", time),
            ("IMF-fixdate of another weekday", "Tue, 06 Nov 1994 08:49:37 GMT", time),
            ("a weekday that is none", "Xyz, 06 Nov 1994 08:49:37 GMT", time),
            ("29 February of another year", "Sat, 29 Feb 2025 00:00:00 GMT", None),
            ("another zone", "Sun, 06 Nov 1994 08:49:37 utc", None),
            ("no date", "tomorrow", None),
        ] {
            assert_eq!(parse_leniently(value.as_bytes()), expected, "{why}: {value:?}");
        }
    }

    #[test]
    fn written() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT", "the last it can say");
    }

    proptest! {
        #[test]
        fn formatted_dates_parse_back(secs in 0..=UNIX_SECS_MAX) {
            prop_assert_eq!(parse(&format(secs)), Some(secs));
        }

        #[test]
        fn no_bytes_make_it_panic(value: Vec<u8>, text in "(Mon|Thursday)[, ]{0,2}[ -~]{0,30}") {
            parse(&value);
            parse(text.as_bytes());
            parse_leniently(&value);
            parse_leniently(text.as_bytes());
        }
    }
}
