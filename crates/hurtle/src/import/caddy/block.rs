//! The directives of a site, `handle` or `route` as mounts. What answers requests becomes a mount, in the
//! order in which Caddy would try it; what only changes them is kept for the mounts behind it.

use toml::Value;

use super::handlers::{answer, file_server, php, respond, try_files};
use super::matcher::{self, Matcher};
use super::order;
use super::parts::Parts;
use super::pattern::is_placeholder;
use super::proxy;
use super::scope::Scope;
use super::setting::setting;
use super::{access, fastcgi_script, header, redirect, rewrite};
use crate::import::mount::{Keys, put};
use crate::import::report::Report;
use crate::import::syntax::Directive;

/// Directives that answer a request.
const HANDLERS: [&str; 9] = [
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

/// A directive with its matcher.
struct Item<'d> {
    d: &'d Directive,
    matcher: Option<Matcher>,
    args: &'d [String],
}

impl Item<'_> {
    fn name(&self) -> &str {
        order::canonical(&self.d.name)
    }
}

/// Translates the directives of a site.
pub(super) fn translate_site(site: &Directive, parts: &mut Parts, report: &mut Report) {
    let mut scope = Scope::default();
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
        order::sort(&mut items, |item| (item.name(), item.matcher.as_ref()));
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
    let before = items.len();
    items.retain(|item| item.name() != "file_server" || item.matcher != matcher);
    if items.len() == before {
        report.remark(d, "files beside the scripts are served, too");
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
    if !parts.is_clear && matcher.as_ref().is_some_and(Matcher::is_of_clear) {
        report.remark(
            d,
            "it is left out: the site has HTTPS alone, so that no request meets it, such as GET /",
        );
        return Ok(false);
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
            let own = (scope.mounted(), d.at.line);
            let found = redirect::translate(args, (requests, is_for_all), own, parts);
            // A rule precedes all gates, and a mount has those of its block.
            let is_rule = parts.rules.len() > rules;
            if !scope.gates.is_empty() || (is_rule && scope.is_guarded(None, parts)) {
                return Err("a redirect of hurtle is before this gate".to_owned());
            }
            return found;
        }
        "respond" => {
            let answer = respond(d, args)?;
            return push(answer, item, scope, parts);
        }
        "error" => {
            let status = args.iter().rev().find_map(|arg| arg.parse().ok()).unwrap_or(500_i64);
            return push(answer("", status), item, scope, parts);
        }
        "abort" => {
            let mut keys = Keys::new();
            put(&mut keys, "abort", true);
            return push(keys, item, scope, parts);
        }
        "reverse_proxy" => match fastcgi_script::transport(d) {
            Some(transport) => {
                let keys = fastcgi_script::translate(transport, (d, args), scope, report)?;
                return push(keys, item, scope, parts);
            }
            None => return reverse_proxy(item, scope, parts, report),
        },
        "php_fastcgi" => {
            let keys = php(d, args, scope, report)?;
            return push(keys, item, scope, parts);
        }
        "file_server" => {
            let keys = file_server(d, args, scope, report)?;
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
                _ => access::forward(d, args, &mut keys, report)?,
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
        "rewrite" => rewrite::translate(d, args, matcher.as_ref(), scope.is_nested, parts)?,
        "try_files" => {
            let handlers = later.iter().filter(|item| HANDLERS.contains(&item.name()));
            let names: Vec<&str> = handlers.map(Item::name).collect();
            let is_of_files =
                later.iter().any(|item| item.name() == "file_server" && item.matcher.is_none());
            if names != ["file_server"] || !is_of_files {
                return Err("it changes the path for every handler behind it; hurtle knows it for files alone: \
                            write both into a `handle`".to_owned());
            }
            scope.try_files = try_files(args)?;
            let fixed = |arg: &&String| arg.starts_with('/') && *arg != "/index.html";
            let has_directories = args.iter().any(|arg| arg == "{path}/");
            if let Some(page) = args.iter().find(fixed).filter(|_| has_directories) {
                report.remark(d, &format!("/ is the index of the directory, in Caddy {page}"));
            }
        }
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
    let mut inner = scope.clone();
    inner.matcher = scope.requests(matcher.as_ref())?;
    inner.is_nested = true;
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
        *scope =
            Scope { named: std::mem::take(&mut scope.named), is_nested: scope.is_nested, ..inner };
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
    // Requests for which nothing in it is: Caddy goes on behind all `handle`, and hurtle has none there.
    let is_behind = |item: &Item<'_>| HANDLERS.contains(&item.name()) && item.name() != "handle";
    if later.iter().any(is_behind) {
        return Err("a request that its block does not answer goes on behind it".to_owned());
    }
    inner.matcher.get_or_insert_default();
    let rest = Item { d, matcher: None, args: &[] };
    push(answer("", 200), &rest, &mut inner, parts)?;
    Ok(matcher.is_none())
}

fn reverse_proxy(
    item: &Item<'_>,
    scope: &mut Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<bool, String> {
    if !scope.try_files.is_empty() {
        return Err("the paths of try_files are of files, not of an upstream".to_owned());
    }
    let Some(mut proxy) = proxy::translate(item.d, item.args, report) else { return Ok(false) };
    let mut request = scope.request.clone();
    request.extend(&proxy.request);
    if !scope.prefix.is_empty() {
        put(&mut proxy.keys, "strip_prefix", true);
    }
    if let Some(value) = request.used_field() {
        report.remark(
            item.d,
            &format!("where the client sends no such field, {value} is no field; Caddy sends an empty one"),
        );
    }
    if let Some(fields) = request.request_fields(&proxy.upstream)? {
        put(&mut proxy.keys, "request_fields", fields);
    }
    let mut own = scope.clone();
    own.headers.add(proxy.response.rules(None)?, true);
    push(proxy.keys, item, &mut own, parts)
}

/// Adds a mount. `true`: it is for every request of its block.
fn push(
    handler: Keys,
    item: &Item<'_>,
    scope: &mut Scope,
    parts: &mut Parts,
) -> Result<bool, String> {
    let mut requests = scope.requests(item.matcher.as_ref())?;
    let mut keys = handler;
    if scope.compress && keys.iter().any(|(name, _)| name == "proxy" || name == "fastcgi") {
        put(&mut keys, "compress", true);
    }
    keys.extend(scope.mounted());
    match requests.as_mut().and_then(|matcher| matcher.file.take()) {
        None => {}
        Some(false)
            if requests.clone().unwrap_or_default()
                == scope.matcher.clone().unwrap_or_default()
                && parts.missing.is_none() =>
        {
            // A mount of files hands on to it what is not there.
            let name = format!("missing-{}", item.d.at.line);
            let place = vec![("name".to_owned(), Value::from(name.as_str()))];
            let place = parts.mount(String::new(), place, keys);
            parts.mounts.push(place);
            parts.missing = Some(name);
            return Ok(false);
        }
        Some(_) => {
            return Err(
                "a mount of hurtle does not look at files; `@missing not file` is known".to_owned()
            );
        }
    }
    if keys.iter().any(|(name, _)| name == "files")
        && item.matcher.is_none()
        && let Some(name) = parts.missing.take()
    {
        // A directory is no file, but other paths than those of a redirect have their index.
        if !name.starts_with(redirect::MOVED) {
            keys.retain(|(name, _)| name != "index");
            put(&mut keys, "index", Vec::<String>::new());
        }
        put(&mut keys, "otherwise", name);
    }
    for (gate, gate_keys) in &scope.gates {
        let guarded = match &requests {
            None => Some(gate.clone()),
            Some(requests) => requests.meet(gate)?,
        };
        if let Some(guarded) = guarded {
            let all = [keys.clone(), gate_keys.clone()].concat();
            parts.add(Some(&guarded), &scope.prefix, all)?;
        }
    }
    parts.add(requests.as_ref(), &scope.prefix, keys)?;
    Ok(item.matcher.is_none())
}
