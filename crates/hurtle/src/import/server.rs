//! Translates a `server` block to a site and its addresses.

use std::collections::BTreeMap;

use super::gates::auth_servers;
use super::location::{Context, Handlers};
use super::mount::{Site, put};
use super::mounts::Mounts;
use super::report::Report;
use super::scope::Scope;
use super::server_keys::{certificate, listen, names, rewrite};
use super::shared::Shared;
use super::syntax::Directive;
use super::upstream::Groups;

/// A server of nginx.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) at: &'a Directive,
    /// Addresses in clear.
    pub(super) clear: Vec<String>,
    /// Addresses with TLS.
    pub(super) tls: Vec<String>,
    pub(super) is_default: bool,
    /// It only redirects to HTTPS, at the same names.
    pub(super) is_redirect: bool,
    pub(super) site: Site,
}

/// Facts of the whole configuration that servers need.
pub(super) struct Http<'a> {
    pub(super) scope: Scope,
    pub(super) groups: Groups,
    pub(super) zones: BTreeMap<String, (String, Option<u64>)>,
    pub(super) shared: &'a mut Shared,
}

/// Translates a server.
pub(super) fn server<'a>(
    at: &'a Directive,
    http: &mut Http<'_>,
    report: &mut Report,
) -> Server<'a> {
    let mut scope = http.scope.enter(at.children());
    let mut server = Server {
        at,
        clear: Vec::new(),
        tls: Vec::new(),
        is_default: false,
        is_redirect: false,
        site: Site::default(),
    };
    let mut handlers = Handlers::default();
    let mut locations = Vec::new();
    let mut conditions = Vec::new();
    for d in at.children() {
        match d.name.as_str() {
            "listen" => listen(d, &mut server, report),
            "server_name" => names(d, &mut server.site.hosts, report),
            "location" => locations.push(d),
            "if" => conditions.push(d),
            "rewrite" => server.site.rules.extend(rewrite(d, "/", report)),
            "ssl_certificate"
            | "ssl_certificate_key"
            | "ssl_client_certificate"
            | "ssl_verify_client" => certificate(d, &mut server.site.tls, report),
            _ if handlers.take(d) => {}
            _ => scope.apply(d, http.shared, report),
        }
    }
    if server.clear.is_empty() && server.tls.is_empty() {
        server.clear.push("0.0.0.0:80".to_owned());
    }
    if !server.tls.is_empty() && !server.site.tls.iter().any(|(key, _)| key == "certificate") {
        report.refuse(at, "it listens with ssl, but has no ssl_certificate");
    }
    if is_https_redirect(&server, &handlers, &locations, &conditions) {
        server.is_redirect = true;
        return server;
    }
    for d in conditions {
        report.refuse(d, super::tuning::needs("if"));
    }
    if let (false, Some(hsts)) =
        (server.tls.is_empty(), scope.headers.remove("strict-transport-security"))
    {
        put(&mut server.site.tls, "hsts", hsts.value);
    }
    let auth = auth_servers(&locations, (&http.groups, &scope), report);
    server.site.errors = scope.errors.clone();
    let name = server.site.hosts.first().cloned();
    let context = Context {
        groups: &http.groups,
        zones: &http.zones,
        auth: &auth,
        scheme: match (server.clear.is_empty(), server.tls.is_empty()) {
            (true, _) => Some("https"),
            (_, true) => Some("http"),
            _ => None,
        },
        name: name.as_deref(),
        is_exposed: server.clear.iter().any(|address| {
            !address.starts_with("127.")
                && !address.starts_with("[::1]")
                && !address.starts_with("unix:")
        }),
    };
    let mut mounts = Mounts::new(&mut server.site, &context, http.shared);
    if handlers.returns.is_none() {
        mounts.locations(&locations, &scope, report);
    }
    mounts.root(at, (&handlers, &scope), report);
    mounts.scripts(report);
    mounts.headers(report);
    server
}

/// `true` for a server that only redirects its own names to HTTPS.
fn is_https_redirect(
    server: &Server<'_>,
    handlers: &Handlers<'_>,
    locations: &[&Directive],
    conditions: &[&Directive],
) -> bool {
    if !server.tls.is_empty() {
        return false;
    }
    let is_redirect = |d: &Directive| {
        let host = d.arg(1).strip_prefix("https://").and_then(|to| to.strip_suffix("$request_uri"));
        d.name == "return"
            && matches!(d.arg(0), "301" | "302" | "307" | "308")
            && host.is_some_and(|host| {
                matches!(host, "$host" | "$server_name" | "$http_host")
                    || server.site.hosts.iter().any(|own| own == host)
            })
    };
    // Answers to challenges need no configuration.
    let locations: Vec<_> = locations
        .iter()
        .filter(|d| !d.args.iter().any(|arg| arg.starts_with("/.well-known/acme-challenge")))
        .collect();
    let in_root = match locations.as_slice() {
        [] => false,
        [root] => {
            let is_root = root.args.last().is_some_and(|path| path == "/");
            is_root && root.children().iter().all(is_redirect) && !root.children().is_empty()
        }
        _ => return false,
    };
    let by_host = !conditions.is_empty()
        && conditions.iter().all(|d| {
            d.arg(0) == "($host" && d.arg(1) == "=" && d.children().iter().all(is_redirect)
        });
    match handlers.returns {
        Some(d) if is_redirect(d) => conditions.is_empty() && locations.is_empty(),
        Some(d) => d.arg(0) == "404" && by_host && locations.is_empty(),
        None => in_root && conditions.is_empty(),
    }
}
