//! Conditions that nginx asks once more, for the page that answers a directory or a missing file:
//! it looks up the page with a new path (`ngx_http_internal_redirect`). hurtle asks once, for the
//! client's path.

use toml::{Table, Value};

use super::expression::Expression;
use super::modifier::holds;
use super::mount::Mount;
use super::mounts::Mounts;
use super::overlap::{index, pages};
use super::report::Report;

/// The path of the client stays the same.
const OF_CLIENT: &str = "$request_uri";

impl Mounts<'_, '_> {
    /// Refuses conditions that are for a page, and not for a path that this page answers. Of
    /// scripts beneath directories these are closed, too.
    pub(super) fn conditions_of_pages(&mut self, report: &mut Report) {
        let mut closings = Vec::new();
        for (d, own) in &self.refusing {
            if d.args.iter().any(|arg| arg.contains(OF_CLIENT)) {
                continue;
            }
            let others = self.site.mounts.iter().filter(|mount| mount.is_prefix());
            let mut asked: Vec<Asked> = others.filter_map(|mount| page_of(own, mount)).collect();
            // One that is refused says enough.
            asked.sort_by_key(|asked| asked.directories.as_ref().map(Value::to_string));
            asked.dedup_by(|one, other| one.directories == other.directories);
            for Asked { page, path, directories } in asked {
                let Some(directories) = directories else {
                    let why = format!(
                        "nginx asks it for {page}, too, which answers GET {path}: write a condition that is for {path}"
                    );
                    report.refuse(d, why);
                    break;
                };
                let text = format!(
                    "GET {path} and the directories beneath it are closed as their scripts; nginx answers those without \
                     {page} otherwise"
                );
                report.remark(d, &text);
                closings.push((own.clone(), own.at_regex(&directories)));
            }
        }
        for (own, closing) in closings {
            let at = self.site.mounts.iter().position(|mount| *mount == own);
            self.site.mounts.insert(at.map_or(0, |at| at + 1), closing);
        }
    }
}

/// A page that a condition is for.
struct Asked {
    page: String,
    /// A path that it answers, for which the condition is not.
    path: String,
    /// The value of `match` for all such paths, if they are directories with scripts.
    directories: Option<Value>,
}

fn page_of(own: &Mount, mount: &Mount) -> Option<Asked> {
    let root = mount.path.trim_end_matches('/');
    let path = format!("{root}/");
    let mut pages = pages(mount).into_iter();
    if let Some(page) = pages.find(|page| is_for(own, page) && !is_for(own, &path)) {
        return Some(Asked { page, path, directories: None });
    }
    let expression = matcher_of(own)?.get("regex")?.as_str().and_then(Expression::of_text)?;
    let names = index(mount);
    let mut beneath = names.iter().filter_map(|name| expression.page_beneath(root, name));
    let page = beneath.find(|page| holds_path(own, page))?;
    let (directory, _) = page.rsplit_once('/')?;
    let path = format!("{directory}/");
    let directories = expression.closing(&page).filter(|_| page.ends_with(".php"));
    Some(Asked { page, path, directories })
}

fn matcher_of(mount: &Mount) -> Option<&Table> {
    mount.place.iter().find(|(key, _)| key == "match")?.1.as_table()
}

/// Returns whether a path is the mount's, or beneath it.
fn holds_path(mount: &Mount, path: &str) -> bool {
    match mount.is_exact() {
        true => mount.path == path,
        false => holds(&mount.path, path),
    }
}

/// Returns whether a condition may be met for a path.
fn is_for(mount: &Mount, path: &str) -> bool {
    let Some(matcher) = matcher_of(mount) else { return holds_path(mount, path) };
    let excepts = match matcher.get("not") {
        Some(Value::Table(not)) => is_of_paths(not) && meets(not, path),
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_table).any(|not| is_of_paths(not) && meets(not, path))
        }
        _ => false,
    };
    holds_path(mount, path) && meets(matcher, path) && !excepts
}

/// Returns whether nothing but the path decides.
fn is_of_paths(matcher: &Table) -> bool {
    matcher.keys().all(|key| matches!(key.as_str(), "path" | "regex"))
}

/// Returns whether a path meets the conditions on it.
fn meets(matcher: &Table, path: &str) -> bool {
    let is_one = |pattern: &Value| match pattern.as_str() {
        Some(pattern) => match pattern.strip_suffix("/**") {
            Some(prefix) => holds(prefix, path),
            None => pattern == path,
        },
        None => true,
    };
    let by_path = match matcher.get("path") {
        Some(Value::Array(all)) => all.iter().any(is_one),
        Some(one) => is_one(one),
        None => true,
    };
    let regex = matcher.get("regex").and_then(Value::as_str).and_then(Expression::of_text);
    by_path && regex.is_none_or(|regex| regex.is_in(path))
}
