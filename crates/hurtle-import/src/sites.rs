//! Makes the sites of hurtle from the servers of nginx: one site answers in clear and by TLS.

use super::mount::{ServerConfig, Site, put, put_list};
use super::report::Report;
use super::server::Server;

/// Adds the addresses and the sites. `rejected`: addresses without TLS for unknown names.
pub(super) fn add(
    servers: &[Server<'_>],
    rejected: &[String],
    out: &mut ServerConfig,
    report: &mut Report,
) {
    let clear = addresses(servers, |server| &server.clear);
    let tls = addresses(servers, |server| &server.tls);
    let is_alike = is_alike(servers, [&clear, &tls]);
    put_list(&mut out.keys, "listen", &clear);
    put_list(&mut out.keys, "listen_tls", &tls);
    let mut sites: Vec<Site> = Vec::new();
    for server in servers.iter().filter(|server| !server.is_redirect) {
        let mut site = server.site.clone();
        if !server.tls.is_empty() && !clear.is_empty() {
            put(&mut site.tls, "redirect", !is_served_in_clear(server, servers));
        }
        if server.tls.is_empty() {
            site.tls.clear();
        }
        if !is_alike {
            site.listen = listened(server, servers);
        }
        let known = sites.iter_mut().find(|known| shares_name(known, &site) && meets(known, &site));
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
    match is_alike {
        true if !tls.iter().any(|address| rejected.contains(address)) => {
            choose_default(servers, &mut sites, report);
        }
        true => report.general(
            "Unknown names get 421 in clear, and no TLS, as ssl_reject_handshake says: no site is the default"
                .to_owned(),
        ),
        false => choose_defaults(servers, rejected, &mut sites, report),
    }
    out.sites = sites;
}

/// Adds the address of IPv4 to servers on one of IPv6 whose socket takes both. The option of one
/// server holds for all on that address.
pub(super) fn add_ipv4(servers: &mut [Server<'_>]) {
    let dual = addresses(servers, |server| &server.dual);
    for server in servers {
        for own in [&mut server.clear, &mut server.tls, &mut server.defaults, &mut server.rejected]
        {
            let ports = dual.iter().filter(|address| own.contains(address));
            let ports = ports.filter_map(|address| address.strip_prefix("[::]:"));
            let more = ports.map(|port| format!("0.0.0.0:{port}"));
            let more: Vec<String> = more.filter(|address| !own.contains(address)).collect();
            own.extend(more);
        }
    }
}

/// The addresses by TLS whose default server rejects all handshakes.
pub(super) fn rejected(servers: &[Server<'_>]) -> Vec<String> {
    let all = addresses(servers, |server| &server.rejected);
    let is_of_default = |address: &String| {
        let is_at = |server: &&Server<'_>| {
            [&server.clear, &server.tls, &server.rejected].iter().any(|own| own.contains(address))
        };
        let default = servers.iter().find(|server| server.defaults.contains(address));
        let default = default.or_else(|| servers.iter().find(is_at));
        default.is_some_and(|default| default.rejected.contains(address))
    };
    all.into_iter().filter(is_of_default).collect()
}

/// The addresses of all servers, each once.
fn addresses(
    servers: &[Server<'_>],
    of: for<'s> fn(&'s Server<'_>) -> &'s Vec<String>,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for address in servers.iter().flat_map(of) {
        if !all.contains(address) {
            all.push(address.clone());
        }
    }
    all
}

/// `true` if every server has all addresses, those of the other channel aside, and none would
/// answer on other interfaces than in nginx: one in clear on 127.0.0.1 beside another by TLS on all
/// addresses.
fn is_alike(servers: &[Server<'_>], [clear, tls]: [&Vec<String>; 2]) -> bool {
    let has_all = |own: &Vec<String>, all: &Vec<String>| {
        own.is_empty() || all.iter().all(|address| own.contains(address))
    };
    // nginx has no TLS for a site in clear, unless another server has the same site by TLS.
    let is_clear = |one: &Server<'_>| {
        let has_same = |other: &Server<'_>| {
            !other.is_redirect
                && !other.tls.is_empty()
                && shares_name(&one.site, &other.site)
                && is_same(&one.site, &other.site)
        };
        !one.is_redirect && one.tls.is_empty() && !servers.iter().any(has_same)
    };
    let is_whole = tls.is_empty() || !servers.iter().any(is_clear);
    is_whole
        && servers.iter().all(|server| {
            let own: Vec<&str> =
                server.clear.iter().chain(&server.tls).map(|a| interface(a)).collect();
            let is_everywhere = own.iter().any(|own| matches!(*own, "0.0.0.0" | "[::]"));
            let others = [clear, tls].into_iter().flatten();
            let stays =
                is_everywhere || others.map(|a| interface(a)).all(|other| own.contains(&other));
            has_all(&server.clear, clear)
                && has_all(&server.tls, tls)
                && (stays || server.is_redirect)
        })
}

/// The addresses on which the site of a server answers: its own, and those from which others
/// redirect to it, or have the same site in the other channel.
fn listened(server: &Server<'_>, servers: &[Server<'_>]) -> Vec<String> {
    let mut own: Vec<String> = server.clear.iter().chain(&server.tls).cloned().collect();
    for other in servers {
        let is_shared = shares_name(&other.site, &server.site);
        let is_part = match other.is_redirect {
            // One without names redirects all. A site in clear does not redirect, and would send
            // its content on that address.
            true => {
                !server.tls.is_empty()
                    && (is_shared || other.site.hosts.is_empty())
                    && !is_served_in_clear(server, servers)
            }
            false => is_shared && is_same(&other.site, &server.site),
        };
        if is_part {
            let more =
                other.clear.iter().chain(&other.tls).filter(|address| !own.contains(address));
            let more: Vec<String> = more.cloned().collect();
            own.extend(more);
        }
    }
    own
}

/// `true` if both sites answer on an address.
fn meets(one: &Site, other: &Site) -> bool {
    one.listen.is_empty() || one.listen.iter().any(|address| other.listen.contains(address))
}

/// Chooses the sites of unknown names where each has addresses of its own.
fn choose_defaults(
    servers: &[Server<'_>],
    rejected: &[String],
    sites: &mut [Site],
    report: &mut Report,
) {
    let mut chosen: Vec<(usize, &String)> = Vec::new();
    let mut all: Vec<&String> = servers.iter().flat_map(|s| s.clear.iter().chain(&s.tls)).collect();
    all.sort();
    all.dedup();
    for address in all.into_iter().filter(|address| !rejected.contains(address)) {
        let site = default_at(servers, address).and_then(|default| {
            sites
                .iter()
                .position(|site| shares_name(site, &default.site) && site.listen.contains(address))
        });
        chosen.extend(site.map(|site| (site, address)));
    }
    for (number, site) in sites.iter_mut().enumerate() {
        let is_own = |(site, _): &&(usize, &String)| *site == number;
        let count = chosen.iter().filter(is_own).count();
        if count == site.listen.len() {
            site.is_default = true;
        } else if let Some((_, address)) = chosen.iter().find(is_own) {
            report.general(format!(
                "On {address} unknown names get 421: the default server of nginx there is not the default on \
                 all of its addresses"
            ));
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

/// `true` if a server that does more than redirect has a name of this one in clear.
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
    let without = |site: &Site| Site { tls: Vec::new(), listen: Vec::new(), ..site.clone() };
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
        name_lost(server, sites, report);
        report.general(
            "Redirects to HTTPS have the status 308, which keeps the method, in place of 301"
                .to_owned(),
        );
    }
}

/// Names the sites to which a redirect leads in nginx, and that have none of its addresses.
fn name_lost(server: &Server<'_>, sites: &[Site], report: &mut Report) {
    let names = &server.site.hosts;
    let led_to = sites.iter().filter(|site| !site.tls.is_empty()).flat_map(|site| &site.hosts);
    for host in led_to.filter(|host| names.is_empty() || names.contains(host)) {
        let is_at = |address: &String, site: &Site| {
            site.hosts.contains(host) && (site.listen.is_empty() || site.listen.contains(address))
        };
        let is_lost = |address: &&String| !sites.iter().any(|site| is_at(address, site));
        for address in server.clear.iter().filter(is_lost) {
            let text = format!(
                "on {address} {host} is 421, not redirected to HTTPS: it has a site in clear, \
                 which hurtle does not redirect: GET http://{host}/"
            );
            report.remark(server.at, &text);
        }
    }
}

/// Chooses the site of unknown names: the first server of an address, or its default_server.
fn choose_default(servers: &[Server<'_>], sites: &mut [Site], report: &mut Report) {
    let all =
        [addresses(servers, |server| &server.clear), addresses(servers, |server| &server.tls)];
    let mut chosen: Option<(usize, &String)> = None;
    for address in all.iter().flatten() {
        let Some(default) = default_at(servers, address) else { continue };
        let site = sites.iter().position(|site| {
            shares_name(site, &default.site) && (!default.is_redirect || !site.hosts.is_empty())
        });
        match (site, chosen) {
            (Some(site), None) => chosen = Some((site, address)),
            (Some(site), Some((first, at))) if site != first => report.general(format!(
                "nginx has another default server on {address} than on {at}, whose default is chosen"
            )),
            _ => {}
        }
    }
    if let Some(site) = chosen.and_then(|(site, _)| sites.get_mut(site)) {
        site.is_default = true;
    }
}

/// The server of unknown names at an address: its `default_server`, or the first one.
fn default_at<'s, 'a>(servers: &'s [Server<'a>], address: &String) -> Option<&'s Server<'a>> {
    let is_own =
        |server: &Server<'_>| [&server.clear, &server.tls].iter().any(|l| l.contains(address));
    let mut own = servers.iter().filter(|server| is_own(server));
    let default = servers.iter().find(|server| server.defaults.contains(address));
    default.or_else(|| own.next())
}
