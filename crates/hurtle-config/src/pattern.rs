//! Parses path patterns and the placeholders in a rule's target. `hurtle::site` matches them.

use super::error::{ValueError, shown};
use super::target::check_decoded;
use super::types::Glob;

/// Parses a pattern; one that no path can match is an error.
pub(super) fn pattern(text: &str) -> Result<Glob, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    if text.is_empty() {
        return Err(wrong("matches nothing").hint("\"**\" matches every path"));
    }
    if text.contains("***") {
        return Err(
            wrong("has three stars").hint("\"*\" matches within a segment, \"**\" across segments")
        );
    }
    check_decoded(text)?;
    // Every path begins with a slash, so a pattern with one must begin with it or with a wildcard.
    if text.contains('/') && !text.starts_with(['/', '*']) {
        return Err(
            wrong("can match no path").hint(format!("write {}", shown(&format!("/{text}"))))
        );
    }
    Ok(Glob(text.to_owned()))
}

/// Number of wildcards in a pattern; `**` is one.
pub(super) fn wildcards(pattern: &str) -> usize {
    pattern.matches('*').count() - pattern.matches("**").count()
}

/// Replaces each placeholder (`{1}`, or the name of a group) of a target by a letter, so that its
/// syntax can be checked.
///
/// # Errors
/// A placeholder without a wildcard, or an unbalanced brace.
pub(super) fn fill_placeholders(
    target: &str,
    wildcards: usize,
    names: &[String],
) -> Result<String, ValueError> {
    let mut filled = String::new();
    let mut rest = target;
    while let Some((before, opened)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((number, after)) = opened.split_once('}') else {
            return Err(ValueError::new(format!("{} has a {{ without }}", shown(target)))
                .hint("write {1} for the text of the first wildcard"));
        };
        let is_name = names.iter().any(|name| name == number);
        if !is_name && !number.parse().is_ok_and(|n: usize| (1..=wildcards).contains(&n)) {
            let hint = match wildcards {
                _ if !names.is_empty() => format!("the groups have the names {}", names.join(", ")),
                _ if number.parse::<usize>().is_err() => {
                    "write {1} for the text of the first wildcard".to_owned()
                }
                0 => "the pattern has no wildcard".to_owned(),
                usize::MAX => "placeholders begin with {1}".to_owned(),
                1 => "the pattern has one wildcard: {1}".to_owned(),
                n => format!("the pattern has wildcards {{1}} to {{{n}}}"),
            };
            let what = format!("{} has no wildcard", shown(&format!("{{{number}}}")));
            return Err(ValueError::new(what).hint(hint));
        }
        filled.push('x');
        rest = after;
    }
    if rest.contains('}') || filled.contains('}') {
        return Err(ValueError::new(format!("{} has a }} without {{", shown(target)))
            .hint("write {1} for the text of the first wildcard"));
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        let table = [
            ("a path", "/old", None),
            ("a segment's wildcard", "/old/*", None),
            ("a name anywhere", "*.css", None),
            ("a wildcard first", "**/x", None),
            ("no leading slash", "old/*", Some("write \"/old/*\"")),
            ("empty", "", Some("\"**\" matches every path")),
            ("three stars", "/***", Some("\"*\" matches within a segment, \"**\" across segments")),
            ("a query", "/a?b=*", Some("the query is not part of a path: leave it out")),
            ("percent-encoded", "/a%20b", Some("paths are written decoded: \" \" for %20")),
        ];
        for (sentence, text, hint) in table {
            let found = pattern(text).err().and_then(|wrong| wrong.hint);
            assert_eq!(found.as_deref(), hint, "{sentence}");
        }
    }

    #[test]
    fn placeholders_stand_for_wildcards_that_exist() {
        assert_eq!([wildcards("/a"), wildcards("/*/**/*"), wildcards("**")], [0, 3, 1]);
        let table = [
            ("none", "/new", 0, Ok("/new")),
            ("one", "/new/{1}.html", 1, Ok("/new/x.html")),
            ("twice and out of order", "{2}{1}{1}", 2, Ok("xxx")),
            ("beyond the last", "/{2}", 1, Err("the pattern has one wildcard: {1}")),
            ("before the first", "/{0}", 2, Err("the pattern has wildcards {1} to {2}")),
            ("not a number", "/{path}", 0, Err("write {1} for the text of the first wildcard")),
            (
                "Caddy's, with a pattern that is wrong itself",
                "/{re.1}",
                usize::MAX,
                Err("write {1} for the text of the first wildcard"),
            ),
            ("with a wrong pattern", "/{0}", usize::MAX, Err("placeholders begin with {1}")),
            (
                "larger than any number",
                "/{99999999999999999999}",
                0,
                Err("write {1} for the text of the first wildcard"),
            ),
            ("not closed", "/{1", 1, Err("write {1} for the text of the first wildcard")),
            ("not opened", "/1}", 1, Err("write {1} for the text of the first wildcard")),
        ];
        for (sentence, target, wildcards, expected) in table {
            assert_eq!(
                fill_placeholders(target, wildcards, &[])
                    .map_err(|wrong| wrong.hint.unwrap_or_default()),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{sentence}"
            );
        }
    }
}
