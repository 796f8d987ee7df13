//! Numbers for readers (three significant digits, thin spaces between thousands) and text that fits
//! into a page.

/// A narrow space that does not break a line.
const THIN: char = '\u{202f}';

/// Significant digits; the machine's noise is a few per cent.
const DIGITS: i32 = 3;

/// A number to three digits, from a thousand on to four: rates are compared with offered rates.
pub(super) fn sensible(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let places = (DIGITS - 1 - magnitude).clamp(0, 6) as usize;
    let unit = 10_f64.powi((magnitude - DIGITS).max(0));
    let value = if unit > 1.0 { (value / unit).round() * unit } else { value };
    grouped(&format!("{value:.places$}"))
}

/// A round number, such as a tick's: to at least four digits, without zeros at the end.
pub(super) fn round(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        let text = format!("{value:.3e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'));
    }
    // Ticks below 1 are multiples of steps such as 0.00025.
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let places = (4 - magnitude).max(4) as usize;
    let text = format!("{value:.places$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { grouped(text) }
}

/// A tick's number in short form: thousands as k, millions as M.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", round(value / 1e6)),
        v if v >= 1e3 => format!("{}k", round(value / 1e3)),
        _ => round(value),
    }
}

/// Thin spaces between the thousands.
fn grouped(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A place in a drawing, to a tenth.
pub(super) fn tenth(place: f64) -> String {
    format!("{place:.1}")
}

/// Text without the control characters that XML 1.0 (2.2) forbids.
pub(super) fn printable(text: &str) -> String {
    let is_allowed = |c: char| matches!(c, '\n' | '\t' | '\r') || !c.is_control();
    text.chars().map(|c| if is_allowed(c) { c } else { '\u{fffd}' }).collect()
}

/// A title of at most so many characters.
pub(super) fn cut(title: &str, length_max: usize) -> String {
    if title.chars().count() <= length_max {
        return title.to_owned();
    }
    title.chars().take(length_max - 1).chain(['…']).collect()
}

/// Names in a sentence.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Number of names up to which they are listed; beyond it "all but" is used.
const NAMED_MAX: usize = 5;

/// Names at the beginning of a sentence; of many, the missing ones are named.
pub(super) fn subject(those: &[String], others: &[String]) -> String {
    match () {
        () if those.len() <= NAMED_MAX || others.len() >= those.len() => listed(those),
        () if others.is_empty() => "All".to_owned(),
        () => format!("All but {}", listed(others)),
    }
}

/// As in `1 round` and `6 rounds`.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_three_digits() {
        let rows = [
            (0.0, "0", "nothing"),
            (0.012_345, "0.0123", "a small one keeps its digits"),
            (1.0, "1.00", "one"),
            (12.345, "12.3", "tens"),
            (123.45, "123", "hundreds are whole"),
            (12_345.6, "12\u{202f}350", "thousands are set apart"),
            (4_985.4, "4\u{202f}985", "a rate keeps a fourth digit"),
            (1_234_567.0, "1\u{202f}235\u{202f}000", "millions twice"),
            (-1_234.0, "-1\u{202f}234", "a sign is no digit"),
            (f64::NAN, "–", "no number"),
        ];
        for (value, want, why) in rows {
            assert_eq!(sensible(value), want, "{why}");
        }
    }

    #[test]
    fn ticks_are_short() {
        let rows = [
            (0.0, "0"),
            (0.25, "0.25"),
            (999.0, "999"),
            (5_000.0, "5k"),
            (20_000.0, "20k"),
            (2_500_000.0, "2.5M"),
            (0.000_01, "1e-5"),
            (3.0 * 0.000_025, "7.5e-5"),
            (0.000_25, "0.00025"),
            (3.0 * 0.000_25, "0.00075"),
            (-0.001_25, "-0.00125"),
            (3.0 * 0.1, "0.3"),
        ];
        for (value, want) in rows {
            assert_eq!(short(value), want);
        }
    }

    #[test]
    fn a_page_has_no_control_characters() {
        let rows = [
            ("a\nb\tc", "a\nb\tc", "configuration keeps its lines"),
            ("\u{1b}[31m\0", "\u{fffd}[31m\u{fffd}", "what XML forbids is replaced"),
            ("Füße →", "Füße →", "other languages stay"),
        ];
        for (text, want, why) in rows {
            assert_eq!(printable(text), want, "{why}");
        }
    }

    #[test]
    fn names_are_listed() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(listed(&names[..0]), "");
        assert_eq!(listed(&names[..1]), "a");
        assert_eq!(listed(&names[..2]), "a and b");
        assert_eq!(listed(&names), "a, b and c");
        let many: Vec<String> = (0..6).map(|n| n.to_string()).collect();
        assert_eq!(subject(&names, &many), "a, b and c");
        assert_eq!(subject(&many, &names), "All but a, b and c");
        assert_eq!(subject(&many, &[]), "All");
    }
}
