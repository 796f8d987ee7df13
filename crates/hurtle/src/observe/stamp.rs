//! The timestamp of log lines, formatted once per second.

use std::time::{Duration, UNIX_EPOCH};

use crate::config::LogFormat;

/// The last second that `httpdate` can format: 9999-12-31T23:59:59Z.
const UNIX_SECS_MAX: u64 = 253_402_300_799;

/// The formatted time, cached until the second changes.
#[derive(Debug)]
pub(super) struct Stamp {
    write: fn(u64, &mut Vec<u8>),
    unix_secs: Option<u64>,
    text: Vec<u8>,
}

impl Stamp {
    /// Creates an empty cache for the style of `format`.
    pub(super) fn new(format: &LogFormat) -> Stamp {
        let write = match format {
            LogFormat::Combined => combined,
            LogFormat::Json(_) => rfc3339,
            LogFormat::Brief => |_, _: &mut Vec<u8>| {},
        };
        Stamp { write, unix_secs: None, text: Vec::new() }
    }

    /// Returns the formatted time of this second.
    pub(super) fn at(&mut self, unix_secs: u64) -> &[u8] {
        if self.unix_secs != Some(unix_secs) {
            self.unix_secs = Some(unix_secs);
            self.text.clear();
            (self.write)(unix_secs, &mut self.text);
        }
        &self.text
    }
}

/// `10/Oct/2000:13:55:36 +0000`
fn combined(unix_secs: u64, out: &mut Vec<u8>) {
    let date = imf_fixdate(unix_secs);
    let text = [&date[5..7], "/", &date[8..11], "/", &date[12..16], ":", &date[17..25], " +0000"];
    out.extend_from_slice(text.concat().as_bytes());
}

/// `2000-10-10T13:55:36Z` (RFC 3339 section 5.6)
fn rfc3339(unix_secs: u64, out: &mut Vec<u8>) {
    let date = imf_fixdate(unix_secs);
    let month = match &date[8..11] {
        "Jan" => "01",
        "Feb" => "02",
        "Mar" => "03",
        "Apr" => "04",
        "May" => "05",
        "Jun" => "06",
        "Jul" => "07",
        "Aug" => "08",
        "Sep" => "09",
        "Oct" => "10",
        "Nov" => "11",
        _ => "12",
    };
    let text = [&date[12..16], "-", month, "-", &date[5..7], "T", &date[17..25], "Z"];
    out.extend_from_slice(text.concat().as_bytes());
}

/// `Tue, 10 Oct 2000 13:55:36 GMT` (RFC 9110 section 5.6.7). `httpdate` computes the calendar; each
/// part has a fixed position.
fn imf_fixdate(unix_secs: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_secs.min(UNIX_SECS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_written_in_the_style_of_the_format() {
        #[rustfmt::skip]
        let rows = [
            (0, "01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00Z", "the epoch"),
            (971_186_136, "10/Oct/2000:13:55:36 +0000", "2000-10-10T13:55:36Z", "Apache's example"),
            (1_709_164_800, "29/Feb/2024:00:00:00 +0000", "2024-02-29T00:00:00Z", "a leap day"),
            (1_798_761_599, "31/Dec/2026:23:59:59 +0000", "2026-12-31T23:59:59Z", "a year's end"),
            (u64::MAX, "31/Dec/9999:23:59:59 +0000", "9999-12-31T23:59:59Z", "a clock gone mad"),
        ];
        for (unix_secs, apache, json, why) in rows {
            let text = |format| {
                String::from_utf8(Stamp::new(&format).at(unix_secs).to_vec()).expect("UTF-8")
            };
            assert_eq!(text(LogFormat::Combined), apache, "{why}");
            assert_eq!(text(LogFormat::Json(Vec::new())), json, "{why}");
            assert_eq!(text(LogFormat::Brief), "", "{why}");
        }
    }

    #[test]
    fn every_month_has_its_number() {
        for month in 1..=12u64 {
            // The 15th of each month of 2023, approximated by steps of 30.4 days.
            let unix_secs = 1_673_740_800 + (month - 1) * 2_629_800;
            let text = String::from_utf8(Stamp::new(&LogFormat::Json(vec![])).at(unix_secs).into());
            assert!(text.expect("UTF-8").starts_with(&format!("2023-{month:02}-")));
        }
    }

    #[test]
    fn the_text_follows_the_clock_forwards_and_backwards() {
        let mut stamp = Stamp::new(&LogFormat::Json(Vec::new()));
        assert_eq!(stamp.at(59), b"1970-01-01T00:00:59Z");
        assert_eq!(stamp.at(60), b"1970-01-01T00:01:00Z");
        assert_eq!(stamp.at(59), b"1970-01-01T00:00:59Z", "the clock was set back");
    }
}
