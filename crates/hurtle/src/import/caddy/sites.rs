//! Makes sites of hurtle from those of Caddy: listeners, certificates, and the one access log.

use super::address::Address;
use super::global::Global;
use super::site::{CaddySite, Log};
use crate::import::mount::{Keys, ServerConfig, Site, put, put_list};
use crate::import::report::Report;

/// A site with its addresses of one channel.
struct Part {
    site: Site,
    clear: Vec<String>,
    tls: Vec<String>,
}

/// Adds the addresses and the sites.
pub(super) fn add(
    sites: &[CaddySite<'_>],
    global: &Global,
    out: &mut ServerConfig,
    report: &mut Report,
) {
    let mut parts: Vec<Part> = Vec::new();
    for site in sites.iter().filter(|site| !site.is_redirect) {
        parts.extend(parts_of(site, sites, global));
    }
    for site in sites.iter().filter(|site| site.is_redirect) {
        let is_covered = parts.iter().any(|part| !part.tls.is_empty());
        match is_covered {
            true => report.general(
                "Redirects to HTTPS have the status 308, which keeps the method".to_owned(),
            ),
            false => report.refuse(site.at, "no site has a certificate"),
        }
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
    let uses_acme = parts.iter().any(|part| {
        part.site
            .tls
            .iter()
            .any(|(key, value)| key == "certificate" && value.as_str() == Some("auto"))
    });
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
    // A name in a more special site comes first in Caddy; in hurtle a name is always before a wildcard.
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

/// The parts of a site: its names in clear, and those with TLS.
fn parts_of(site: &CaddySite<'_>, sites: &[CaddySite<'_>], global: &Global) -> Vec<Part> {
    let mut ports: Vec<(bool, &str)> = Vec::new();
    for address in &site.addresses {
        if !ports.contains(&(address.is_tls, &address.port)) {
            ports.push((address.is_tls, &address.port));
        }
    }
    let mut parts: Vec<Part> = Vec::new();
    for (is_tls, port) in ports {
        let is_of = |address: &&Address| address.is_tls == is_tls && address.port == port;
        let names = site.addresses.iter().filter(is_of).map(|address| address.host.clone());
        let mut hosts: Vec<String> = names.collect();
        if hosts.iter().any(String::is_empty) {
            hosts.clear();
        }
        let addresses = listeners(&site.interfaces, port);
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
        match is_tls {
            true => part.tls.extend(addresses),
            false => part.clear.extend(addresses),
        }
    }
    for part in &mut parts {
        finish(part, site, global);
    }
    parts
}

/// Adds the port from which requests are redirected to HTTPS.
fn finish(part: &mut Part, site: &CaddySite<'_>, global: &Global) {
    if part.tls.is_empty() {
        part.site.tls.clear();
    } else if !part.clear.is_empty() {
        put(&mut part.site.tls, "redirect", false);
    } else if global.redirects && !part.site.hosts.is_empty() {
        part.clear = listeners(&site.interfaces, &global.http_port);
    }
}

/// Addresses on a port: of these interfaces, or of all.
fn listeners(interfaces: &[String], port: &str) -> Vec<String> {
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
fn access_log(sites: &[CaddySite<'_>], report: &mut Report) -> Option<Log> {
    let logs =
        || sites.iter().filter_map(|site| site.log.as_ref()).filter(|log| !log.path.is_empty());
    let first = logs().next()?.clone();
    if logs().any(|log| *log != first) {
        report.general(format!("There is one access log for all sites, {}", first.path));
    }
    Some(first)
}
