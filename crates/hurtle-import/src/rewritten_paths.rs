//! Conditions of a server on the path, beside rewrites of locations: nginx asks them before it
//! makes the rewrites, hurtle behind its rules.

use toml::{Table, Value};

use super::mount::Mount;
use super::mounts::Mounts;
use super::regex;
use super::report::Report;

impl Mounts<'_, '_> {
    /// Refuses conditions that hurtle asks about the path of a rewrite.
    pub(super) fn conditions_before_rewrites(&self, report: &mut Report) {
        let of_rules = self.rules.iter().filter_map(|rule| rule.rewritten_location());
        let private = self.private.iter().map(|private| private.mount.path.as_str());
        let paths: Vec<&str> = of_rules.chain(private).collect();
        for (d, mount) in &self.before_rewrites {
            if let Some(path) = paths.iter().find(|path| may_meet(mount, path)) {
                let why = format!(
                    "the rewrite of the location {path} changes the path before hurtle asks for it"
                );
                report.refuse(d, why);
            }
        }
    }
}

impl Mounts<'_, '_> {
    /// Names conditions of the server that hurtle asks behind redirects of locations.
    /// `paths`: those of the redirects.
    pub(super) fn conditions_after_redirects(&self, paths: &[String], report: &mut Report) {
        if paths.is_empty() {
            return;
        }
        let text = format!("the redirects of GET {} precede it", paths.join(", GET "));
        self.before_rewrites.iter().for_each(|(d, _)| report.remark(d, &text));
    }
}

/// Returns whether a condition on the path may be met beneath this path.
fn may_meet(mount: &Mount, path: &str) -> bool {
    let matcher = mount.place.iter().find(|(key, _)| key == "match");
    let Some((_, Value::Table(matcher))) = matcher else { return false };
    let is_of_path =
        |matcher: &Table| matcher.contains_key("path") || matcher.contains_key("regex");
    if matcher.get("not").and_then(Value::as_table).is_some_and(is_of_path) {
        return true;
    }
    let text = |key: &str| matcher.get(key).and_then(Value::as_str);
    let begin = match (text("path"), text("regex")) {
        (Some(path), _) => path.trim_end_matches('*').to_owned(),
        (None, Some(regex)) => regex::beginning(regex.strip_prefix("(?i)").unwrap_or(regex)),
        (None, None) => return is_of_path(matcher),
    };
    let (begin, path) = (begin.to_ascii_lowercase(), path.to_ascii_lowercase());
    begin.starts_with(&path) || path.starts_with(&begin)
}
