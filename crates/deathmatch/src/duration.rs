//! Times as users write them. Pure.

use std::time::Duration;

/// The longest time that may be written.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// Reads a time such as `500ms`, `10s`, `2m`, `1h` or `10`.
///
/// # Errors
/// It is no time from 1 ms to 24 h.
pub fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().map_or(f64::NAN, |number| number * seconds);
    let fits = (0.001..=DURATION_MAX.as_secs_f64()).contains(&seconds);
    match fits {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("write a time from 1ms to 24h, such as 10s or 2m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("10", 10_000), ("1.5m", 90_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "0", "-1s", "10x", "25h", "1 s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
