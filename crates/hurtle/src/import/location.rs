//! Translates a `location` to a mount.

use std::collections::BTreeMap;

use ipnet::IpNet;
use toml::Value;

use super::gates::{AuthServer, put_rate_limits};
use super::mount::{Field, Keys, Mount, put, put_list};
use super::path::{has_variable, join, mount_path};
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

fn files(
    at: &Directive,
    path: &str,
    handlers: &Handlers<'_>,
    scope: &Scope,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let directory = match (handlers.alias, &scope.root) {
        (Some(alias), _) if has_variable(alias.arg(0)) || !alias.arg(0).starts_with('/') => {
            report.refuse(alias, "write an absolute path without variables");
            return None;
        }
        (Some(alias), _) if alias.arg(0).ends_with('/') != path.ends_with('/') => {
            report.refuse(alias, "end the location and the alias with /, or neither");
            return None;
        }
        (Some(alias), _) => join(alias.arg(0), ""),
        (None, Some(root)) => join(root, path),
        (None, None) => {
            report.refuse(at, "it has no root; write one, an absolute path");
            return None;
        }
    };
    put(keys, "files", directory);
    if !scope.index.is_empty() && scope.index != ["index.html"] {
        put(keys, "index", scope.index.clone());
    }
    if let Some(d) = handlers.try_files {
        let list = try_files(d, path, report)?;
        if list.len() > 1 || list.first().is_some_and(|one| one != "{path}") {
            put(keys, "try_files", list);
        }
    }
    if let Some(spa) = &scope.spa {
        put(keys, "spa", spa.clone());
    }
    if scope.listing {
        put(keys, "listing", true);
    }
    if !scope.media_types.is_empty() {
        let types = scope.media_types.iter();
        let types: toml::Table =
            types.map(|(ext, media)| (ext.clone(), Value::from(media.clone()))).collect();
        put(keys, "media_types", types);
    }
    if scope.rate > 0 {
        put(keys, "rate", i64::try_from(scope.rate).unwrap_or(i64::MAX));
    }
    if scope.uploads {
        put(keys, "uploads", toml::Table::new());
    }
    Some(())
}

/// Translates `try_files` of files; `None` if it was refused.
fn try_files(d: &Directive, path: &str, report: &mut Report) -> Option<Vec<String>> {
    let mut list = Vec::new();
    let last = d.args.len().saturating_sub(1);
    for (at, arg) in d.args.iter().enumerate() {
        if arg.starts_with('@') {
            report.refuse(
                d,
                "no fallback to a named location: mount the files at paths of their own",
            );
            return None;
        }
        if let Some(status) = arg.strip_prefix('=') {
            // A search without a hit ends with 404 anyway.
            if status != "404" {
                list.push(arg.clone());
            }
            continue;
        }
        let item = match arg.strip_prefix("$uri") {
            // Directories are found by the path, too.
            Some("/") => continue,
            Some(rest) => format!("{{path}}{rest}"),
            // Paths of the last element are those of the site, the others beneath the root.
            None => match path.trim_end_matches('/') {
                "" => arg.clone(),
                prefix => match arg.strip_prefix(prefix) {
                    Some(rest) if rest.starts_with('/') => rest.to_owned(),
                    _ => {
                        report.refuse(d, format!("write paths beneath {path}"));
                        return None;
                    }
                },
            },
        };
        if has_variable(&item) || item.contains('?') {
            let needs = if at == last { "a script; see fastcgi" } else { "variables" };
            report.refuse(d, format!("it needs {needs}"));
            return None;
        }
        list.push(item);
    }
    Some(list)
}

/// Adds `allow`, `deny` and `auth`.
pub(super) fn guard(
    at: &Directive,
    scope: &Scope,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let Some((allow, deny)) = access(&scope.access) else {
        let why = "its allow and deny overlap, and hurtle applies the more specific network";
        report.refuse(at, why);
        return None;
    };
    put_list(keys, "allow", &allow);
    put_list(keys, "deny", &deny);
    put_rate_limits(scope, keys);
    if let Some((auth, at)) = &scope.auth_request {
        let Some(server) = context.auth.iter().find(|server| server.path == *auth) else {
            report.refuse(at, format!("no location = {auth} has a proxy_pass to one server"));
            return None;
        };
        if scope.realm.is_some() {
            report.refuse(at, "a mount has either auth_request or auth_basic");
            return None;
        }
        server.put(&scope.copied, keys);
        return Some(());
    }
    match (&scope.realm, &scope.users) {
        (None, _) if scope.uploads => {
            put(keys, "auth", "none");
            report.remark(at, "everybody may upload: write auth = \"basic\" and users");
        }
        (None, _) => {}
        (Some(_), None) => {
            report.refuse(at, "auth_basic needs auth_basic_user_file");
            return None;
        }
        (Some(realm), Some(users)) => {
            put(keys, "auth", "basic");
            put(keys, "users", users.clone());
            put(keys, "realm", realm.clone());
            if context.is_exposed {
                put(keys, "auth_cleartext", true);
            }
            report.general(
                "auth_basic: passwords are hashed with bcrypt; write the file anew with \
                 `htpasswd -B`"
                    .to_owned(),
            );
        }
    }
    Some(())
}

/// Translates `allow` and `deny`, of which nginx applies the first that matches, to networks of
/// which the most specific one is applied. `None`: the results would differ.
fn access(list: &[(bool, String)]) -> Option<(Vec<String>, Vec<String>)> {
    let all = || vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let end = list.iter().position(|(_, network)| network == "all");
    let admits_others = end.is_none_or(|end| list[end].0);
    let list = &list[..end.unwrap_or(list.len())];
    let parse = |text: &str| -> Option<IpNet> {
        text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from))
    };
    let mut has_exceptions = false;
    for (at, (admits, network)) in list.iter().enumerate() {
        for (_, later) in list[at + 1..].iter().filter(|(other, _)| other != admits) {
            let (network, later) = (parse(network)?, parse(later)?);
            if network.contains(&later) {
                return None;
            }
            has_exceptions |= later.contains(&network);
        }
    }
    let of = |wanted: bool| {
        list.iter().filter(move |(admits, _)| *admits == wanted).map(|(_, network)| network.clone())
    };
    let (mut allow, mut deny): (Vec<String>, Vec<String>) =
        (of(true).collect(), of(false).collect());
    if admits_others {
        // `allow` admits only what it names.
        if has_exceptions { allow.extend(all()) } else { allow.clear() }
    } else if allow.is_empty() {
        deny = all();
    }
    Some((allow, deny))
}

#[cfg(test)]
mod tests {
    use super::access;

    #[test]
    fn networks() {
        let all = "0.0.0.0/0 ::/0";
        let rows = [
            ("nothing", "", Some(("", ""))),
            ("some only", "+10.0.0.0/8 +::1 -all", Some(("10.0.0.0/8 ::1", ""))),
            ("nobody", "-all", Some(("", all))),
            ("all but one", "-192.0.2.1", Some(("", "192.0.2.1"))),
            ("the same", "-192.0.2.1 +all -10.0.0.0/8", Some(("", "192.0.2.1"))),
            ("an exception", "-10.6.6.0/24 +10.0.0.0/8 -all", Some(("10.0.0.0/8", "10.6.6.0/24"))),
            ("admitted of the denied", "+10.1.0.0/16 -10.0.0.0/8", Some(("*", "10.0.0.0/8"))),
            ("hidden by a wider one", "+10.0.0.0/8 -10.6.6.0/24 -all", None),
            ("no network", "+x -y", None),
        ];
        for (sentence, written, expected) in rows {
            let list: Vec<(bool, String)> = written
                .split_whitespace()
                .map(|item| (item.starts_with('+'), item[1..].to_owned()))
                .collect();
            let found = access(&list).map(|(allow, deny)| (allow.join(" "), deny.join(" ")));
            let expected = expected.map(|(allow, deny)| {
                (allow.replace('*', &format!("10.1.0.0/16 {all}")), deny.to_owned())
            });
            assert_eq!(found, expected, "{sentence}");
        }
    }
}
