//! Formats names, sizes and times. Each type implements `Display`, so that a page is written into
//! one buffer without intermediate strings.

use std::fmt::{self, Display, Formatter, Write};

/// Bytes as HTML text, safe in element content and in quoted attribute values. Invalid UTF-8
/// becomes U+FFFD. Characters that are invisible, or change the display of others, are escaped as
/// `\u{...}`.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

/// Like `Text`, but marks escaped characters with an element, so that a name cannot imitate an
/// escape. For element content only.
pub(super) struct MarkedText<'a>(pub(super) &'a [u8]);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_text(f, self.0, ["", ""])
    }
}

impl Display for MarkedText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_text(f, self.0, ["<i>", "</i>"])
    }
}

fn write_text(f: &mut Formatter<'_>, bytes: &[u8], [open, close]: [&str; 2]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ if is_deceptive(character) => {
                    write!(f, "{open}\\u{{{:X}}}{close}", u32::from(character))?;
                }
                _ => f.write_char(character)?,
            }
        }
        if !chunk.invalid().is_empty() {
            f.write_char(char::REPLACEMENT_CHARACTER)?;
        }
    }
    Ok(())
}

/// True for characters that are invisible or reorder others: controls, line and paragraph
/// separators, bidirectional controls (`exe.gpj` for `jpg.exe`), and format characters. The joiners
/// U+200C and U+200D are allowed: Persian and many emoji need them.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// Relative reference of an entry (RFC 3986 section 4.2). All except unreserved characters are
/// percent-encoded. It starts with `./`, so that no name looks like a scheme or an authority.
pub(super) struct Href<'a> {
    pub(super) name: &'a [u8],
    pub(super) directory: bool,
}

impl Display for Href<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("./")?;
        Escaped(self.name).fmt(f)?;
        f.write_str(if self.directory { "/" } else { "" })
    }
}

/// Bytes in a URL: all except unreserved characters are percent-encoded.
pub(super) struct Escaped<'a>(pub(super) &'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            match byte {
                // Unreserved characters (RFC 3986 section 2.3).
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    f.write_char(char::from(*byte))?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// A number with grouped thousands: `1,234,567`.
pub(super) struct Grouped(pub(super) u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// A size in the largest binary unit with a value of at least 1: `512 B`, `1.5 KiB`, `2.0 TiB`.
pub(super) struct HumanSize(pub(super) u64);

impl Display for HumanSize {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let tenths = |power: usize| {
            let unit_bytes = 1_u128 << (10 * power);
            (u128::from(self.0) * 10 + unit_bytes / 2) / unit_bytes
        };
        // 1,023.96 KiB is shown as 1.0 MiB, not 1024.0 KiB.
        let power = (1..UNITS.len()).find(|power| tenths(*power) < 10_240).unwrap_or(UNITS.len());
        write!(f, "{}.{} {}", tenths(power) / 10, tenths(power) % 10, UNITS[power - 1])
    }
}

/// A UTC time. Displays as RFC 3339: `2026-11-20T14:01:15Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::files) struct UtcTime {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
}

impl UtcTime {
    const DAY_SECONDS: i64 = 86_400;
    /// The first and last second that RFC 3339 can represent (years 0000 and 9999).
    const FIRST: i64 = -62_167_219_200;
    const LAST: i64 = 253_402_300_799;

    /// Converts seconds since 1970-01-01T00:00:00Z. Times outside the years 0000 to 9999 are
    /// clamped.
    pub(in crate::files) fn from_unix(seconds: i64) -> UtcTime {
        let seconds = seconds.clamp(UtcTime::FIRST, UtcTime::LAST);
        // Years start in March, so that the leap day is the last of a year. They are counted in
        // cycles of 400 years from 0000-03-01, which is 719,468 days before 1970-01-01.
        let days = seconds.div_euclid(UtcTime::DAY_SECONDS) + 719_468;
        let (cycle, day_of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let leap_days = day_of_cycle / 1_460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
        let year_of_cycle = (day_of_cycle - leap_days) / 365;
        let first_day = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100;
        let day_of_year = day_of_cycle - first_day;
        // From March on, each group of five months has 153 days.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = 400 * cycle + year_of_cycle + i64::from(month <= 2);
        UtcTime { year, month, day, second_of_day: seconds.rem_euclid(UtcTime::DAY_SECONDS) }
    }

    /// Year, month (1 to 12), day (1 to 31), and hour, minute, second.
    pub(in crate::files) fn fields(self) -> ([i64; 3], [i64; 3]) {
        let second = self.second_of_day;
        ([self.year, self.month, self.day], [second / 3600, second / 60 % 60, second % 60])
    }

    /// `2026-11-20`
    pub(super) fn date(self) -> impl Display {
        let UtcTime { year, month, day, .. } = self;
        fmt::from_fn(move |f| write!(f, "{year:04}-{month:02}-{day:02}"))
    }

    /// `14:01`
    pub(super) fn minute(self) -> impl Display {
        let minutes = self.second_of_day / 60;
        fmt::from_fn(move |f| write!(f, "{:02}:{:02}", minutes / 60, minutes % 60))
    }
}

impl Display for UtcTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}:{:02}Z", self.date(), self.minute(), self.second_of_day % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_text() {
        let table: [(&str, &[u8], &str); 12] = [
            ("plain names stay", b"report 2026.pdf", "report 2026.pdf"),
            ("other scripts too", "naïve 日本語 عربي 👩‍🚀".as_bytes(), "naïve 日本語 عربي 👩‍🚀"),
            ("no element", b"<script>", "&lt;script&gt;"),
            ("no end of an attribute", b"\"'", "&quot;&#39;"),
            ("no character reference", b"&lt;", "&amp;lt;"),
            ("a scheme is only text", b"javascript:alert(1)", "javascript:alert(1)"),
            ("no overriding of direction", "x\u{202E}gpj.exe".as_bytes(), "x\\u{202E}gpj.exe"),
            ("no isolates or marks", "\u{2066}\u{200F}".as_bytes(), "\\u{2066}\\u{200F}"),
            ("no controls, old or new", b"a\n\x1B\x7F\xC2\x9B", "a\\u{A}\\u{1B}\\u{7F}\\u{9B}"),
            (
                "nothing invisible",
                "a\u{200B}\u{FEFF}\u{AD}".as_bytes(),
                "a\\u{200B}\\u{FEFF}\\u{AD}",
            ),
            ("what is not UTF-8 shows as such", b"a\xFFb\xE2\x82", "a\u{FFFD}b\u{FFFD}"),
            ("overlong forms are not UTF-8", b"\xC0\xBC", "\u{FFFD}\u{FFFD}"),
        ];
        for (sentence, name, expected) in table {
            assert_eq!(Text(name).to_string(), expected, "{sentence}");
        }
        assert_eq!(MarkedText("a\u{202E}".as_bytes()).to_string(), "a<i>\\u{202E}</i>");
        assert_eq!(MarkedText(b"a\\u{202E}").to_string(), "a\\u{202E}", "a real backslash");
    }

    #[test]
    fn names_as_references() {
        let table: [(&str, &[u8], bool, &str); 9] = [
            ("plain names stay", b"Report-2_3.pdf~", false, "./Report-2_3.pdf~"),
            ("a directory ends in a slash", b"docs", true, "./docs/"),
            ("no scheme", b"javascript:alert(1)", false, "./javascript%3Aalert%281%29"),
            ("no query or fragment", b"a?b#c", false, "./a%3Fb%23c"),
            ("a percent sign is a name's own", b"%2e%2e", false, "./%252e%252e"),
            ("a backslash is no slash", b"..\\", false, "./..%5C"),
            ("no end of an attribute", b"\"'><&", false, "./%22%27%3E%3C%26"),
            ("UTF-8 byte by byte", "é".as_bytes(), false, "./%C3%A9"),
            ("any byte", b"\x01 \xFF", false, "./%01%20%FF"),
        ];
        for (sentence, name, directory, expected) in table {
            assert_eq!(Href { name, directory }.to_string(), expected, "{sentence}");
        }
    }

    #[test]
    fn numbers_and_sizes() {
        let table = [
            (0, "0", "0 B"),
            (1, "1", "1 B"),
            (999, "999", "999 B"),
            (1_023, "1,023", "1023 B"),
            (1_024, "1,024", "1.0 KiB"),
            (12_345, "12,345", "12.1 KiB"),
            (1_048_524, "1,048,524", "1023.9 KiB"),
            (1_048_525, "1,048,525", "1.0 MiB"),
            (5_000_000_000, "5,000,000,000", "4.7 GiB"),
            (u64::MAX, "18,446,744,073,709,551,615", "16.0 EiB"),
        ];
        for (number, grouped, human) in table {
            assert_eq!(Grouped(number).to_string(), grouped);
            assert_eq!(HumanSize(number).to_string(), human);
        }
    }

    #[test]
    fn times() {
        let table = [
            ("the epoch", 0, "1970-01-01T00:00:00Z"),
            ("the second before", -1, "1969-12-31T23:59:59Z"),
            ("a leap day", 951_782_400, "2000-02-29T00:00:00Z"),
            ("the day after it", 951_868_800, "2000-03-01T00:00:00Z"),
            ("the end of a leap year", 1_735_689_599, "2024-12-31T23:59:59Z"),
            ("no leap day in 2100", 4_107_542_400, "2100-03-01T00:00:00Z"),
            ("RFC 9110's example", 784_111_777, "1994-11-06T08:49:37Z"),
            ("after 2038", 2_147_483_648, "2038-01-19T03:14:08Z"),
            ("the last that can be written", i64::MAX, "9999-12-31T23:59:59Z"),
            ("the first that can be written", i64::MIN, "0000-01-01T00:00:00Z"),
        ];
        for (sentence, seconds, expected) in table {
            assert_eq!(UtcTime::from_unix(seconds).to_string(), expected, "{sentence}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = UtcTime::from_unix(UtcTime::FIRST);
        for seconds in (UtcTime::FIRST..=UtcTime::LAST).step_by(86_400).skip(1) {
            let next = UtcTime::from_unix(seconds);
            let expected = match (before.month, before.day) {
                (12, 31) => (before.year + 1, 1, 1),
                (month, day) if day == days_in(before.year, month) => (before.year, month + 1, 1),
                (month, day) => (before.year, month, day + 1),
            };
            assert_eq!((next.year, next.month, next.day), expected);
            before = next;
        }
    }

    fn days_in(year: i64, month: i64) -> i64 {
        match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}
