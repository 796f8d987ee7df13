//! The directives of a site, `handle` or `route` as mounts. What answers requests becomes a mount,
//! in the order in which Caddy would try it; what only changes them is kept for the mounts behind
//! it.

use toml::Value;

use super::fields::Edits;
use super::handlers::{answer, error_status, file_server, php, respond};
use super::hidden::hide;
use super::matcher::{self, Matcher};
use super::order::{self, SortKey};
use super::parts::Parts;
use super::pattern::is_placeholder;
use super::place::{push, reverse_proxy};
use super::rewrite::Rewritten;
use super::scope::Scope;
use super::setting::{setting, skipped_root};
use super::{access, fastcgi_script, header, redirect, rewrite, tries};
use crate::mount::{Keys, put};
use crate::report::Report;
use crate::syntax::Directive;

/// Directives that answer a request.
pub(super) const HANDLERS: [&str; 9] = [
    "abort",
    "error",
    "file_server",
    "handle",
    "php_fastcgi",
    "redir",
    "respond",
    "reverse_proxy",
    "route",
];

/// Directives that look at the path themselves.
const OF_PATH: [&str; 5] = ["php_fastcgi", "redir", "rewrite", "try_files", "uri"];

/// A directive with its matcher.
pub(super) struct Item<'d> {
    pub(super) d: &'d Directive,
    pub(super) matcher: Option<Matcher>,
    pub(super) args: &'d [String],
}

impl Item<'_> {
    pub(super) fn name(&self) -> &str {
        order::canonical(&self.d.name)
    }
}

/// Translates the directives of a site.
pub(super) fn translate_site(site: &Directive, parts: &mut Parts, report: &mut Report) {
    let mut scope = Scope { has_proxies: parts.has_proxies, ..Scope::default() };
    if translate(site.children(), &mut scope, false, parts, report) {
        return;
    }
    // Caddy answers a request for which nothing is written with 200 and no body.
    let rest = Item { d: site, matcher: None, args: &[] };
    if let Err(needs) = push(answer("", 200), &rest, &mut scope, parts) {
        report.refuse(site, needs);
    }
}

/// Translates the directives of a block. `true`: it answers every request that it gets.
fn translate(
    directives: &[Directive],
    scope: &mut Scope,
    is_route: bool,
    parts: &mut Parts,
    report: &mut Report,
) -> bool {
    scope.named = matcher::definitions(directives, &scope.named, parts.has_proxies, report);
    let mut items = Vec::new();
    for d in directives.iter().filter(|d| !d.name.starts_with('@')) {
        if !order::is_known(&d.name) {
            report.refuse(d, "this is no directive of Caddy, or one of a plugin");
            continue;
        }
        match matcher::split(d, &scope.named) {
            Ok((matcher, args)) => items.push(Item { d, matcher, args }),
            Err(needs) => report.refuse(d, needs),
        }
    }
    if !is_route {
        order::sort(&mut items, |item| SortKey {
            name: item.name(),
            matcher: item.matcher.as_ref(),
        });
    }
    merge_php(&mut items, report);
    for at in 0..items.len() {
        let item = &items[at];
        match one(item, &items[at + 1..], scope, parts, report) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(needs) => report.refuse(item.d, needs),
        }
    }
    false
}

/// Returns whether a directive has this name, or one in its block.
pub(super) fn has(d: &Directive, name: &str) -> bool {
    d.name == name || d.children().iter().any(|inner| has(inner, name))
}

/// Takes the `file_server` beside `php_fastcgi` off: the mount of the scripts serves files.
fn merge_php(items: &mut Vec<Item<'_>>, report: &mut Report) {
    let Some(php) = items.iter().find(|item| item.name() == "php_fastcgi") else { return };
    let (d, matcher) = (php.d, php.matcher.clone());
    let is_beside = |item: &&Item<'_>| {
        item.name() == "file_server" && (matcher.is_none() || item.matcher == matcher)
    };
    let lines = items.iter().filter(is_beside).flat_map(|item| item.d.children());
    let mut lines: Vec<&Directive> = lines.filter(|line| !is_of_mount(line)).collect();
    // Every mount of scripts serves the files of its paths.
    let is_of_others = |item: &&Item<'_>| item.name() == "file_server" && item.matcher.is_none();
    let others = items.iter().filter(is_of_others).flat_map(|item| item.d.children());
    let decides =
        |line: &&Directive| matches!(line.name.as_str(), "hide" | "root") && !is_of_mount(line);
    for line in others.filter(decides) {
        if !lines.iter().any(|known| std::ptr::eq(*known, line)) {
            lines.push(line);
        }
    }
    for line in lines {
        report.refuse(
            line,
            "files beside scripts have no settings of their own: write scripts and files into a `handle` each",
        );
    }
    let is_served = |item: &Item<'_>| item.matcher.is_none() || item.matcher == matcher;
    let has_files = items.iter().any(|item| item.name() == "file_server" && is_served(item));
    items.retain(|item| item.name() != "file_server" || item.matcher != matcher);
    if !has_files {
        report.refuse(
            d,
            "the mount of scripts serves files, too, and here Caddy does not: write file_server beside it, with the same matcher",
        );
    }
}

/// `true` for a line of `file_server` that changes nothing where a mount of scripts serves files.
fn is_of_mount(line: &Directive) -> bool {
    let is_dot = |name: &String| name.starts_with('.') && !name.contains('/');
    match line.name.as_str() {
        "browse" | "precompressed" => true,
        "hide" => line.args.iter().all(is_dot),
        _ => false,
    }
}

/// Translates one directive. `true`: it answers every request that it gets.
fn one(
    item: &Item<'_>,
    later: &[Item<'_>],
    scope: &mut Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<bool, String> {
    let Item { d, matcher, args } = item;
    if scope.rewritten.is_some() && OF_PATH.contains(&item.name()) {
        return Err("it gets the path of a rewrite before it".to_owned());
    }
    if !parts.is_clear && matcher.as_ref().is_some_and(Matcher::is_of_clear) {
        report.remark(
            d,
            "it is left out: the site has HTTPS alone, so that no request meets it, such as GET /",
        );
        return Ok(false);
    }
    let is_compared = |name: &&String| matcher.as_ref().is_some_and(|one| one.has_field(name));
    if let Some(name) = scope.changed.iter().find(is_compared) {
        return Err(format!(
            "Caddy compares {name} once it has changed it; hurtle compares the field that the client sends"
        ));
    }
    match item.name() {
        "handle" | "route" => return block(item, later, scope, parts, report),
        "redir" => {
            if !scope.prefix.is_empty() && args.iter().any(|arg| is_placeholder(arg)) {
                return Err(format!("a target behind {}, which is taken off", scope.prefix));
            }
            let requests = scope.requests(matcher.as_ref())?;
            let (is_for_all, rules) = (matcher.is_none(), parts.rules.len());
            let is_missing = requests.as_ref().is_some_and(|matcher| matcher.file == Some(false));
            let others = later.iter().filter(|item| HANDLERS.contains(&item.name()));
            if is_missing
                && !others
                    .clone()
                    .all(|item| item.name() == "file_server" && item.matcher.is_none())
            {
                return Err("it looks at files, and another handler than file_server is behind it"
                    .to_owned());
            }
            if is_missing {
                report.remark(d, "a directory with an index, such as GET /x.html/, is that index");
            }
            let (mounted, line) = (scope.mounted(), d.at.line);
            let found =
                redirect::translate(args, requests.as_ref(), is_for_all, mounted, line, parts);
            // A rule precedes all gates, and a mount has those of its block.
            let is_rule = parts.rules.len() > rules;
            if !scope.gates.is_empty() || (is_rule && scope.is_guarded(None, parts)) {
                return Err("a redirect of hurtle is before this gate".to_owned());
            }
            return found;
        }
        "respond" => {
            let answer = respond(d, args, report)?;
            let status = answer.iter().find(|(name, _)| name == "status");
            let status = status.and_then(|(_, status)| u16::try_from(status.as_integer()?).ok());
            parts.responses.extend(status.map(|status| ((*d).clone(), status)));
            return push(answer, item, scope, parts);
        }
        "error" => {
            let status = error_status(d, args, report)?;
            return push(answer("", status), item, scope, parts);
        }
        "abort" => {
            let mut keys = Keys::new();
            put(&mut keys, "abort", true);
            return push(keys, item, scope, parts);
        }
        "reverse_proxy" => match fastcgi_script::transport(d) {
            Some(transport) => {
                let keys = fastcgi_script::translate(transport, d, args, scope, report)?;
                return push(keys, item, scope, parts);
            }
            None => return reverse_proxy(item, scope, parts, report),
        },
        "php_fastcgi" => {
            let keys = php(d, args, scope, report)?;
            hide(&keys, item, scope, parts, report)?;
            return push(keys, item, scope, parts);
        }
        "file_server" => {
            let keys = file_server(d, args, scope, report)?;
            hide(&keys, item, scope, parts, report)?;
            return push(keys, item, scope, parts);
        }
        "header" => {
            // The mounts of a block have its conditions themselves.
            let own = match (scope.is_nested, matcher) {
                (true, None) => None,
                (_, own) => scope.requests(own.as_ref())?,
            };
            let later: Vec<&Directive> = later.iter().map(|item| item.d).collect();
            header::check_files(d, own.as_ref(), &later, report);
            if let Some(condition) = own.as_ref().filter(|own| !own.is_of_path()) {
                let rules = header::conditional(d, args, condition, &later)?;
                scope.conditional.push((condition.clone(), rules));
                return Ok(false);
            }
            let (rules, is_deferred) = header::rules(d, args, own.as_ref())?;
            if is_deferred {
                report.remark(
                    d,
                    "hurtle's own errors, such as a 404 for a missing file, have these fields, too, and so have empty \
                     answers; Caddy's do not",
                );
            }
            let list = match scope.is_nested {
                true => &mut scope.headers,
                false => &mut parts.headers,
            };
            list.add(rules, is_deferred);
        }
        "log_skip" | "log" if matcher.is_some() => {
            return Err("the log of hurtle is for whole sites".to_owned());
        }
        "log" | "tls" | "bind" | "handle_errors" => {}
        "basic_auth" | "forward_auth" => {
            let mut keys = Keys::new();
            match item.name() {
                "basic_auth" => access::basic(d, args, parts.is_clear, &mut keys, report)?,
                _ => {
                    asks_about_sent_path(d, matcher.as_ref(), scope, parts, report)?;
                    access::forward(d, args, &mut keys, report)?;
                    let copied = keys.iter().find(|(name, _)| name == "copy_headers");
                    let copied = copied.and_then(|(_, names)| names.as_array());
                    let names = copied.into_iter().flatten().filter_map(Value::as_str);
                    scope.changed.extend(names.map(str::to_owned));
                }
            }
            let own = scope.own(matcher.as_ref())?;
            if scope.is_guarded(own.as_ref(), parts) {
                return Err(
                    "a request meets one such gate in hurtle, and another is for it already"
                        .to_owned(),
                );
            }
            match own {
                Some(matcher) => scope.gates.push((matcher, keys)),
                None => scope.gate(keys, parts),
            }
        }
        "rewrite"
            if !scope.is_nested
                && scope.conditional.iter().any(|(matcher, _)| matcher.has_paths()) =>
        {
            return Err("fields before it are for the path as it was before".to_owned());
        }
        "rewrite" if scope.is_nested => rewrite_in_block(item, later, scope)?,
        "rewrite" => rewrite::translate(d, args, matcher.as_ref(), parts)?,
        "try_files" => tries::translate(item, later, scope, report)?,
        _ if matcher.is_some() && item.name() != "encode" => {
            return Err(
                "it is for some requests only; hurtle has it for a site or a mount: write it into \
                        a `handle` of these requests"
                    .to_owned(),
            );
        }
        _ => setting(d, args, scope, report)?,
    }
    Ok(false)
}

/// Checks what is changed before `forward_auth`: hurtle's asks about the request of the client.
fn asks_about_sent_path(
    d: &Directive,
    matcher: Option<&Matcher>,
    scope: &Scope,
    parts: &Parts,
    report: &mut Report,
) -> Result<(), String> {
    let may_ask = |path: &str| {
        let paths = matcher.map_or(&[][..], |matcher| &matcher.paths);
        let meets = |own: &String| {
            let begin = own.trim_end_matches('*');
            path.starts_with(begin) || begin.starts_with(path)
        };
        paths.is_empty() || paths.iter().any(meets)
    };
    let new_path = |rule: &Keys| {
        let (_, to) = rule.iter().find(|(key, _)| key == "rewrite")?;
        Some(to.as_str()?.split(['{', '?']).next().unwrap_or_default().to_owned())
    };
    let mut new_paths = parts.rules.iter().filter_map(new_path);
    if scope.rewritten.is_some() || new_paths.any(|path| may_ask(&path)) {
        return Err(
            "in Caddy it gets the new path of a rewrite, and here that of the client".into()
        );
    }
    if scope.request != Edits::default() {
        return Err("in Caddy it gets the fields that request_header changes before it".into());
    }
    if let Some(last) = scope.try_files.last() {
        let text = format!(
            "it gets the path of the client, and in Caddy that of the file, such as {last}: GET /x"
        );
        report.remark(d, &text);
    }
    if !scope.prefix.is_empty() {
        let text = format!(
            "it gets X-Forwarded-Uri with the prefix, and in Caddy without: GET {}/x",
            scope.prefix
        );
        report.remark(d, &text);
    }
    Ok(())
}

/// Keeps the path that the handler behind a rewrite gets.
fn rewrite_in_block(item: &Item<'_>, later: &[Item<'_>], scope: &mut Scope) -> Result<(), String> {
    if item.matcher.is_some() {
        return Err("in a block it knows a rewrite of all requests".to_owned());
    }
    let is_block = |item: &Item<'_>| matches!(item.name(), "handle" | "route");
    if later.iter().any(|item| item.matcher.is_some() || is_block(item)) {
        return Err("what is behind it has conditions or blocks, which get the new path".to_owned());
    }
    scope.rewritten = Some(Rewritten::of(item.args)?);
    Ok(())
}

/// Translates `handle`, `handle_path` and `route`.
fn block(
    item: &Item<'_>,
    later: &[Item<'_>],
    scope: &mut Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<bool, String> {
    let Item { d, matcher, .. } = item;
    let is_route = d.name == "route";
    if is_route && let Some(root) = skipped_root(d.children()) {
        report.refuse(root, "Caddy skips it, for it takes the first root of a route");
    }
    let mut inner = scope.clone();
    // Those around it are for files behind it.
    inner.try_files = Vec::new();
    inner.matcher = scope.requests(matcher.as_ref())?;
    inner.is_nested = true;
    let is_behind =
        |item: &Item<'_>| HANDLERS.contains(&item.name()) && (is_route || item.name() != "handle");
    inner.goes_on |= later.iter().any(is_behind);
    if d.name == "handle_path" {
        let path = matcher.as_ref().and_then(|matcher| matcher.paths.first());
        let path = path.and_then(|path| path.strip_suffix("/*"));
        let path = path.ok_or("it has a path that ends with /*")?.to_owned();
        inner.prefix = format!("{}{path}", scope.prefix);
    }
    if translate(d.children(), &mut inner, is_route, parts, report) {
        return Ok(matcher.is_none());
    }
    if is_route && matcher.is_none() {
        // Its settings hold for what is behind it, too.
        *scope = Scope {
            named: std::mem::take(&mut scope.named),
            is_nested: scope.is_nested,
            goes_on: scope.goes_on,
            ..inner
        };
        return Ok(false);
    }
    let is_setting =
        |d: &&Directive| !d.name.starts_with('@') && !HANDLERS.contains(&order::canonical(&d.name));
    if is_route && let Some(setting) = d.children().iter().find(is_setting) {
        return Err(format!("`{setting}` holds for requests that go on behind the route, too"));
    }
    if is_route {
        return Ok(false);
    }
    // Requests for which nothing in it is: Caddy goes on behind all `handle`, and hurtle has none
    // there.
    if inner.goes_on {
        return Err("a request that its block does not answer goes on behind it".to_owned());
    }
    inner.matcher.get_or_insert_default();
    let rest = Item { d, matcher: None, args: &[] };
    push(answer("", 200), &rest, &mut inner, parts)?;
    Ok(matcher.is_none())
}
