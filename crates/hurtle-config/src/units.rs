//! Parses and prints sizes (`"32 KiB"`) and durations (`"75s"`). `value` checks ranges.

use std::time::Duration;

use super::error::{ValueError, shown};

/// Units of size by their lower-case names: decimal (SI) and binary (IEC 80000-13).
const SIZE_UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];
const SIZE_UNITS_TEXT: &str =
    "units are B, KB, MB, GB, TB (by 1000) and KiB, MiB, GiB, TiB (by 1024)";

/// Units of time, in milliseconds.
const TIME_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
const TIME_UNITS_TEXT: &str = "units are ms, s, m and h";

/// Parses a size in bytes: a whole number and a unit in any case, with or without a space.
pub(super) fn size(text: &str) -> Result<u64, ValueError> {
    let (count, unit) = split(text, "32 KiB", SIZE_UNITS_TEXT)?;
    if matches!(unit.as_str(), "k" | "m" | "g" | "t") {
        let unit = unit.to_ascii_uppercase();
        return Err(ValueError::new(format!("{unit} could be by 1000 or by 1024"))
            .hint(format!("write \"{count} {unit}iB\" or \"{count} {unit}B\"")));
    }
    scaled(text, count, &unit, SIZE_UNITS, SIZE_UNITS_TEXT)
}

/// Parses a duration: a whole number and a unit in any case, with or without a space.
pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    let (count, unit) = split(text, "75s", TIME_UNITS_TEXT)?;
    scaled(text, count, &unit, TIME_UNITS, TIME_UNITS_TEXT).map(Duration::from_millis)
}

/// Parses a duration of the command line: as in a configuration, or whole seconds.
///
/// # Errors
/// The error in the text, and how to correct it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(secs) = text.parse() {
        return Ok(Duration::from_secs(secs));
    }
    duration(text).map_err(message)
}

/// Parses a size of the command line: as in a configuration, or bytes.
///
/// # Errors
/// The error in the text, and how to correct it.
pub fn parse_size(text: &str) -> Result<usize, String> {
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    usize::try_from(size(text).map_err(message)?).map_err(|e| e.to_string())
}

fn message(wrong: ValueError) -> String {
    match wrong.hint {
        Some(hint) => format!("{}; {hint}", wrong.what),
        None => wrong.what,
    }
}

/// Prints a size exactly, in the largest binary unit that divides it.
pub fn size_text(bytes: u64) -> String {
    let unit = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// Prints a duration in the largest unit that divides it, to the millisecond.
pub(super) fn duration_text(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".to_owned();
    }
    let unit = TIME_UNITS.iter().rev().find(|(_, scale)| ms.is_multiple_of(*scale));
    let (unit, scale) = unit.unwrap_or(&TIME_UNITS[0]);
    format!("{}{unit}", ms / scale)
}

fn split(text: &str, example: &str, units: &str) -> Result<(u64, String), ValueError> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    if digits.is_empty() {
        return Err(wrong("is not a number with a unit").hint(format!("write \"{example}\"")));
    }
    let count =
        digits.parse().map_err(|_| wrong("is too large").hint(format!("write \"{example}\"")))?;
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(wrong("has no unit").hint(units));
    }
    if unit.starts_with(['.', ',']) {
        return Err(wrong("is not a whole number").hint("take a smaller unit"));
    }
    Ok((count, unit.to_ascii_lowercase()))
}

fn scaled(
    text: &str,
    count: u64,
    unit: &str,
    units: &[(&str, u64)],
    units_text: &str,
) -> Result<u64, ValueError> {
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(
            ValueError::new(format!("{} has an unknown unit", shown(text))).hint(units_text)
        );
    };
    count.checked_mul(*scale).ok_or_else(|| {
        ValueError::new(format!("{} is too large", shown(text))).hint("take a smaller number")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        let table = [
            ("bytes", "12 B", Ok(12)),
            ("binary", "32 KiB", Ok(32 << 10)),
            ("decimal, no space", "16MB", Ok(16_000_000)),
            ("any case", "1gib", Ok(1 << 30)),
            ("nothing", "0 B", Ok(0)),
            ("a bare letter is ambiguous", "64M", Err("M could be by 1000 or by 1024")),
            ("no unit", "64", Err("\"64\" has no unit")),
            ("no number", "MiB", Err("\"MiB\" is not a number with a unit")),
            ("negative", "-1 MiB", Err("\"-1 MiB\" is not a number with a unit")),
            ("a fraction", "1.5 MiB", Err("\"1.5 MiB\" is not a whole number")),
            ("a unit of time", "64 s", Err("\"64 s\" has an unknown unit")),
            (
                "beyond 64 bits after the unit",
                "99999999999 GiB",
                Err("\"99999999999 GiB\" is too large"),
            ),
            (
                "beyond 64 bits before it",
                "99999999999999999999 B",
                Err("\"99999999999999999999 B\" is too large"),
            ),
            ("empty", "", Err("\"\" is not a number with a unit")),
        ];
        for (sentence, text, expected) in table {
            assert_eq!(
                size(text).map_err(|w| w.what),
                expected.map_err(str::to_owned),
                "{sentence}"
            );
        }
    }

    #[test]
    fn durations_are_parsed() {
        let table = [
            ("seconds", "75s", Ok(75_000)),
            ("milliseconds", "250ms", Ok(250)),
            ("minutes, a space", "2 m", Ok(120_000)),
            ("hours, any case", "1H", Ok(3_600_000)),
            ("no unit", "75", Err("\"75\" has no unit")),
            ("an unknown unit", "2 weeks", Err("\"2 weeks\" has an unknown unit")),
            ("not ASCII", "２s", Err("\"２s\" is not a number with a unit")),
        ];
        for (sentence, text, expected) in table {
            assert_eq!(
                duration(text).map_err(|w| w.what),
                expected.map(Duration::from_millis).map_err(str::to_owned),
                "{sentence}"
            );
        }
    }

    #[test]
    fn printed_values_are_parsed_back_equal() {
        for bytes in [0, 1, 1_000, 1_024, 1_025, 32 << 10, 3 << 20, 1 << 40, u64::MAX] {
            assert_eq!(size(&size_text(bytes)), Ok(bytes), "{}", size_text(bytes));
        }
        for ms in [0, 1, 999, 1_000, 75_000, 90_000, 3_600_000, 86_400_000] {
            let duration_ms = Duration::from_millis(ms);
            assert_eq!(duration(&duration_text(duration_ms)), Ok(duration_ms));
        }
        assert_eq!((size_text(32 << 10), size_text(1_500)), ("32 KiB".into(), "1500 B".into()));
        assert_eq!(duration_text(Duration::from_secs(75)), "75s");
    }
}
