//! Makes the sites of hurtle from the servers of nginx: one site answers in clear and by TLS.

use super::mount::{ServerConfig, Site, put, put_list};
use super::report::Report;
use super::server::Server;

/// Adds the addresses and the sites.
pub(super) fn add(servers: &[Server<'_>], out: &mut ServerConfig, report: &mut Report) {
    let clear = addresses(servers, |server| &server.clear, report);
    let tls = addresses(servers, |server| &server.tls, report);
    elsewhere(servers, [&clear, &tls], report);
    put_list(&mut out.keys, "listen", &clear);
    put_list(&mut out.keys, "listen_tls", &tls);
    let mut sites: Vec<Site> = Vec::new();
    for server in servers.iter().filter(|server| !server.is_redirect) {
        let mut site = server.site.clone();
        if !server.tls.is_empty() && !clear.is_empty() {
            let redirects = server.clear.is_empty() && !is_served_in_clear(server, servers);
            put(&mut site.tls, "redirect", redirects);
        }
        if server.tls.is_empty() {
            site.tls.clear();
        }
        let known = sites.iter_mut().find(|known| shares_name(known, &site));
        match known {
            None => sites.push(site),
            Some(known) if is_same(known, &site) => {
                if known.tls.is_empty() {
                    known.tls = site.tls;
                }
            }
            Some(_) => report.refuse(
                server.at,
                "another server of the same name answers differently; a site of hurtle has the \
                 same content in clear and by TLS",
            ),
        }
    }
    redirects(servers, &mut sites, report);
    choose_default(servers, &mut sites, report);
    out.sites = sites;
}

/// The addresses of all servers, which must be the same for each of them.
fn addresses(
    servers: &[Server<'_>],
    of: for<'s> fn(&'s Server<'_>) -> &'s Vec<String>,
    report: &mut Report,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for server in servers {
        let own = of(server);
        let is_missing = |address: &String| !own.contains(address);
        if !own.is_empty() && !all.is_empty() && all.iter().any(is_missing) {
            report.refuse(
                server.at,
                "it has other addresses than the servers before it; hurtle's sites answer on every \
                 address: import it as a configuration of its own",
            );
        }
        if !all.is_empty() && own.iter().any(|address| !all.contains(address)) {
            report.refuse(server.at, "it has more addresses than the servers before it");
        }
        for address in own {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
    }
    all
}

/// Refuses a server that would also answer on other interfaces than in nginx: one in clear on
/// 127.0.0.1 beside another by TLS on all addresses.
fn elsewhere(servers: &[Server<'_>], all: [&Vec<String>; 2], report: &mut Report) {
    for server in servers.iter().filter(|server| !server.is_redirect) {
        let own: Vec<&str> = server.clear.iter().chain(&server.tls).map(|a| interface(a)).collect();
        let is_everywhere = own.iter().any(|own| matches!(*own, "0.0.0.0" | "[::]"));
        let other = all.into_iter().flatten().find(|other| !own.contains(&interface(other)));
        if let (false, Some(other)) = (is_everywhere, other) {
            let why = format!(
                "hurtle's sites answer on every address, also on {other}: import it as a \
                 configuration of its own"
            );
            report.refuse(server.at, why);
        }
    }
}

/// An address without its port.
fn interface(address: &str) -> &str {
    match address.starts_with("unix:") {
        true => address,
        false => address.rsplit_once(':').map_or(address, |(interface, _)| interface),
    }
}

fn is_served_in_clear(server: &Server<'_>, servers: &[Server<'_>]) -> bool {
    servers
        .iter()
        .filter(|other| !other.clear.is_empty() && !other.is_redirect)
        .any(|other| shares_name(&other.site, &server.site))
}

fn shares_name(one: &Site, other: &Site) -> bool {
    let is_shared = |host: &String| other.hosts.contains(host);
    one.hosts.iter().any(is_shared) || (one.hosts.is_empty() && other.hosts.is_empty())
}

/// `true` if two sites differ in TLS only.
fn is_same(one: &Site, other: &Site) -> bool {
    let without = |site: &Site| Site { tls: Vec::new(), ..site.clone() };
    without(one) == without(other)
}

/// Handles servers that redirect to HTTPS: sites with a certificate do so themselves.
fn redirects(servers: &[Server<'_>], sites: &mut [Site], report: &mut Report) {
    for server in servers.iter().filter(|server| server.is_redirect) {
        let has_site = |host: &String| {
            sites.iter().any(|site| !site.tls.is_empty() && site.hosts.contains(host))
        };
        if let Some(host) = server.site.hosts.iter().find(|host| !has_site(host)) {
            report.refuse(server.at, format!("no server has {host} and a certificate"));
        }
        if server.site.hosts.is_empty() && !sites.iter().any(|site| !site.tls.is_empty()) {
            report.refuse(server.at, "no server has a certificate");
        }
        report.general(
            "Redirects to HTTPS have the status 308, which keeps the method, in place of 301"
                .to_owned(),
        );
    }
}

/// Chooses the site of unknown names: the first server of an address, or its default_server.
fn choose_default(servers: &[Server<'_>], sites: &mut [Site], report: &mut Report) {
    let mut chosen: Vec<usize> = Vec::new();
    let listeners: [fn(&Server<'_>) -> bool; 2] = [|s| !s.clear.is_empty(), |s| !s.tls.is_empty()];
    for listens in listeners {
        let of_kind = || servers.iter().filter(|server| listens(server));
        let default = of_kind().find(|server| server.is_default).or_else(|| of_kind().next());
        let Some(default) = default else { continue };
        let site = sites.iter().position(|site| {
            shares_name(site, &default.site) && (!default.is_redirect || !site.hosts.is_empty())
        });
        if let Some(site) = site.filter(|site| !chosen.contains(site)) {
            chosen.push(site);
        }
    }
    if chosen.len() > 1 {
        report.general(
            "nginx has different default servers in clear and by TLS; the one in clear is chosen"
                .to_owned(),
        );
    }
    if let Some(site) = chosen.first().and_then(|&site| sites.get_mut(site)) {
        site.is_default = true;
    }
}
