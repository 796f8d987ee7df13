//! `<Limit>` and `<LimitExcept>`: sections of methods.
//!
//! Apache has one list of `Require` for the file, and one for each section of files. A request
//! needs one of the lines that are for its method. One for whose method there is none is granted,
//! whatever a wider section says. `Order`, `Allow` and `Deny` have such lists, too.

use super::access::{COMPAT, REQUIRE, Rules, all_of};
use super::rewrite::Front;
use super::sections::Section;
use crate::report::Report;
use crate::syntax::Directive;

/// Methods that Apache knows without other modules, except TRACE.
const KNOWN: [&str; 26] = [
    "BASELINE-CONTROL",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCOL",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "REPORT",
    "UNCHECKOUT",
    "UNLOCK",
    "UPDATE",
    "VERSION-CONTROL",
];

/// Methods of `<Limit>` or `<LimitExcept>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Methods {
    pub(super) names: Vec<String>,
    /// `true`: all but these.
    pub(super) is_except: bool,
}

impl Methods {
    /// Reads the methods of a section.
    pub(super) fn of(d: &Directive) -> Result<Methods, String> {
        let is_except = d.name.eq_ignore_ascii_case("<limitexcept>");
        let mut names = d.args.clone();
        if names.is_empty() {
            return Err("it names no method".to_owned());
        }
        let is_known = |name: &str| KNOWN.contains(&name) || (name == "TRACE" && is_except);
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            return Err(format!("Apache answers 500, as no module has the method {name}"));
        }
        // HEAD is GET for Apache.
        for (one, other) in [("GET", "HEAD"), ("HEAD", "GET")] {
            let has = |name: &str| names.iter().any(|own| own == name);
            if has(one) && !has(other) {
                names.push(other.to_owned());
            }
        }
        Ok(Methods { names, is_except })
    }

    /// `true`: a request may be for both.
    fn meet(&self, other: &Methods) -> bool {
        let has = |all: &Methods, name: &String| all.names.contains(name) != all.is_except;
        match (self.is_except, other.is_except) {
            (true, true) => true,
            (false, _) => self.names.iter().any(|name| has(other, name)),
            (true, false) => other.names.iter().any(|name| has(self, name)),
        }
    }
}

/// Refuses sections of methods that add to the same list.
pub(super) fn check(sections: &[Section<'_>], report: &mut Report) {
    for (at, section) in sections.iter().enumerate() {
        let is_same = |earlier: &&Section<'_>| {
            let both = earlier.methods.as_ref().zip(section.methods.as_ref());
            let has_both = |names: &[&str]| {
                !all_of(earlier, names).is_empty() && !all_of(section, names).is_empty()
            };
            earlier.within == section.within
                && both.is_some_and(|(one, other)| one.meet(other))
                && (has_both(&COMPAT) || has_both(&REQUIRE))
        };
        if let (Some(d), Some(earlier)) = (section.at, sections[..at].iter().find(is_same)) {
            let line = earlier.at.map_or(0, |d| d.at.line);
            report.refuse(
                d,
                format!(
                    "line {line} is for one of its methods, too: write their lines in one section"
                ),
            );
        }
    }
}

/// The reason for which the mount of a section of methods would differ from Apache. `all`: the
/// sections with access of their own; `rules`: those of all requests.
pub(super) fn fault(
    (section, own): (&Section<'_>, &Rules<'_>),
    all: &[(&Section<'_>, &Rules<'_>)],
    rules: &Rules<'_>,
    front: Option<&Front<'_>>,
) -> Option<&'static str> {
    section.methods.as_ref()?;
    let is_closed = own.within(rules).access().is_ok_and(|access| access.is_closed);
    if !is_closed && front.is_some_and(|front| !front.except.is_empty()) {
        return Some(
            "the page or script for missing files spares paths: write access for all methods",
        );
    }
    let files = section.files.as_ref()?;
    let is_home = |other: &Section<'_>| other.methods.is_none() && other.home == section.home;
    let home = all.iter().find(|(other, _)| is_home(other)).map(|(_, rules)| *rules);
    let is_within =
        |other: &Section<'_>| other.methods.is_none() && other.files.as_ref() == Some(files);
    if !is_closed && all.iter().any(|(other, _)| is_within(other)) {
        return Some("within a section with access of its own: write it beside that one");
    }
    let is_wider = |other: &Section<'_>| {
        let is_apart = other.files.as_ref().is_some_and(|others| others.is_apart(files));
        other.home < section.home && !is_apart
    };
    let lifts = |wider: &Rules<'_>| own.lifts(home, wider);
    let is_lifted =
        lifts(rules) || all.iter().any(|(other, wider)| is_wider(other) && lifts(wider));
    is_lifted.then_some(
        "for other methods Apache grants its files, whatever is said around it: write Require for these, too",
    )
}
