//! `upstream` blocks, and the addresses of `proxy_pass`, `grpc_pass` and `fastcgi_pass`.

use std::collections::BTreeMap;

use toml::Value;

use super::mount::{Keys, put};
use super::path::seconds;
use super::report::Report;
use super::syntax::Directive;

/// A group of servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    servers: Vec<GroupServer>,
    balance: Option<&'static str>,
    hash_header: Option<String>,
    /// `max_fails` and `fail_timeout` in seconds, of all servers; `None`: none has them.
    failures: Option<(i64, u64)>,
}

/// A server of a group.
#[derive(Clone, Debug, Default)]
struct GroupServer {
    address: String,
    weight: Option<i64>,
    backup: bool,
    max_connections: Option<i64>,
}

/// `upstream` blocks by name.
pub(super) type Groups = BTreeMap<String, Group>;

/// Reads an `upstream` block.
pub(super) fn group(block: &Directive, report: &mut Report) -> Group {
    let mut group = Group::default();
    let mut failures = Vec::new();
    for d in block.children() {
        match d.name.as_str() {
            "server" => group.servers.extend(server(d, &mut failures, report)),
            "least_conn" => group.balance = Some("least-connections"),
            "ip_hash" => group.balance = Some("hash-address"),
            "hash" if d.arg(0) == "$request_uri" || d.arg(0) == "$uri" => {
                group.balance = Some("hash-path");
            }
            "hash" if matches!(d.arg(0), "$remote_addr" | "$binary_remote_addr") => {
                group.balance = Some("hash-address");
            }
            "hash" if d.arg(0).strip_prefix("$http_").is_some_and(is_variable_end) => {
                group.balance = Some("hash-header");
                group.hash_header = Some(d.arg(0)["$http_".len()..].replace('_', "-"));
            }
            // Idle connections are always kept.
            "keepalive" | "keepalive_timeout" | "keepalive_requests" | "zone" => {
                report.leave_out(d);
            }
            _ => report.refuse(
                d,
                "hurtle balances in turn, by connections, by address, by path or by a field",
            ),
        }
    }
    group.failures = failures.first().copied().flatten();
    if failures.iter().any(|other| *other != group.failures) {
        report.refuse(block, "write max_fails and fail_timeout alike for all of its servers");
    }
    group
}

/// `true` for the rest of a variable's name.
pub(super) fn is_variable_end(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn server(
    d: &Directive,
    failures: &mut Vec<Option<(i64, u64)>>,
    report: &mut Report,
) -> Option<GroupServer> {
    let mut server = GroupServer { address: address(d.arg(0), 80), ..GroupServer::default() };
    let (mut fails, mut rest) = (None, None);
    for option in d.args.iter().skip(1) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = || value.parse::<i64>().ok().filter(|number| *number >= 0);
        let is_known = match name {
            "down" => return None,
            // Names are looked up again, anyway.
            "resolve" => value.is_empty(),
            "backup" => {
                server.backup = true;
                true
            }
            "weight" => {
                server.weight = number().filter(|weight| *weight != 1);
                number().is_some()
            }
            "max_conns" => {
                // 0 is no limit.
                server.max_connections = number().filter(|max| *max > 0);
                number().is_some()
            }
            "max_fails" => {
                fails = number();
                fails.is_some()
            }
            "fail_timeout" => {
                rest = seconds(value);
                rest.is_some()
            }
            _ => false,
        };
        if !is_known {
            report.refuse(d, format!("upstreams have no `{option}`"));
        }
    }
    // The defaults of nginx: one failure, ten seconds.
    let is_set = fails.is_some() || rest.is_some();
    failures.push(is_set.then(|| (fails.unwrap_or(1), rest.unwrap_or(10))));
    Some(server)
}

/// An address with its port.
fn address(text: &str, port: u16) -> String {
    let after_bracket = text.rsplit(']').next().unwrap_or(text);
    match text.starts_with("unix:") || after_bracket.contains(':') {
        true => text.to_owned(),
        false => format!("{text}:{port}"),
    }
}

/// The upstreams of a `proxy_pass` or `grpc_pass`, and its URI if it has one.
pub(super) struct Pass {
    group: Group,
    is_tls: bool,
    /// `true`: `grpc_pass`, which uses HTTP/2.
    is_http2: bool,
    /// The host of the URL, or the name of the group.
    pub(super) host: String,
    pub(super) uri: Option<String>,
    /// The path that takes the place of the location's; empty: none.
    base: String,
}

/// Reads `proxy_pass` or `grpc_pass`.
pub(super) fn proxy_pass(d: &Directive, groups: &Groups, report: &mut Report) -> Option<Pass> {
    let url = d.arg(0);
    if url.contains('$') {
        report.refuse(d, "it needs variables");
        return None;
    }
    let is_http2 = d.name == "grpc_pass";
    let (clear, secure) = if is_http2 { ("grpc://", "grpcs://") } else { ("http://", "https://") };
    let (rest, is_tls) = match (url.strip_prefix(clear), url.strip_prefix(secure)) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        // `grpc_pass` also takes an address alone.
        _ if is_http2 => (url, false),
        _ => {
            report.refuse(d, "upstreams have http:// or https:// URLs");
            return None;
        }
    };
    if is_tls && rest.starts_with("unix:") {
        report.refuse(d, "upstreams on unix sockets speak HTTP in clear");
        return None;
    }
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
    let alone = || GroupServer {
        address: address(&host, if is_tls { 443 } else { 80 }),
        ..GroupServer::default()
    };
    let group = groups.get(&host).cloned();
    let group = group.unwrap_or_else(|| Group { servers: vec![alone()], ..Group::default() });
    if group.servers.is_empty() {
        report.refuse(d, "its upstream has no server");
    }
    Some(Pass { group, is_tls, is_http2, host, uri, base: String::new() })
}

impl Pass {
    /// `true`: connections use TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Has the upstream get `uri` in place of the location's path; `false`: it would get another
    /// path than behind nginx, which replaces the text.
    pub(super) fn replace_path(&mut self, path: &str, uri: String) -> bool {
        let is_alike = path.ends_with('/') == uri.ends_with('/');
        let is_unix = |server: &GroupServer| server.address.starts_with("unix:");
        let is_plain = !uri.contains("//") && !uri.contains(['?', '#', ';']);
        let is_same = is_alike && is_plain && !self.group.servers.iter().any(is_unix);
        if is_same {
            self.base = uri;
        }
        is_same
    }

    /// `true`: the upstream gets another path in place of the location's.
    pub(super) fn replaces_path(&self) -> bool {
        !self.base.is_empty()
    }

    /// The URL of its only server, without a path; `None`: it has several.
    pub(super) fn only(&self) -> Option<String> {
        match self.group.servers.as_slice() {
            [one] => Some(self.url(one)),
            _ => None,
        }
    }

    fn url(&self, server: &GroupServer) -> String {
        let scheme = match (server.address.strip_prefix("unix:"), self.is_tls, self.is_http2) {
            (Some(path), _, true) => return format!("unix+h2c:{path}"),
            (Some(_), _, false) => return server.address.clone(),
            (None, false, false) => "http",
            (None, true, false) => "https",
            (None, false, true) => "h2c",
            (None, true, true) => "h2",
        };
        format!("{scheme}://{}", server.address)
    }

    /// Adds the keys of its servers and of the choice among them.
    pub(super) fn put(&self, d: &Directive, keys: &mut Keys, report: &mut Report) {
        let servers: Vec<Value> = self.group.servers.iter().map(|one| self.server(one)).collect();
        match <[Value; 1]>::try_from(servers) {
            Ok([one]) => put(keys, "proxy", one),
            Err(several) => put(keys, "proxy", several),
        }
        if self.group.servers.len() > 1 {
            if let Some(balance) = self.group.balance {
                put(keys, "balance", balance);
            }
            if let Some(name) = &self.group.hash_header {
                put(keys, "hash_header", name.clone());
            }
            if let Some((fails, rest)) = self.group.failures {
                let mut ejection = toml::Table::new();
                ejection.insert("failures".to_owned(), Value::from(fails));
                if fails > 0 {
                    ejection.insert("time".to_owned(), Value::from(format!("{rest}s")));
                }
                put(keys, "ejection", ejection);
                report.general(
                    "max_fails: hurtle counts failures in a row, and each further ejection takes \
                     longer"
                        .to_owned(),
                );
            }
        }
        if self.group.servers.iter().any(|server| server.max_connections.is_some()) {
            put(keys, "upstream_queue", 0);
            report.remark(
                d,
                "max_conns: nginx answers 502 while all servers are busy, hurtle 503; upstream_queue \
                 lets requests wait",
            );
        }
    }

    fn server(&self, server: &GroupServer) -> Value {
        let url = Value::from(self.url(server) + &self.base);
        let mut table = toml::Table::new();
        if let Some(weight) = server.weight {
            table.insert("weight".to_owned(), Value::from(weight));
        }
        if server.backup {
            table.insert("backup".to_owned(), Value::from(true));
        }
        if let Some(max) = server.max_connections {
            table.insert("max_connections".to_owned(), Value::from(max));
        }
        if table.is_empty() {
            return url;
        }
        table.insert("url".to_owned(), url);
        Value::Table(table)
    }
}

/// Reads `fastcgi_pass` or `uwsgi_pass`; returns the address, or a list of them.
pub(super) fn application_pass(
    d: &Directive,
    groups: &Groups,
    report: &mut Report,
) -> Option<Value> {
    let is_plain = |server: &GroupServer| {
        server.weight.is_none() && !server.backup && server.max_connections.is_none()
    };
    let address = d.arg(0).trim_start_matches("uwsgi://");
    match groups.get(address) {
        _ if address.contains('$') => report.refuse(d, "it needs variables"),
        None => return Some(Value::from(address)),
        Some(group) => match group.servers.as_slice() {
            [one] => return Some(Value::from(one.address.clone())),
            servers if servers.iter().all(is_plain) && group.balance.is_none() => {
                if group.failures.is_some() {
                    report.general(
                        "max_fails of applications: an address that accepts no connection is left out for 10 s"
                            .to_owned(),
                    );
                }
                let addresses = servers.iter().map(|server| server.address.clone());
                return Some(Value::from(addresses.collect::<Vec<String>>()));
            }
            _ => report.refuse(d, "applications get requests in turn, without weights"),
        },
    }
    None
}
