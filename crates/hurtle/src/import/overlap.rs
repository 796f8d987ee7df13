//! Compares the mounts of a site with locations that nginx would choose, and hurtle does not: pages,
//! regular expressions, prefixes of names, and paths beneath exact ones. hurtle must not open what
//! nginx closes there.

use std::mem;

use toml::Value;

use super::block::Block;
use super::error_pages::{place_of, put_pages};
use super::expression::Expression;
use super::guard;
use super::kind::{FilesKind, HandlerKind, Kind, PathKind};
use super::location::mount;
use super::modifier::{Modifier, holds};
use super::mount::{Keys, Mount, put};
use super::mounts::{Mounts, Page, Placed};
use super::path::join;
use super::report::Report;
use super::syntax::Directive;

/// Keys that choose among the files of a directory.
const SEARCH: [&str; 5] = ["index", "listing", "try_files", "spa", "otherwise"];

impl<'a> Mounts<'a, '_> {
    /// Makes mounts of the pages that those of their directories do not serve as nginx would, and
    /// refuses or remarks locations whose paths nginx reaches otherwise.
    pub(super) fn check(&mut self, report: &mut Report) {
        for page in mem::take(&mut self.pages) {
            self.page(page, report);
        }
        for placed in &self.placed {
            self.placed(placed, report);
        }
        for (at, expression) in &self.expressions {
            self.expression(at, expression, report);
        }
    }

    fn mount_of(&self, placed: &Placed<'_>) -> Option<&Mount> {
        let is_exact = placed.modifier == Modifier::Exact;
        let own = |is_exact| self.site.mounts.iter().find(|m| m.is_of(placed.path, is_exact));
        if is_exact { own(true).or(own(false)) } else { own(false) }
    }

    /// The mount that serves a path, other than that of `but`.
    fn holder(&self, path: &str, but: Option<&Mount>) -> Option<&Mount> {
        let others = || {
            let is_other = |one: &&Mount| but.is_none_or(|but| !std::ptr::eq(*one, but));
            self.site.mounts.iter().filter(is_other)
        };
        let exact = others().find(|mount| mount.is_exact() && mount.path == path);
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
            let path = placed.path;
            report.remark(
                placed.at,
                &format!(
                    "nginx also guards names that begin with {path}, such as {path}-x and \
                     {path}.html; hurtle guards {path} and the paths beneath it"
                ),
            );
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

    /// A page of files: the mount of its directory serves it, if its settings are the same. Else it has
    /// one of its own.
    fn page(&mut self, page: Page<'a>, report: &mut Report) {
        let Page { at, path, block, errors } = page;
        let is_error_page = self.site.errors.values().any(|other| place_of(other) == Some(&path));
        if is_error_page && let Some(d) = block.take(Kind::Path(PathKind::Internal)) {
            report.remark(d, "clients can request this path, too");
        }
        let is_directory = path.ends_with('/');
        if !is_directory {
            leave_out_index(&block, report);
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let own = block.first(&[TRY_FILES]).filter(|d| d.args != ["$uri", "=404"]);
        if let Some(d) = own {
            return report.refuse(d, "only $uri =404 has a counterpart here");
        }
        block.take(TRY_FILES);
        let Some(mut wanted) = mount(at, &path, (&block, None), self.context, report) else {
            return;
        };
        put_pages(errors, &mut wanted);
        if !is_directory {
            wanted.keys.retain(|(key, _)| key != "index" && key != "listing");
            // The file, whose directory is served, may have another name.
            let file = wanted.key("files").and_then(Value::as_str).map(str::to_owned);
            let (directory, file) =
                file.as_deref().and_then(|f| f.rsplit_once('/')).unwrap_or_default();
            for (_, value) in wanted.keys.iter_mut().filter(|(key, _)| key == "files") {
                *value = Value::from(join(directory, ""));
            }
            if file != name {
                put(&mut wanted.keys, "try_files", format!("/{file}"));
            }
        }
        let is_ignored = |key: &str, _: bool| match key {
            "index" | "listing" => !is_directory,
            key => key == "files" || SEARCH.contains(&key),
        };
        let is_served = self.holder(&path, None).is_some_and(|serving| {
            let directory = serving.key("files").or(serving.key("root")).and_then(Value::as_str);
            let rest = parent.strip_prefix(serving.path.trim_end_matches('/'));
            let directory = directory.zip(rest).map(|(directory, rest)| join(directory, rest));
            directory.as_deref() == wanted.key("files").and_then(Value::as_str)
                && difference(serving, &wanted, is_ignored).is_none()
                && wanted.headers == serving.headers
                && wanted.key("try_files").is_none()
                && serving.key("spa").or(serving.key("try_files")).is_none()
        });
        if !is_served {
            self.add(
                at,
                (Modifier::Exact, &at.args[at.args.len() - 1]),
                None,
                wanted.at_exactly(&path),
                report,
            );
        }
    }

    /// nginx looks up the index of a directory, and pages in place of missing files, once more.
    fn expression(&self, at: &Directive, expression: &Expression, report: &mut Report) {
        let own = self.site.mounts.iter().find(|mount| {
            mount.place.iter().any(|(key, value)| key == "match" && expression.is(value))
        });
        let Some(own) = own else { return };
        // Scripts that are written before it are not its own.
        let is_of_scripts = |page: &String| {
            let excepts = own.place.iter().any(|(_, matcher)| matcher.get("not").is_some());
            excepts && self.script_expression.as_ref().is_some_and(|scripts| scripts.is_in(page))
        };
        for mount in self.site.mounts.iter().filter(|mount| mount.is_prefix()) {
            let path = mount.path.trim_end_matches('/');
            let is_own = |page: &String| expression.is_in(page) && !is_of_scripts(page);
            let found = pages(mount).into_iter().find(is_own);
            let Some(page) = found else { continue };
            if !admits_alike(&mount.keys, &own.keys) && !is_open(own) {
                let why = format!(
                    "it also guards {page}, which answers other paths of {path}/ in nginx; write the guard \
                     in the location {path}/"
                );
                return report.refuse(at, why);
            }
            let is_part = is_part(&Mount { path: mount.path.clone(), ..own.clone() }, mount);
            let is_unlike = own.headers != mount.headers || !is_part;
            if is_unlike && !(is_part && self.page_fields.borrow_mut().add(&page, mount, own, true))
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
    }
}

/// The paths of pages that answer other paths of a mount: its index, and the end of `try_files`.
fn pages(mount: &Mount) -> Vec<String> {
    let path = mount.path.trim_end_matches('/');
    let mut names: Vec<String> = match (mount.key("index"), mount.key("files")) {
        (Some(Value::Array(names)), _) => {
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        }
        (Some(Value::String(name)), _) => vec![name.clone()],
        (_, Some(_)) => vec!["index.html".to_owned()],
        _ => vec![],
    };
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

const TRY_FILES: Kind = Kind::Handler(HandlerKind::TryFiles);

/// Names settings of directories in a location of files only.
fn leave_out_index(block: &Block<'_>, report: &mut Report) {
    for kind in [FilesKind::Index, FilesKind::Autoindex] {
        for d in block.take_all(Kind::Files(kind)) {
            report.remark(d, &format!("`{d}` is left out: the location has no directory"));
        }
    }
}

/// The first key in which the mount that serves a path differs from the one that it should have.
/// `is_ignored` gets a key, and `true` if the wanted mount has it.
fn difference(
    serving: &Mount,
    wanted: &Mount,
    is_ignored: impl Fn(&str, bool) -> bool,
) -> Option<String> {
    let is_scripts = serving.key("fastcgi").is_some();
    let of_serving = |key: &str| match (key, is_scripts) {
        ("files", true) => serving.key("root"),
        _ => serving.key(key),
    };
    let unlike = wanted
        .keys
        .iter()
        .find(|(key, value)| !is_ignored(key, true) && of_serving(key) != Some(value));
    if let Some((key, _)) = unlike {
        return Some(key.clone());
    }
    let is_own = |key: &str, value: &Value| match (key, is_scripts) {
        (
            "fastcgi" | "root" | "index" | "params" | "buffer" | "connect_timeout" | "send_timeout",
            true,
        )
        | ("first_byte_timeout" | "read_timeout", true) => true,
        // Files are compressed without this key.
        ("compress", true) => *value == Value::from(true),
        _ => false,
    };
    let other = serving.keys.iter().find(|(key, value)| {
        wanted.key(key).is_none() && !is_ignored(key, false) && !is_own(key, value)
    });
    other.map(|(key, _)| key.clone())
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
