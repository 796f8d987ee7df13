//! Translates `error_page`: pages, named locations and statuses.

use toml::Value;

use super::block::Block;
use super::guard;
use super::kind::{Kind, ResponseKind};
use super::mount::{ErrorPages, Mount, put};
use super::mounts::{Mounts, Placed};
use super::named::Named;
use super::overlap::is_closed;
use super::path::has_variable;
use super::report::Report;
use super::syntax::Directive;

/// Returns the page or named location that answers, with its own status, in place of 404.
pub(super) fn spa_of(d: &Directive) -> Option<&String> {
    let [status, replaced, page] = d.args.as_slice() else { return None };
    let is_named = page.starts_with('@') && replaced == "=";
    let is_page = page.starts_with('/') && (replaced == "=200" || replaced == "=");
    (status == "404" && (is_named || is_page)).then_some(page)
}

/// Translates the directive; `None`: it was refused.
pub(super) fn of(d: &Directive, report: &mut Report) -> Option<ErrorPages> {
    let (page, statuses) = d.args.split_last()?;
    let is_place = page.starts_with('/') || page.starts_with('@');
    if !is_place || has_variable(page) {
        report.refuse(d, "an error page is a path of the site, or a named location");
        return None;
    }
    let (statuses, answer) = match statuses.split_last() {
        Some((last, statuses)) if last.starts_with('=') => (statuses, Some(&last[1..])),
        _ => (statuses, None),
    };
    let mut pages = ErrorPages::new();
    for status in statuses {
        let Some(status) = status.parse().ok().filter(|status| (400..=599).contains(status)) else {
            report.refuse(d, "hurtle has pages for the statuses 400 to 599");
            return None;
        };
        pages.insert(status, entry(page, status, answer, d, report)?);
    }
    Some(pages)
}

/// The value of one status.
fn entry(
    page: &str,
    status: u16,
    answer: Option<&str>,
    d: &Directive,
    report: &mut Report,
) -> Option<Value> {
    let is_named = page.starts_with('@');
    let own = match answer {
        None => is_named.then_some(status),
        // The status of a file.
        Some("") => (!is_named).then_some(200),
        Some(own) => match own.parse() {
            Ok(204 | 205 | 304) => {
                report.refuse(d, "a response with this status has no page");
                return None;
            }
            Ok(own @ 200..=599) => Some(own),
            _ => {
                report.refuse(d, "a response has a status from 200 to 599");
                return None;
            }
        },
    };
    let Some(own) = own else { return Some(Value::from(page)) };
    let mut table = toml::Table::new();
    table.insert("to".to_owned(), Value::from(page));
    table.insert("status".to_owned(), Value::from(i64::from(own)));
    Some(Value::from(table))
}

/// Refuses a named location that is not there.
pub(super) fn check_name(d: &Directive, named: &[Named<'_>], report: &mut Report) {
    let name = d.args.last().and_then(|place| place.strip_prefix('@'));
    if let Some(name) = name.filter(|name| !named.iter().any(|named| named.name == *name)) {
        report.refuse(d, format!("there is no location @{name}, which error_page names"));
    }
}

/// The path or `@NAME` of a translated page.
pub(super) fn place_of(page: &Value) -> Option<&str> {
    page.as_str().or_else(|| page.get("to")?.as_str())
}

impl<'a> Mounts<'a, '_> {
    /// Takes the error pages of a location: those of `/` are the site's, and others its own.
    /// `has_spa`: a page in place of 404 is a key of the mount.
    pub(super) fn error_pages(
        &mut self,
        block: &Block<'a>,
        is_root: bool,
        has_spa: bool,
        report: &mut Report,
    ) -> ErrorPages {
        let mut pages = block.get(|scope| &scope.errors).clone();
        for d in block.take_all(Kind::Response(ResponseKind::ErrorPage)) {
            if spa_of(d).is_some() && !has_spa {
                pages.extend(of(d, report).unwrap_or_default());
            }
            check_name(d, self.context.named, report);
        }
        if is_root {
            if let Some(d) = block.at.filter(|_| self.has_others && pages != *self.context.errors) {
                report.remark(d, "its error pages hold for the other locations, too");
            }
            self.site.errors = pages;
            return ErrorPages::new();
        }
        let of_server = self.context.errors;
        if let Some(status) = of_server.keys().find(|status| !pages.contains_key(status))
            && let Some(d) = block.at
        {
            let why = format!(
                "its error pages are all that nginx has there, and hurtle adds the server's for {status}; write \
                 that one, too"
            );
            report.refuse(d, why);
        }
        pages.retain(|status, page| of_server.get(status) != Some(page));
        pages
    }

    /// Refuses error pages of mounts that admit other clients than the location of the page, which
    /// nginx asks for it.
    pub(super) fn guarded_pages(&self, report: &mut Report) {
        let access = |mount: &Mount| {
            let is_access = |(key, _): &&(String, Value)| key != "rate_limit" && is_guard(key);
            mount.keys.iter().filter(is_access).cloned().collect::<Vec<_>>()
        };
        for mount in &self.site.mounts {
            let own = mount.key("errors").and_then(Value::as_table);
            let own = own.into_iter().flatten().map(|(_, page)| page);
            let pages = self.site.errors.values().chain(own).filter_map(place_of);
            for page in pages.filter(|page| page.starts_with('/')) {
                let Some(holder) = self.holder(page, None) else { continue };
                let guards = access(holder);
                if guards.is_empty() || guards == access(mount) || is_closed(mount) {
                    continue;
                }
                let of_holder = |placed: &&Placed<'_>| holder.is_of(placed.path, holder.is_exact());
                if let Some(placed) = self.placed.iter().find(of_holder) {
                    let why = format!(
                        "{page} in place of an error of other locations has this guard in nginx, and none in \
                         hurtle; write location = {page} without it"
                    );
                    report.refuse(placed.at, why);
                }
            }
        }
    }

    /// Refuses a page with the status of its own response, if that is an application's.
    pub(super) fn check_status_of_page(&self, d: &Directive, report: &mut Report) {
        let [.., mark, page] = d.args.as_slice() else { return };
        let is_of_application = |holder: &Mount| {
            let has_files = holder.key("root").is_some() && !page.ends_with(".php");
            ["proxy", "fastcgi", "uwsgi"].iter().any(|key| holder.key(key).is_some()) && !has_files
        };
        if mark == "="
            && page.starts_with('/')
            && self.holder(page, None).is_some_and(is_of_application)
        {
            let why = "the status would be 200 whatever the application says: write =200, or name a \
                       location @NAME";
            report.refuse(d, why);
        }
    }

    /// Returns the names of mounts that errors lead to.
    pub(super) fn names_of_errors(&self) -> Vec<Value> {
        let of_mount = |mount: &Mount| mount.key("errors").and_then(Value::as_table).cloned();
        let of_mounts = self.site.mounts.iter().filter_map(of_mount).flatten();
        let pages = self.site.errors.values().cloned().chain(of_mounts.map(|(_, page)| page));
        let name = |page: Value| Some(Value::from(place_of(&page)?.strip_prefix('@')?));
        pages.filter_map(name).collect()
    }
}

/// Writes the page in place of missing files as a path beneath the mount of the location `path`,
/// where hurtle looks it up.
pub(super) fn beneath(mount: &mut Mount, at: &Directive, path: &str, report: &mut Report) {
    let page = mount.keys.iter_mut().find(|(key, _)| key == "spa");
    let Some((_, Value::String(page))) = page else { return };
    let rest = page.strip_prefix(path.trim_end_matches('/'));
    match rest.filter(|rest| rest.starts_with('/')).map(str::to_owned) {
        Some(rest) => *page = rest,
        None => {
            let why = format!(
                "{page} in place of missing files is not beneath {path}, where hurtle looks it up; write a page of \
                 this location"
            );
            report.refuse(at, why);
        }
    }
}

/// Takes the page in place of a missing file, which is a path of the site, from the mount of one
/// file to its error pages.
pub(super) fn of_file(mount: &mut Mount, pages: &mut ErrorPages) {
    let Some(page) = mount.take_text("spa").filter(|page| *page != mount.path) else { return };
    pages.entry(404).or_insert_with(|| {
        let own = [("to", Value::from(page)), ("status", Value::from(200))];
        Value::from(toml::Table::from_iter(own.map(|(key, value)| (key.to_owned(), value))))
    });
}

fn is_guard(key: &str) -> bool {
    guard::KEYS.contains(&key)
}

/// Adds the error pages of a location to its mount.
pub(super) fn put_pages(pages: ErrorPages, mount: &mut Mount) {
    if !pages.is_empty() {
        let table: toml::Table =
            pages.into_iter().map(|(status, page)| (status.to_string(), page)).collect();
        put(&mut mount.keys, "errors", table);
    }
}
