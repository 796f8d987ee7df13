//! Results of rewrites: Apache begins anew with each, so none may be of another rule.

use toml::Value;

use super::super::pattern::glob;
use super::Rewriting;
use super::condition::Condition;
use super::matching::Subject;
use super::rule::Rule;
use crate::syntax::Directive;
use hurtle_config::PathRegex;

/// A rewrite to another path, for the check of rules that its result would meet.
#[derive(Debug)]
pub(super) struct Internal<'d> {
    pub(super) d: &'d Directive,
    /// The path that it leads to, up to its first placeholder.
    pub(super) to: String,
    pub(super) is_fixed: bool,
}

/// The paths of a rule, for the same check.
#[derive(Debug)]
pub(super) struct Met<'d> {
    d: &'d Directive,
    regex: String,
    not: Vec<String>,
    /// `true`: it is for requests as they came, and for no result.
    is_of_first_round: bool,
}

impl<'d> Met<'d> {
    pub(super) fn of(rule: &Rule<'d>, subject: &Subject, not: Vec<String>) -> Met<'d> {
        let is_first = |condition: &Condition<'_>| condition.d.arg(0).contains("REDIRECT_STATUS");
        let is_of_first_round = rule.conditions.iter().any(is_first);
        Met { d: rule.d, regex: subject.regex(), not, is_of_first_round }
    }

    /// `true`: the rule may be for such a result.
    fn meets(&self, to: &str, is_fixed: bool) -> bool {
        let is_spared = is_fixed && self.not.iter().any(|not| is_in(not, to));
        !self.is_of_first_round && !is_spared && may_meet(&self.regex, to, is_fixed)
    }
}

/// `true`: a path that begins with this one, or is this one, may match an expression.
fn may_meet(regex: &str, to: &str, is_fixed: bool) -> bool {
    let begin = crate::regex::beginning(regex);
    match is_fixed {
        true => is_in(regex, to),
        false => begin.is_empty() || begin.starts_with(to) || to.starts_with(&begin),
    }
}

/// `false`: it is for names with other endings, such as `\.(jpe?g|png)$`.
fn may_end_in(regex: &str, suffix: &str) -> bool {
    let endings = regex.strip_suffix('$').and_then(|text| text.rsplit_once(r"\."));
    let Some((before, endings)) = endings else { return true };
    // A dot within a group, or one of several, has not all endings behind it.
    let own = PathRegex::new(&format!("^(?i:{endings})$"));
    before.contains('|')
        || own.map_or(true, |own| own.is_in(suffix.trim_start_matches('.').as_bytes()))
}

/// `true`: it is for some paths alone. One for all was met before the rewrite.
fn is_of_some(regex: &str) -> bool {
    !["/", "/x", "/x/y.z"].iter().all(|path| is_in(regex, path))
}

fn is_in(regex: &str, path: &str) -> bool {
    PathRegex::new(regex).is_ok_and(|regex| regex.is_in(path.as_bytes()))
}

impl Rewriting<'_, '_> {
    /// Refuses rewrites whose result another rule would be for: Apache begins anew with it.
    pub(super) fn check(&mut self) {
        let mut found = Vec::new();
        for internal in &self.internal {
            let (to, is_fixed) = (internal.to.as_str(), internal.is_fixed);
            let met = self.met.iter().find(|met| meets_other(self, internal, met));
            found.extend(met.map(|met| (internal.d, format!("`{}` ({})", met.d, met.d.at))));
            let is_redirected =
                self.parts.redirected.iter().any(|regex| may_meet(regex, to, is_fixed));
            found.extend(is_redirected.then(|| (internal.d, "a Redirect".to_owned())));
        }
        if let Some(front) = &self.parts.front {
            // A rule for every path was met before, or is not met by the result either.
            let met = self.met.iter().find(|met| met.regex != "^/" && met.meets(&front.path, true));
            found.extend(met.map(|met| (front.d, format!("`{}` ({})", met.d, met.d.at))));
            let others = self.parts.redirected.iter().chain(&self.parts.closed);
            let spares = |not: &String| is_in(not, &front.path);
            let is_spared = self.skipped.iter().any(spares);
            let conditional = self.parts.met.iter().map(|(_, regex)| regex);
            let others = others.chain(conditional.filter(|regex| is_of_some(regex)));
            let meets = others.filter(|_| !is_spared).any(|regex| is_in(regex, &front.path));
            found.extend(
                meets.then(|| (front.d, "a Redirect, a refusal or a section of files".to_owned())),
            );
        }
        for (d, suffix) in &self.parts.suffixes {
            let is_dot = |regex: &&String| regex.starts_with(r"/\.");
            let others = self.parts.redirected.iter().chain(&self.parts.closed);
            let conditional = self.parts.met.iter().map(|(_, regex)| regex);
            let others = others.chain(conditional.filter(|regex| is_of_some(regex)));
            let meets = others.filter(|regex| !is_dot(regex) && may_end_in(regex, suffix)).count()
                > 0
                || self.met.iter().any(|met| met.regex != "^/" && !met.is_of_first_round);
            found.extend(meets.then(|| (*d, format!("a rule or section for names with {suffix}"))));
        }
        let firsts = self.met.iter().filter(|met| !met.is_of_first_round && met.not.is_empty());
        self.parts.met.extend(firsts.map(|met| (met.d, met.regex.clone())));
        for (d, other) in found {
            let why = format!("its result may meet {other}, which Apache applies to it");
            self.report.refuse(d, why);
        }
    }

    /// `true`: the rule itself is not for its results, by a condition.
    pub(super) fn excludes(&self, internal: &Internal<'_>, met: &Met<'_>) -> bool {
        if internal.d.at != met.d.at {
            return false;
        }
        // Apache ignores a rewrite to the path that the request has.
        if internal.is_fixed && glob(&met.regex).is_some_and(|path| path == internal.to) {
            return true;
        }
        let own = self.parts.rules.iter().find(|keys| {
            keys.iter().any(|(name, value)| {
                name == "rewrite" && value.as_str().is_some_and(|to| to.starts_with(&internal.to))
            })
        });
        let not = own.and_then(|keys| keys.iter().find(|(name, _)| name == "match"));
        let not = not.and_then(|(_, value)| value.get("not")).and_then(|not| not.get("regex"));
        let regex = not.and_then(Value::as_str).and_then(|text| PathRegex::new(text).ok());
        regex.is_some_and(|regex| regex.is_in(internal.to.as_bytes()))
    }
}

fn meets_other(rewriting: &Rewriting<'_, '_>, internal: &Internal<'_>, met: &Met<'_>) -> bool {
    met.meets(&internal.to, internal.is_fixed) && !rewriting.excludes(internal, met)
}
