//! Numbers for a reader: times, sizes and rates with units that suit them.

/// A time with a unit that suits it.
pub fn time(seconds: f64) -> String {
    let days = seconds / 86_400.0;
    match seconds {
        s if s < 0.001 => format!("{:.0}us", s * 1e6),
        s if s < 1.0 => format!("{}ms", (s * 1e5).round() / 100.0),
        s if s < 60.0 => format!("{}s", (s * 10.0).round() / 10.0),
        s if s < 3_600.0 => format!("{:.0}min", s / 60.0),
        s if s < 86_400.0 => format!("{:.1}h", s / 3_600.0),
        _ => format!("{days:.1}d"),
    }
}

/// A short time in three digits, such as a latency: `850us`, `2.41ms`, `180ms`, `1.20s`.
pub fn latency(seconds: f64) -> String {
    match seconds * 1e6 {
        us if us < 999.5 => format!("{us:.0}us"),
        us if us < 999_500.0 => format!("{}ms", digits(us / 1e3)),
        us => format!("{}s", digits(us / 1e6)),
    }
}

/// A size with a unit that suits it.
pub fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1_024.0 && unit + 1 < units.len() {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// A number of events, in three digits or more: `0`, `0.25`, `12.5`, `4312`, `12.5k`, `3.10M`.
pub fn count(number: f64) -> String {
    match number {
        n if n < 0.005 => "0".to_owned(),
        n if n < 999.5 => digits(n),
        n if n < 9_999.5 => format!("{n:.0}"),
        n if n < 999_500.0 => format!("{}k", digits(n / 1e3)),
        n => format!("{}M", digits(n / 1e6)),
    }
}

/// A share between 0 and 1 in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Three digits, without a fraction that is zero.
fn digits(number: f64) -> String {
    let text = match number {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    };
    match text.trim_end_matches('0').strip_suffix('.') {
        Some(whole) if text.contains('.') => whole.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suitable_units() {
        let times = [0.000_25, 0.0025, 1.5, 90.0, 5_400.0, 172_800.0].map(time);
        assert_eq!(times, ["250us", "2.5ms", "1.5s", "2min", "1.5h", "2.0d"]);
        assert_eq!(
            [0.0, 1_023.0, 1_536.0, 1e13].map(size),
            ["0 B", "1023 B", "1.5 KiB", "9.1 TiB"]
        );
        let latencies = [0.0, 0.000_85, 0.002_414, 0.18, 0.9996, 1.2, 61.0].map(latency);
        assert_eq!(latencies, ["0us", "850us", "2.41ms", "180ms", "1s", "1.20s", "61s"]);
        let counts = [0.0, 0.001, 0.25, 1.0, 12.5, 100.0, 999.9, 4_312.4, 12_500.0, 3.1e6];
        assert_eq!(
            counts.map(count),
            ["0", "0", "0.25", "1", "12.5", "100", "1000", "4312", "12.5k", "3.10M"]
        );
        assert_eq!([0.0, 0.9987, 1.0].map(percent), ["0.0%", "99.9%", "100.0%"]);
    }
}
