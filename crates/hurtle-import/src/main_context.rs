//! Translates the outermost directives and the `http` block.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::block::Block;
use super::connection_limits;
use super::https_redirect::TlsNames;
use super::kind::{Kind, StructureKind, WholeKind};
use super::mount::{Keys, ServerConfig, put, put_list};
use super::path::bytes;
use super::report::Report;
use super::scope::Scope;
use super::server::{Http, server};
use super::shared::Shared;
use super::sites;
use super::syntax::Directive;
use super::tuning::{is_tuning, needs};
use super::type_map::type_maps;
use super::upstream::{Groups, group};
use super::value_map::value_maps;

/// Translates a configuration. Problems are in `report`.
pub(super) fn translate(directives: &[Directive], report: &mut Report) -> ServerConfig {
    let mut out = ServerConfig::default();
    let mut shared = Shared { has_cache: has_cache(directives), ..Shared::default() };
    let mut blocks = Vec::new();
    // An excerpt, such as a file of sites-enabled, has the directives of `http` without it.
    let mut excerpt = Vec::new();
    for d in directives {
        match d.name.as_str() {
            "http" => blocks.push(d.children()),
            "user" => {
                put(&mut out.keys, "user", d.arg(0));
                if d.args.len() > 1 {
                    put(&mut out.keys, "group", d.arg(1));
                }
            }
            "worker_processes" => match d.arg(0).parse::<i64>() {
                Ok(workers) => put(&mut out.keys, "workers", workers),
                Err(_) => report.leave_out(d),
            },
            "error_log" => shared.apply(WholeKind::ErrorLog, d, report),
            name if is_tuning(name) => report.leave_out(d),
            _ => excerpt.push(d.clone()),
        }
    }
    let excerpt = with_server(excerpt, report);
    blocks.push(&excerpt);
    let mut servers = Vec::new();
    for block in blocks {
        http(block, &mut shared, &mut servers, report);
    }
    sites::add_ipv4(&mut servers);
    let rejected = sites::rejected(&servers);
    servers.retain(|server| !server.clear.is_empty() || !server.tls.is_empty());
    match servers.is_empty() {
        true => report.general("there is no server".to_owned()),
        false => sites::add(&servers, &rejected, &mut out, report),
    }
    shared.put(&mut out);
    if uses_request_id(directives) {
        let mut tracing = Keys::new();
        put(&mut tracing, "request_id", true);
        out.tables.push(("tracing", tracing));
    }
    out
}

/// `true` if an upstream gets the ID of the request.
fn uses_request_id(directives: &[Directive]) -> bool {
    directives.iter().any(|d| {
        (d.name == "proxy_set_header" && d.arg(1) == "$request_id") || uses_request_id(d.children())
    })
}

/// `true` if a block or one within it has a cache of upstreams' responses.
fn has_cache(directives: &[Directive]) -> bool {
    let is_cache = |d: &Directive| d.name == "proxy_cache" && d.arg(0) != "off";
    directives.iter().any(|d| is_cache(d) || has_cache(d.children()))
}

/// An excerpt with locations, such as a file that a server includes, in a server.
fn with_server(excerpt: Vec<Directive>, report: &mut Report) -> Vec<Directive> {
    let Some(first) = excerpt.iter().find(|d| d.name == "location") else { return excerpt };
    if excerpt.iter().any(|d| d.name == "server") {
        return excerpt;
    }
    report.remark(
        first,
        "the file has locations without a server: they are those of a site on port 80",
    );
    let at = first.at.clone();
    let is_of_http = |d: &Directive| OF_HTTP.contains(&d.name.as_str());
    let (mut http, own): (Vec<_>, Vec<_>) = excerpt.into_iter().partition(is_of_http);
    http.push(Directive { name: "server".to_owned(), args: Vec::new(), block: Some(own), at });
    http
}

/// Directives that a server cannot have.
const OF_HTTP: [&str; 6] =
    ["upstream", "map", "geo", "proxy_cache_path", "limit_req_zone", "limit_conn_zone"];

fn http<'a>(
    block: &'a [Directive],
    shared: &mut Shared,
    servers: &mut Vec<super::server::Server<'a>>,
    report: &mut Report,
) {
    let zones_kind = Kind::Structure(StructureKind::LimitReqZone);
    // Before the directives that name them.
    for d in block.iter().filter(|d| d.name == zones_kind.name()) {
        shared.limit_req_zone(d, report);
    }
    let maps = type_maps(block);
    let values = Rc::new(value_maps(block));
    let types = Rc::new(maps.clone());
    let outer = Scope { type_maps: types, value_maps: Rc::clone(&values), ..Scope::default() };
    let read = Block::read(None, block, &outer, shared, report);
    let mut groups = Groups::new();
    for d in read.take_all(Kind::Structure(StructureKind::Upstream)) {
        let group = group(d, report);
        groups.insert(d.arg(0).to_owned(), group);
    }
    let caches = read.take_all(Kind::Structure(StructureKind::ProxyCachePath));
    let zones: BTreeMap<_, _> = caches.iter().filter_map(|d| zone(d)).collect();
    let geos = read.take_all(Kind::Structure(StructureKind::Geo));
    for d in read.take_all(Kind::Structure(StructureKind::Map)).into_iter().chain(geos) {
        // The usual preparation of WebSockets, which hurtle passes on anyway.
        let variable = d.args.last().map_or("", String::as_str);
        if maps.contains_key(variable) || values.contains_key(variable.trim_start_matches('$')) {
            continue;
        }
        let is_used = block.iter().any(|other| uses(other, variable));
        match d.arg(0) {
            "$http_upgrade" => {}
            _ if !is_used => report.remark(d, "it is left out: only logs use it"),
            _ => report.refuse(d, needs(&d.name)),
        }
    }
    for kind in
        [StructureKind::SetRealIpFrom, StructureKind::RealIpHeader, StructureKind::RealIpRecursive]
    {
        // The servers inherit them.
        read.take(Kind::Structure(kind));
    }
    read.take(zones_kind);
    let own = read.take_all(Kind::Structure(StructureKind::Server));
    let scope = read.scope().clone();
    let tls = TlsNames::of(&own);
    let zones_of_connections = read.take_all(Kind::Structure(StructureKind::LimitConnZone));
    let connection_zones = connection_limits::zones(&zones_of_connections, report);
    if let Some((most, d)) = connection_limits::of_whole(block, &connection_zones) {
        shared.limits.insert("connections_per_address", most);
        report.remark(d, connection_limits::REMARK);
    }
    read.finish_http(report);
    let mut http = Http { scope, groups, zones, shared, tls, connection_zones };
    for d in own {
        let server = server(d, &mut http, report);
        servers.push(server);
    }
}

/// `true` if a directive other than one of logs has a variable.
fn uses(d: &Directive, variable: &str) -> bool {
    let is_of_logs = matches!(d.name.as_str(), "access_log" | "log_format");
    let has = |arg: &String| arg.contains(variable);
    let is_itself = matches!(d.name.as_str(), "map" | "geo") && d.args.last().is_some_and(has);
    (!is_of_logs && !is_itself && d.args.iter().any(has))
        || d.children().iter().any(|inner| uses(inner, variable))
}

/// The name of a cache, its directory and its size.
fn zone(d: &Directive) -> Option<(String, (String, Option<u64>))> {
    let option = |name: &str| d.args.iter().find_map(|arg| arg.strip_prefix(name));
    let zone = option("keys_zone=")?.split(':').next()?.to_owned();
    Some((zone, (d.arg(0).to_owned(), option("max_size=").and_then(bytes))))
}

impl Shared {
    /// Adds the settings of the whole server.
    fn put(self, out: &mut ServerConfig) {
        put_list(&mut out.keys, "trusted_proxies", &self.trusted_proxies.unwrap_or_default());
        let mut limits = Keys::new();
        for (key, value) in self.limits {
            match key {
                "body_bytes" | "requests_per_connection" | "connections_per_address" => {
                    put(&mut limits, key, i64::try_from(value).unwrap_or(i64::MAX));
                }
                _ => put(&mut limits, key, format!("{value}s")),
            }
        }
        if !limits.is_empty() {
            out.tables.push(("limits", limits));
        }
        let compress = self.compress.keys();
        if !compress.is_empty() {
            out.tables.push(("compress", compress));
        }
        if let Some(path) = self.access_log {
            let mut log = Keys::new();
            put(&mut log, "path", path);
            out.tables.push(("access_log", log));
        }
        if let Some((path, level)) = self.error_log {
            let mut log = Keys::new();
            put(&mut log, "level", level);
            put(&mut log, "path", path);
            out.tables.push(("error_log", log));
        }
    }
}
