//! Moments as RFC 3339 writes them (section 5.6), as seconds since 1970. Pure.

const DAY_S: i64 = 86_400;

/// `2026-01-31T12:00:00Z`, with an optional fraction and offset; `None` if it is no such time.
pub fn parse(text: &str) -> Option<f64> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, rest) = (rest.get(..8)?, rest.get(8..)?);
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    // A leap second is the second after it, as in POSIX.
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let fraction = match fraction.strip_prefix('.') {
        Some(digits) if is_digits(digits) => format!("0.{digits}").parse().ok()?,
        None if fraction.is_empty() => 0.0,
        _ => return None,
    };
    let whole = days_before(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
    Some((whole - offset_s(zone)?) as f64 + fraction)
}

/// In UTC, to the millisecond.
pub fn rfc3339(unix_s: f64) -> String {
    let ms = (unix_s * 1e3).round() as i64;
    let (seconds, ms) = (ms.div_euclid(1000), ms.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    // The civil date of a day number: H. Hinnant, chrono-Compatible Low-Level Date Algorithms.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Three numbers of so many digits.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut all = [0; 3];
    for (number, digits) in all.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits && is_digits(part))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(all)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Seconds east of UTC.
fn offset_s(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes().first()? {
        b'Z' | b'z' => return (zone.len() == 1).then_some(0),
        b'+' => 1,
        _ => -1,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 || !is_digits(hours) || !is_digits(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_in(year: i64, month: i64) -> i64 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_before(next.0, next.1, 1) - days_before(year, month, 1)
}

/// Days since 1970-01-01 (Hinnant, as above).
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_rfc_3339_has_them() {
        // The examples of section 5.8, and edges of the calendar.
        for (text, unix_s, written) in [
            ("1985-04-12T23:20:50.52Z", 482_196_050.52, "1985-04-12T23:20:50.520Z"),
            ("1996-12-19T16:39:57-08:00", 851_042_397.0, "1996-12-20T00:39:57.000Z"),
            ("1937-01-01T12:00:27.87+00:20", -1_041_337_172.13, "1937-01-01T11:40:27.870Z"),
            ("1970-01-01t00:00:00z", 0.0, "1970-01-01T00:00:00.000Z"),
            ("2000-02-29 23:59:60Z", 951_868_800.0, "2000-03-01T00:00:00.000Z"),
        ] {
            let read = parse(text).unwrap();
            assert!((read - unix_s).abs() < 1e-6, "{text}: {read}");
            assert_eq!(rfc3339(read), written, "{text}");
        }
        for text in [
            "",
            "now",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T12:00Z",
            "2026-01-01T12:00:00.Z",
            "2026-01-01T12:00:00+1:00",
            "2026-01-01T12:00:00Zx",
            "26-01-01T12:00:00Z",
            "2026-01-01T12:00:00\u{e9}Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
