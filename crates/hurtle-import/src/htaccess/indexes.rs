//! Rules for the path of an index: Apache finds the index of a directory by its path, and applies
//! rules to that path, too.

use std::collections::BTreeSet;

use super::parts::Parts;
use super::pattern::escaped;
use super::serving;
use crate::expression::Expression;
use crate::mount::Mount;
use crate::report::Report;
use hurtle_config::PathRegex;

/// Refuses rules for the path of an index: Apache finds it by that path, and applies them to its
/// directory. Where they close scripts beneath a directory, the directories are closed, too.
pub(super) fn check(parts: &mut Parts<'_>, report: &mut Report) {
    // A rule for all missing files and directories precedes the search for an index.
    let front = parts.front.as_ref().filter(|front| front.takes_directories);
    let names = match front.map(|front| (front.d, front.script().map(str::to_owned))) {
        None => serving::index(parts),
        Some((_, None)) => return,
        // hurtle finds the script of a directory.
        Some((d, Some(script))) => {
            report.remark(
                d,
                &format!("GET /dir/ of a directory with a {script} runs it; Apache runs /{script}"),
            );
            vec![script]
        }
    };
    let (mut closings, mut known) = (Vec::new(), BTreeSet::new());
    for (d, text) in &parts.met {
        // Alternatives of one rule have its expression.
        if !known.insert(text) {
            continue;
        }
        let Ok(regex) = PathRegex::new(text) else { continue };
        let is_in = |path: &str| regex.is_in(path.as_bytes());
        let is_of = |name: &String| {
            (is_in(&format!("/{name}")) && !is_in("/"))
                || (is_in(&format!("/x/{name}")) && !is_in("/x/"))
                || text.contains(&escaped(name))
        };
        if names.iter().any(is_of) {
            report.refuse(d, OF_INDEX);
            continue;
        }
        let Some(expression) = Expression::of_text(text) else { continue };
        let beneath = names.iter().find_map(|name| expression.page_beneath("", name));
        let Some(page) = beneath else { continue };
        let directory = page.rsplit_once('/').map_or("", |(directory, _)| directory);
        let closed: Vec<&Mount> =
            parts.refusals.iter().filter(|mount| is_of_regex(mount, text)).collect();
        match expression.closing(&page) {
            _ if closed.is_empty() => report.remark(
                d,
                &format!("where {page} is there, Apache applies it to GET {directory}/, too"),
            ),
            None => report.refuse(d, OF_INDEX),
            Some(directories) => {
                report.remark(
                    d,
                    &format!(
                        "GET {directory}/ and the directories beneath it are closed as their scripts; Apache answers \
                         those without {page} otherwise"
                    ),
                );
                closings.extend(closed.into_iter().map(|mount| mount.at_regex(&directories)));
            }
        }
    }
    parts.refusals.extend(closings);
}

/// The reason for which a rule for an index is refused.
const OF_INDEX: &str = "it is for the index of a directory, too, and so for GET / in Apache";

/// Returns whether a mount has this expression.
fn is_of_regex(mount: &Mount, text: &str) -> bool {
    let matcher = mount.place.iter().find(|(key, _)| key == "match");
    matcher.and_then(|(_, value)| value.get("regex")?.as_str()) == Some(text)
}
