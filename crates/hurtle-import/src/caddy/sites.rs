//! Makes sites of hurtle from those of Caddy: listeners, certificates, and the one access log.

use super::address::{self, Address};
use super::global::Global;
use super::site::{CaddySite, Log};
use crate::mount::{Keys, ServerConfig, Site, put, put_list};
use crate::report::Report;
use crate::syntax::Directive;

/// A site with its addresses of one channel.
struct Part {
    site: Site,
    clear: Vec<String>,
    tls: Vec<String>,
}

/// Adds the addresses and the sites.
pub(super) fn add(
    sites: &[CaddySite],
    global: &Global,
    out: &mut ServerConfig,
    report: &mut Report,
) {
    let mut parts: Vec<Part> = Vec::new();
    let (own, others): (Vec<&CaddySite>, Vec<&CaddySite>) =
        sites.iter().partition(|site| is_own_redirect(site, sites, global));
    for site in &others {
        site.redirect.iter().for_each(|own| report.join(own));
        parts.extend(parts_of(site, &others, global));
    }
    if !own.is_empty() {
        report.general("Redirects to HTTPS have the status 308, which keeps the method".to_owned());
    }
    let all = |of: fn(&Part) -> &Vec<String>| {
        let mut all: Vec<String> = Vec::new();
        for address in parts.iter().flat_map(of) {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        all
    };
    let (clear, tls) = (all(|part| &part.clear), all(|part| &part.tls));
    let uses_acme = parts.iter().any(|part| certificate(&part.site) == Some("auto"));
    if parts.iter().any(|part| certificate(&part.site) == Some("local")) {
        report.general(
            "Local certificates are those of an authority of hurtle, which clients must trust: \
             `hurtle trust`"
                .to_owned(),
        );
    }
    put_list(&mut out.keys, "listen", &clear);
    put_list(&mut out.keys, "listen_tls", &tls);
    global.write(uses_acme, out, report);
    let is_alike = parts.iter().all(|part| part.clear == clear && part.tls == tls);
    if let Some(log) = access_log(sites, report) {
        let mut keys = Keys::new();
        if log.is_json {
            put(&mut keys, "format", "json");
        }
        put(&mut keys, "path", log.path.as_str());
        out.tables.push(("access_log", keys));
    }
    // A name in a more special site comes first in Caddy; in hurtle a name is always before a
    // wildcard.
    out.sites = parts
        .into_iter()
        .map(|part| {
            let listen = if is_alike { Vec::new() } else { [part.clear, part.tls].concat() };
            Site { listen, is_default: part.site.hosts.is_empty(), ..part.site }
        })
        .collect();
    if out.sites.iter().all(|site| !site.hosts.is_empty()) {
        report
            .general("An unknown name gets 421; Caddy answers it with 200 and no body".to_owned());
    }
}

/// `true` for a site of redirects to HTTPS that hurtle makes by itself for the same names and port.
fn is_own_redirect(site: &CaddySite, sites: &[CaddySite], global: &Global) -> bool {
    let leads_to = |host: &str, other: &Address| {
        other.is_tls && !other.host.is_empty() && (host.is_empty() || other.host == host)
    };
    let has_tls = |host: &str| {
        let others = sites.iter().filter(|other| other.redirect.is_none());
        others.flat_map(|other| &other.addresses).any(|other| leads_to(host, other))
    };
    let is_own = |address: &Address| address.port == global.http_port && has_tls(&address.host);
    site.redirect.is_some() && global.redirects && site.addresses.iter().all(is_own)
}

/// The source of a site's certificate, `auto`, `local` or a file.
fn certificate(site: &Site) -> Option<&str> {
    let written = site.tls.iter().find(|(key, _)| *key == "certificate");
    written.and_then(|(_, value)| value.as_str())
}

/// The parts of a site: its names in clear, and those with TLS.
fn parts_of(site: &CaddySite, sites: &[&CaddySite], global: &Global) -> Vec<Part> {
    let is_automatic = certificate(&site.site) == Some("auto");
    // Names with a local certificate are a site of their own, and so are those without a redirect.
    let kind = |address: &Address| {
        let is_local = address.is_tls && is_automatic && address::is_local(&address.host);
        let is_taken = address.is_tls && is_taken(&address.host, sites, global);
        (address.is_tls, address.port.clone(), is_local, is_taken)
    };
    let mut kinds: Vec<(bool, String, bool, bool)> = Vec::new();
    for address in &site.addresses {
        if !kinds.contains(&kind(address)) {
            kinds.push(kind(address));
        }
    }
    let mut parts: Vec<Part> = Vec::new();
    for (is_tls, port, is_local, is_taken) in kinds {
        let own = (is_tls, port.clone(), is_local, is_taken);
        let is_of = |address: &&Address| kind(address) == own;
        let names = site.addresses.iter().filter(is_of).map(|address| address.host.clone());
        let mut hosts: Vec<String> = names.collect();
        if hosts.iter().any(String::is_empty) {
            hosts.clear();
        }
        let addresses = listeners(&site.interfaces, &port);
        let known = parts.iter_mut().find(|part| part.site.hosts == hosts);
        let part = match known {
            Some(part) => part,
            None => {
                let mut own = site.site.clone();
                own.hosts = hosts;
                if site.log.as_ref().is_none_or(|log| log.path.is_empty())
                    && sites.iter().any(|other| other.log.is_some())
                {
                    put(&mut own.keys, "access_log", false);
                }
                parts.push(Part { site: own, clear: Vec::new(), tls: Vec::new() });
                match parts.last_mut() {
                    Some(part) => part,
                    None => continue,
                }
            }
        };
        if is_local {
            part.site.tls.retain(|(key, _)| key != "certificate" && key != "on_demand");
            part.site.tls.insert(0, ("certificate".to_owned(), "local".into()));
        }
        match is_tls {
            true => part.tls.extend(addresses),
            false => part.clear.extend(addresses),
        }
    }
    for part in &mut parts {
        let has_main = has_main_port(part, sites, global);
        let is_taken = part.site.hosts.iter().any(|host| is_taken(host, sites, global));
        finish(part, site, global, (has_main, is_taken));
    }
    parts
}

/// `true` if another site has a name of this part on the port of HTTPS, which this part does not
/// listen on: redirects lead there.
fn has_main_port(part: &Part, sites: &[&CaddySite], global: &Global) -> bool {
    let end = format!(":{}", global.https_port);
    let is_main = |address: &Address| {
        address.is_tls
            && address.port == global.https_port
            && part.site.hosts.contains(&address.host)
    };
    !part.tls.iter().any(|address| address.ends_with(&end))
        && sites.iter().any(|site| site.addresses.iter().any(is_main))
}

/// `true` if a site answers requests in clear for a name, on the port whose requests would be
/// redirected to HTTPS otherwise.
fn is_taken(host: &str, sites: &[&CaddySite], global: &Global) -> bool {
    let is_of = |address: &Address| {
        !address.is_tls && address.port == global.http_port && address.host == host
    };
    !host.is_empty() && sites.iter().flat_map(|site| &site.addresses).any(is_of)
}

/// Adds the port from which requests are redirected to HTTPS.
fn finish(
    part: &mut Part,
    site: &CaddySite,
    global: &Global,
    (has_main_port, is_taken): (bool, bool),
) {
    if part.tls.is_empty() {
        part.site.tls.clear();
    } else if !part.clear.is_empty() || is_taken {
        put(&mut part.site.tls, "redirect", false);
    } else if global.redirects && !part.site.hosts.is_empty() && !has_main_port {
        part.clear = listeners(&site.interfaces, &global.http_port);
    }
}

/// The addresses of `bind` in a site, or those of all sites; empty: all interfaces.
pub(super) fn interfaces(site: &Directive, global: &Global) -> Vec<String> {
    let bind = site.children().iter().filter(|line| line.name == "bind");
    let own: Vec<String> = bind.flat_map(|line| line.args.iter().cloned()).collect();
    if own.is_empty() { global.default_bind.clone() } else { own }
}

/// Addresses on a port: of these interfaces, or of all.
pub(super) fn listeners(interfaces: &[String], port: &str) -> Vec<String> {
    let all = ["0.0.0.0".to_owned(), "[::]".to_owned()];
    let interfaces = if interfaces.is_empty() { &all[..] } else { interfaces };
    let address = |interface: &String| match interface.strip_prefix("unix/") {
        Some(path) => format!("unix:/{}", path.trim_start_matches('/')),
        None if interface.contains(':') && !interface.starts_with('[') => {
            format!("[{interface}]:{port}")
        }
        None => format!("{interface}:{port}"),
    };
    interfaces.iter().map(address).collect()
}

/// The access log of all sites: hurtle has one.
fn access_log(sites: &[CaddySite], report: &mut Report) -> Option<Log> {
    let logs =
        || sites.iter().filter_map(|site| site.log.as_ref()).filter(|log| !log.path.is_empty());
    let first = logs().next()?.clone();
    if logs().any(|log| *log != first) {
        report.general(format!("There is one access log for all sites, {}", first.path));
    }
    Some(first)
}
