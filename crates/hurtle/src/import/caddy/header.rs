//! The directive `header`: rules for fields of responses.

use super::block::has;
use super::fields::{self, Edits};
use super::matcher::Matcher;
use super::order;
use crate::import::mount::Keys;
use crate::import::report::Report;
use crate::import::syntax::Directive;

/// Names the responses that have the fields of files, although they are none. `later`: the directives
/// behind it.
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

/// The rules of a `header` for requests that meet a condition of more than their paths. `later`: the
/// directives behind it.
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
    let names = |d: &Directive, args: &[String]| -> Vec<String> {
        let lines = fields::lines(d, args).into_iter();
        lines
            .map(|line| line.name.trim_start_matches(['+', '-', '?', '>']).to_lowercase())
            .collect()
    };
    let own = names(d, args);
    let sets_own = |other: &&&Directive| {
        // The first argument may be a matcher.
        let all =
            [names(other, &other.args), names(other, other.args.get(1..).unwrap_or_default())];
        other.name == "header" && all.iter().flatten().any(|name| own.contains(name))
    };
    if let Some(other) = later.iter().find(sets_own) {
        return Err(format!("`{other}` is behind it in Caddy, and before it here"));
    }
    let (rules, is_deferred) = rules(d, args, None)?;
    match is_deferred {
        true => Err("a field by a condition is set before the response begins".to_owned()),
        false => Ok(rules),
    }
}
