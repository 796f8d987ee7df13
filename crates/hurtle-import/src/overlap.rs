//! Compares the mounts of a site with locations that nginx would choose, and hurtle does not:
//! pages, regular expressions, prefixes of names, and paths beneath exact ones. hurtle must not
//! open what nginx closes there.

use std::mem;

use toml::Value;

use super::error_pages::place_of;
use super::expression::Expression;
use super::guard;
use super::modifier::{Modifier, holds};
use super::mount::{Keys, Mount};
use super::mounts::{Mounts, Placed};
use super::path::join;
use super::report::Report;
use super::syntax::Directive;

/// Keys that choose among the files of a directory.
pub(super) const SEARCH: [&str; 5] = ["index", "listing", "try_files", "spa", "otherwise"];

impl<'a> Mounts<'a, '_> {
    /// Makes mounts of the pages that those of their directories do not serve as nginx would, and
    /// refuses or remarks locations whose paths nginx reaches otherwise.
    pub(super) fn check(&mut self, report: &mut Report) {
        for page in mem::take(&mut self.pages) {
            self.page(page, report);
        }
        for page in mem::take(&mut self.stays) {
            self.stay(page, report);
        }
        for placed in &self.placed {
            self.placed(placed, report);
        }
        let mut closings = Vec::new();
        for (at, expression) in &self.expressions {
            closings.extend(self.expression(at, expression, report));
        }
        for (own, closing) in closings {
            let at = self.site.mounts.iter().position(|mount| *mount == own);
            self.site.mounts.insert(at.map_or(0, |at| at + 1), closing);
        }
        self.error_pages_of_answers(report);
        self.guarded_pages(report);
        self.conditions_of_pages(report);
    }

    /// Names error pages whose path is that of a fixed answer or a redirect.
    fn error_pages_of_answers(&self, report: &mut Report) {
        for page in self.all_error_pages() {
            let Some(holder) = self.holder(page, None) else { continue };
            let is_answer = ["redirect", "respond", "abort", "status"];
            let placed = self.placed.iter().find(|placed| self.mount_of(placed) == Some(holder));
            if let Some(placed) =
                placed.filter(|_| is_answer.iter().any(|key| holder.key(key).is_some()))
            {
                let text = format!(
                    "{page} in place of an error is not found; nginx answers as this location does"
                );
                report.remark(placed.at, &text);
            }
        }
    }

    /// The paths of error pages, of the site and of its mounts.
    pub(super) fn all_error_pages(&self) -> Vec<&str> {
        let mounts = self.site.mounts.iter();
        let of_mounts = mounts.filter_map(|mount| mount.key("errors")?.as_table()).flatten();
        let pages = self.site.errors.values().chain(of_mounts.map(|(_, page)| page));
        pages.filter_map(place_of).filter(|page| page.starts_with('/')).collect()
    }

    fn mount_of(&self, placed: &Placed<'_>) -> Option<&Mount> {
        let is_exact = placed.modifier == Modifier::Exact;
        let own = |is_exact| self.site.mounts.iter().find(|m| m.is_of(placed.path, is_exact));
        if is_exact { own(true).or(own(false)) } else { own(false) }
    }

    /// The mount that serves a path, other than that of `but`.
    pub(super) fn holder(&self, path: &str, but: Option<&Mount>) -> Option<&Mount> {
        let others = || {
            let is_other = |one: &&Mount| but.is_none_or(|but| !std::ptr::eq(*one, but));
            self.site.mounts.iter().filter(is_other)
        };
        // Those of conditions are for some of its requests.
        let is_whole = |mount: &&Mount| !mount.place.iter().any(|(key, _)| key == "match");
        let exact = others().filter(is_whole).find(|m| m.is_exact() && m.path == path);
        let prefixes = others().filter(|mount| mount.is_prefix() && holds(&mount.path, path));
        exact.or(prefixes.max_by_key(|mount| mount.path.len()))
    }

    fn placed(&self, placed: &Placed<'_>, report: &mut Report) {
        let Some(mount) = self.mount_of(placed) else { return };
        if let Some((path, d)) = &placed.fallback
            && let Some(other) = self.holder(path, None)
            && !(admits_alike(&other.keys, &mount.keys) && is_part(other, mount))
        {
            let why = format!(
                "nginx sends {path} as the location {} does, with its guard and directory; name a \
                 file of this location",
                other.path
            );
            report.refuse(d, why);
        }
        let unlike =
            |path: &str| self.holder(path, None).filter(|other| other.headers != mount.headers);
        if let Some((path, d)) = &placed.fallback
            && let Some(other) = unlike(path)
            && !self.page_fields.borrow_mut().add(path, mount, other, false)
        {
            let text = format!(
                "{path} in answer to another path has the fields of {}; nginx gives it those of its own \
                 location",
                mount.path
            );
            report.remark(d, &text);
        }
        let parent = self.holder(&mount.path, Some(mount));
        let Some(parent) = parent else { return };
        let name = placed.path.rsplit('/').next().unwrap_or_default();
        let is_index = is_index(parent, name);
        if is_index && mount.key("files").is_none() && !is_closed(mount) {
            let path = placed.path.strip_suffix(name).unwrap_or_default();
            let text =
                format!("GET {path} is the file {name}; nginx answers it as this location does");
            report.remark(placed.at, &text);
        }
        if admits_alike(&parent.keys, &mount.keys) {
            let is_unlike = is_index && parent.headers != mount.headers;
            if is_unlike && self.page_fields.borrow_mut().add(name, parent, mount, false) {
                let path = &parent.path;
                let text =
                    format!("all HTML of {path} has the fields of this location, not {name} alone");
                report.remark(placed.at, &text);
            } else if is_unlike {
                let path = placed.path.strip_suffix(name).unwrap_or_default();
                let text = format!(
                    "GET {path} has the fields of {}, and so have other paths that this page answers; \
                     nginx gives them those of this location",
                    parent.path
                );
                report.remark(placed.at, &text);
            }
            return;
        }
        if placed.modifier == Modifier::Exact {
            if !mount.is_exact() {
                self.beneath_exact(placed, mount, Some(parent), report);
            }
        } else if !placed.path.ends_with('/') && !is_open(mount) {
            report.remark(placed.at, &of_names(placed.path));
        }
        if placed.path.ends_with('/') && placed.modifier != Modifier::Exact && !is_open(parent) {
            let path = &mount.path;
            report.remark(
                placed.at,
                &format!(
                    "a request for {path} has the guard of {} in nginx; in hurtle {path} is part \
                     of this location",
                    parent.path
                ),
            );
        }
        if is_index && !is_open(mount) {
            let why = "it is the index of its directory, which nginx looks up with this guard";
            report.refuse(placed.at, why);
        }
    }

    /// The mount of an exact location of an application must not open paths beneath it.
    fn beneath_exact(
        &self,
        placed: &Placed<'_>,
        mount: &Mount,
        parent: Option<&Mount>,
        report: &mut Report,
    ) {
        let application = |mount: &Mount| mount.key("proxy").or(mount.key("fastcgi")).cloned();
        let Some(own) = application(mount) else { return };
        let is_same = parent.is_some_and(|parent| {
            application(parent) == Some(own) && admits_alike(&parent.keys, &mount.keys)
        });
        if !is_same {
            let path = placed.path;
            let why = format!(
                "its mount would also send paths beneath {path} to the application; write \
                 location {path} if it may get them"
            );
            report.refuse(placed.at, why);
        }
    }

    /// nginx looks up the index of a directory, and pages in place of missing files, once more.
    /// Returns the mount of an expression that closes scripts, and one that closes directories
    /// whose index is such a script.
    fn expression(
        &self,
        at: &Directive,
        expression: &Expression,
        report: &mut Report,
    ) -> Option<(Mount, Mount)> {
        let own = self.site.mounts.iter().find(|mount| {
            mount.place.iter().any(|(key, value)| key == "match" && expression.is(value))
        });
        let own = own?;
        let mut closing = None;
        // An application is asked for its pages of errors.
        let is_asked = ["proxy", "fastcgi", "uwsgi"].iter().any(|key| own.key(key).is_some());
        for page in self.all_error_pages().into_iter().filter(|page| expression.is_in(page)) {
            if own.key("files").is_none() && !is_asked {
                let text = format!(
                    "{page} in place of an error is the file; nginx answers as this location does"
                );
                report.remark(at, &text);
            }
        }
        // Scripts that are written before it are not its own.
        let excepts = own.place.iter().any(|(_, matcher)| matcher.get("not").is_some());
        let is_of_scripts = |page: &String| {
            excepts && self.script_expression.as_ref().is_some_and(|scripts| scripts.is_in(page))
        };
        // The pages of `^~` are its own, too.
        let is_final = |mount: &Mount| mount.place.iter().any(|(key, _)| key == "final");
        let others = self.site.mounts.iter().filter(|mount| mount.is_prefix() && !is_final(mount));
        for mount in others {
            let path = mount.path.trim_end_matches('/');
            let is_own = |page: &String| expression.is_in(page) && !is_of_scripts(page);
            let beneath = || {
                let names = index(mount);
                let mut pages = names.iter().filter_map(|name| expression.page_beneath(path, name));
                // A remark of `scripts` names the scripts of directories.
                let is_script = |page: &String| excepts && page.ends_with(".php");
                pages.find(|page| !is_of_scripts(page) && !is_script(page))
            };
            let found = pages(mount).into_iter().find(is_own);
            let (Some(page), is_beneath) = (match found {
                Some(page) => (Some(page), false),
                None => (beneath(), true),
            }) else {
                continue;
            };
            let path = if is_beneath { directory_of(&page) } else { path };
            if !admits_alike(&mount.keys, &own.keys) && !is_open(own) {
                let directories = expression.directories_of(&page).filter(|_| is_closed(own));
                if let Some(matcher) = directories.filter(|_| is_beneath) {
                    if closing.is_some() {
                        continue;
                    }
                    let text = format!(
                        "GET {path}/ and the directories beneath it are closed as their scripts; nginx answers those \
                         without {page} otherwise"
                    );
                    report.remark(at, &text);
                    let mut other = own.clone();
                    other.place = vec![("match".to_owned(), matcher)];
                    closing = Some((own.clone(), other));
                    continue;
                }
                let why = format!(
                    "it also guards {page}, which answers other paths of {path}/ in nginx; write the guard \
                     in the location {path}/"
                );
                report.refuse(at, why);
                return None;
            }
            let is_part = is_part(&Mount { path: mount.path.clone(), ..own.clone() }, mount);
            let is_unlike = own.headers != mount.headers || !is_part;
            if own.key("files").is_none() {
                report.remark(
                    at,
                    &format!(
                        "{page} in answer to another path, such as GET {path}/, is the file; nginx answers as \
                         this location does"
                    ),
                );
            } else if is_unlike
                && (is_beneath
                    || !(is_part && self.page_fields.borrow_mut().add(&page, mount, own, true)))
            {
                report.remark(
                    at,
                    &format!(
                        "{page} in answer to another path, such as GET {path}/, has the fields and the \
                         directory of {path}/; nginx gives it those of this location"
                    ),
                );
            }
        }
        closing
    }
}

/// The difference of a guard of a prefix that does not end with a slash.
pub(super) fn of_names(path: &str) -> String {
    format!(
        "nginx also guards names that begin with {path}, such as {path}-x and {path}.html; hurtle guards {path} and \
         the paths beneath it"
    )
}

/// The directory of a page, without the slash at its end.
fn directory_of(page: &str) -> &str {
    page.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The names of the index of each directory of a mount.
pub(super) fn index(mount: &Mount) -> Vec<String> {
    match (mount.key("index"), mount.key("files")) {
        (Some(Value::Array(names)), _) => {
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        }
        (Some(Value::String(name)), _) => vec![name.clone()],
        (_, Some(_)) => vec!["index.html".to_owned()],
        _ => vec![],
    }
}

/// The paths of pages that answer other paths of a mount: its index, and the end of `try_files`.
pub(super) fn pages(mount: &Mount) -> Vec<String> {
    let path = mount.path.trim_end_matches('/');
    let mut names = index(mount);
    let last = match mount.key("try_files") {
        Some(Value::Array(list)) => list.last().and_then(Value::as_str),
        Some(Value::String(one)) => Some(one.as_str()),
        _ => None,
    };
    let spa = mount.key("spa").and_then(Value::as_str);
    let ends = last.into_iter().chain(spa).filter(|page| page.starts_with('/'));
    names.extend(ends.map(|page| page.trim_start_matches('/').to_owned()));
    names.into_iter().map(|name| format!("{path}/{name}")).collect()
}

/// `true` if a mount has the files that the other one would have at its path.
fn is_part(part: &Mount, whole: &Mount) -> bool {
    let directory = whole.key("files").and_then(Value::as_str);
    let path = match part.is_exact() {
        // Its directory is that of the file.
        true => part.path.rsplit_once('/').map_or("", |(directory, _)| directory),
        false => &part.path,
    };
    let rest = path.strip_prefix(whole.path.trim_end_matches('/'));
    let expected = directory.zip(rest).map(|(directory, rest)| join(directory, rest));
    let is_own = part.is_prefix() && part.path == whole.path;
    is_own || part.key("files").and_then(Value::as_str) == expected.as_deref()
}

/// `true` if two mounts admit the same clients.
pub(super) fn admits_alike(one: &Keys, other: &Keys) -> bool {
    let guards = |keys: &Keys| {
        let mut guards: Keys =
            keys.iter().filter(|(key, _)| guard::KEYS.contains(&key.as_str())).cloned().collect();
        guards.push(("status".to_owned(), Value::from(closing_status(keys))));
        guards
    };
    guards(one) == guards(other)
}

/// `true`: the mount answers every request with an error.
pub(super) fn is_closed(mount: &Mount) -> bool {
    closing_status(&mount.keys)
}

fn closing_status(keys: &Keys) -> bool {
    let status = keys.iter().find(|(key, _)| key == "status").map(|(_, value)| value);
    status.and_then(Value::as_integer).is_some_and(|status| status >= 400)
}

/// `true`: every client is admitted.
fn is_open(mount: &Mount) -> bool {
    !is_closed(mount) && !mount.keys.iter().any(|(key, _)| guard::KEYS.contains(&key.as_str()))
}

/// `true` if a directory's requests lead to this name.
fn is_index(parent: &Mount, name: &str) -> bool {
    match parent.key("index") {
        Some(Value::Array(names)) => names.iter().any(|one| one.as_str() == Some(name)),
        _ => name == "index.html",
    }
}
