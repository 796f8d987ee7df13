//! Servers that only redirect to HTTPS: the sites with a certificate do so themselves.

use super::block::{Block, Target};
use super::kind::{HandlerKind, Kind, PathKind, StructureKind};
use super::modifier::{Modifier, modifier};
use super::redirect::AS_SENT;
use super::report::Report;
use super::server::Server;
use super::server_keys::names;
use super::syntax::Directive;

const RETURN: Kind = Kind::Handler(HandlerKind::Return);
const LOCATION: Kind = Kind::Structure(StructureKind::Location);
const IF: Kind = Kind::Path(PathKind::If);

/// The names of the servers that have TLS.
#[derive(Debug, Default)]
pub(super) struct TlsNames {
    names: Vec<String>,
    is_empty: bool,
    /// `true`: the first address with TLS has the port of https.
    has_default_port: bool,
}

impl TlsNames {
    /// Reads the servers of `http`.
    pub(super) fn of(servers: &[&Directive]) -> TlsNames {
        let is_tls = |d: &Directive| match d.name.as_str() {
            "listen" => d.args.iter().any(|arg| arg == "ssl"),
            "ssl" => d.arg(0) == "on",
            _ => false,
        };
        let with_tls: Vec<_> =
            servers.iter().filter(|server| server.children().iter().any(is_tls)).collect();
        let mut listens = with_tls.iter().flat_map(|server| server.children());
        let first = listens.find(|d| d.name == "listen" && d.args.iter().any(|arg| arg == "ssl"));
        let port = first.map_or("443", |d| d.arg(0).rsplit(':').next().unwrap_or_default());
        let mut found = TlsNames {
            names: Vec::new(),
            is_empty: with_tls.is_empty(),
            has_default_port: port == "443",
        };
        let written = with_tls.into_iter().flat_map(|server| server.children());
        for d in written.filter(|d| d.name == "server_name") {
            // Names that are refused are those of the server itself.
            names(d, &mut found.names, &mut Report::default());
        }
        found
    }

    /// Returns whether a site with TLS has each of these names, or there is one if these are none,
    /// and hurtle redirects to it without a port.
    fn have(&self, names: &[String]) -> bool {
        !self.is_empty
            && self.has_default_port
            && names.iter().all(|name| self.names.contains(name))
    }
}

/// Translates a server that only redirects its own names to HTTPS; `false`: it is another one.
pub(super) fn translate(
    block: &Block<'_>,
    server: &Server<'_>,
    tls: &TlsNames,
    report: &mut Report,
) -> bool {
    let is_own = server.tls.is_empty() && tls.have(&server.site.hosts);
    if !is_own || !is_https_redirect(block, server) {
        return false;
    }
    report.general(AS_SENT.to_owned());
    block.take(RETURN);
    block.take(IF);
    block.take(LOCATION);
    block.finish(Target::HttpsRedirect, report);
    true
}

fn is_https_redirect(block: &Block<'_>, server: &Server<'_>) -> bool {
    let names = server.site.hosts.as_slice();
    // The name that nginx has for $server_name.
    let first = names.first().map_or("", String::as_str);
    // A redirect of these names, each to itself.
    let keeps_name = |d: &Directive, names: &[String]| {
        let host = d.arg(1).strip_prefix("https://").and_then(|to| to.strip_suffix("$request_uri"));
        let is_only = |name: &str| !names.is_empty() && names.iter().all(|own| own == name);
        d.name == "return"
            // A site with TLS redirects for good.
            && matches!(d.arg(0), "301" | "308")
            && match host {
                Some("$host" | "$http_host") => true,
                Some("$server_name") => is_only(first),
                Some(name) => is_only(name),
                None => false,
            }
    };
    let is_redirect = |d: &Directive| keeps_name(d, names);
    let conditions = block.all(IF);
    let locations = block.all(LOCATION);
    let in_root = match locations.as_slice() {
        [root] => {
            let is_root = matches!(modifier(root), Some((Modifier::Prefix | Modifier::Final, "/")));
            is_root && root.children().iter().all(is_redirect) && !root.children().is_empty()
        }
        _ => false,
    };
    let name_of = |d: &Directive| d.arg(2).trim_end_matches(')').to_owned();
    // Names without a condition are 404.
    let has_condition = |name: &String| conditions.iter().any(|d| name_of(d) == *name);
    let by_host = !names.is_empty()
        && names.iter().all(has_condition)
        && conditions.iter().all(|d| {
            let name = [name_of(d)];
            let is_redirect = |inner: &Directive| keeps_name(inner, &name);
            d.arg(0) == "($host" && d.arg(1) == "=" && d.children().iter().all(is_redirect)
        });
    match block.first(&[RETURN]) {
        Some(d) if is_redirect(d) => conditions.is_empty() && locations.is_empty(),
        Some(d) => d.arg(0) == "404" && by_host && locations.is_empty(),
        None => in_root && conditions.is_empty(),
    }
}
