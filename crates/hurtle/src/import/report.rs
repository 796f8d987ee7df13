//! Problems and remarks of a translation.

use super::syntax::{At, Directive};

/// Problems found so far, and remarks for comments in the output.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Directives that cannot be translated.
    pub(super) problems: Vec<(At, String)>,
    /// Differences that the reader must know, each once.
    pub(super) remarks: Vec<String>,
    /// Names of directives that were left out because hurtle has no such setting.
    pub(super) tuning: Vec<String>,
}

impl Report {
    /// Refuses a directive, once for each reason.
    pub(super) fn refuse(&mut self, directive: &Directive, needs: impl Into<String>) {
        let text = format!("cannot translate `{directive}`: {}", needs.into());
        let problem = (directive.at.clone(), text);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// `true` if a directive was refused already.
    pub(super) fn has_refused(&self, directive: &Directive) -> bool {
        let beginning = format!("cannot translate `{directive}`: ");
        self.problems.iter().any(|(at, text)| *at == directive.at && text.starts_with(&beginning))
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

    /// The problems, one line each.
    pub(super) fn lines(&self) -> Vec<String> {
        self.problems.iter().map(|(at, text)| format!("{at}: {text}")).collect()
    }
}
