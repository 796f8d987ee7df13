//! Translates a `location` to a mount.

use std::collections::BTreeMap;

use hurtle_http::semantics::media;
use toml::Value;

use super::block::{Block, Target};
use super::cache::cache;
use super::client_limits::client_limits;
use super::connection_limits::{ConnectionZones, connection_limits};
use super::fastcgi::{application_settings, only_script, take_search};
use super::files::files;
use super::gates::AuthServer;
use super::guard::guard;
use super::kind::{HandlerKind, Kind};
use super::map_value::{self, is_marked};
use super::mount::{ErrorPages, Field, Keys, Mount, put};
use super::named::{Named, leads_to_itself};
use super::path::{has_variable, mount_path};
use super::redirect::destination;
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;
use super::type_map;
use super::upstream::{Groups, application_pass, proxy_pass};
use super::upstream_scope::UpstreamScope;
use super::uwsgi;
use hurtle_config::RequestFields;

/// Facts of the server that its locations need.
pub(super) struct Context<'a> {
    pub(super) groups: &'a Groups,
    /// Directories and sizes of caches, by zone.
    pub(super) zones: &'a BTreeMap<String, (String, Option<u64>)>,
    /// Keys of `limit_conn_zone`, by zone.
    pub(super) connection_zones: &'a ConnectionZones,
    /// Scheme of all its addresses; `None`: both.
    pub(super) scheme: Option<&'static str>,
    /// Its locations that auth_request names.
    pub(super) auth: &'a [AuthServer],
    pub(super) errors: &'a ErrorPages,
    pub(super) named: &'a [Named<'a>],
    /// First name of the server; `None`: it has none.
    pub(super) name: Option<&'a str>,
    /// Passwords may reach it in clear over a network.
    pub(super) is_exposed: bool,
}

/// Translates a location to a mount of this path; `None` if it was refused. What the translation
/// does not take is refused, too.
pub(super) fn mount(
    at: &Directive,
    path: &str,
    block: &Block<'_>,
    try_files: Option<&Directive>,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<Mount> {
    match map_value::chosen(block) {
        None => plain_mount(at, path, block, try_files, context, report),
        Some(chosen) => map_value::mount(block, chosen, report, |block, report| {
            mount(at, path, block, try_files, context, report)
        }),
    }
}

/// Likewise where the handler has no variable of a map.
fn plain_mount(
    at: &Directive,
    path: &str,
    block: &Block<'_>,
    try_files: Option<&Directive>,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<Mount> {
    let mut keys = Keys::new();
    let target = target(block);
    if let (Target::Proxy, Some(d)) = (target, try_files)
        && leads_to_itself(at, d, context.named)
    {
        block.take(Kind::Handler(HandlerKind::TryFiles));
        report.remark(d, "the upstream is asked for files, too, as by nginx");
    }
    match target {
        Target::Status => {
            let d = block.take(Kind::Handler(HandlerKind::StubStatus))?;
            put(&mut keys, "status", true);
            let text = format!(
                "GET {path} is hurtle's page of figures, with JSON for Accept: application/json; nginx \
                                sends its own text"
            );
            report.remark(d, &text);
        }
        Target::Answer => {
            let returns = block.take(Kind::Handler(HandlerKind::Return))?;
            answer(returns, path, block, context, &mut keys, report)?;
        }
        Target::Proxy => proxy(path, block, context, &mut keys, report)?,
        Target::Fastcgi => {
            let pass = block.take(Kind::Handler(HandlerKind::FastcgiPass))?;
            put(&mut keys, "fastcgi", application_pass(pass, context.groups, report)?);
            application_settings(block, |scope| &scope.fastcgi, &mut keys, report);
            take_search(at, block);
            only_script(at, path, block, &mut keys, report);
        }
        Target::Uwsgi => uwsgi::mount(block, context.groups, &mut keys, report)?,
        _ => files(at, path, block, try_files, context.named, &mut keys, report)?,
    }
    let unguarded = keys.len();
    guard(at, block, context, &mut keys, report)?;
    let is_guarded = |(key, _): &(String, Value)| key == "allow" || key == "auth";
    if target == Target::Status && !keys.iter().any(is_guarded) {
        put(&mut keys, "allow", vec!["127.0.0.1", "::1"]);
        report
            .remark(at, &format!("GET {path} of another machine is 403; nginx has no such limit"));
    }
    if target == Target::Answer && keys.len() > unguarded {
        report.remark(at, "nginx sends `return` before it checks addresses, passwords and limits");
    }
    client_limits(block, &mut keys, report);
    connection_limits(path, block, context.connection_zones, &mut keys, report);
    compression(block, &mut keys, report);
    type_map::put_rules(at, block, &mut keys, report);
    let path = mount_path(path);
    let headers = fields(block);
    block.finish(target, report);
    Some(Mount { path, place: Keys::new(), keys, headers, choice: None })
}

/// The translation of a location, by the directive that nginx applies first.
pub(super) fn target(block: &Block<'_>) -> Target {
    let has = |kinds: &[HandlerKind]| {
        kinds.iter().any(|kind| block.first(&[Kind::Handler(*kind)]).is_some())
    };
    if has(&[HandlerKind::Return]) {
        Target::Answer
    } else if has(&[HandlerKind::StubStatus]) {
        Target::Status
    } else if has(&[HandlerKind::ProxyPass, HandlerKind::GrpcPass]) {
        Target::Proxy
    } else if has(&[HandlerKind::FastcgiPass]) {
        Target::Fastcgi
    } else if has(&[HandlerKind::UwsgiPass]) {
        Target::Uwsgi
    } else {
        Target::Files
    }
}

/// The fields of responses in a scope, Cache-Control of `expires` included.
pub(super) fn fields(block: &Block<'_>) -> BTreeMap<String, Field> {
    let mut fields = block.get(|scope| &scope.headers).clone();
    if let Some(expires) = block.get(|scope| &scope.expires) {
        let own = fields.get("cache-control").cloned();
        let field = own.map_or_else(|| Field::of(expires), |own| own.behind(expires));
        fields.insert("cache-control".to_owned(), field);
    }
    fields
}

/// Adds `compress`; files are compressed without it.
pub(super) fn compression(block: &Block<'_>, keys: &mut Keys, report: &mut Report) {
    let has = |name: &str| keys.iter().any(|(key, _)| key == name);
    match block.get(|scope| &scope.compress) {
        Some(true) if has("cache") => report.general(
            "gzip: a mount with a cache is not compressed; have the application do it".to_owned(),
        ),
        Some(true) if !has("files") => put(keys, "compress", true),
        Some(true) => report.general("gzip: files are compressed without a setting".to_owned()),
        Some(false) => put(keys, "compress", false),
        _ => {}
    }
}

/// Adds the keys of a fixed answer or a redirect; `None` if it was refused.
pub(super) fn answer(
    d: &Directive,
    path: &str,
    block: &Block<'_>,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let (status, text) = match d.arg(0).parse::<u16>() {
        Ok(status) => (status, d.arg(1)),
        Err(_) => (302, d.arg(0)),
    };
    if matches!(status, 301 | 302 | 303 | 307 | 308) && !text.is_empty() {
        let to = destination(d, text, path, context, report)?;
        put(keys, "redirect", to);
        put(keys, "status", i64::from(status));
        return Some(());
    }
    if status == 444 {
        put(keys, "abort", true);
        return Some(());
    }
    if !(200..=599).contains(&status) || (300..400).contains(&status) {
        report.refuse(d, "hurtle answers with a status from 200 to 599");
        return None;
    }
    if has_variable(text) {
        report.refuse(d, "it needs variables");
        return None;
    }
    put(keys, "respond", text);
    put(keys, "status", i64::from(status));
    if !text.is_empty() {
        let default = block.get(|scope| &scope.default_type).as_deref().unwrap_or("text/plain");
        let extension = media::extension(path.as_bytes());
        put(keys, "content_type", media::of_extension(&extension).unwrap_or(default));
    }
    Some(())
}

fn proxy(
    path: &str,
    block: &Block<'_>,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let kinds = [HandlerKind::ProxyPass, HandlerKind::GrpcPass].map(Kind::Handler);
    let kind = kinds.into_iter().find(|kind| block.first(&[*kind]).is_some())?;
    let d = block.take(kind)?;
    let mut pass = proxy_pass(d, context.groups, report)?;
    let strips = pass.uri.as_deref() == Some("/") && path != "/";
    if strips && !path.ends_with('/') {
        let text = format!("the upstream gets /x for GET {path}/x; nginx sends //x");
        report.remark(d, &text);
    }
    if let Some(uri) = pass.uri.clone().filter(|uri| !strips && uri != path)
        && !pass.replace_path(path, uri)
    {
        report.refuse(
            d,
            "the path of its URL takes the place of the location's if both end with a slash or none does, \
             and its server has a host",
        );
        return None;
    }
    pass.put(d, keys, report);
    if strips {
        put(keys, "strip_prefix", true);
    }
    if strips || pass.replaces_path() {
        report.general(
            "proxy_pass with a path: the upstream gets escapes as the client wrote them; nginx encodes anew"
                .to_owned(),
        );
    }
    report.general(
        "Upstreams get X-Forwarded-For, -Proto and -Host and X-Real-IP as hurtle sees the client. nginx passes \
         on what a client sends: where a proxy in front sends them, name it in trusted_proxies."
            .to_owned(),
    );
    request_fields(d, block, keys, report);
    response_fields(block, keys, report);
    if pass.is_tls() {
        put(keys, "upstream_tls", block.get(|scope| &scope.tls).table(d, &pass, report));
    }
    upstream_settings(block, |scope| &scope.http, keys, report);
    let statuses = block.get(|scope| &scope.retry_status);
    if !statuses.is_empty() {
        put(keys, "retry_status", statuses.clone());
    }
    cache(d, path, block, context, keys, report)?;
    if !*block.get(|scope| &scope.sends_client_host) {
        report
            .remark(d, "the upstream gets the Host of the request, as with proxy_set_header Host");
    }
    Some(())
}

/// Adds the keys of `proxy_hide_header`, and `rewrite_location` for `proxy_redirect`.
fn response_fields(block: &Block<'_>, keys: &mut Keys, report: &mut Report) {
    for d in block.get(|scope| &scope.proxy_redirects) {
        match d.args.as_slice() {
            [one] if one == "default" => {}
            [one] if one == "off" => put(keys, "rewrite_location", false),
            // The upstream's own address is translated anyway.
            [from, to] if from == "http://" && matches!(to.as_str(), "https://" | "$scheme://") => {
                let text = "a Location with the site's own name and http:// stays as the upstream writes it; nginx \
                            writes the client's scheme. Have the application use X-Forwarded-Proto";
                report.remark(d, text);
            }
            _ => report.refuse(d, "of proxy_redirect it knows default, off and http:// $scheme://"),
        }
    }
    if let Some(d) = block.get(|scope| &scope.proxy_cookies).as_ref() {
        cookie_flags(d, keys, report);
    }
}

/// Adds a rule for the flags of all cookies.
fn cookie_flags(d: &Directive, keys: &mut Keys, report: &mut Report) {
    let flags = match d.args.as_slice() {
        [off] if off == "off" => return,
        [all, flags @ ..] if matches!(all.as_str(), "~" | "~.*") => flags,
        _ => return report.refuse(d, "hurtle has flags for all cookies of a response: write ~"),
    };
    if flags.iter().any(|flag| flag.starts_with("no")) {
        return report.refuse(d, "hurtle takes no flag off a cookie");
    }
    let mut rule = toml::Table::new();
    rule.insert("cookie_flags".to_owned(), Value::from(flags.to_vec()));
    rule.insert("always".to_owned(), Value::from(true));
    let rules = keys.iter_mut().find(|(name, _)| name == "header");
    match rules.and_then(|(_, rules)| rules.as_array_mut()) {
        Some(rules) => rules.push(Value::from(rule)),
        None => put(keys, "header", vec![rule]),
    }
}

/// Adds a rule for the fields that directives such as `proxy_hide_header` hide.
fn hidden_fields(
    directives: &[Directive],
    block: &Block<'_>,
    keys: &mut Keys,
    report: &mut Report,
) {
    let own = fields(block);
    let mut hidden = Vec::new();
    for d in directives {
        let name = d.arg(0).to_ascii_lowercase();
        match own.get(&name) {
            // It replaces that of the upstream.
            Some(Field { always: true, .. }) => {}
            Some(_) => report.refuse(d, "write `always` behind the add_header of this field"),
            None if !RequestFields::takes(&name, "") => {
                report.refuse(d, "hurtle makes this field itself");
            }
            None if hidden.contains(&name) => {}
            None => hidden.push(name),
        }
    }
    if !hidden.is_empty() {
        let mut rule = toml::Table::new();
        rule.insert("remove".to_owned(), Value::from(hidden));
        rule.insert("always".to_owned(), Value::from(true));
        put(keys, "header", vec![rule]);
    }
}

/// Adds the fields that `proxy_set_header` sets and removes.
fn request_fields(d: &Directive, block: &Block<'_>, keys: &mut Keys, report: &mut Report) {
    let fields = block.get(|scope| &scope.request_fields);
    let is_of_client = |value: &&String| {
        is_marked(value)
            || ["{client}", "{server.port}", "{request.", "{tls."]
                .iter()
                .any(|variable| value.contains(variable))
    };
    if block.get(|scope| &scope.cache).is_some() && fields.values().any(|v| is_of_client(&v)) {
        return report
            .refuse(d, "its proxy_set_header has values that differ between clients of the cache");
    }
    let (removed, set): (Vec<_>, Vec<_>) = fields.iter().partition(|(_, value)| value.is_empty());
    let mut removed: Vec<String> = removed.into_iter().map(|(name, _)| name.clone()).collect();
    let has_copied = !block.scope().copied.peek().is_empty();
    if has_copied && block.get(|scope| &scope.auth_request).is_none() {
        // Their variables are empty, and nginx passes no empty field on, nor that of a client.
        removed
            .extend(block.get(|scope| &scope.copied).iter().map(|name| name.to_ascii_lowercase()));
    }
    let mut table = toml::Table::new();
    if !set.is_empty() {
        let set: toml::Table = set
            .into_iter()
            .map(|(name, value)| (name.clone(), Value::from(value.clone())))
            .collect();
        table.insert("set".to_owned(), Value::from(set));
    }
    if !removed.is_empty() {
        table.insert("remove".to_owned(), Value::from(removed));
    }
    if !table.is_empty() {
        put(keys, "request_fields", table);
    }
}

/// Adds the keys of an upstream or application that are alike in all protocols.
pub(super) fn upstream_settings(
    block: &Block<'_>,
    of: fn(&Scope) -> &UpstreamScope,
    keys: &mut Keys,
    report: &mut Report,
) {
    let passes_requests_on = *block.get(|scope| &of(scope).passes_bodies_on);
    match (passes_requests_on, *block.get(|scope| &of(scope).passes_responses_on)) {
        (false, false) => {}
        (false, true) => put(keys, "buffer", "request"),
        (true, false) => put(keys, "buffer", "response"),
        (true, true) => put(keys, "buffer", "off"),
    }
    let mut set = |key: &str, ms: Option<u64>| match ms {
        Some(ms) if ms.is_multiple_of(1_000) => put(keys, key, format!("{}s", ms / 1_000)),
        Some(ms) => put(keys, key, format!("{ms}ms")),
        None => {}
    };
    set("connect_timeout", *block.get(|scope| &of(scope).connect_timeout));
    set("send_timeout", *block.get(|scope| &of(scope).send_timeout));
    set("first_byte_timeout", *block.get(|scope| &of(scope).read_timeout));
    set("read_timeout", *block.get(|scope| &of(scope).read_timeout));
    if *block.get(|scope| &of(scope).intercepts) {
        put(keys, "intercept_errors", true);
    }
    hidden_fields(block.get(|scope| &of(scope).hidden), block, keys, report);
}
