//! `redir`: a mount where the target is fixed or ends with the request's, else a rule.

use std::borrow::Cow;

use super::matcher::Matcher;
use super::parts::Parts;
use super::pattern::is_placeholder;
use crate::mount::{Keys, put};

/// Translates a redirect of these requests. `true`: it is for every request of its block.
pub(super) fn translate(
    args: &[String],
    requests: Option<&Matcher>,
    is_for_all: bool,
    mounted: Keys,
    line: usize,
    parts: &mut Parts,
) -> Result<bool, String> {
    let (to, status) = match args {
        [to] => (to, 302),
        [to, status] => (to, code(status)?),
        _ => return Err("it has a target, and perhaps a status".to_owned()),
    };
    let mut to = to.clone();
    if !parts.host.is_empty() {
        to = to.replace("{host}", &parts.host);
    }
    to = with_request(&to);
    let of_files = requests.and_then(|matcher| matcher.file);
    if let (Some(false), Some(matcher), None) = (of_files, requests, &parts.missing) {
        let mut matcher = matcher.clone();
        matcher.file = None;
        return missing(&to, status, &matcher, line, parts);
    } else if of_files.is_some() {
        return Err("a redirect of hurtle does not look at files that are there".to_owned());
    }
    let mut keys = Keys::new();
    let is_of_path = |base: &&str| !is_placeholder(base) && !base.contains('?');
    if let Some(base) = to.strip_suffix(URI).filter(is_of_path) {
        let is_place = base.contains("://") || base.starts_with('/');
        if !is_place || base.ends_with('/') || base.contains('#') {
            return Err("{uri} is behind a host or a path".to_owned());
        }
        put(&mut keys, "redirect", braced(&format!("{base}/")));
    } else if !is_placeholder(&to) && (!to.ends_with('/') || to.is_empty()) && !to.contains(GROUP) {
        put(&mut keys, "redirect", braced(&to));
    } else {
        let meets = |earlier: &Matcher| match requests {
            Some(requests) => !requests.is_apart(earlier) && !earlier.is_apart(requests),
            None => true,
        };
        if parts.mounted.iter().any(meets) {
            return Err("rules of hurtle precede its mounts, and a handler or redirect before it is a mount"
                .to_owned());
        }
        if mounted.iter().any(|(name, _)| name == "header") {
            return Err("a rule of hurtle has no fields of its block".to_owned());
        }
        let rule = rule(&to, status, requests)?;
        parts.rules.push(rule);
        if is_for_all && requests.is_none() {
            // Requests reach no mount, and a site has one.
            put(&mut keys, "respond", "");
            parts.add(None, "", keys)?;
        }
        return Ok(is_for_all);
    }
    if status != 302 {
        put(&mut keys, "status", status);
    }
    keys.extend(mounted);
    parts.add(requests, "", keys)?;
    Ok(is_for_all)
}

/// The beginning of the names of such mounts.
pub(super) const MOVED: &str = "moved-";

/// A redirect where no file is: a mount with a name, to which the files hand on.
fn missing(
    to: &str,
    status: i64,
    matcher: &Matcher,
    line: usize,
    parts: &mut Parts,
) -> Result<bool, String> {
    if !matcher.is_of_path() {
        return Err("a redirect of missing files has conditions of the path alone".to_owned());
    }
    let rule = rule(to, status, Some(matcher))?;
    let name = format!("{MOVED}{line}");
    let mut place = Keys::new();
    put(&mut place, "name", name.as_str());
    let (of_place, keys): (Keys, Keys) = rule.into_iter().partition(|(key, _)| key == "match");
    place.extend(of_place);
    let mount = parts.mount(String::new(), place, keys);
    parts.mounts.push(mount);
    parts.missing = Some(name);
    Ok(false)
}

/// A rule for a target with groups of an expression, or one that ends with a slash.
fn rule(to: &str, status: i64, requests: Option<&Matcher>) -> Result<Keys, String> {
    let name = requests.and_then(|matcher| matcher.regex.as_ref()).map_or("", |(name, _)| name);
    let target = groups(&with_query(to), name);
    let (target, requests) = match requests.and_then(|matcher| slash_before(&target, matcher)) {
        Some((target, matcher)) => (target, Some(Cow::Owned(matcher))),
        None => (target, requests.map(Cow::Borrowed)),
    };
    // Caddy sends the query only where it is written; hurtle drops it where another is.
    let target = match target.strip_suffix(&format!("?{QUERY}")) {
        Some(bare) => bare.to_owned(),
        None if !target.contains('?') => target + "?",
        None => target,
    };
    if is_placeholder(&target) {
        return Err(format!("of variables it knows {{uri}}, {{host}} and {{re.NAME.1}}, not {to}"));
    }
    if !target.starts_with('/') && !target.contains("://") {
        return Err(format!("a target of hurtle begins with a slash or a scheme, not {to}"));
    }
    let mut keys = match requests {
        Some(matcher) => matcher.key()?,
        None => vec![("match".to_owned(), toml::Value::from("**"))],
    };
    put(&mut keys, "redirect", braced(&target));
    put(&mut keys, "status", status);
    Ok(keys)
}

/// Moves a slash out of the first group of an expression, where a target begins with this group:
/// `^(/.*)x` and `{1}` become `^/(.*)x` and `/{1}`. `None`: they are of another form.
fn slash_before(target: &str, matcher: &Matcher) -> Option<(String, Matcher)> {
    let (name, text) = matcher.regex.as_ref()?;
    let group = text.strip_prefix("^(")?;
    let rest = group.strip_prefix("\\/").or_else(|| group.strip_prefix('/'))?;
    let is_whole = target.starts_with("\u{1}1\u{2}") && !text.contains('|');
    if !is_whole || rest.starts_with(['?', '*', '+', '{']) {
        return None;
    }
    let mut moved = matcher.clone();
    moved.regex = Some((name.clone(), format!("^/({rest}")));
    Some((format!("/{target}"), moved))
}

fn code(word: &str) -> Result<i64, String> {
    match word {
        "permanent" => Ok(301),
        "temporary" => Ok(302),
        "html" => Err("a redirect of hurtle is no page".to_owned()),
        number => match number.parse() {
            Ok(status @ (301 | 302 | 303 | 307 | 308)) => Ok(status),
            _ => Err("the status of a redirect is 301, 302, 303, 307 or 308".to_owned()),
        },
    }
}

/// The marked placeholder of the query.
const QUERY: &str = "\u{1}query\u{2}";

/// The marked target of the request.
const URI: &str = "\u{1}uri\u{2}";

/// The mark of a placeholder that is none of the request.
const GROUP: &str = "{re.";

/// Marks the parts of the request in a target, so that they are no variables.
fn with_request(target: &str) -> String {
    let mut target = target.to_owned();
    for (caddy, part) in
        [("hostport", "request.host"), ("host", "host"), ("scheme", "scheme"), ("uri", "uri")]
    {
        for written in [format!("{{{caddy}}}"), format!("{{http.request.{caddy}}}")] {
            target = target.replace(&written, &format!("\u{1}{part}\u{2}"));
        }
    }
    target
}

/// Marks the query of the request in that of a target.
pub(super) fn with_query(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let query = query.replace("{http.request.uri.query}", QUERY).replace("{query}", QUERY);
    format!("{path}?{query}")
}

/// Marks the groups of an expression in a target, so that they are no variables.
pub(super) fn groups(target: &str, name: &str) -> String {
    let mut target = target.to_owned();
    for group in 1..=9 {
        for written in [
            format!("{{re.{group}}}"),
            format!("{{re.{name}.{group}}}"),
            format!("{{http.regexp.{group}}}"),
            format!("{{http.regexp.{name}.{group}}}"),
        ] {
            target = target.replace(&written, &format!("\u{1}{group}\u{2}"));
        }
    }
    target
}

/// Writes the marked groups of a target in hurtle's words.
pub(super) fn braced(target: &str) -> String {
    target.replace('\u{1}', "{").replace('\u{2}', "}")
}
