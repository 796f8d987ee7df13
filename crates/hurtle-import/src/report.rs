//! Problems and remarks of a translation.

use std::fmt;

use super::syntax::{At, Directive};

/// A directive that cannot be translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    at: At,
    /// The directive without its block.
    directive: String,
    needs: String,
}

impl Problem {
    /// `true` if it is about this directive.
    pub(super) fn is_of(&self, directive: &Directive) -> bool {
        self.at == directive.at && self.directive == directive.to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { at, directive, needs } = self;
        write!(f, "{at}: cannot translate `{directive}`: {needs}")
    }
}

/// Problems found so far, and remarks for comments in the output.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Directives that cannot be translated.
    pub(super) problems: Vec<Problem>,
    /// Directives that a translation of a part leaves out, with what became of them.
    pub(super) left_out: Vec<String>,
    /// Differences that the reader must know, each once.
    pub(super) remarks: Vec<String>,
    /// Names of directives that were left out because hurtle has no such setting.
    pub(super) tuning: Vec<String>,
}

impl Report {
    /// Refuses a directive, once for each reason.
    pub(super) fn refuse(&mut self, directive: &Directive, needs: impl Into<String>) {
        let (at, needs) = (directive.at.clone(), needs.into());
        let problem = Problem { at, directive: directive.to_string(), needs };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Writes the problems from `known` on, which are of a rewritten directive, as those of `own`.
    pub(super) fn attribute(&mut self, known: usize, rewritten: &Directive, own: &Directive) {
        let later = self.problems.iter_mut().skip(known);
        for problem in later.filter(|problem| problem.is_of(rewritten)) {
            problem.directive = own.to_string();
        }
    }

    /// `true` if a directive was refused already.
    pub(super) fn has_refused(&self, directive: &Directive) -> bool {
        self.problems.iter().any(|problem| problem.is_of(directive))
    }

    /// Adds a remark about a directive.
    pub(super) fn remark(&mut self, directive: &Directive, text: &str) {
        self.general(format!("{}: {text}", directive.at));
    }

    /// Adds a remark about the whole configuration.
    pub(super) fn general(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    /// Leaves a directive out that changes no response.
    pub(super) fn leave_out(&mut self, directive: &Directive) {
        if !self.tuning.contains(&directive.name) {
            self.tuning.push(directive.name.clone());
        }
    }

    /// Adds what another report has.
    pub(super) fn join(&mut self, other: &Report) {
        self.problems.extend(other.problems.iter().cloned());
        other.remarks.iter().for_each(|text| self.general(text.clone()));
        let new: Vec<String> =
            other.tuning.iter().filter(|name| !self.tuning.contains(name)).cloned().collect();
        self.tuning.extend(new);
    }

    /// The problems, one line each.
    pub(super) fn lines(&self) -> Vec<String> {
        self.problems.iter().map(Problem::to_string).collect()
    }
}
