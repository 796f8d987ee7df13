//! Targets of rules, with `$1`, `%1` and variables, as those of rules here.

use super::rule::Query;

/// The values of the parts of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'v> {
    /// The template of `$1` to `$9`; `None`: there is no such group.
    pub(super) groups: Option<&'v str>,
    /// The template of the whole path, with its slash.
    pub(super) path: Option<&'v str>,
    /// The host of the request.
    pub(super) host: Option<&'v str>,
    /// The groups of a condition.
    pub(super) conditions: Conditions<'v>,
    pub(super) has_base: bool,
}

/// Values of the groups `%1` to `%9` of a rule's conditions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conditions<'v> {
    None,
    /// Those of the rule's own expression.
    OfPath,
    /// The value of each group, `%1` first.
    Of(&'v [String]),
}

/// Translates a target, without its query.
pub(super) fn expand(text: &str, values: &Values<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let digit = after.chars().next().and_then(|c| c.to_digit(10));
        match (c, digit) {
            ('$', Some(0)) => {
                let whole = values.groups.filter(|whole| *whole == "{1}");
                out.push_str(whole.ok_or("of groups it knows $1 to $9")?);
            }
            ('$', Some(number)) => match values.groups {
                Some(whole) if whole.starts_with('{') => {
                    let own =
                        if whole == "{n}" { format!("{{{number}}}") } else { whole.to_owned() };
                    out.push_str(&own);
                }
                _ => return Err(format!("its expression has no group for ${number}")),
            },
            ('%', Some(number)) if number > 0 => match values.conditions {
                Conditions::OfPath => out.push_str(&format!("{{{number}}}")),
                Conditions::Of(groups) => {
                    let group = groups.get(number as usize - 1);
                    out.push_str(
                        group.ok_or_else(|| format!("no condition has a group for %{number}"))?,
                    );
                }
                Conditions::None => return Err(format!("no condition has a group for %{number}")),
            },
            ('%', None) if after.starts_with('{') => {
                let (name, tail) = after[1..].split_once('}').ok_or("%{ has no }")?;
                out.push_str(&variable(name, values)?);
                rest = tail;
                continue;
            }
            ('{' | '}', _) => return Err("a brace in it cannot be written".to_owned()),
            ('\\', _) => {
                let Some(next) = after.chars().next() else { return Ok(out) };
                out.push(next);
                rest = &after[next.len_utf8()..];
                continue;
            }
            (c, _) => {
                out.push(c);
                rest = after;
                continue;
            }
        }
        rest = &after[1..];
    }
    Ok(out)
}

fn variable(name: &str, values: &Values<'_>) -> Result<String, String> {
    match name {
        "REQUEST_URI" => match values.path {
            Some(path) => Ok(path.to_owned()),
            None => Err("%{REQUEST_URI} is known behind an expression of every path".to_owned()),
        },
        "HTTP_HOST" | "SERVER_NAME" => match values.host {
            Some(host) => Ok(host.to_owned()),
            None => Err("it depends on the host: name the hosts with --host".to_owned()),
        },
        "QUERY_STRING" => Ok("{query}".to_owned()),
        "ENV:BASE" if values.has_base => Ok(String::new()),
        _ => Err(format!("the variable {name} is not known in targets")),
    }
}

/// Adds the query of a target to its path.
pub(super) fn with_query(to: &str, query: Query) -> String {
    match (to.split_once('?'), query) {
        (None, Query::Own | Query::Appended) => to.to_owned(),
        (None, Query::Discarded) => format!("{to}?"),
        (Some((path, "")), Query::Appended) => path.to_owned(),
        (Some((path, own)), Query::Appended) => format!("{path}?{own}&{{query}}"),
        (Some(_), _) => to.to_owned(),
    }
}

/// `true` for a text that is a target of redirects, its placeholders aside.
pub(crate) fn is_location(to: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%{}".contains(c);
    let has_host =
        ["http://", "https://"].iter().find_map(|scheme| to.strip_prefix(scheme)).is_some_and(
            |rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']) && !rest.starts_with('{'),
        );
    let bad_percent = to.match_indices('%').any(|(at, _)| {
        let digits = to.get(at + 1..at + 3).unwrap_or_default();
        digits.len() < 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit())
    });
    to.chars().all(is_plain)
        && !bad_percent
        && (has_host || (to.starts_with('/') && !to.starts_with("//")))
}
