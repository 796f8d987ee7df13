//! Pages of errors that an upstream has: `rewrite * /{err.status_code}.html` before `reverse_proxy`
//! in `handle_errors`.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::errors::{ALL, OF_SOME, mount_of, of_status};
use super::parts::Parts;
use super::pattern::is_placeholder;
use crate::mount::{Keys, Mount, Site, put};
use crate::report::Report;
use crate::syntax::Directive;

/// The path beneath which the upstream has its pages. No client reaches it.
const PATH: &str = "/.errors";

/// The path of requests for such a path that a client has sent.
const CLOSED: &str = "/.errors-closed";

/// Translates both directives for errors with these statuses.
pub(super) fn translate(
    rewrite: &Directive,
    proxy: &Directive,
    statuses: &[u16],
    parts: &Parts,
    site: &mut Site,
    report: &mut Report,
) {
    let is_own = |line: &Directive| {
        line.name == "replace_status"
            && matches!(line.arg(0), "{err.status_code}" | "{http.error.status_code}")
    };
    let has_own_status = proxy.children().iter().any(is_own);
    let mut proxy = proxy.clone();
    proxy.block.iter_mut().for_each(|lines| lines.retain(|line| !is_own(line)));
    if proxy.block.as_ref().is_some_and(Vec::is_empty) {
        proxy.block = None;
    }
    let mut pages: BTreeMap<u16, String> = BTreeMap::new();
    for status in statuses.iter().filter(|status| !site.errors.contains_key(status)) {
        let written = of_status(rewrite, *status);
        let page = written.args.last().filter(|page| {
            page.starts_with('/') && !is_placeholder(page) && !page.contains(['?', '*'])
        });
        match page {
            Some(page) => drop(pages.insert(*status, page.clone())),
            None => return report.refuse(rewrite, "of paths of errors it knows fixed ones"),
        }
    }
    let Some(first) = pages.keys().next().copied() else { return };
    if of_status(&proxy, first) != proxy {
        return report.refuse(&proxy, "hurtle asks it for the pages of all errors alike");
    }
    let known = Parts {
        is_clear: parts.is_clear,
        has_proxies: parts.has_proxies,
        host: parts.host.clone(),
        ..Parts::default()
    };
    let Some(mut keys) = mount_of(&proxy, known, report) else { return };
    put(&mut keys, "strip_prefix", true);
    let path = add(keys, site);
    let page = pages.get(&first).map_or("", String::as_str);
    let text = format!(
        "GET {path}{page} is 404: hurtle asks the upstream by this path for pages of errors, by GET or HEAD, and \
         without the query"
    );
    report.remark(rewrite, &text);
    if statuses == ALL {
        report.remark(rewrite, OF_SOME);
    }
    if !has_own_status {
        let text = format!(
            "an error, such as {first}, keeps its status; Caddy sends that of the upstream, unless replace_status \
             {{err.status_code}} is written"
        );
        report.remark(&proxy, &text);
    }
    for (status, page) in pages {
        let to = Value::from(format!("{path}{page}"));
        let value = match has_own_status {
            false => to,
            true => Value::from(Table::from_iter([
                ("to".to_owned(), to),
                ("status".to_owned(), Value::from(i64::from(status))),
            ])),
        };
        site.errors.insert(status, value);
    }
}

/// Adds the mount of an upstream with pages, and closes its path to clients. Returns the path.
fn add(keys: Keys, site: &mut Site) -> String {
    let of_errors = |mount: &&Mount| mount.path.starts_with(PATH) && mount.path != CLOSED;
    if let Some(known) = site.mounts.iter().filter(of_errors).find(|mount| mount.keys == keys) {
        return known.path.clone();
    }
    let number = site.mounts.iter().filter(of_errors).count();
    let path = format!("{PATH}-{}", number + 1);
    let mut closing = Keys::new();
    put(&mut closing, "match", vec![path.clone(), format!("{path}/**")]);
    put(&mut closing, "rewrite", CLOSED);
    site.rules.push(closing);
    let mount = |path: &str, keys: Keys| Mount {
        path: path.to_owned(),
        place: Keys::new(),
        keys,
        headers: BTreeMap::new(),
        choice: None,
    };
    if number == 0 {
        let mut closed = Keys::new();
        put(&mut closed, "respond", "");
        put(&mut closed, "status", 404);
        site.mounts.push(mount(CLOSED, closed));
    }
    site.mounts.push(mount(&path, keys));
    path
}
