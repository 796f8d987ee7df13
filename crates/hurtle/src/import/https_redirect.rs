//! Servers that only redirect to HTTPS: the sites with a certificate do so themselves.

use super::block::{Block, Target};
use super::kind::{HandlerKind, Kind, PathKind, StructureKind};
use super::modifier::{Modifier, modifier};
use super::report::Report;
use super::server::Server;
use super::syntax::Directive;

const RETURN: Kind = Kind::Handler(HandlerKind::Return);
const LOCATION: Kind = Kind::Structure(StructureKind::Location);
const IF: Kind = Kind::Path(PathKind::If);

/// Translates a server that only redirects its own names to HTTPS; `false`: it is another one.
pub(super) fn translate(block: &Block<'_>, server: &Server<'_>, report: &mut Report) -> bool {
    if !server.tls.is_empty() || !is_https_redirect(block, server) {
        return false;
    }
    block.take(RETURN);
    block.take(IF);
    for d in block.take_all(LOCATION).iter().filter(|d| is_challenge(d)) {
        report.refuse(
            d,
            "a site that redirects to HTTPS sends nothing else in clear; write this location in \
             the server with ssl, which the redirect reaches, or certificate = \"auto\" (https.md)",
        );
    }
    block.finish(Target::HttpsRedirect, report);
    true
}

fn is_https_redirect(block: &Block<'_>, server: &Server<'_>) -> bool {
    let is_redirect = |d: &Directive| {
        let host = d.arg(1).strip_prefix("https://").and_then(|to| to.strip_suffix("$request_uri"));
        d.name == "return"
            && matches!(d.arg(0), "301" | "302" | "307" | "308")
            && host.is_some_and(|host| {
                matches!(host, "$host" | "$server_name" | "$http_host")
                    || server.site.hosts.iter().any(|own| own == host)
            })
    };
    let conditions = block.all(IF);
    let locations = block.all(LOCATION);
    let others: Vec<_> = locations.iter().filter(|d| !is_challenge(d)).collect();
    let in_root = match others.as_slice() {
        [root] => {
            let is_root = matches!(modifier(root), Some((Modifier::Prefix | Modifier::Final, "/")));
            is_root && root.children().iter().all(is_redirect) && !root.children().is_empty()
        }
        _ => false,
    };
    let by_host = !conditions.is_empty()
        && conditions.iter().all(|d| {
            d.arg(0) == "($host" && d.arg(1) == "=" && d.children().iter().all(is_redirect)
        });
    match block.first(&[RETURN]) {
        Some(d) if is_redirect(d) => conditions.is_empty() && others.is_empty(),
        Some(d) => d.arg(0) == "404" && by_host && others.is_empty(),
        None => in_root && conditions.is_empty(),
    }
}

/// `true` for a location of the challenges of ACME (RFC 8555 section 8.3).
fn is_challenge(location: &Directive) -> bool {
    location.args.iter().any(|arg| arg.starts_with("/.well-known"))
}
