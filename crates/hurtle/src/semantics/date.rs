//! HTTP-date (RFC 9110 5.6.7), written and read. What time it is comes from `clock`.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// Length of an IMF-fixdate, in bytes.
pub const LEN: usize = 29;

/// 9999-12-31 23:59:59, the last second four digits of year can name, in seconds since the epoch.
const UNIX_SECS_MAX: u64 = 253_402_300_799;

/// The IMF-fixdate of a time in seconds since 1970, such as `Sun, 06 Nov 1994 08:49:37 GMT`. Times
/// after the year 9999 are written as its last second.
pub fn format(unix_secs: u64) -> [u8; LEN] {
    let since_epoch = Duration::from_secs(unix_secs.min(UNIX_SECS_MAX));
    let mut out = [0; LEN];
    write!(out.as_mut_slice(), "{}", HttpDate::from(UNIX_EPOCH + since_epoch))
        .expect("an IMF-fixdate has a fixed length, LEN");
    out
}

/// Seconds since 1970 of an HTTP-date in any of its three forms. `None` for all else, for dates
/// that do not exist, whose weekday is wrong, and for those before 1970. The two-digit years of RFC
/// 850 are 1970 to 2069.
pub fn parse(value: &[u8]) -> Option<u64> {
    let date: HttpDate = str::from_utf8(value).ok()?.parse().ok()?;
    Some(SystemTime::from(date).duration_since(UNIX_EPOCH).ok()?.as_secs())
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
    fn written() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT", "the last it can say");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(secs in 0..=UNIX_SECS_MAX) {
            prop_assert_eq!(parse(&format(secs)), Some(secs));
        }

        #[test]
        fn no_bytes_make_it_panic(value: Vec<u8>, text in "(Mon|Thursday)[, ]{0,2}[ -~]{0,30}") {
            parse(&value);
            parse(text.as_bytes());
        }
    }
}
