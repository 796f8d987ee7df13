//! `handle_errors`: pages for statuses, and mounts that respond to them. `error_pages` has those
//! of upstreams, `error_lines` the directives with their statuses.

use std::collections::BTreeMap;

use http::StatusCode;
use toml::Value;

use super::block;
use super::error_lines::{self, ErrorLine};
use super::error_pages;
use super::parts::Parts;
use super::pattern::{is_placeholder, may_be_matcher};
use crate::mount::{Keys, Mount, Site, put};
use crate::report::Report;
use crate::syntax::Directive;

/// Statuses that a page without a condition is for.
pub(super) const ALL: [u16; 6] = [403, 404, 500, 502, 503, 504];

/// The difference of pages for all errors.
pub(super) const OF_SOME: &str =
    "pages are named for 403, 404, 500, 502, 503 and 504; other errors get hurtle's own";

/// Lines of `file_server` with which a page is sent alike, and the directory of pages.
const OF_FILES: [&str; 5] = ["browse", "hide", "index", "precompressed", "root"];

/// Directives that respond to an error, other than with a page.
pub(super) const RESPONDERS: [&str; 4] = ["respond", "reverse_proxy", "redir", "php_fastcgi"];

/// Directives whose response has the status of the error, unless they name one.
const OF_ERROR: &str = "respond";

/// Translates the pages of a site. `parts`: what is known of the site.
///
/// `root`: the directory of the site's files.
pub(super) fn translate(
    d: &Directive,
    root: Option<&str>,
    parts: &Parts,
    site: &mut Site,
    report: &mut Report,
) {
    let lines = d.children();
    let own: Vec<u16> = d.args.iter().filter_map(|arg| arg.parse().ok()).collect();
    if own.len() < d.args.len() {
        return report.refuse(d, "its statuses are numbers");
    }
    let own = if own.is_empty() { ALL.to_vec() } else { own };
    let mut conditions: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.name.starts_with('@')) {
        match statuses(line) {
            Some(statuses) => drop(conditions.insert(&line.name, statuses)),
            None => {
                report.refuse(line, "of conditions of errors it knows {err.status_code} == 404");
            }
        }
    }
    let within = lines.iter().filter(|line| line.name == "handle").flat_map(Directive::children);
    let mut of_paths = lines.iter().chain(within).filter(|line| is_of_path(line)).peekable();
    if of_paths.peek().is_some() {
        let why = "of errors it knows pages of statuses, not of paths";
        return of_paths.for_each(|line| report.refuse(line, why));
    }
    if let Some((rewrite, proxy)) = proxied_page(lines) {
        return error_pages::translate(rewrite, proxy, &own, parts, site, report);
    }
    // Else the path of a page leads to the mount of all paths.
    let has_root = |mount: &Mount| {
        let files = ["files", "root"].iter().find_map(|key| mount.key(key));
        mount.path == "/" && mount.place.is_empty() && files.and_then(Value::as_str) == root
    };
    let of_site = root.filter(|_| !parts.mounts.iter().any(has_root));
    let limit = (!d.args.is_empty()).then_some(own.as_slice());
    let outer = error_lines::of(lines, limit, &conditions, report);
    for line in &outer {
        let is_handle = line.own.name == "handle";
        let block = if is_handle { line.written.children() } else { lines };
        let directory = root_of_files(block).or_else(|| root_of(block)).or_else(|| root_of(lines));
        let directory = directory.or(of_site);
        if !is_handle {
            one(line, &outer, directory, parts, site, report);
        } else if let Some(condition) = block.iter().find(|line| line.name.starts_with('@')) {
            report.refuse(condition, "a condition of errors is written outside of `handle`");
        } else if let Some((rewrite, proxy)) = proxied_page(block) {
            error_pages::translate(rewrite, proxy, &line.statuses, parts, site, report);
        } else {
            let limit = if line.is_of_some { Some(line.statuses.as_slice()) } else { limit };
            let inner = error_lines::of(block, limit, &conditions, report);
            for line in &inner {
                one(line, &inner, directory, parts, site, report);
            }
        }
    }
}

/// Translates a directive of a block, other than a `handle`.
fn one(
    line: &ErrorLine<'_>,
    block: &[ErrorLine<'_>],
    directory: Option<&str>,
    parts: &Parts,
    site: &mut Site,
    report: &mut Report,
) {
    let ErrorLine { written, own, statuses, .. } = line;
    let known = report.problems.len();
    match own.name.as_str() {
        "rewrite" if !error_lines::is_page(line, block) => report.refuse(
            written,
            "of errors it knows a page whose only handler is file_server: another one gets its path",
        ),
        name if RESPONDERS.contains(&name) => responder(own, statuses, parts, site, report),
        _ => page(own, statuses, directory, site, report),
    }
    report.attribute(known, own, written);
}

/// `true`: a directive is for some paths.
fn is_of_path(line: &Directive) -> bool {
    let first = line.arg(0);
    let has_other = !first.is_empty() && first != "*" && !first.starts_with('@');
    let targets = || line.args.iter().filter(|arg| arg.parse::<u16>().is_err()).count();
    match line.name.as_str() {
        "handle" => has_other,
        "rewrite" | "root" => has_other && line.args.len() > 1,
        "respond" | "reverse_proxy" | "file_server" | "php_fastcgi" => may_be_matcher(first),
        "redir" => may_be_matcher(first) && targets() > 1,
        _ => false,
    }
}

/// The rewrite and the proxy of a block that has both alone.
fn proxied_page(lines: &[Directive]) -> Option<(&Directive, &Directive)> {
    let named = |name: &str| lines.iter().find(|line| line.name == name);
    let (rewrite, proxy) = (named("rewrite")?, named("reverse_proxy")?);
    let count = lines.iter().filter(|line| !line.name.starts_with('@')).count();
    let has_matcher = proxy.arg(0).starts_with(['@', '/']) || rewrite.arg(0).starts_with('@');
    (count == 2 && !has_matcher && rewrite.args.len() <= 2).then_some((rewrite, proxy))
}

/// Translates a directive that gives a page.
fn page(
    line: &Directive,
    statuses: &[u16],
    directory: Option<&str>,
    site: &mut Site,
    report: &mut Report,
) {
    let args = &line.args;
    let path = args.iter().rfind(|arg| arg.as_str() != "*").map_or("", String::as_str);
    match line.name.as_str() {
        "rewrite" if path.starts_with('/') && !is_placeholder(path) => {
            for status in statuses {
                add_page(*status, path, directory, site);
            }
        }
        "rewrite"
            if matches!(path, "/{err.status_code}.html" | "/{http.error.status_code}.html") =>
        {
            for status in ALL.iter().filter(|status| statuses.contains(status)) {
                add_page(*status, &format!("/{status}.html"), directory, site);
            }
            report.remark(line, OF_SOME);
        }
        "root" if args.iter().all(|arg| arg == "*") || !is_placeholder(path) => {}
        "file_server" => {
            let is_known = |line: &&Directive| {
                OF_FILES.contains(&line.name.as_str()) && !is_placeholder(line.arg(0))
            };
            for line in line.children().iter().filter(|line| !is_known(line)) {
                report.refuse(line, "the files of errors have no such setting");
            }
        }
        _ => {
            report.refuse(
                line,
                "of errors it knows pages, `rewrite * /404.html` and `file_server`, and respond, \
                               redir, reverse_proxy and php_fastcgi",
            );
        }
    }
}

/// The directory of the files of all requests.
pub(super) fn root_of_all(lines: &[Directive]) -> Option<&str> {
    let of_all = |line: &&Directive| line.args.len() == 1 || line.arg(0) == "*";
    // The last of several counts, for they stand together.
    let root = lines.iter().filter(|line| line.name == "root").rfind(of_all)?;
    root.args.last().map(String::as_str).filter(|root| !is_placeholder(root))
}

/// The directory of pages that a block names.
fn root_of(lines: &[Directive]) -> Option<&str> {
    let root = lines.iter().rfind(|line| line.name == "root")?;
    root.args.last().map(String::as_str).filter(|root| *root != "*" && !is_placeholder(root))
}

/// The directory that the files of a block have for themselves.
fn root_of_files(lines: &[Directive]) -> Option<&str> {
    let files = lines.iter().filter(|line| line.name == "file_server");
    let mut within = files.flat_map(Directive::children);
    within.find(|line| line.name == "root").map(|root| root.arg(0))
}

/// Adds the page of a status, unless it has one: a path of the site, or a file of another
/// directory.
fn add_page(status: u16, page: &str, directory: Option<&str>, site: &mut Site) {
    if site.errors.contains_key(&status) {
        return;
    }
    let Some(directory) = directory else {
        site.errors.insert(status, Value::from(page));
        return;
    };
    let mut keys = Keys::new();
    put(&mut keys, "files", directory);
    put(&mut keys, "try_files", vec![page]);
    let known = site.mounts.iter().find(|mount| mount.keys == keys);
    let known = known.and_then(|mount| mount.place.first()?.1.as_str().map(str::to_owned));
    let name = known.unwrap_or_else(|| {
        let name = name(&site.mounts);
        let mut place = Keys::new();
        put(&mut place, "name", name.clone());
        let headers = BTreeMap::new();
        site.mounts.push(Mount { path: String::new(), place, keys, headers, choice: None });
        name
    });
    let mut table = toml::Table::new();
    table.insert("to".to_owned(), Value::from(format!("@{name}")));
    table.insert("status".to_owned(), Value::from(i64::from(status)));
    site.errors.insert(status, Value::from(table));
}

/// Translates a directive that responds: each of its texts is a mount with a name.
fn responder(
    line: &Directive,
    statuses: &[u16],
    parts: &Parts,
    site: &mut Site,
    report: &mut Report,
) {
    let mut made: Vec<(Keys, String)> = Vec::new();
    for status in statuses.iter().filter(|status| (400..=599).contains(*status)) {
        if site.errors.contains_key(status) {
            continue;
        }
        let line = of_status(line, *status);
        let known = Parts {
            is_clear: parts.is_clear,
            has_proxies: parts.has_proxies,
            host: parts.host.clone(),
            ..Parts::default()
        };
        let Some(keys) = mount_of(&line, known, report) else { return };
        let known = made.iter().find(|(known, _)| *known == keys).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = name(&site.mounts);
            let mut place = Keys::new();
            put(&mut place, "name", name.clone());
            let headers = BTreeMap::new();
            site.mounts.push(Mount {
                path: String::new(),
                place,
                keys: keys.clone(),
                headers,
                choice: None,
            });
            made.push((keys.clone(), name.clone()));
            name
        });
        let to = format!("@{name}");
        let has_status = line.args.last().is_some_and(|last| last.parse::<u16>().is_ok());
        let is_of_error = line.name == OF_ERROR && !has_status;
        let page = match is_of_error {
            false => Value::from(to),
            true => {
                let mut table = toml::Table::new();
                table.insert("to".to_owned(), Value::from(to));
                table.insert("status".to_owned(), Value::from(i64::from(*status)));
                Value::from(table)
            }
        };
        site.errors.insert(*status, page);
    }
}

/// A name that no mount has.
fn name(mounts: &[Mount]) -> String {
    let names: Vec<&Value> =
        mounts.iter().flat_map(|mount| &mount.place).map(|(_, value)| value).collect();
    let numbered = (2..).map(|number| format!("errors-{number}"));
    let mut all = std::iter::once("errors".to_owned()).chain(numbered);
    all.find(|name| !names.contains(&&Value::from(name.as_str()))).unwrap_or_default()
}

/// The keys of the mount that a directive makes of all requests; `None`: it was refused.
pub(super) fn mount_of(line: &Directive, mut parts: Parts, report: &mut Report) -> Option<Keys> {
    let block = Directive {
        name: String::new(),
        args: Vec::new(),
        block: Some(vec![line.clone()]),
        at: line.at.clone(),
    };
    block::translate_site(&block, &mut parts, report);
    let is_whole =
        parts.rules.is_empty() && parts.keys.is_empty() && parts.headers.all().is_empty();
    match parts.mounts.pop() {
        _ if report.has_refused(line) => None,
        Some(mount) if is_whole && parts.mounts.is_empty() && mount.place.is_empty() => {
            Some(mount.keys)
        }
        _ => {
            report.refuse(line, "for errors it knows one answer to all requests");
            None
        }
    }
}

/// The directive for an error of this status.
pub(super) fn of_status(line: &Directive, status: u16) -> Directive {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let (code, reason) = (status.to_string(), reason.unwrap_or_default());
    let written = |arg: &String| {
        ["err", "http.error"].iter().fold(arg.clone(), |arg, error| {
            arg.replace(&format!("{{{error}.status_code}}"), &code)
                .replace(&format!("{{{error}.status_text}}"), reason)
        })
    };
    let args = line.args.iter().map(written).collect();
    let block = line.block.as_ref().map(|lines| {
        let of_line = |line: &Directive| Directive {
            args: line.args.iter().map(written).collect(),
            ..line.clone()
        };
        lines.iter().map(of_line).collect()
    });
    Directive { args, block, ..line.clone() }
}

/// The statuses of a condition such as `expression {err.status_code} == 404`.
fn statuses(line: &Directive) -> Option<Vec<u16>> {
    let inner = line.children().first().unwrap_or(line);
    let words: String = match line.block {
        Some(_) if inner.name == "expression" => inner.args.join(" "),
        None if inner.arg(0) == "expression" => inner.args[1..].join(" "),
        None => inner.args.join(" "),
        _ => return None,
    };
    let code = words
        .strip_prefix("{err.status_code}")
        .or_else(|| words.strip_prefix("{http.error.status_code}"))?
        .trim();
    if let Some(one) = code.strip_prefix("==") {
        return one.trim().parse().ok().map(|status| vec![status]);
    }
    let list = code.strip_prefix("in")?.trim().strip_prefix('[')?.strip_suffix(']')?;
    list.split(',').map(|status| status.trim().parse().ok()).collect()
}
