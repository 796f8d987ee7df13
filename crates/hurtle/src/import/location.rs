//! Translates a `location` to a mount.

use std::collections::BTreeMap;

use toml::Value;

use super::files::files;
use super::gates::AuthServer;
use super::guard::guard;
use super::mount::{Field, Keys, Mount, put};
use super::path::{has_variable, mount_path};
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;
use super::upstream::{Groups, fastcgi_pass, proxy_pass};

/// Facts of the server that its locations need.
pub(super) struct Context<'a> {
    pub(super) groups: &'a Groups,
    /// Directories and sizes of caches, by zone.
    pub(super) zones: &'a BTreeMap<String, (String, Option<u64>)>,
    /// Scheme of all its addresses; `None`: both.
    pub(super) scheme: Option<&'static str>,
    /// Its locations that auth_request names.
    pub(super) auth: &'a [AuthServer],
    /// Its first name.
    pub(super) name: Option<&'a str>,
    /// Passwords may reach it in clear over a network.
    pub(super) is_exposed: bool,
}

/// Directives of a location that choose its handler.
#[derive(Debug, Default)]
pub(super) struct Handlers<'a> {
    pub(super) alias: Option<&'a Directive>,
    pub(super) try_files: Option<&'a Directive>,
    pub(super) returns: Option<&'a Directive>,
    pub(super) proxy: Option<&'a Directive>,
    pub(super) fastcgi: Option<&'a Directive>,
}

impl<'a> Handlers<'a> {
    /// Takes a directive that chooses the handler; `false`: it does not.
    pub(super) fn take(&mut self, d: &'a Directive) -> bool {
        match d.name.as_str() {
            "alias" => self.alias = Some(d),
            "try_files" => self.try_files = Some(d),
            "return" => self.returns = self.returns.or(Some(d)),
            "proxy_pass" | "grpc_pass" => self.proxy = Some(d),
            "fastcgi_pass" => self.fastcgi = Some(d),
            _ => return false,
        }
        true
    }

    /// `true`: files are served.
    pub(super) fn is_files(&self) -> bool {
        self.returns.is_none() && self.proxy.is_none() && self.fastcgi.is_none()
    }
}

/// Translates a location of this path; `None` if it was refused.
pub(super) fn mount(
    at: &Directive,
    path: &str,
    (handlers, scope): (&Handlers<'_>, &Scope),
    context: &Context<'_>,
    report: &mut Report,
) -> Option<Mount> {
    let mut keys = Keys::new();
    if let Some(returns) = handlers.returns {
        answer(returns, path, scope, context, &mut keys, report)?;
    } else if let Some(pass) = handlers.proxy {
        proxy(pass, path, scope, context, &mut keys, report)?;
    } else if let Some(pass) = handlers.fastcgi {
        put(&mut keys, "fastcgi", fastcgi_pass(pass, context.groups, report)?);
        fastcgi_settings(scope, &mut keys);
    } else {
        files(at, path, handlers, scope, &mut keys, report)?;
    }
    guard(at, scope, context, &mut keys, report)?;
    compression(scope, &mut keys, report);
    let path = mount_path(path);
    Some(Mount { pattern: pattern(&path), path, keys, headers: fields(scope) })
}

/// The pattern of a mount's paths.
pub(super) fn pattern(path: &str) -> String {
    if path == "/" { "**".to_owned() } else { format!("{path}/**") }
}

/// The fields of responses in a scope, Cache-Control of `expires` included.
pub(super) fn fields(scope: &Scope) -> BTreeMap<String, Field> {
    let mut fields = scope.headers.clone();
    if let Some(expires) = &scope.expires {
        let own = fields.get("cache-control").cloned();
        let own = own.map(|own| Field { value: format!("{expires}, {}", own.value), ..own });
        let field = own.unwrap_or_else(|| Field { value: expires.clone(), always: false });
        fields.insert("cache-control".to_owned(), field);
    }
    fields
}

/// Adds `compress`; files are compressed without it.
pub(super) fn compression(scope: &Scope, keys: &mut Keys, report: &mut Report) {
    let has = |name: &str| keys.iter().any(|(key, _)| key == name);
    match scope.compress {
        Some(true) if has("cache") => report.general(
            "gzip: a mount with a cache is not compressed; have the application do it".to_owned(),
        ),
        Some(true) if !has("files") => put(keys, "compress", true),
        Some(false) => put(keys, "compress", false),
        _ => {}
    }
}

fn answer(
    d: &Directive,
    path: &str,
    scope: &Scope,
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
    if !(200..=599).contains(&status) || (300..400).contains(&status) || status == 444 {
        report.refuse(d, "hurtle answers with a status from 200 to 599");
        return None;
    }
    if has_variable(text) {
        report.refuse(d, "it needs variables");
        return None;
    }
    put(keys, "respond", text);
    put(keys, "status", i64::from(status));
    report.general("return: `respond` answers GET and HEAD, other methods get 405".to_owned());
    if !text.is_empty() {
        put(keys, "content_type", scope.default_type.as_deref().unwrap_or("text/plain"));
    }
    Some(())
}

/// The Location of a redirect.
fn destination(
    d: &Directive,
    text: &str,
    path: &str,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<String> {
    let mut to = text.to_owned();
    if let Some(rest) = text.strip_prefix("$scheme://") {
        let Some(scheme) = context.scheme else {
            report.refuse(d, "write http:// or https:// in place of $scheme");
            return None;
        };
        to = format!("{scheme}://{rest}");
    }
    if let (Some(name), true) = (context.name, to.contains("$server_name")) {
        to = to.replace("$server_name", name);
    }
    let appends = to.strip_suffix("$request_uri").map(str::to_owned);
    if let Some(base) = &appends {
        // The rest of the path and the query are appended to a value that ends with a slash.
        to = format!("{base}{}", mount_path(path).trim_end_matches('/')) + "/";
    }
    if has_variable(&to) {
        report.refuse(d, "of variables it knows $request_uri at the end, $scheme, $server_name");
        return None;
    }
    // Without $request_uri the destination is one URL.
    if appends.is_none() && to.ends_with('/') {
        let origin = to.trim_end_matches('/').to_owned();
        let is_origin = origin.split_once("://").is_some_and(|(_, host)| !host.contains('/'));
        if !is_origin {
            report.refuse(d, "to a redirect that ends with / the rest of the path is appended");
            return None;
        }
        to = origin;
    }
    Some(to)
}

fn proxy(
    d: &Directive,
    path: &str,
    scope: &Scope,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let pass = proxy_pass(d, context.groups, report)?;
    if pass.uri.as_deref().is_some_and(|uri| uri != path) {
        let path = mount_path(path);
        report.refuse(
            d,
            format!("upstreams get the path unchanged; have the application serve {path} too"),
        );
        return None;
    }
    pass.put(d, keys, report);
    if pass.is_tls() {
        put(keys, "upstream_tls", scope.tls.table(d, &pass, report));
    }
    timeouts(scope, keys);
    if let Some(zone) = &scope.cache {
        let mut cache = toml::Table::new();
        let Some((disk, size)) = context.zones.get(zone) else {
            report.refuse(d, format!("proxy_cache_path has no zone {zone}"));
            return None;
        };
        cache.insert("disk".to_owned(), Value::from(disk.clone()));
        if let Some(size) = size {
            cache.insert("disk_size".to_owned(), Value::from(i64::try_from(*size).ok()?));
        }
        put(keys, "cache", cache);
    }
    if !scope.sends_client_host {
        report
            .remark(d, "the upstream gets the Host of the request, as with proxy_set_header Host");
    }
    Some(())
}

/// Keys of a FastCGI mount beside its address.
pub(super) fn fastcgi_settings(scope: &Scope, keys: &mut Keys) {
    timeouts(scope, keys);
    if !scope.params.is_empty() {
        let params = scope.params.iter();
        let params: toml::Table =
            params.map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
        put(keys, "params", params);
    }
}

fn timeouts(scope: &Scope, keys: &mut Keys) {
    let mut set = |key: &str, seconds: Option<u64>| {
        if let Some(seconds) = seconds {
            put(keys, key, format!("{seconds}s"));
        }
    };
    set("connect_timeout", scope.connect_timeout);
    set("send_timeout", scope.send_timeout);
    set("first_byte_timeout", scope.read_timeout);
    set("read_timeout", scope.read_timeout);
}
