//! Results of rewrites: Apache begins anew with each, so none may be of another rule.

use toml::Value;

use super::super::pattern::glob;
use super::Rewriting;
use crate::config::PathRegex;
use crate::import::syntax::Directive;

/// A rewrite to another path, for the check of rules that its result would meet.
#[derive(Debug)]
pub(super) struct Internal<'d> {
    pub(super) d: &'d Directive,
    /// The path that it leads to, up to its first placeholder.
    pub(super) to: String,
    pub(super) is_fixed: bool,
}

/// Expressions of rules, for the same check.
#[derive(Debug)]
pub(super) struct Met<'d> {
    pub(super) d: &'d Directive,
    pub(super) regex: String,
}

impl Rewriting<'_, '_> {
    /// Refuses rewrites whose result another rule would be for: Apache begins anew with it.
    pub(super) fn check(&mut self) {
        for internal in &self.internal {
            let meets = |met: &&Met<'_>| {
                let regex = PathRegex::new(&met.regex);
                match internal.is_fixed {
                    true => regex.is_ok_and(|regex| regex.is_in(internal.to.as_bytes())),
                    false => {
                        let begin = crate::import::regex::beginning(&met.regex);
                        begin.is_empty()
                            || begin.starts_with(&internal.to)
                            || internal.to.starts_with(&begin)
                    }
                }
            };
            if let Some(met) =
                self.met.iter().find(|met| meets(met) && !self.excludes(internal, met))
            {
                let why = format!(
                    "its result may meet `{}` ({}), which Apache applies to it",
                    met.d, met.d.at
                );
                self.report.refuse(internal.d, why);
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
