//! mod_rewrite: rules in their order, as rules of a site, mounts that refuse, and a front
//! controller.
//!
//! `condition` and `rule` read directives, `target` translates targets, `matching` writes the
//! requests of a rule, `redirect` redirects, and `front` the page or script that answers paths
//! without a file. `results` refuses rewrites with results that other rules are for.

mod condition;
mod fields;
mod front;
mod matching;
mod redirect;
mod results;
mod rule;
mod target;

use self::condition::{Condition, Requests, combinations};
pub(super) use self::front::Front;
use self::matching::Subject;
use self::results::{Internal, Met, Refusal};
use self::rule::{Action, Query, Rule};
pub(super) use self::target::is_location;
use self::target::{Conditions, Values, expand, with_query};
use super::Options;
use super::parts::Parts;
use super::pattern::{is_everything, of_path};
use super::serving::check_target;
use super::tree::Tree;
use crate::mount::put;
use crate::report::Report;
use crate::syntax::Directive;

/// The reason for a refusal of a rewrite behind refusals by more than the path, which are mounts.
const BEFORE_REFUSALS: &str = "write it before the rules with [F], which would see its result";

/// The state between two rules.
pub(super) struct Rewriting<'d, 'p> {
    parts: &'p mut Parts<'d>,
    options: &'p Options,
    tree: &'p Tree,
    report: &'p mut Report,
    has_base: bool,
    /// `true`: RewriteBase is `/`.
    has_root_base: bool,
    /// Expressions of paths that no later rule is for.
    skipped: Vec<String>,
    /// Files, and directories, that no later rule is for.
    skips_files: bool,
    skips_directories: bool,
    internal: Vec<Internal<'d>>,
    met: Vec<Met<'d>>,
    refusals: Vec<Refusal<'d>>,
    /// The number of expressions of closed paths that other modules have.
    closed_before: usize,
}

/// Translates the directives of mod_rewrite.
pub(super) fn translate<'d>(
    directives: &[&'d Directive],
    options: &Options,
    tree: &Tree,
    parts: &mut Parts<'d>,
    report: &mut Report,
) {
    let is = |d: &&&Directive, name: &str| d.name.eq_ignore_ascii_case(name);
    let engine = directives.iter().rfind(|d| is(d, "RewriteEngine"));
    if !engine.is_some_and(|d| d.arg(0).eq_ignore_ascii_case("on")) {
        return;
    }
    let base = directives.iter().rfind(|d| is(d, "RewriteBase"));
    if let Some(base) = base.filter(|d| d.arg(0) != "/") {
        report.refuse(base, "this directory is served at /: write RewriteBase /");
    }
    for d in directives.iter().filter(|d| is(d, "RewriteOptions")) {
        report.refuse(d, "rules are those of this file alone");
    }
    let closed_before = parts.closed.len();
    let mut rewriting = Rewriting {
        parts,
        options,
        tree,
        report,
        has_base: false,
        has_root_base: base.is_some(),
        skipped: Vec::new(),
        skips_files: false,
        skips_directories: false,
        internal: Vec::new(),
        met: Vec::new(),
        refusals: Vec::new(),
        closed_before,
    };
    let mut conditions = Vec::new();
    for d in directives {
        if is(&d, "RewriteCond") {
            match Condition::of(d) {
                Ok(condition) => conditions.push(condition),
                Err(needs) => rewriting.report.refuse(d, needs),
            }
        } else if is(&d, "RewriteRule") {
            let rule = Rule::of(d, std::mem::take(&mut conditions));
            if let Err(needs) = rule.and_then(|rule| rewriting.rule(&rule)) {
                rewriting.report.refuse(d, needs);
            }
        }
    }
    rewriting.check();
}

/// `true`: it refuses names that begin with a dot, which no mount serves.
fn is_of_dot_names(rule: &Rule<'_>) -> bool {
    let names = [
        r"(^|/)\.",
        r"(^|/)\.(?!well-known)",
        r"(^|/)\.(?!well-known/)",
        r"/\.|^\.(?!well-known/)",
    ];
    let spares =
        |condition: &Condition<'_>| condition.d.args.iter().any(|arg| arg.contains("well-known"));
    let is_sparing = rule.pattern.contains("well-known") || rule.conditions.iter().any(spares);
    matches!(rule.action, Action::Status(403 | 404))
        && names.contains(&rule.pattern.as_str())
        && is_sparing
}

impl<'d> Rewriting<'d, '_> {
    fn rule(&mut self, rule: &Rule<'d>) -> Result<(), String> {
        if self.is_of_variables(rule)? {
            return Ok(());
        }
        if of_path(&rule.pattern)?.is_none() && !rule.is_not {
            self.report.remark(
                rule.d,
                "in .htaccess no path begins with a slash, so Apache never applies this rule",
            );
            return Ok(());
        }
        if is_of_dot_names(rule) {
            self.report.remark(
                rule.d,
                "names that begin with a dot are not served in any case: GET /.git is 404",
            );
            return Ok(());
        }
        let mut found = Vec::new();
        for conditions in combinations(&rule.conditions)? {
            found.extend(Requests::of(&conditions, self.options)?.by_empty_fields()?);
        }
        // One that is met in the first alternative needs no other.
        found.dedup();
        for requests in found {
            if requests.is_never || requests.hosts.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            if let Some(remark) = &requests.remark {
                self.report.remark(rule.d, remark);
            }
            self.act(rule, requests)?;
        }
        Ok(())
    }

    /// Reads a rule that only sets variables; `true`: it is one.
    fn is_of_variables(&mut self, rule: &Rule<'d>) -> Result<bool, String> {
        if rule.variables.is_empty() {
            return Ok(false);
        }
        if rule.action != Action::Pass || rule.is_last {
            return Err("variables of the environment are not known".to_owned());
        }
        for variable in &rule.variables {
            let (name, value) = variable.split_once(':').unwrap_or((variable, ""));
            if name == "BASE" && rule.conditions.iter().any(Condition::finds_base) {
                self.has_base = true;
                continue;
            }
            // Applications get the fields of requests anyway.
            let is_field = name.strip_prefix("HTTP_").is_some_and(|field| {
                let field = field.replace('_', "-");
                let of_value =
                    value.strip_prefix("%{HTTP:").and_then(|rest| rest.strip_suffix('}'));
                let is_of =
                    |text: &str| text.to_ascii_lowercase().contains(&field.to_ascii_lowercase());
                of_value.is_some_and(is_of)
                    || (matches!(value, "%0" | "%1")
                        && rule.conditions.iter().all(|condition| is_of(condition.d.arg(0))))
            });
            if !is_field {
                return Err(format!("the variable {name} of the environment is not known"));
            }
        }
        Ok(true)
    }

    fn act(&mut self, rule: &Rule<'d>, mut requests: Requests) -> Result<(), String> {
        let has_exceptions = !requests.not_regex.is_empty();
        if rule.is_not {
            requests.not_regex.extend(matching::regex_of(rule)?);
        }
        requests.not_regex.extend(self.skipped.iter().cloned());
        let has_files = requests.is_no_file || requests.is_no_directory;
        let is_of_files = has_files || requests.suffix.is_some();
        if !is_of_files {
            self.remark_behind_front(rule, &requests);
        }
        let has_skips = self.skips_files || self.skips_directories;
        match &rule.action {
            Action::Pass if rule.is_last && has_exceptions => {
                Err("it lets requests pass but for some paths: write it without ! conditions"
                    .into())
            }
            Action::Pass => self.pass(rule, &requests),
            Action::Status(status)
                if !has_files && !has_skips && !requests.is_file && !requests.is_directory =>
            {
                self.refuse_requests(rule, &requests, *status)
            }
            Action::Rewrite { to } if requests.suffix.is_some() && !has_skips => {
                self.with_suffix(rule, requests, to)
            }
            _ if requests.suffix.is_some() => {
                Err("with an ending it knows a rewrite to that file".to_owned())
            }
            Action::Rewrite { to } if has_files || has_skips => {
                requests.is_no_file |= self.skips_files;
                requests.is_no_directory |= self.skips_directories;
                self.front(rule, &requests, to)
            }
            Action::Rewrite { to } if !requests.is_file && !requests.is_directory => {
                self.rewrite(rule, &requests, to)
            }
            Action::Redirect { to, status } if requests.is_no_directory && !has_skips => {
                self.slash(rule, requests, to, *status)
            }
            Action::Redirect { to, status }
                if !has_files && !has_skips && !requests.is_file && !requests.is_directory =>
            {
                self.redirect(rule, &requests, to, *status)
            }
            _ => Err(
                "rules and refusals look at no files: only a page or script for missing files does"
                    .to_owned(),
            ),
        }
    }

    /// Names the difference of a rule for all paths behind the page for missing files.
    fn remark_behind_front(&mut self, rule: &Rule<'d>, requests: &Requests) {
        // FallbackResource comes behind all rules.
        let is_before = |front: &&Front<'_>| front.d.name.eq_ignore_ascii_case("RewriteRule");
        let is_all = is_everything(&rule.pattern) && !rule.is_not && requests.regex.is_none();
        let is_of_files = |front: &&Front<'_>| match rule.action {
            Action::Pass => false,
            // Apache applies a refusal of all paths to the page, too, but not behind END.
            Action::Status(_) => front.is_end || !is_all,
            Action::Rewrite { .. } | Action::Redirect { .. } => true,
        };
        let front = self.parts.front.as_ref().filter(is_before).filter(is_of_files);
        if let Some(front) = front {
            let text = format!(
                "it is for all paths; Apache applies it to files that are there, as {} answers the others before it",
                front.path
            );
            self.report.remark(rule.d, &text);
        }
    }

    /// A rule that lets requests pass: later ones are not for them.
    fn pass(&mut self, rule: &Rule<'d>, requests: &Requests) -> Result<(), String> {
        if !rule.is_last {
            return Ok(());
        }
        let is_all = is_everything(&rule.pattern) && !rule.is_not;
        if is_all && (requests.is_file || requests.is_directory) {
            let bare = Requests {
                is_file: false,
                is_directory: false,
                not_regex: Vec::new(),
                ..requests.clone()
            };
            if bare != Requests::default() {
                return Err("beside -f or -d it knows no other condition".to_owned());
            }
            self.skips_files |= requests.is_file;
            self.skips_directories |= requests.is_directory;
            return Ok(());
        }
        let subject = Subject::of(rule, requests)?;
        let others = Requests { regex: None, not_regex: Vec::new(), ..requests.clone() };
        match subject.regex_alone() {
            Some(regex) if others == Requests::default() => {
                self.skipped.push(regex);
                Ok(())
            }
            _ => Err("it lets requests pass by more than their path".to_owned()),
        }
    }

    fn refuse_requests(
        &mut self,
        rule: &Rule<'d>,
        requests: &Requests,
        status: u16,
    ) -> Result<(), String> {
        self.no_channel(requests)?;
        let subject = Subject::of(rule, requests)?;
        let place = subject.place(requests, requests.host_names().as_deref())?;
        self.parts.met.push((rule.d, subject.regex()));
        self.refusals.push(Refusal::of(rule, &subject, requests));
        self.parts.refuse(place, status);
        match subject.regex_alone() {
            Some(regex) if requests.is_of_path() => self.parts.closed.push(regex),
            _ => self.parts.has_conditional_refusal = true,
        }
        Ok(())
    }

    /// A rewrite to another path.
    fn rewrite(&mut self, rule: &Rule<'d>, requests: &Requests, to: &str) -> Result<(), String> {
        self.no_channel(requests)?;
        let mut requests = requests.clone();
        if self.parts.has_conditional_refusal {
            return Err(BEFORE_REFUSALS.to_owned());
        }
        requests.not_regex.extend(self.parts.closed.iter().cloned());
        let subject = Subject::of(rule, &requests)?;
        let to = match to.strip_prefix('/') {
            Some(_) => to.to_owned(),
            None => format!("/{to}"),
        };
        let to = self.target(&to, &subject, rule.query, None, &[])?;
        let path = to.split('?').next().unwrap_or_default();
        if path.contains("//") || path.contains("/.") {
            return Err("write the path it leads to, without // and dots".to_owned());
        }
        check_target(path, self.tree)?;
        let end = path.find('{');
        let fixed = path[..end.unwrap_or(path.len())].to_owned();
        if path.ends_with(".php") || path.contains(".php/") {
            self.parts.settings.has_php = true;
        }
        let (is_fixed, is_end) = (end.is_none(), rule.is_end);
        self.internal.push(Internal { d: rule.d, to: fixed, is_fixed, is_end });
        self.met.push(Met::of(rule, &subject, requests.not_regex.clone()));
        let mut keys = subject.place(&requests, requests.host_names().as_deref())?;
        put(&mut keys, "rewrite", to);
        self.parts.rules.push(keys);
        Ok(())
    }

    fn target(
        &self,
        to: &str,
        subject: &Subject,
        query: Query,
        host: Option<&str>,
        groups: &[String],
    ) -> Result<String, String> {
        let conditions = match (subject.is_of_condition(), groups.is_empty()) {
            (true, _) => Conditions::OfPath,
            (false, false) => Conditions::Of(groups),
            (false, true) => Conditions::None,
        };
        let values = Values {
            groups: subject.group(),
            path: subject.path(),
            host,
            conditions,
            has_base: self.has_base,
        };
        Ok(with_query(&expand(to, &values)?, query))
    }

    fn no_channel(&self, requests: &Requests) -> Result<(), String> {
        match requests.is_clear || requests.is_forwarded_clear {
            true => Err("of rules for requests in clear it knows the redirect to HTTPS".to_owned()),
            false => Ok(()),
        }
    }
}
