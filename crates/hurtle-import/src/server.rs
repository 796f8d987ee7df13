//! Translates a `server` block to a site and its addresses.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::block::Block;
use super::client_limits::lift;
use super::connection_limits::ConnectionZones;
use super::error_pages::check_name;
use super::files::script_of;
use super::gates::auth_servers;
use super::https_redirect::{self, TlsNames};
use super::kind::{Kind, ResponseKind, StructureKind};
use super::location::Context;
use super::map_value::is_marked;
use super::mount::{Field, Site, put};
use super::mounts::Mounts;
use super::named::named_locations;
use super::report::Report;
use super::scope::Scope;
use super::server_keys::{certificate, listen, names};
use super::shared::Shared;
use super::syntax::Directive;
use super::upstream::Groups;

/// A server of nginx.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) at: &'a Directive,
    /// Addresses to listen on without TLS.
    pub(super) clear: Vec<String>,
    /// Addresses to listen on with TLS.
    pub(super) tls: Vec<String>,
    /// Addresses of IPv6 whose sockets take IPv4, too: `ipv6only=off`.
    pub(super) dual: Vec<String>,
    /// Addresses whose unknown names are its own: `default_server`.
    pub(super) defaults: Vec<String>,
    /// Addresses at which it rejects TLS handshakes.
    pub(super) rejected: Vec<String>,
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
    pub(super) tls: TlsNames,
    pub(super) connection_zones: ConnectionZones,
}

pub(super) fn server<'a>(
    at: &'a Directive,
    http: &mut Http<'_>,
    report: &mut Report,
) -> Server<'a> {
    let named = at.children().iter().find(|d| d.name == "server_name");
    let is_plain = |name: &&String| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    let server_name = named.and_then(|d| d.args.first()).filter(is_plain).cloned();
    let outer = Scope { used: Rc::default(), server_name, ..http.scope.clone() };
    let block = Block::of(at, &outer, http.shared, report);
    let mut server = Server {
        at,
        clear: Vec::new(),
        tls: Vec::new(),
        dual: Vec::new(),
        defaults: Vec::new(),
        rejected: Vec::new(),
        is_redirect: false,
        site: Site::default(),
    };
    own_keys(&block, &mut server, report);
    if server.clear.is_empty() && server.tls.is_empty() {
        server.clear.push("0.0.0.0:80".to_owned());
    }
    reject_handshakes(&block, &mut server, report);
    if server.clear.is_empty() && server.tls.is_empty() {
        return server;
    }
    if !server.tls.is_empty() && !server.site.tls.iter().any(|(key, _)| key == "certificate") {
        report.refuse(at, "it listens with ssl, but has no ssl_certificate");
    }
    if https_redirect::translate(&block, &server, &http.tls, report) {
        server.is_redirect = true;
        return server;
    }
    http.shared.trust(&block, report);
    let mut inherited = block.scope().clone();
    // A site that is also served in clear sends it as any field.
    let is_plain = |field: &Field| !is_marked(&field.value);
    let hsts = inherited.headers.peek().get("strict-transport-security");
    if server.clear.is_empty()
        && hsts.is_some_and(is_plain)
        && let Some(hsts) = inherited.headers.edit().remove("strict-transport-security")
    {
        put(&mut server.site.tls, "hsts", hsts.value);
        report.general(
            "Strict-Transport-Security is in all responses over TLS; nginx leaves it out in locations with an \
             add_header of their own"
                .to_owned(),
        );
    }
    let block = block.with_scope(inherited);
    let locations = block.all(Kind::Structure(StructureKind::Location));
    let auth = auth_servers(&locations, &http.groups, block.scope(), report);
    server.site.errors = block.get(|scope| &scope.errors).clone();
    let name = server.site.hosts.first().cloned();
    let named = named_locations(&locations);
    let errors = server.site.errors.clone();
    let pages = block.all(Kind::Response(ResponseKind::ErrorPage));
    pages.into_iter().for_each(|d| check_name(d, &named, report));
    let context = Context {
        errors: &errors,
        named: &named,
        groups: &http.groups,
        zones: &http.zones,
        connection_zones: &http.connection_zones,
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
    mounts.server(&block, report);
    mounts.scripts(report);
    let of_locations = locations.iter().flat_map(|d| d.children());
    for d in of_locations.filter(|d| d.name == "index" && script_of(d).is_some()) {
        report.refuse(d, "a script for directories is that of the whole server");
    }
    if let Some(d) = block.scope().index_script.peek() {
        mounts.check_index_script(d, report);
    }
    mounts.add_within();
    mounts.scripts_of_directories(report);
    mounts.check_scripts_in_place(at, report);
    mounts.check(report);
    // Pages have become mounts.
    mounts.scripts_of_directories(report);
    let of_locations = locations.iter().flat_map(|d| d.children());
    let pages = block.all(Kind::Response(ResponseKind::ErrorPage));
    for d in pages.into_iter().chain(of_locations.filter(|d| d.name == "error_page")) {
        mounts.check_status_of_page(d, report);
    }
    mounts.guard_behind_scripts(report);
    mounts.bare_directories(report);
    mounts.by_values(&block.scope().value_maps, report);
    mounts.satisfy_any(at, report);
    mounts.headers(report);
    lift(&mut server.site);
    block.finish_server(report);
    server
}

/// Takes the addresses off at which a server without names rejects TLS handshakes: hurtle rejects
/// those for unknown names where no site is the default.
fn reject_handshakes(block: &Block<'_>, server: &mut Server<'_>, report: &mut Report) {
    let found = block.take(Kind::Structure(StructureKind::SslRejectHandshake));
    let Some(d) = found else { return };
    if server.tls.is_empty() || d.arg(0) != "on" {
        return report.leave_out(d);
    }
    if !server.site.hosts.is_empty() {
        return report.refuse(d, "names whose handshakes are rejected are left out of all sites");
    }
    report.remark(d, "TLS for unknown names is rejected where no site is the default");
    server.rejected = std::mem::take(&mut server.tls);
    server.site.tls.clear();
}

/// Takes the directives that are a server's own: addresses, names and certificates.
fn own_keys(block: &Block<'_>, server: &mut Server<'_>, report: &mut Report) {
    // It was the way to write `listen … ssl` until nginx 1.25.
    let ssl = block.take(Kind::Structure(StructureKind::Ssl));
    let is_tls = ssl.is_some_and(|d| d.arg(0) == "on");
    for d in block.take_all(Kind::Structure(StructureKind::Listen)) {
        listen(d, is_tls, server, report);
    }
    if is_tls && server.tls.is_empty() {
        server.tls.push("0.0.0.0:80".to_owned());
    }
    for d in block.take_all(Kind::Structure(StructureKind::ServerName)) {
        names(d, &mut server.site.hosts, report);
    }
    for kind in [
        StructureKind::SslCertificate,
        StructureKind::SslCertificateKey,
        // Before the keys that need it.
        StructureKind::SslVerifyClient,
        StructureKind::SslClientCertificate,
        StructureKind::SslCrl,
    ] {
        for d in block.take_all(Kind::Structure(kind)) {
            let is_of_clients =
                matches!(kind, StructureKind::SslClientCertificate | StructureKind::SslCrl);
            let verifies = server.site.tls.iter().any(|(key, _)| key == "client_auth");
            if server.tls.is_empty() {
                report.remark(d, "it is left out: the server has no listen with ssl");
            } else if is_of_clients && !verifies {
                report.remark(d, "it is left out: ssl_verify_client is off");
            } else {
                certificate(d, &mut server.site.tls, report);
            }
        }
    }
}
