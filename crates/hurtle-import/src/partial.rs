//! Translates the part of a configuration that can be translated (`--partial`). A directive that
//! cannot is taken out where that opens nothing; else its location, or its whole server, answers
//! 403.

use super::report::{Problem, Report};
use super::syntax::Directive;
use super::{Imported, main_context, written};

/// Rounds in which directives are taken out or closed. Each leads to fewer of them.
const ROUNDS_MAX: usize = 100;

/// Directives without which no client gets more than with them (`*`: any end).
const HARMLESS: &[&str] = &[
    "access_log",
    "add_header",
    "add_trailer",
    "autoindex*",
    "brotli*",
    "charset*",
    "client_*",
    "dav_access",
    "default_type",
    "error_log",
    "error_page",
    "expires",
    "fastcgi_buffer*",
    "fastcgi_cache*",
    "fastcgi_intercept_errors",
    "fastcgi_next_upstream*",
    "fastcgi_no_cache",
    "fastcgi_pass_header",
    "fastcgi_*_timeout",
    "grpc_*_timeout",
    "grpc_next_upstream*",
    "gzip*",
    "http2_*",
    "ignore_invalid_headers",
    "image_filter*",
    "index",
    "keepalive*",
    "limit_conn*",
    "limit_rate*",
    "limit_req*",
    "log_*",
    "max_ranges",
    "memcached_*_timeout",
    "mirror*",
    "mp4*",
    "open_log_file_cache",
    "postpone_output",
    "proxy_buffer*",
    "proxy_cache*",
    "proxy_cookie_*",
    "proxy_ignore_headers",
    "proxy_intercept_errors",
    "proxy_next_upstream*",
    "proxy_no_cache",
    "proxy_pass_header",
    "proxy_redirect",
    "proxy_store*",
    "proxy_*_timeout",
    "quic_*",
    "recursive_error_pages",
    "resolver*",
    "send_*",
    "slice",
    "sub_filter*",
    "types_hash*",
    "underscores_in_headers",
    "uwsgi_buffer*",
    "uwsgi_cache*",
    "uwsgi_intercept_errors",
    "uwsgi_next_upstream*",
    "uwsgi_no_cache",
    "uwsgi_pass_header",
    "uwsgi_*_timeout",
];

/// Directives of `http` and outside of it whose names others use. Without them those are problems.
const DEFINITIONS: &[&str] = &[
    "fastcgi_cache_path",
    "geo",
    "js_*",
    "limit_conn_zone",
    "limit_req_zone",
    "load_module",
    "lua_*",
    "mail",
    "map",
    "perl*",
    "proxy_cache_path",
    "split_clients",
    "stream",
    "upstream",
];

/// Directives that a closed server keeps.
const OF_SERVER: [&str; 5] =
    ["listen", "server_name", "ssl", "ssl_certificate", "ssl_certificate_key"];

/// The fate of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    TakenOut,
    Closed,
    ClosedServer,
}

/// Translates what can be. `remarks`: differences that are known before.
///
/// # Errors
/// Problems of the whole configuration, one line each.
pub(super) fn translate(
    directives: &[Directive],
    remarks: &[String],
) -> Result<Imported, Vec<String>> {
    let mut tree = directives.to_vec();
    let mut left_out: Vec<String> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let mut report = Report { remarks: remarks.to_vec(), ..Report::default() };
        let server = main_context::translate(&tree, &mut report);
        if report.problems.is_empty() {
            report.left_out.clone_from(&left_out);
            return written(&server, &report, &tree);
        }
        let mut has_changed = false;
        for problem in &report.problems {
            let changes = change(&mut tree, problem);
            has_changed |= !changes.is_empty();
            let line = match changes.iter().max_by_key(|change| **change as u8) {
                Some(Change::TakenOut) => format!("{problem}. It is left out."),
                Some(Change::Closed) => format!("{problem}. Its location answers 403."),
                Some(Change::ClosedServer) => format!("{problem}. Its server answers 403."),
                None => continue,
            };
            if !left_out.contains(&line) {
                left_out.push(line);
            }
        }
        if !has_changed {
            return Err(report.lines());
        }
    }
    Err(vec!["the configuration cannot be translated in parts".to_owned()])
}

/// Takes the directives of a problem out, or closes what is around them.
fn change(tree: &mut Vec<Directive>, problem: &Problem) -> Vec<Change> {
    let mut changes = Vec::new();
    // A file may have the directives of `http` without it.
    outside(tree, problem, &mut changes);
    for http in tree.iter_mut().filter(|d| d.name == "http") {
        outside(http.block.get_or_insert_default(), problem, &mut changes);
    }
    changes
}

/// Looks for a problem in the directives of `http`.
fn outside(directives: &mut Vec<Directive>, problem: &Problem, changes: &mut Vec<Change>) {
    let is_definition = |d: &Directive| is_in(DEFINITIONS, &d.name);
    let before = directives.len();
    let groups: Vec<String> = directives
        .iter()
        .filter(|d| d.name == "upstream" && holds(d, problem) && !has_harmless(d, problem))
        .map(|d| d.arg(0).to_owned())
        .collect();
    for group in groups {
        directives.iter_mut().for_each(|d| close_users(d, &group, changes));
    }
    let caches = caches_without(directives, problem);
    directives.retain(|d| {
        let is_own = problem.is_of(d) && (is_definition(d) || is_in(HARMLESS, &d.name));
        let is_within = is_definition(d) && holds(d, problem) && !has_harmless(d, problem);
        !is_own && !is_within
    });
    if directives.len() < before {
        changes.push(Change::TakenOut);
    }
    caches.iter().for_each(|cache| turn_off(directives, cache));
    // Guards of `http` are those of all servers.
    let is_guard = |d: &Directive| problem.is_of(d) && d.name != "server" && d.name != "http";
    let closes_all = directives.iter().any(is_guard);
    directives.retain(|d| !is_guard(d));
    for d in directives.iter_mut() {
        if d.name == "server" {
            match closes_all {
                true => close_server(d, changes),
                false => in_server(d, problem, changes),
            }
        } else if is_definition(d) && take_out(d, problem) {
            changes.push(Change::TakenOut);
        }
    }
}

/// Closes the locations that pass requests to a group of upstreams.
fn close_users(d: &mut Directive, group: &str, changes: &mut Vec<Change>) {
    fn passes(d: &Directive, group: &str) -> bool {
        let is_pass = |inner: &Directive| {
            inner.name.ends_with("_pass") && inner.args.iter().any(|arg| arg.contains(group))
        };
        d.children().iter().any(|inner| is_pass(inner) || passes(inner, group))
    }
    for inner in d.block.iter_mut().flatten() {
        if inner.name == "location" && passes(inner, group) && close(inner) {
            changes.push(Change::Closed);
        }
    }
}

fn in_server(server: &mut Directive, problem: &Problem, changes: &mut Vec<Change>) {
    if take_out_here(server, problem) {
        changes.push(Change::TakenOut);
    }
    if problem.is_of(server) {
        return close_server(server, changes);
    }
    let mut closes = false;
    for d in server.block.get_or_insert_default() {
        if problem.is_of(d) {
            closes = true;
        } else if holds(d, problem) {
            if d.name != "location" {
                closes = true;
            } else if take_out(d, problem) {
                changes.push(Change::TakenOut);
            } else if !close(d) {
                closes = true;
            } else {
                changes.push(Change::Closed);
            }
        }
    }
    if closes {
        close_server(server, changes);
    }
}

/// Takes harmless directives of a problem out of a block and the blocks in it.
fn take_out(d: &mut Directive, problem: &Problem) -> bool {
    let here = take_out_here(d, problem);
    let blocks = d.block.iter_mut().flatten().filter(|inner| inner.name != "if");
    blocks.fold(here, |taken, inner| take_out(inner, problem) || taken)
}

fn take_out_here(d: &mut Directive, problem: &Problem) -> bool {
    let Some(block) = &mut d.block else { return false };
    let before = block.len();
    let caches = caches_without(block, problem);
    block.retain(|inner| !(problem.is_of(inner) && is_in(HARMLESS, &inner.name)));
    let is_less = block.len() < before;
    caches.iter().for_each(|cache| turn_off(block, cache));
    is_less
}

/// Returns the caches whose keys or conditions a problem is about: without those, one client would
/// get the response to another.
fn caches_without(block: &[Directive], problem: &Problem) -> Vec<Directive> {
    let of = |d: &Directive| {
        let ends = ["_cache_bypass", "_no_cache", "_cache_key"];
        let protocol = ends.iter().find_map(|end| d.name.strip_suffix(end))?;
        let (name, args) = (format!("{protocol}_cache"), vec!["off".to_owned()]);
        Some(Directive { name, args, block: None, at: d.at.clone() })
    };
    block.iter().filter(|d| problem.is_of(d)).filter_map(of).collect()
}

/// Turns a cache off in a block and the blocks in it.
fn turn_off(block: &mut Vec<Directive>, cache: &Directive) {
    fn remove(block: &mut Vec<Directive>, name: &str) {
        block.retain(|d| d.name != name);
        block.iter_mut().filter_map(|d| d.block.as_mut()).for_each(|inner| remove(inner, name));
    }
    remove(block, &cache.name);
    // Those of other protocols have no counterpart.
    if cache.name == "proxy_cache" {
        block.push(cache.clone());
    }
}

/// Makes a location answer 403; `false` if it does already.
fn close(location: &mut Directive) -> bool {
    let answer = Directive {
        name: "return".to_owned(),
        args: vec!["403".to_owned()],
        block: None,
        at: location.at.clone(),
    };
    let closed = Some(vec![answer]);
    let is_new = location.block != closed;
    location.block = closed;
    is_new
}

fn close_server(server: &mut Directive, changes: &mut Vec<Change>) {
    let at = server.at.clone();
    let block = server.block.get_or_insert_default();
    let mut closed = block.clone();
    closed.retain(|d| OF_SERVER.contains(&d.name.as_str()));
    let (name, args) = ("location".to_owned(), vec!["/".to_owned()]);
    let mut location = Directive { name, args, block: None, at };
    close(&mut location);
    closed.push(location);
    if *block != closed {
        *block = closed;
        changes.push(Change::ClosedServer);
    }
}

/// `true` if a problem is within a block.
fn holds(d: &Directive, problem: &Problem) -> bool {
    d.children().iter().any(|inner| problem.is_of(inner) || holds(inner, problem))
}

fn has_harmless(d: &Directive, problem: &Problem) -> bool {
    let is_own = |inner: &Directive| problem.is_of(inner) && is_in(HARMLESS, &inner.name);
    d.children().iter().any(|inner| is_own(inner) || has_harmless(inner, problem))
}

fn is_in(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| match known.split_once('*') {
        Some((front, back)) => {
            let rest = name.strip_prefix(front);
            rest.is_some_and(|rest| rest.ends_with(back))
        }
        None => *known == name,
    })
}
