//! Translates `rewrite` to rules. hurtle applies the rules of a site before it chooses a mount;
//! nginx applies those of a location only there, and stops at `last`. Where that differs, a rule is
//! refused.

use toml::Value;

use super::block::{Block, Target};
use super::kind::{HandlerKind, Kind, PathKind};
use super::location::target as target_of;
use super::modifier::Modifier;
use super::mount::{Keys, put};
use super::regex;
use super::report::Report;
use super::syntax::Directive;
use super::variables::with_values;
use hurtle_config::PathRegex;

/// A translated rewrite.
#[derive(Debug)]
pub(super) struct Rule<'a> {
    at: &'a Directive,
    /// The location that has it; `None`: the server.
    location: Option<(Modifier, String)>,
    /// A pattern of the paths that it is for, or of more than them.
    pattern: String,
    /// `true`: the pattern is of these paths and no others.
    is_exact: bool,
    /// `true`: it is of these paths, and of those where a group of the expression would be empty.
    needs_text: bool,
    /// The path that replaces the request's; `None`: a redirect.
    target: Option<String>,
    pub(super) keys: Keys,
}

/// Translates a rewrite of a location, or of the server.
fn rewrite<'a>(
    d: &'a Directive,
    location: Option<(Modifier, &str)>,
    report: &mut Report,
) -> Option<Rule<'a>> {
    let Some(to) = target(d.arg(1)) else {
        report.refuse(d, "of variables it knows $1 to $9, and $args in the query");
        return None;
    };
    let known = regex::pattern(d.arg(0));
    let pattern = known.clone().unwrap_or_else(|| regex::beginning(d.arg(0)) + "**");
    if let Some((modifier, path)) = location
        && !meets(&pattern, modifier, path)
    {
        report.refuse(d, format!("it cannot match in the location {path}"));
        return None;
    }
    let is_own = known.is_some() && location.is_none_or(|at| is_within(&pattern, at));
    let needs_text = is_own && regex::needs_text(d.arg(0));
    let is_exact = is_own && !needs_text;
    let is_url = ["http://", "https://", "{scheme}://"].iter().any(|begin| to.starts_with(begin));
    let status = match (d.arg(2), is_url) {
        ("permanent", _) => Some(301),
        ("redirect", _) | (_, true) => Some(302),
        _ => None,
    };
    let mut keys = Keys::new();
    match is_exact {
        true => put(&mut keys, "match", pattern.clone()),
        false => put(&mut keys, "match", expression(d, location, report)?),
    }
    match status {
        Some(status) => {
            put(&mut keys, "redirect", to.clone());
            put(&mut keys, "status", status);
        }
        None => put(&mut keys, "rewrite", to.clone()),
    }
    let path = to.split('?').next().unwrap_or_default().to_owned();
    let target = status.is_none().then_some(path);
    let location = location.map(|(modifier, path)| (modifier, path.to_owned()));
    Some(Rule { at: d, location, pattern, is_exact, needs_text, target, keys })
}

/// `true` if a pattern may match a path of a location.
fn meets(pattern: &str, modifier: Modifier, path: &str) -> bool {
    let fixed = fixed(pattern);
    let is_open = fixed.len() < pattern.len();
    match modifier {
        Modifier::Exact => pattern == path || (is_open && path.starts_with(fixed)),
        _ => fixed.starts_with(path) || (is_open && path.starts_with(fixed)),
    }
}

/// `true` if a pattern matches no path outside of a location.
fn is_within(pattern: &str, (modifier, path): (Modifier, &str)) -> bool {
    match modifier {
        Modifier::Exact => pattern == path,
        _ => fixed(pattern).starts_with(path),
    }
}

/// The conditions of a regular expression, for the paths of its location.
fn expression(
    d: &Directive,
    location: Option<(Modifier, &str)>,
    report: &mut Report,
) -> Option<toml::Table> {
    let regex = match PathRegex::new(d.arg(0)) {
        Ok(regex) => regex,
        Err(problem) => {
            report.refuse(d, problem);
            return None;
        }
    };
    let mut matcher = toml::Table::new();
    if let Some((modifier, path)) = location {
        let path = match modifier {
            Modifier::Exact => path.to_owned(),
            _ => format!("{path}**"),
        };
        if path != "/**" {
            matcher.insert("path".to_owned(), Value::from(path));
        }
    }
    matcher.insert("regex".to_owned(), Value::from(regex.text()));
    Some(matcher)
}

/// Translates a replacement: nginx appends the query of the request unless a `?` is at the end.
fn target(text: &str) -> Option<String> {
    let text = &with_origin(text);
    let Some((path, query)) = text.split_once('?') else { return regex::replacement(text) };
    let path = regex::replacement(path)?;
    let (query, appended) = match query.strip_suffix('?') {
        Some(query) => (query, ""),
        None if query.is_empty() => ("", ""),
        None => (query, "&{query}"),
    };
    let query = with_values(query, |name| {
        matches!(name, "args" | "query_string").then(|| "{query}".to_owned())
    });
    Some(format!("{path}?{}{appended}", regex::replacement(&query)?))
}

/// Writes the host and the scheme of the request in a URL.
fn with_origin(text: &str) -> String {
    let is_url = ["http://", "https://", "$scheme://"].iter().any(|begin| text.starts_with(begin));
    let part = |name: &str| {
        let part = match name {
            "http_host" => "{request.host}",
            "host" => "{host}",
            "scheme" => "{scheme}",
            _ => return None,
        };
        Some(part.to_owned())
    };
    if is_url { with_values(text, part) } else { text.to_owned() }
}

impl<'a> Rule<'a> {
    /// The rewrite, and the path to which it leads within its location: `break` in a location.
    /// `true`: that is the begin of the paths to which it leads.
    pub(super) fn stays(&self) -> Option<(&'a Directive, &str, bool)> {
        let target = self.target.as_deref()?;
        let path = fixed(target);
        let stays = self.location.is_some() && self.at.arg(2) == "break";
        stays.then_some((self.at, path, path.len() < target.len()))
    }

    /// `true` if it may lead to paths of the location of a path.
    pub(super) fn leads_into(&self, path: &str) -> bool {
        self.target.as_deref().is_some_and(|target| {
            let begin = fixed(target);
            begin.starts_with(path) || begin.len() < target.len() && path.starts_with(begin)
        })
    }

    /// The path of the location whose requests it redirects.
    pub(super) fn redirected_location(&self) -> Option<&str> {
        let (_, path) = self.location.as_ref().filter(|_| self.target.is_none())?;
        Some(path)
    }

    /// The path of the location whose requests get another path; `/` for an expression. `None`: it
    /// redirects, or is the server's.
    pub(super) fn rewritten_location(&self) -> Option<&str> {
        let (modifier, path) = self.location.as_ref().filter(|_| self.target.is_some())?;
        Some(if *modifier == Modifier::Regex { "/" } else { path })
    }

    /// The rewrite as it is written.
    pub(super) fn directive(&self) -> &'a Directive {
        self.at
    }

    /// `true`: the rule applies to every path of its location.
    pub(super) fn covers(&self, modifier: Modifier, path: &str) -> bool {
        self.is_exact && self.is_of_all(modifier, path)
    }

    /// `true`: the rule applies to every path of its location but the location's own.
    pub(super) fn covers_text(&self, modifier: Modifier, path: &str) -> bool {
        self.needs_text && self.is_of_all(modifier, path)
    }

    fn is_of_all(&self, modifier: Modifier, path: &str) -> bool {
        let fixed = fixed(&self.pattern);
        match modifier {
            Modifier::Exact => self.pattern == path,
            _ => {
                self.pattern.ends_with("**")
                    && self.pattern.len() == fixed.len() + 2
                    && fixed == path
            }
        }
    }
}

/// Takes the rewrite of a block that only takes the path of its location off, for a proxy:
/// `rewrite ^/api/(.*)$ /$1 break`. Paths of the location begin with it, so `^` changes nothing.
pub(super) fn take_strip<'a>(
    block: &Block<'a>,
    path: &str,
    report: &mut Report,
) -> Option<&'a Directive> {
    let kind = Kind::Path(PathKind::Rewrite);
    let [only] = block.all(kind)[..] else { return None };
    let bare = path.strip_suffix('/').unwrap_or(path);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/_-".contains(&b);
    let text = only.arg(0);
    let text = text.strip_prefix('^').unwrap_or(text);
    let text = text.strip_suffix('$').unwrap_or(text);
    let rest = text.strip_prefix(bare)?;
    let to = match rest {
        "/(.*)" => "/$1",
        "(/.*)" | "(.*)" => "$1",
        _ => return None,
    };
    if bare.is_empty() || !bare.bytes().all(is_plain) || only.args[1..] != [to, "break"] {
        return None;
    }
    if !path.ends_with('/') {
        let nginx = if rest == "(.*)" { "answers 500" } else { "sends the path as it is" };
        report.remark(only, &format!("the upstream gets / for GET {path}; nginx {nginx}"));
    }
    block.take(kind)
}

/// Translates the rewrites of a block.
pub(super) fn rewrites<'a>(
    block: &Block<'a>,
    location: Option<(Modifier, &str)>,
    report: &mut Report,
) -> Vec<Rule<'a>> {
    let returns = block.first(&[Kind::Handler(HandlerKind::Return)]);
    let mut rules = Vec::new();
    for d in block.take_all(Kind::Path(PathKind::Rewrite)) {
        let Some(rule) = rewrite(d, location, report) else { continue };
        if let Some((Modifier::Prefix | Modifier::Final, path)) = location
            && target_of(block) == Target::Files
            && applies_to_index(d.arg(0), path)
        {
            let text = format!(
                "GET {path} is the index of its directory; nginx applies the rewrite to that"
            );
            report.remark(d, &text);
        }
        // nginx executes both in the order in which they are written.
        if returns.is_some_and(|returns| rule.target.is_some() || block.precedes(returns, d)) {
            report.refuse(d, "beside `return`, hurtle knows a redirect that is written before it");
            continue;
        }
        rules.push(rule);
    }
    rules
}

/// `true` if an expression matches the index of a directory, and not the directory.
fn applies_to_index(text: &str, directory: &str) -> bool {
    let index = format!("{directory}index.html");
    let matches = |path: &str| PathRegex::new(text).is_ok_and(|regex| regex.is_in(path.as_bytes()));
    directory.ends_with('/') && matches(&index) && !matches(directory)
}

/// Refuses rules that hurtle would apply where nginx would not, or not apply where it would.
pub(super) fn check(rules: &[Rule<'_>], locations: &[(Modifier, &str)], report: &mut Report) {
    for (index, rule) in rules.iter().enumerate() {
        if let Some(path) = around(rule, locations) {
            report.refuse(rule.at, format!("in nginx it does not apply to the location {path}"));
        }
        let mut others = rules.iter().enumerate().filter(|(other, _)| *other != index);
        let unlike =
            others.find(|(at, next)| leads_to(rule, next) && !is_chained(index, rule, *at, next));
        if let Some((_, next)) = unlike {
            let why = format!(
                "hurtle would apply `{}` ({}) differently to its result; write one rewrite of both",
                next.at, next.at.at
            );
            report.refuse(rule.at, why);
        }
        if is_endless(rule, locations) {
            report.refuse(
                rule.at,
                "nginx applies it to its result ten times, and answers 500: write `break`",
            );
        }
        if let Some((Modifier::Prefix, path)) = &rule.location
            && locations.iter().any(|(modifier, _)| *modifier == Modifier::Regex)
        {
            report.remark(
                rule.at,
                &format!("it also applies to paths of locations with regular expressions, such as those beneath GET {path}"),
            );
        }
    }
}

/// `true` if the path to which a rewrite leads is one of its location again, and matches it again.
fn is_endless(rule: &Rule<'_>, locations: &[(Modifier, &str)]) -> bool {
    let (Some((modifier, own)), Some(target)) = (&rule.location, &rule.target) else {
        return false;
    };
    let is_elsewhere = |(other, path): &(Modifier, &str)| match other {
        Modifier::Exact => path == target && *modifier != Modifier::Exact,
        // An expression may or may not match.
        Modifier::Regex => *modifier == Modifier::Prefix,
        _ => path.len() > own.len() && target.starts_with(path),
    };
    let is_own = match modifier {
        Modifier::Exact => target == own,
        _ => target.starts_with(own.as_str()),
    };
    let matches =
        || PathRegex::new(rule.at.arg(0)).is_ok_and(|regex| regex.is_in(target.as_bytes()));
    is_own
        && rule.at.arg(2) != "break"
        && !target.contains('{')
        && !locations.iter().any(is_elsewhere)
        && matches()
}

/// The location beneath that of the rule whose paths the rule may match.
fn around<'l>(rule: &Rule<'_>, locations: &[(Modifier, &'l str)]) -> Option<&'l str> {
    let (modifier, own) = rule.location.as_ref()?;
    if *modifier == Modifier::Exact {
        return None;
    }
    let fixed = fixed(&rule.pattern);
    let has_wildcard = fixed.len() < rule.pattern.len();
    let is_within = |(other, path): &&(Modifier, &str)| {
        *other != Modifier::Regex
            && (*path != own || *other == Modifier::Exact)
            && path.starts_with(own.as_str())
            && (fixed.starts_with(path) || (has_wildcard && path.starts_with(fixed)))
    };
    locations.iter().find(is_within).map(|(_, path)| *path)
}

/// `true` if a rewrite may lead to a path that another rule matches.
fn leads_to(rule: &Rule<'_>, other: &Rule<'_>) -> bool {
    let Some(target) = &rule.target else { return false };
    let (to, from) = (fixed(target), fixed(&other.pattern));
    match (to.len() < target.len(), from.len() < other.pattern.len()) {
        (true, true) => to.starts_with(from) || from.starts_with(to),
        (true, false) => from.starts_with(to),
        (false, true) => to.starts_with(from),
        (false, false) => to == from,
    }
}

/// `true` if nginx, like hurtle, applies the later rule to the result of the earlier one.
fn is_chained(index: usize, rule: &Rule<'_>, other: usize, next: &Rule<'_>) -> bool {
    let flag = rule.at.arg(2);
    index < other
        && match (&rule.location, &next.location) {
            (None, None) => flag.is_empty(),
            // The location of the new path is looked up, and its rewrites are applied.
            (None, Some(_)) => true,
            (Some(_), Some(_)) => flag != "break",
            (Some(_), None) => false,
        }
}

/// The beginning of a pattern or template up to its first wildcard or placeholder.
fn fixed(pattern: &str) -> &str {
    let end = pattern.find(['*', '{']).unwrap_or(pattern.len());
    &pattern[..end]
}
