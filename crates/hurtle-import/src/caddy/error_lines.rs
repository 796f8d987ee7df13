//! The directives of `handle_errors` with the statuses that they are for.

use std::collections::BTreeMap;

use super::errors::{ALL, RESPONDERS};
use crate::report::Report;
use crate::syntax::Directive;

/// A directive of a block.
pub(super) struct ErrorLine<'d> {
    pub(super) written: &'d Directive,
    /// The directive without its matcher.
    pub(super) own: Directive,
    pub(super) statuses: Vec<u16>,
    /// `true`: a condition chooses the statuses.
    pub(super) is_of_some: bool,
}

/// Returns the directives of a block: first those with a condition, which Caddy asks first.
/// `limit`: the statuses of the block; `None`: all.
pub(super) fn of<'d>(
    block: &'d [Directive],
    limit: Option<&[u16]>,
    conditions: &BTreeMap<&str, Vec<u16>>,
    report: &mut Report,
) -> Vec<ErrorLine<'d>> {
    let mut lines = Vec::new();
    for written in block.iter().filter(|line| !line.name.starts_with('@')) {
        let (statuses, args) = match written.args.split_first() {
            Some((name, args)) if name.starts_with('@') => match conditions.get(name.as_str()) {
                Some(statuses) => (Some(statuses), args),
                None => {
                    report.refuse(written, "of conditions of errors it knows those of statuses");
                    continue;
                }
            },
            Some((star, args)) if star == "*" => (None, args),
            _ => (None, written.args.as_slice()),
        };
        if statuses.is_some() && written.name == "root" {
            report.refuse(written, "for some errors the directory is one of a `handle`");
        }
        let is_of_some = statuses.is_some();
        let is_within = |status: &&u16| limit.is_none_or(|limit| limit.contains(status));
        let statuses = match statuses {
            Some(some) => some.iter().filter(is_within).copied().collect(),
            None => limit.unwrap_or(&ALL).to_vec(),
        };
        let own = Directive { args: args.to_vec(), ..written.clone() };
        lines.push(ErrorLine { written, own, statuses, is_of_some });
    }
    lines.sort_by_key(|line| !line.is_of_some);
    lines
}

/// Returns whether the files of a block respond with the page of a rewrite, and no other handler of
/// the block gets the path of the page.
pub(super) fn is_page(rewrite: &ErrorLine<'_>, block: &[ErrorLine<'_>]) -> bool {
    let shares = |line: &&ErrorLine<'_>| {
        let is_of_all = !line.is_of_some || !rewrite.is_of_some;
        is_of_all || line.statuses.iter().any(|one| rewrite.statuses.contains(one))
    };
    // Texts of some errors precede the page of the others.
    let is_text =
        |line: &ErrorLine<'_>| line.own.name == "respond" && line.is_of_some && !rewrite.is_of_some;
    let is_other = |line: &ErrorLine<'_>| {
        let name = line.own.name.as_str();
        (name == "handle" || RESPONDERS.contains(&name)) && !is_text(line)
    };
    let has_files = |status: &u16| {
        let gets = |line: &ErrorLine<'_>| !line.is_of_some || line.statuses.contains(status);
        block.iter().any(|line| line.own.name == "file_server" && gets(line))
    };
    rewrite.statuses.iter().all(has_files) && !block.iter().filter(shares).any(is_other)
}
