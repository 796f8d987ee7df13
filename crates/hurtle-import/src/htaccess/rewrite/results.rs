//! Results of rewrites: Apache begins anew with each, so none may be of another rule.

use toml::Value;

use super::super::pattern::glob;
use super::condition::{Condition, Requests};
use super::matching::Subject;
use super::rule::Rule;
use super::{Front, Rewriting};
use crate::syntax::Directive;
use hurtle_config::PathRegex;

/// A rewrite to another path, for the check of rules that its result would meet.
#[derive(Debug)]
pub(super) struct Internal<'d> {
    pub(super) d: &'d Directive,
    /// The path that it leads to, up to its first placeholder.
    pub(super) to: String,
    pub(super) is_fixed: bool,
    /// `true`: Apache applies no rule to it.
    pub(super) is_end: bool,
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
        !self.is_of_first_round && self.has(to, is_fixed)
    }

    /// `true`: such a path may be one of its paths.
    fn has(&self, to: &str, is_fixed: bool) -> bool {
        let is_spared = is_fixed && self.not.iter().any(|not| is_in(not, to));
        !is_spared && may_meet(&self.regex, to, is_fixed)
    }
}

/// A rule that refuses requests. Here it is applied to the results of all rewrites, and to none of
/// the page or script for missing files.
#[derive(Debug)]
pub(super) struct Refusal<'d> {
    met: Met<'d>,
    /// `true`: it is for some programs and referring pages, which guards nothing, as clients send
    /// these fields as they like.
    is_of_agents: bool,
}

impl<'d> Refusal<'d> {
    pub(super) fn of(rule: &Rule<'d>, subject: &Subject, requests: &Requests) -> Refusal<'d> {
        let is_of_agent =
            |name: &String| ["user-agent", "referer"].contains(&name.to_ascii_lowercase().as_str());
        let mut fields = requests.header.keys().chain(requests.not_header.keys());
        Refusal {
            met: Met::of(rule, subject, requests.not_regex.clone()),
            is_of_agents: fields.any(is_of_agent),
        }
    }

    /// `true`: Apache does not apply it to a result that it is for here.
    fn is_wider(&self, internal: &Internal<'_>) -> bool {
        (internal.is_end || self.met.is_of_first_round)
            && self.met.has(&internal.to, internal.is_fixed)
    }

    /// `true`: Apache applies it to the page for missing files, and so to more requests than here.
    fn is_narrower(&self, front: &Front<'_>) -> bool {
        // One for every path that the page answers was met by the request already.
        let is_spared = |not: &String| front.is_end || front.except.contains(not);
        let is_of_all = !is_of_some(&self.met.regex) && self.met.not.iter().all(is_spared);
        !is_of_all && self.met.has(&front.path, true)
    }

    /// `true`: the paths that it spares are all that a remark has to name.
    fn is_remarked(&self) -> bool {
        self.is_of_agents && !is_of_some(&self.met.regex)
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

impl<'d> Rewriting<'d, '_> {
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
        found.extend(self.front_results());
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
        self.check_refusals();
    }

    /// The rules, refusals and redirects that the page or script for missing files meets.
    fn front_results(&self) -> Vec<(&'d Directive, String)> {
        let Some(front) = &self.parts.front else { return Vec::new() };
        let page = front.path.as_str();
        // A rule for every path was met before, or is not met by the result either.
        let met = self.met.iter().find(|met| met.regex != "^/" && met.meets(page, true));
        let mut found: Vec<_> =
            met.map(|met| (front.d, format!("`{}` ({})", met.d, met.d.at))).into_iter().collect();
        let closed = self.parts.closed.iter().take(self.closed_before);
        let mut others = self.parts.redirected.iter().chain(closed);
        let mut refusals = self.refusals.iter().filter(|refusal| !refusal.is_remarked());
        let is_met = others.any(|regex| is_of_some(regex) && is_in(regex, page))
            || refusals.any(|refusal| refusal.is_narrower(front));
        found.extend(
            is_met.then(|| (front.d, "a Redirect, a refusal or a section of files".to_owned())),
        );
        found
    }

    /// Refuses rewrites to paths that are refused here, but not by Apache, and names the paths of
    /// missing files that Apache refuses.
    fn check_refusals(&mut self) {
        for refusal in &self.refusals {
            let rule = refusal.met.d;
            for internal in self.internal.iter().filter(|internal| refusal.is_wider(internal)) {
                let why = format!(
                    "`{rule}` ({}) is applied to its result here, and not by Apache: lead it to a path that is not \
                     refused",
                    rule.at
                );
                match refusal.is_of_agents {
                    true => self.report.remark(internal.d, &why),
                    false => self.report.refuse(internal.d, why),
                }
            }
            let front = self.parts.front.as_ref().filter(|front| refusal.is_narrower(front));
            if let Some(front) = front.filter(|_| refusal.is_remarked()) {
                let text = format!(
                    "missing files of the paths that it spares are answered by {}; Apache refuses them",
                    front.path
                );
                self.report.remark(rule, &text);
            }
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
