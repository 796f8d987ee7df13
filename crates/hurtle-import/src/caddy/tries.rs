//! `try_files` as a directive of a block: it changes the path for all handlers behind it.

use super::block::{HANDLERS, Item, has};
use super::handlers::try_files;
use super::matcher::Matcher;
use super::pattern::{expression, pattern};
use super::scope::Scope;
use crate::report::Report;
use crate::syntax::Directive;
use hurtle_config::PathRegex;

/// Handlers that answer any path alike.
const FIXED: [&str; 3] = ["abort", "error", "respond"];

/// Keeps the paths for the files behind it. `later`: the directives behind it.
///
/// # Errors
/// Handlers that would get another path than in Caddy.
pub(super) fn translate(
    item: &Item<'_>,
    later: &[Item<'_>],
    scope: &mut Scope,
    report: &mut Report,
) -> Result<(), String> {
    let Item { d, args, .. } = item;
    if !scope.try_files.is_empty() {
        return Err("Caddy looks for the path that the try_files before it has found".to_owned());
    }
    let tries = try_files(args)?;
    let handlers: Vec<&Item<'_>> =
        later.iter().filter(|item| HANDLERS.contains(&item.name())).collect();
    let is_of_files = |item: &&Item<'_>| item.name() == "file_server" && item.matcher.is_none();
    let Some((_, others)) = handlers.split_last().filter(|(last, _)| is_of_files(last)) else {
        return Err("it changes the path for every handler behind it; hurtle knows it for files that are the \
                    last handler: write both into a `handle`"
            .to_owned());
    };
    for other in others {
        beside(other, &tries)?;
        let path = other.matcher.as_ref().and_then(|matcher| matcher.paths.first());
        let path = path.map_or("/x".to_owned(), |path| path.replace('*', "x"));
        let last = tries.last().filter(|last| !last.starts_with("{path}"));
        report.remark(d, &match last {
            Some(last) => format!(
                "`{}` answers its paths also where no file is: GET {path} gets {last} in Caddy, whose try_files comes first",
                other.d
            ),
            None => format!(
                "`{}` gets paths as the client sent them: GET {path} becomes the path of another file in Caddy, if one \
                 of try_files is there",
                other.d
            ),
        });
    }
    let is_gate = |item: &&Item<'_>| matches!(item.name(), "basic_auth" | "forward_auth");
    let is_of_path = |item: &&Item<'_>| item.matcher.as_ref().is_some_and(may_look_at_path);
    if let Some(gate) = later.iter().filter(is_gate).find(is_of_path) {
        return Err(format!(
            "`{}` gets the path of the file in Caddy, and here that of the client: write a gate for all requests",
            gate.d
        ));
    }
    scope.try_files = tries;
    let fixed = |arg: &&String| arg.starts_with('/') && *arg != "/index.html";
    let has_directories = args.iter().any(|arg| arg == "{path}/");
    if let Some(page) = args.iter().find(fixed).filter(|_| has_directories) {
        report.remark(d, &format!("/ is the index of the directory, in Caddy {page}"));
    }
    Ok(())
}

/// `true`: a request meets it with some paths alone.
fn may_look_at_path(matcher: &Matcher) -> bool {
    !matcher.paths.is_empty() || matcher.regex.is_some() || matcher.others.contains_key("not")
}

/// `true`: it refuses its requests.
fn is_refusal(d: &Directive) -> bool {
    match d.name.as_str() {
        "abort" | "error" => true,
        "respond" => d.args.iter().any(|arg| arg.parse().is_ok_and(|status: u16| status >= 400)),
        _ => d.children().iter().any(is_refusal),
    }
}

/// Parts of an expression that stand for characters of one name.
const NAMES: [&str; 4] = [r"\d+", "[0-9]+", r"\w+", "[^/]+"];

/// `true` for an expression of all paths beneath directories, such as `^/api/` and `^/(a|b)/v\d+/`.
fn is_of_directory(regex: &str) -> bool {
    let Some(mut rest) = regex.strip_prefix('^') else { return false };
    let is_literal = |c: char| c.is_ascii_alphanumeric() || "/_-".contains(c);
    let is_choice = |inner: &str| inner.chars().all(|c| is_literal(c) || c == '|');
    let mut is_behind_slash = false;
    while let Some(first) = rest.chars().next() {
        let group = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('('));
        let group = group.and_then(|group| group.split_once(')'));
        let name = NAMES.iter().find_map(|name| rest.strip_prefix(name));
        let choice = group.filter(|(inner, _)| is_choice(inner)).map(|(_, after)| after);
        let Some(after) = name.or(choice).or_else(|| rest.strip_prefix(is_literal)) else { break };
        (is_behind_slash, rest) = (first == '/', after);
    }
    is_behind_slash && ["", ".*", ".*$", "(.*)", "(.*)$"].contains(&rest)
}

/// Returns a result of the tries that meets a matcher which the path of the client may not meet.
fn met_by<'t>(matcher: &Matcher, tries: &'t [String]) -> Option<&'t str> {
    let has_not = matcher.others.contains_key("not");
    let is_in = |text: &str, path: &str| {
        PathRegex::new(text).map_or(true, |regex| regex.is_in(path.as_bytes()))
    };
    let is_met = |result: &&String| match result.strip_prefix("{path}") {
        // hurtle redirects to a directory, and the path is then that of the client.
        Some("" | "/") => false,
        Some(end) => {
            let end = end.to_ascii_lowercase();
            let name = end.trim_start_matches('/');
            let is_path = |path: &String| may_end(&path.to_ascii_lowercase(), &end, name);
            // An expression of names with a dot at their begin is met by the path, too.
            let is_other = |text: &str| !text.starts_with(r"/\.") && !is_of_directory(text);
            let is_regex = matcher.regex.as_ref().is_some_and(|(_, text)| is_other(text));
            has_not || is_regex || matcher.paths.iter().any(is_path)
        }
        None => {
            let is_regex = matcher.regex.as_ref().is_some_and(|(_, text)| is_in(text, result));
            let is_path = |path: &String| {
                let own = pattern(path).map(|own| format!("(?i)^{}$", expression(&own)));
                own.map_or(true, |own| is_in(&own, result))
            };
            has_not || is_regex || matcher.paths.iter().any(is_path)
        }
    };
    tries.iter().find(is_met).map(String::as_str)
}

/// `true`: a path with this end may meet a pattern which the path without it does not meet. `name`:
/// the end without its slash.
fn may_end(pattern: &str, end: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        // Beneath a directory the result is where the path is.
        Some(begin) if begin.ends_with('/') => false,
        Some(begin) => {
            let last = begin.rsplit(['/', '*']).next().unwrap_or_default();
            let is_within = begin.contains('*') && name.contains(last);
            last.contains('.') || name.starts_with(last) || is_within
        }
        None => {
            let last = pattern.rsplit('*').next().unwrap_or_default();
            last.ends_with(end) || end.ends_with(last)
        }
    }
}

/// Checks a handler before the files: it gets the request whether or not a file is there.
///
/// # Errors
/// One that gets the path of a file in Caddy, which hurtle sends itself.
fn beside(other: &Item<'_>, tries: &[String]) -> Result<(), String> {
    let is_of_path = |matcher: &Matcher| matcher.is_of_path() && matcher.file.is_none();
    if !other.matcher.as_ref().is_some_and(is_of_path) {
        return Err(format!("`{}` is for other requests than those of some paths", other.d));
    }
    let is_fixed = match other.name() {
        "handle" | "route" => {
            other.d.children().iter().all(|inner| FIXED.contains(&inner.name.as_str()))
        }
        name => FIXED.contains(&name),
    };
    if let Some(result) = other.matcher.as_ref().and_then(|own| met_by(own, tries)) {
        let other = other.d;
        return Err(match is_refusal(other) {
            true => format!(
                "in Caddy `{other}` refuses the file of {result}, too, which hurtle finds behind it: write it for a \
                 whole directory, such as /private/*"
            ),
            false => format!(
                "in Caddy `{other}` gets the path of {result}, too, of which hurtle sends the file: leave {result} \
                 out, or write `{other}` for a whole directory"
            ),
        });
    }
    let keeps_path = tries.iter().all(|path| path.starts_with("{path}"));
    let is_of_upstream =
        !["file_server", "php_fastcgi", "redir", "try_files"].iter().any(|name| has(other.d, name));
    match is_fixed || (keeps_path && is_of_upstream) {
        true => Ok(()),
        false => Err(format!(
            "in Caddy `{}` gets no path without a file, as the last one here is fixed: write each into a `handle`",
            other.d
        )),
    }
}
