//! Paths, durations, sizes and values with variables, as nginx writes them.

use super::report::Report;
use super::syntax::Directive;

/// Joins a directory and a location: `/srv` and `/images/` are `/srv/images`.
pub(super) fn join(root: &str, location: &str) -> String {
    let root = root.trim_end_matches('/');
    let rest = location.trim_matches('/');
    match (root, rest) {
        ("", "") => "/".to_owned(),
        (root, "") => root.to_owned(),
        (root, rest) => format!("{root}/{rest}"),
    }
}

/// A path that nginx looks up in its own directory; a remark names the one that is written.
pub(super) fn absolute(d: &Directive, of: Prefix, report: &mut Report) -> Option<String> {
    let path = d.arg(0);
    if path.starts_with('/') {
        return Some(path.to_owned());
    }
    // A drive of Windows, or a variable.
    if path.is_empty()
        || path.contains([':', '$', '\\'])
        || path.split('/').any(|part| part == "..")
    {
        return None;
    }
    let (directory, option) = match of {
        Prefix::Files => ("/usr/local/nginx", "--prefix"),
        Prefix::Configuration => ("/etc/nginx", "--conf-path"),
    };
    let path = format!("{directory}/{path}");
    report.remark(
        d,
        &format!("{path} is meant if nginx has {directory} ({option} in `nginx -V`); else write the path there"),
    );
    Some(path)
}

/// The directory to which a path is relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// The directory for files such as `root`, which `--prefix` of nginx sets.
    Files,
    /// The directory of the configuration, which `--conf-path` of nginx sets.
    Configuration,
}

/// The path of a mount: a location without the slash at its end.
pub(super) fn mount_path(location: &str) -> String {
    match location.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

/// Seconds of a duration, such as `30`, `30s`, `5m`, `1h 30m` or `30d`; `None`: not one, or of
/// parts of a second.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let ms = milliseconds(text)?;
    ms.is_multiple_of(1_000).then_some(ms / 1_000)
}

/// Milliseconds of a duration, such as `30`, `500ms`, `1h 30m` or `30d`; `None`: not a duration.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let (unit, tail) = rest[digits..].split_at(unit_len(&rest[digits..]));
        let factor = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => DAY_MS,
            "w" => 7 * DAY_MS,
            "M" => 30 * DAY_MS,
            "y" => 365 * DAY_MS,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = tail.trim_start();
    }
    Some(total)
}

const DAY_MS: u64 = 86_400_000;

fn unit_len(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len())
}

/// Bytes of a size, such as `512`, `8k`, `20m` or `1g`; `None`: not a size.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// `true` if a value has a variable.
pub(super) fn has_variable(text: &str) -> bool {
    text.contains('$')
}

#[cfg(test)]
mod tests {
    use super::{bytes, join, milliseconds, mount_path, seconds};

    #[test]
    fn values() {
        assert_eq!((seconds("75"), seconds("1h 30m")), (Some(75), Some(5_400)));
        assert_eq!((seconds("2000ms"), seconds("x"), seconds("")), (Some(2), None, None));
        assert_eq!((seconds("500ms"), milliseconds("1s 500ms")), (None, Some(1_500)));
        assert_eq!(seconds("99999999999999999999y"), None);
        assert_eq!((bytes("20m"), bytes("0"), bytes("1x")), (Some(20 << 20), Some(0), None));
        assert_eq!(bytes("18446744073709551615g"), None);
        assert_eq!(join("/srv/", "/images/"), "/srv/images");
        assert_eq!((join("/", "/"), join("/srv", "/")), ("/".to_owned(), "/srv".to_owned()));
        assert_eq!((mount_path("/a/"), mount_path("/")), ("/a".to_owned(), "/".to_owned()));
    }
}
