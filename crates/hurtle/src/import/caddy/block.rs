//! The directives of a site, `handle` or `route` as mounts. What answers requests becomes a mount, in the
//! order in which Caddy would try it; what only changes them is kept for the mounts behind it.

use toml::Value;

use super::fields::{self, Edits};
use super::matcher::{self, Matcher, Named, is_placeholder};
use super::order;
use super::proxy;
use super::redirect;
use crate::import::mount::{Keys, Mount, put};
use crate::import::report::Report;
use crate::import::syntax::Directive;

/// Directives that answer a request.
const HANDLERS: [&str; 8] =
    ["abort", "error", "file_server", "php_fastcgi", "redir", "respond", "reverse_proxy", "route"];

/// Settings of the mounts of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Requests of the blocks around it.
    matcher: Option<Matcher>,
    /// A prefix that `handle_path` or `uri strip_prefix` takes off.
    prefix: String,
    root: Option<String>,
    try_files: Vec<String>,
    compress: bool,
    request: Edits,
    /// Header rules of mounts; those of the site itself are not here.
    headers: Rules,
    /// Keys of mounts, such as gates.
    keys: Keys,
    named: Named,
    /// `true` in a block within the site's.
    is_nested: bool,
}

/// The parts of a site that its directives make.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) headers: Rules,
    pub(super) rules: Vec<Keys>,
    pub(super) mounts: Vec<Mount>,
    /// Keys of the site, such as its password.
    pub(super) keys: Keys,
    /// The only host of the site; empty: several, or all.
    pub(super) host: String,
}

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

/// Translates the directives of a block. `true`: it answers every request that it gets.
pub(super) fn translate(
    directives: &[Directive],
    mut scope: Scope,
    is_route: bool,
    parts: &mut Parts,
    report: &mut Report,
) -> bool {
    scope.named = matcher::definitions(directives, &scope.named, report);
    let mut items = Vec::new();
    for d in directives.iter().filter(|d| !d.name.starts_with('@')) {
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
        match one(item, &items[at + 1..], &mut scope, parts, report) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(needs) => report.refuse(item.d, needs),
        }
    }
    false
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
    match item.name() {
        "handle" | "route" => return block(item, later, scope, parts, report),
        "redir" => {
            return redirect::translate(
                d,
                args,
                scope.requests(matcher.as_ref())?,
                scope.mounted(),
                parts,
                report,
            );
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
            report.remark(d, "such a request gets 403; Caddy closes the connection");
            return push(answer("", 403), item, scope, parts);
        }
        "reverse_proxy" => return reverse_proxy(item, scope, parts, report),
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
            let (rules, is_deferred) = header(d, args, own.as_ref())?;
            if is_deferred {
                report.remark(
                    d,
                    "hurtle's own errors, such as a 404 for a missing file, have these fields, too; Caddy's do not",
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
        name if !order::is_known(name) => {
            return Err("this is no directive of Caddy, or one of a plugin".to_owned());
        }
        _ if matcher.is_some() && item.name() != "encode" => {
            return Err(
                "it is for some requests only; hurtle has it for a site or a mount: write it into \
                        a `handle` of these requests"
                    .to_owned(),
            );
        }
        _ => setting(d, args, scope, parts, report)?,
    }
    Ok(false)
}

/// Keeps a setting for the mounts behind it.
fn setting(
    d: &Directive,
    args: &[String],
    scope: &mut Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<(), String> {
    match order::canonical(&d.name) {
        "root" => {
            let [root] = args else { return Err("it has one directory".to_owned()) };
            if is_placeholder(root) {
                return Err("a directory of hurtle is the same for all requests".to_owned());
            }
            scope.root = Some(root.clone());
        }
        "encode" => {
            scope.compress = true;
            report.general(
                "hurtle chooses the coding and the media types; see docs/compression.md".to_owned(),
            );
        }
        "request_body" => {
            for line in d.children() {
                match (line.name.as_str(), line.arg(0)) {
                    ("max_size", "0") => {}
                    ("max_size", size) => scope.put("body_bytes", size_of(size)?),
                    _ => report.refuse(line, "of request_body it knows max_size"),
                }
            }
        }
        "request_header" => {
            for line in fields::lines(d, args) {
                scope.request.line(&line)?;
            }
        }
        "uri" => match args {
            [kind, prefix] if kind == "strip_prefix" => scope.strip(prefix)?,
            _ => {
                return Err(
                    "of `uri` it knows strip_prefix, in a `handle` of that prefix".to_owned()
                );
            }
        },
        "try_files" => scope.try_files = try_files(args)?,
        "basic_auth" => {
            let mut keys = Keys::new();
            super::access::basic(d, args, &mut keys, report)?;
            scope.gate(keys, parts);
        }
        "forward_auth" => {
            let mut keys = Keys::new();
            super::access::forward(d, args, &mut keys, report)?;
            scope.gate(keys, parts);
        }
        "push" | "tracing" | "log_append" | "log_name" | "log_skip" => report.leave_out(d),
        _ => return Err("hurtle has nothing of this kind".to_owned()),
    }
    Ok(())
}

/// Translates `handle`, `handle_path` and `route`.
fn block(
    item: &Item<'_>,
    later: &[Item<'_>],
    scope: &Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<bool, String> {
    let Item { d, matcher, .. } = item;
    let is_route = d.name == "route";
    let mut inner = scope.clone();
    inner.matcher = scope.requests(matcher.as_ref())?;
    inner.is_nested = scope.is_nested || matcher.is_some() || d.name != "route";
    if d.name == "handle_path" {
        let path = matcher.as_ref().and_then(|matcher| matcher.paths.first());
        let path = path.and_then(|path| path.strip_suffix("/*"));
        let path = path.ok_or("it has a path that ends with /*")?.to_owned();
        inner.prefix = format!("{}{path}", scope.prefix);
    }
    let before = parts.mounts.len();
    let answers = translate(d.children(), inner.clone(), is_route, parts, report);
    if answers {
        return Ok(matcher.is_none());
    }
    if is_route && inner.keys == scope.keys && parts.mounts.len() >= before {
        return Ok(false);
    }
    // Requests for which nothing in it is: Caddy goes on behind all `handle`, and hurtle has none there.
    if later.iter().any(|item| HANDLERS.contains(&item.name())) {
        return Err("a request that its block does not answer goes on behind it".to_owned());
    }
    inner.matcher.get_or_insert_default();
    let rest = Item { d, matcher: None, args: &[] };
    push(answer("", 200), &rest, &inner, parts)?;
    Ok(matcher.is_none())
}

fn reverse_proxy(
    item: &Item<'_>,
    scope: &Scope,
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
    let mut scope = scope.clone();
    scope.headers.add(proxy.response.rules(None)?, true);
    push(proxy.keys, item, &scope, parts)
}

/// The rules of a `header`, and `true` if Caddy applies them when the response begins.
fn header(
    d: &Directive,
    args: &[String],
    own: Option<&Matcher>,
) -> Result<(Vec<Keys>, bool), String> {
    let mut is_deferred = false;
    let mut edits = Edits::default();
    for line in fields::lines(d, args) {
        match line.name.as_str() {
            "defer" => is_deferred = true,
            "match" => return Err("header rules of hurtle do not look at the response".to_owned()),
            _ => edits.line(&line)?,
        }
    }
    Ok((edits.rules(own)?, is_deferred || edits.is_deferred()))
}

/// Header rules in the order in which they take effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// Those that Caddy applies before a request is handled.
    first: Vec<Keys>,
    /// Those that it applies when the response begins: the last one first.
    deferred: Vec<Keys>,
}

impl Rules {
    fn add(&mut self, rules: Vec<Keys>, is_deferred: bool) {
        match is_deferred {
            true => drop(self.deferred.splice(..0, rules)),
            false => self.first.extend(rules),
        }
    }

    /// All rules, in order.
    pub(super) fn all(&self) -> Vec<Keys> {
        [self.first.as_slice(), &self.deferred].concat()
    }
}

/// Keys of `php_fastcgi`.
fn php(d: &Directive, args: &[String], scope: &Scope, report: &mut Report) -> Result<Keys, String> {
    let [address] = args else { return Err("it has one address".to_owned()) };
    let address = match address.strip_prefix("unix/") {
        Some(path) => format!("unix:/{}", path.trim_start_matches('/')),
        None => address.trim_start_matches("tcp/").to_owned(),
    };
    let mut root = scope.root.clone();
    let mut keys: Keys = vec![("fastcgi".to_owned(), Value::from(address))];
    let (mut params, mut rest) = (toml::Table::new(), Keys::new());
    for line in d.children() {
        let value = line.arg(0);
        match line.name.as_str() {
            "root" => root = Some(value.to_owned()),
            "index" => put(&mut rest, "index", vec![value.to_owned()]),
            "split" if line.args.len() == 1 => put(&mut rest, "suffix", value),
            "env" if line.args.len() == 2 && !is_placeholder(line.arg(1)) => {
                params.insert(value.to_owned(), Value::from(line.arg(1)));
            }
            "dial_timeout" => put(&mut rest, "connect_timeout", proxy::duration(value)?),
            "read_timeout" => put(&mut rest, "read_timeout", proxy::duration(value)?),
            "write_timeout" => put(&mut rest, "send_timeout", proxy::duration(value)?),
            "resolve_root_symlink" | "capture_stderr" => report.leave_out(line),
            _ => report.refuse(line, "hurtle's fastcgi has no such setting"),
        }
    }
    if !scope.try_files.is_empty() {
        return Err("the front controller is the script of `index`, not of try_files".to_owned());
    }
    if !scope.prefix.is_empty() {
        return Err(format!("scripts behind {}, which is taken off", scope.prefix));
    }
    put(&mut keys, "root", root.ok_or("it has no root")?);
    if !params.is_empty() {
        put(&mut rest, "params", Value::Table(params));
    }
    keys.extend(rest);
    Ok(keys)
}

/// Keys of `file_server`.
fn file_server(
    d: &Directive,
    args: &[String],
    scope: &Scope,
    report: &mut Report,
) -> Result<Keys, String> {
    let (mut root, mut listing) = (scope.root.clone(), args.iter().any(|arg| arg == "browse"));
    if args.iter().any(|arg| arg != "browse") {
        return Err("it has the word browse, or none".to_owned());
    }
    let mut rest = Keys::new();
    for line in d.children() {
        match line.name.as_str() {
            "root" => root = Some(line.arg(0).to_owned()),
            "browse" if line.args.is_empty() => listing = true,
            "index" => put(&mut rest, "index", line.args.clone()),
            "precompressed" => {}
            _ => report.refuse(line, "hurtle's files have no such setting"),
        }
    }
    if root.is_none() {
        report.remark(d, "Caddy serves the directory in which it runs; so does the root \".\"");
    }
    let mut keys: Keys = vec![("files".to_owned(), Value::from(root.unwrap_or(".".to_owned())))];
    if listing {
        put(&mut keys, "listing", true);
    }
    if !scope.try_files.is_empty() {
        put(&mut keys, "try_files", scope.try_files.clone());
    }
    keys.extend(rest);
    Ok(keys)
}

/// Translates the paths of `try_files`.
fn try_files(args: &[String]) -> Result<Vec<String>, String> {
    let path = |arg: &String| match arg.strip_prefix("{path}") {
        Some(rest) if !is_placeholder(rest) => Ok(arg.clone()),
        _ if is_placeholder(arg) || arg.contains('?') => {
            Err(format!("of try_files it knows {{path}} and fixed paths, not {arg}"))
        }
        _ => Ok(arg.clone()),
    };
    args.iter().map(path).collect()
}

/// Keys of a fixed answer.
fn respond(d: &Directive, args: &[String]) -> Result<Keys, String> {
    let status_of = |text: &str| (text.len() == 3).then(|| text.parse::<i64>().ok()).flatten();
    let (mut body, status) = match args {
        [] => (String::new(), 200),
        [one] => match status_of(one) {
            Some(status) => (String::new(), status),
            None => (one.clone(), 200),
        },
        [body, status] => (body.clone(), status_of(status).ok_or("its second word is a status")?),
        _ => return Err("it has a body and a status".to_owned()),
    };
    for line in d.children() {
        match line.name.as_str() {
            "body" => body = line.arg(0).to_owned(),
            "close" => {}
            _ => return Err("of `respond` it knows body and close".to_owned()),
        }
    }
    if is_placeholder(&body) {
        return Err("the body of hurtle's answers is fixed".to_owned());
    }
    Ok(answer(&body, status))
}

/// Keys of an answer with this body.
fn answer(body: &str, status: i64) -> Keys {
    let mut keys = Keys::new();
    put(&mut keys, "respond", body);
    if status != 200 {
        put(&mut keys, "status", status);
    }
    if body.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(body).is_ok() {
        put(&mut keys, "content_type", "application/json");
    }
    keys
}

/// Adds a mount. `true`: it is for every request of its block.
fn push(handler: Keys, item: &Item<'_>, scope: &Scope, parts: &mut Parts) -> Result<bool, String> {
    let requests = scope.requests(item.matcher.as_ref())?;
    if requests.as_ref().is_some_and(|matcher| matcher.file.is_some()) {
        return Err("a mount of hurtle does not look at files".to_owned());
    }
    let place = match &requests {
        Some(matcher) => matcher.key()?,
        None => Keys::new(),
    };
    let path = match scope.prefix.as_str() {
        "" => "/".to_owned(),
        prefix => prefix.to_owned(),
    };
    let mut keys = handler;
    if scope.compress && keys.iter().any(|(name, _)| name == "proxy" || name == "fastcgi") {
        put(&mut keys, "compress", true);
    }
    keys.extend(scope.mounted());
    parts.mounts.push(Mount { path, place, keys, headers: std::collections::BTreeMap::new() });
    Ok(item.matcher.is_none())
}

impl Scope {
    /// The requests of a directive in this block.
    fn requests(&self, own: Option<&Matcher>) -> Result<Option<Matcher>, String> {
        let own = match own {
            Some(own) if !self.prefix.is_empty() => Some(own.clone().beneath(&self.prefix)?),
            own => own.cloned(),
        };
        match (&self.matcher, own) {
            (Some(outer), Some(own)) => outer.clone().and(&own).map(Some),
            (Some(outer), None) => Ok(Some(outer.clone())),
            (None, own) => Ok(own),
        }
    }

    /// The keys that every mount of the block gets.
    fn mounted(&self) -> Keys {
        let mut keys = self.keys.clone();
        let rules = self.headers.all();
        if !rules.is_empty() {
            let rules = rules.into_iter().map(|rule| Value::Table(rule.into_iter().collect()));
            put(&mut keys, "header", Value::Array(rules.collect()));
        }
        keys
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.keys.retain(|(known, _)| known != name);
        put(&mut self.keys, name, value);
    }

    /// Adds a gate: to the site, or to the mounts of a block.
    fn gate(&mut self, keys: Keys, parts: &mut Parts) {
        match self.is_nested {
            true => {
                self.keys.retain(|(known, _)| !keys.iter().any(|(name, _)| name == known));
                self.keys.extend(keys);
            }
            false => parts.keys.extend(keys),
        }
    }

    /// Takes a prefix off, where all requests have it.
    fn strip(&mut self, prefix: &str) -> Result<(), String> {
        let paths = self.matcher.as_ref().map_or(&[][..], |matcher| &matcher.paths);
        let has =
            |path: &String| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        if paths.is_empty() || !paths.iter().all(has) || !self.prefix.is_empty() {
            return Err(format!("a prefix is taken off in `handle {prefix}/*`"));
        }
        self.prefix = prefix.to_owned();
        Ok(())
    }
}

/// Translates a size: `10MB` is of a thousand kilobytes, `10MiB` of 1,024.
fn size_of(text: &str) -> Result<String, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..at].parse().map_err(|_| format!("{text} is not a size"))?;
    let factor: u64 = match text[at..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return Err(format!("{text} is not a size")),
    };
    let bytes = number.checked_mul(factor).ok_or_else(|| format!("{text} is too large"))?;
    Ok(match factor {
        f if f.is_power_of_two() && f > 1 => {
            format!("{number} {}iB", ["K", "M", "G"][(f.trailing_zeros() / 10 - 1) as usize])
        }
        _ => format!("{bytes} B"),
    })
}
