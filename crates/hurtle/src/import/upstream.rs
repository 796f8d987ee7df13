//! `upstream` blocks, and the addresses of `proxy_pass` and `fastcgi_pass`.

use std::collections::BTreeMap;

use super::report::Report;
use super::syntax::Directive;

/// A group of servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) servers: Vec<String>,
    pub(super) balance: Option<&'static str>,
}

/// Groups by name.
pub(super) type Groups = BTreeMap<String, Group>;

/// Reads an `upstream` block.
pub(super) fn group(block: &Directive, report: &mut Report) -> Group {
    let mut group = Group::default();
    for d in block.children() {
        match d.name.as_str() {
            "server" => group.servers.extend(server(d, report)),
            "least_conn" => group.balance = Some("least-connections"),
            "ip_hash" => group.balance = Some("hash-address"),
            "hash" if d.arg(0) == "$request_uri" || d.arg(0) == "$uri" => {
                group.balance = Some("hash-path");
            }
            "hash" if d.arg(0) == "$remote_addr" => group.balance = Some("hash-address"),
            // Idle connections are always kept.
            "keepalive" | "keepalive_timeout" | "keepalive_requests" | "zone" => {
                report.leave_out(d);
            }
            _ => report.refuse(d, "hurtle balances in turn, by connections, by address or by path"),
        }
    }
    group
}

fn server(d: &Directive, report: &mut Report) -> Option<String> {
    for option in d.args.iter().skip(1) {
        match option.split('=').next().unwrap_or_default() {
            "down" => return None,
            "weight" if option == "weight=1" => {}
            "max_fails" | "fail_timeout" => report.remark(
                d,
                "an upstream that fails three times in a row rests for ten seconds; `health` checks \
                 it actively",
            ),
            _ => report.refuse(d, format!("upstreams have no `{option}`")),
        }
    }
    Some(address(d.arg(0)))
}

/// An address with its port: 80 unless it is written.
fn address(text: &str) -> String {
    let after_bracket = text.rsplit(']').next().unwrap_or(text);
    match text.starts_with("unix:") || after_bracket.contains(':') {
        true => text.to_owned(),
        false => format!("{text}:80"),
    }
}

/// The upstreams of a `proxy_pass`, and its URI if it has one.
pub(super) struct Pass {
    pub(super) upstreams: Vec<String>,
    pub(super) balance: Option<&'static str>,
    pub(super) uri: Option<String>,
}

/// Reads `proxy_pass`.
pub(super) fn proxy_pass(d: &Directive, groups: &Groups, report: &mut Report) -> Option<Pass> {
    let url = d.arg(0);
    if url.contains('$') {
        report.refuse(d, "it needs variables");
        return None;
    }
    let Some(rest) = url.strip_prefix("http://") else {
        report.refuse(d, "upstreams speak HTTP in clear (http://)");
        return None;
    };
    let (host, uri) = match rest.strip_prefix("unix:") {
        Some(path) => match path.split_once(':') {
            Some((path, uri)) => (format!("unix:{path}"), Some(uri.to_owned())),
            None => (rest.to_owned(), None),
        },
        None => match rest.find('/') {
            Some(at) => (rest[..at].to_owned(), Some(rest[at..].to_owned())),
            None => (rest.to_owned(), None),
        },
    };
    let group = groups.get(&host).cloned();
    let group = group.unwrap_or_else(|| Group { servers: vec![address(&host)], balance: None });
    let upstreams = group.servers.iter().map(|server| match server.starts_with("unix:") {
        true => server.clone(),
        false => format!("http://{server}"),
    });
    let upstreams: Vec<String> = upstreams.collect();
    if upstreams.is_empty() {
        report.refuse(d, "its upstream has no server");
    }
    Some(Pass { upstreams, balance: group.balance, uri })
}

/// Reads `fastcgi_pass`; returns one address.
pub(super) fn fastcgi_pass(d: &Directive, groups: &Groups, report: &mut Report) -> Option<String> {
    match groups.get(d.arg(0)).map(|group| group.servers.as_slice()) {
        _ if d.arg(0).contains('$') => report.refuse(d, "it needs variables"),
        Some([one]) => return Some(one.clone()),
        Some(_) => report.refuse(d, "hurtle has one address for a FastCGI application"),
        None => return Some(d.arg(0).to_owned()),
    }
    None
}
