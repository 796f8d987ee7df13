//! The order of mounts of sections with access of their own. In hurtle a request has the access of
//! the first mount that it meets.
//!
//! Apache has the access of 2.4 and that of 2.2 in two modules, and a request needs both. Within
//! one, a later section replaces an earlier one, and sections of files replace those of methods.

use super::access::Rules;
use super::sections::Section;
use crate::mount::Mount;
use crate::report::Report;
use crate::syntax::Directive;

/// A section with access of its own, and its mount.
pub(super) struct SectionGuard<'s, 'd> {
    pub(super) at: &'d Directive,
    pub(super) section: &'s Section<'d>,
    pub(super) own: &'s Rules<'d>,
    pub(super) mount: Mount,
}

impl SectionGuard<'_, '_> {
    fn is_closed(&self) -> bool {
        self.own.access().is_ok_and(|access| access.is_closed)
    }

    /// `true`: a request may meet both sections, and needs what two modules say.
    fn needs_both(&self, other: &SectionGuard<'_, '_>) -> bool {
        let is_of_one =
            (self.own.is_new() && other.own.is_new()) || (self.own.is_old() && other.own.is_old());
        let is_apart = match (&self.section.files, &other.section.files) {
            (Some(own), Some(others)) => own.is_apart(others),
            _ => false,
        };
        !is_of_one && !is_apart
    }
}

/// Returns the mounts of sections, which are given as they are written. Where a request needs what
/// two modules say, the sections of one must close all that they are for.
pub(super) fn in_order(mut guards: Vec<SectionGuard<'_, '_>>, report: &mut Report) -> Vec<Mount> {
    guards.reverse();
    // Sections of methods within those of files are behind these, and come first.
    guards.sort_by_key(|guard| guard.section.methods.is_some() && guard.section.files.is_none());
    let pairs = guards
        .iter()
        .enumerate()
        .flat_map(|(at, one)| guards[at + 1..].iter().map(move |other| (one, other)));
    let mut mixed = pairs.filter(|(one, other)| one.needs_both(other));
    if mixed.next().is_some() && !guards.iter().all(SectionGuard::is_closed) {
        let others = guards.iter().filter(|guard| !guard.is_closed());
        let of_both = guards.iter().find(|guard| !guard.own.is_new() && !guard.own.is_old());
        let old = others.clone().find(|guard| guard.own.is_old());
        let new = others.clone().find(|guard| guard.own.is_new());
        match (of_both, old, new) {
            (Some(guard), ..) | (None, Some(guard), Some(_)) => report.refuse(guard.at, NEEDS_BOTH),
            // A section that one module closes is closed, whatever the other says.
            (None, Some(_), None) => guards.sort_by_key(|guard| guard.own.is_old()),
            (None, None, _) => guards.sort_by_key(|guard| guard.own.is_new()),
        }
    }
    guards.into_iter().map(|guard| guard.mount).collect()
}

const NEEDS_BOTH: &str = "a request for it and for another section needs what Require says and what Order, Allow and \
     Deny say: write all sections with Require";
