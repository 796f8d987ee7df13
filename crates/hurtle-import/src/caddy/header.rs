//! The directive `header`: rules for fields of responses.

use super::block::has;
use super::fields::{self, Edits};
use super::matcher::Matcher;
use super::order;
use crate::mount::Keys;
use crate::report::Report;
use crate::syntax::Directive;

/// Names the responses that have the fields of files, although they are none. `later`: the
/// directives behind it.
pub(super) fn check_files(
    d: &Directive,
    own: Option<&Matcher>,
    later: &[&Directive],
    report: &mut Report,
) {
    if own.is_none_or(|own| own.file != Some(true)) {
        return;
    }
    let comes = |name: &str| later.iter().any(|d| has(d, name));
    if comes("reverse_proxy") {
        report.remark(
            d,
            "responses of upstreams to these paths, such as GET /none.css, have the fields whether or not there is such a \
             file; Caddy sets them where there is one",
        );
    }
    if comes("php_fastcgi") {
        report.remark(d, "responses of scripts to these paths have the fields, too");
    }
    if comes("try_files") {
        report.remark(
            d,
            "the page that is sent in place of a missing file, such as /gone.js, has the fields, too",
        );
    }
}

/// The rules of a `header`, and `true` if Caddy applies them when the response begins.
pub(super) fn rules(
    d: &Directive,
    args: &[String],
    own: Option<&Matcher>,
) -> Result<(Vec<Keys>, bool), String> {
    let mut is_deferred = false;
    let mut edits = Edits::default();
    for line in fields::lines(d, args) {
        match line.name.as_str() {
            "defer" => is_deferred = true,
            "match" => return Err("header rules of hurtle do not look at the response".to_owned()),
            _ => edits.line(&line)?,
        }
    }
    Ok((edits.rules(own)?, is_deferred || edits.is_deferred()))
}

/// The rules of a `header` for requests that meet a condition of more than their paths. `later`:
/// the directives behind it.
///
/// # Errors
/// Conditions of files, changes when the response begins, and redirects, which have no such fields.
pub(super) fn conditional(
    d: &Directive,
    args: &[String],
    condition: &Matcher,
    later: &[&Directive],
) -> Result<Vec<Keys>, String> {
    if condition.file.is_some() {
        return Err("a header rule of hurtle has conditions of the path alone".to_owned());
    }
    let is_other = |d: &&&Directive| {
        matches!(order::canonical(&d.name), "redir" | "handle_errors") || has(d, "redir")
    };
    if let Some(other) = later.iter().find(is_other) {
        return Err(format!("`{other}` would have these fields by a condition, too"));
    }
    let own = names(d, args);
    let sets_own = |other: &&&Directive| sets_one_of(&own, other);
    if let Some(other) = later.iter().find(sets_own) {
        return Err(format!("`{other}` is behind it in Caddy, and before it here"));
    }
    let (rules, is_deferred) = rules(d, args, None)?;
    match is_deferred {
        true => Err("a field by a condition is set before the response begins".to_owned()),
        false => Ok(rules),
    }
}

/// The names of the fields that a `header` changes, in lower case.
fn names(d: &Directive, args: &[String]) -> Vec<String> {
    let lines = fields::lines(d, args).into_iter();
    lines.map(|line| line.name.trim_start_matches(['+', '-', '?', '>']).to_lowercase()).collect()
}

/// Returns whether a directive, or one in its block, changes one of these fields.
fn sets_one_of(own: &[String], d: &Directive) -> bool {
    let is_of_fields = matches!(d.name.as_str(), "header" | "header_down");
    // The first argument may be a matcher.
    let all = [names(d, &d.args), names(d, d.args.get(1..).unwrap_or_default())];
    (is_of_fields && all.iter().flatten().any(|name| own.contains(name)))
        || d.children().iter().any(|inner| sets_one_of(own, inner))
}
