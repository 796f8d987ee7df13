//! Variables in the arguments of directives: `$name` and `${name}`, and `$1` to `$9`.

/// A part of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    /// The name of a variable, or the digit of a part of the path.
    Variable(&'a str),
}

/// The parts of an argument. A `$` without a name is text.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, name, behind)) = first(rest) {
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        parts.push(Part::Variable(name));
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// Writes the values of variables in place of those that have one. The others stay, in braces only
/// where the text behind them would become a part of their names.
pub(super) fn with_values(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    // The variable at the end of `out`, which is not written yet.
    let mut open: Option<&str> = None;
    for part in parts(text) {
        let written = match part {
            Part::Text(text) => text.to_owned(),
            Part::Variable(name) => match value(name) {
                Some(value) => value,
                None => {
                    push(&mut out, open.replace(name), "");
                    continue;
                }
            },
        };
        if !written.is_empty() {
            push(&mut out, open.take(), &written);
            out.push_str(&written);
        }
    }
    push(&mut out, open, "");
    out
}

/// Writes an argument without the braces that it does not need.
pub(super) fn plain(text: &str) -> String {
    with_values(text, |_| None)
}

/// Adds a variable before the text `next`.
fn push(out: &mut String, name: Option<&str>, next: &str) {
    let Some(name) = name else { return };
    let is_digit = name.starts_with(|c: char| c.is_ascii_digit());
    match next.starts_with(is_of_name) && !is_digit {
        true => out.push_str(&format!("${{{name}}}")),
        false => out.push_str(&format!("${name}")),
    }
}

/// The text before the first variable, its name, and the text behind it.
fn first(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('$').find_map(|(at, sign)| {
        let (name, behind) = leading_name(&text[at + sign.len()..])?;
        Some((&text[..at], name, behind))
    })
}

/// The name at the begin of a text, and the text behind it.
fn leading_name(text: &str) -> Option<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('{') {
        let (name, behind) = inner.split_once('}')?;
        return (!name.is_empty() && name.chars().all(is_of_name)).then_some((name, behind));
    }
    let end = match text.chars().next()? {
        // For nginx `$12` is the first part before a 2.
        '1'..='9' => 1,
        _ => text.find(|c: char| !is_of_name(c)).unwrap_or(text.len()),
    };
    (end > 0).then(|| text.split_at(end))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_a_whole() {
        let rows = [
            ("$host", "H"),
            ("$hostname", "$hostname"),
            ("https://$host/x", "https://H/x"),
            ("$http_host$host", "${http_host}H"),
            ("${host}name", "Hname"),
            ("${uri}name$host", "${uri}nameH"),
            ("${uri}/$host", "$uri/H"),
            ("$host$1$12", "H$1$12"),
            ("$uri$args", "$uri$args"),
            ("${host", "${host"),
            ("a$|b$", "a$|b$"),
            ("", ""),
        ];
        for (text, expected) in rows {
            let found = with_values(text, |name| (name == "host").then(|| "H".to_owned()));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(parts("a$1b"), [Part::Text("a"), Part::Variable("1"), Part::Text("b")]);
    }
}
