//! Guards of scripts for the paths behind them. hurtle runs x.php for `/x.php/y`, too. In nginx
//! this is another path, unless the expression of the scripts says otherwise: neither the scripts
//! nor the guard of `/x.php` are for it.

use toml::{Table, Value};

use super::guard;
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::report::Report;
use super::subject::escaped;
use hurtle_config::PathRegex;

/// Keys of mounts that do more than answer.
const HANDLERS: [&str; 4] = ["fastcgi", "files", "proxy", "uwsgi"];

/// Paths behind those of scripts.
const BEHIND: &str = "**.php/**";

impl Mounts<'_, '_> {
    /// Has the guards of scripts hold for the paths behind them, too.
    pub(super) fn guard_behind_scripts(&mut self, report: &mut Report) {
        let Some(scripts) = &self.script_expression else { return };
        if scripts.is_in("/x.php/y") {
            return;
        }
        let mut guarded = Vec::new();
        let (mut of_pages, mut has_more) = (Vec::new(), false);
        for mut mount in std::mem::take(&mut self.site.mounts) {
            let behind = format!("{}/x", mount.path);
            if mount.is_page() && mount.path.ends_with(".php") && !is_open(&mount) {
                of_pages.extend((!scripts.is_in(&behind)).then(|| behind_page(&mount)));
            }
            let is_own = mount.place.iter().any(|(_, matcher)| scripts.is(matcher));
            let other = if is_own || is_open(&mount) { None } else { widen(&mut mount) };
            has_more |= other.is_some();
            guarded.push(mount);
            guarded.extend(other.flatten());
        }
        if has_more || !of_pages.is_empty() {
            report.general(
                "Paths behind a script with a guard of its own, such as GET /x.php/y, have that guard, or are 404; nginx \
                 asks the location of shorter paths, such as /"
                    .to_owned(),
            );
        }
        let first = guarded.iter().position(|mount| !mount.is_prefix() && !mount.is_exact());
        let first = first.unwrap_or(guarded.len());
        guarded.splice(first..first, of_pages);
        self.site.mounts = guarded;
    }
}

/// `true`: every client gets the files or the application of a mount.
fn is_open(mount: &Mount) -> bool {
    let has = |names: &[&str]| mount.keys.iter().any(|(key, _)| names.contains(&key.as_str()));
    has(&HANDLERS) && !has(&guard::KEYS)
}

/// The mount of the paths behind a page.
fn behind_page(page: &Mount) -> Mount {
    let mut mount = page.clone();
    let regex = Value::from(format!("^{}/", escaped(&page.path)));
    mount.path = "/".to_owned();
    mount.place.retain(|(key, _)| key != "exact");
    put(&mut mount.place, "match", Table::from_iter([("regex".to_owned(), regex)]));
    if mount.keys.iter().any(|(key, _)| HANDLERS.contains(&key.as_str())) {
        mount.keys = Keys::new();
        put(&mut mount.keys, "respond", "");
        put(&mut mount.keys, "status", 404);
    }
    mount
}

/// Has the expression of a mount match the paths behind those that it ends with. `Some`: it does
/// now, or the mount within does. `None`: no script has such a path.
fn widen(mount: &mut Mount) -> Option<Option<Mount>> {
    let (_, matcher) = mount.place.iter().find(|(key, _)| key == "match")?;
    let matcher = matcher.as_table()?;
    let text = matcher.get("regex")?.as_str()?;
    let regex = Value::from(with_paths_behind(text)?);
    let is_of_scripts = text.to_ascii_lowercase().contains("php");
    if !is_of_scripts && (matcher.contains_key("path") || names_others(text)) {
        return None;
    }
    let mut matcher = matcher.clone();
    matcher.insert("regex".to_owned(), regex);
    if !is_of_scripts {
        matcher.insert("path".to_owned(), Value::from(BEHIND));
    }
    let mut wide = mount.clone();
    for (_, value) in wide.place.iter_mut().filter(|(key, _)| key == "match") {
        *value = Value::Table(matcher.clone());
    }
    match is_of_scripts {
        true => {
            *mount = wide;
            Some(None)
        }
        false => Some(Some(wide)),
    }
}

/// An expression that matches more behind its ends; `None`: it has none.
fn with_paths_behind(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    let (mut is_class, mut has_end) = (false, false);
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '[' => is_class = true,
            ']' => is_class = false,
            '$' if !is_class => {
                has_end = true;
                out.push_str("(?:/|$)");
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    has_end.then_some(out)
}

/// `true`: an expression ends with names, with endings of names, or with the slash of directories,
/// and none is of a script.
fn names_others(text: &str) -> bool {
    let Some(text) = text.strip_suffix('$') else { return false };
    if text.ends_with('/') || text.ends_with("/)?") {
        return true;
    }
    let end = text.rsplit_once("\\.").map_or(text, |(_, end)| end);
    let is_script = PathRegex::new(&format!("(?i)\\.(?:{end})$")).map(|end| end.is_in(b"/x.php"));
    is_script == Ok(false)
        && end.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_^()|?:".contains(&b))
}
