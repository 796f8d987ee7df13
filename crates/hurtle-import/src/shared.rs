//! Settings that hurtle has once for the whole server. `main_context` writes them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::block::Block;
use super::gates::{CompressSettings, RateZone};
use super::kind::{Kind, StructureKind, WholeKind};
use super::path::has_variable;
use super::report::Report;
use super::scope::duration;
use super::syntax::Directive;
use super::tuning::needs;

/// Settings that hurtle has once for the whole server.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) limits: BTreeMap<&'static str, u64>,
    /// Those of the first server; `None`: no server was read.
    pub(super) trusted_proxies: Option<Vec<String>>,
    pub(super) access_log: Option<String>,
    pub(super) error_log: Option<(String, String)>,
    /// Keys and rates of `limit_req_zone`, by zone.
    pub(super) rate_zones: BTreeMap<String, RateZone>,
    /// Media types and the least size of `gzip_types` and `gzip_min_length`.
    pub(super) compress: CompressSettings,
    /// `true`: a location has a cache.
    pub(super) has_cache: bool,
}

impl Shared {
    /// Applies a directive of the whole server.
    pub(super) fn apply(&mut self, kind: WholeKind, d: &Directive, report: &mut Report) {
        match kind {
            WholeKind::ClientHeaderTimeout => self.duration("head_timeout", d, report),
            WholeKind::KeepaliveTime => self.duration("connection_age", d, report),
            WholeKind::KeepaliveTimeout => self.duration("idle_timeout", d, report),
            WholeKind::KeepaliveRequests => match d.arg(0).parse() {
                Ok(requests) => self.limit("requests_per_connection", requests, d, report),
                Err(_) => report.refuse(d, "write a number"),
            },
            WholeKind::GzipTypes | WholeKind::BrotliTypes => self.compress.types(d, report),
            WholeKind::GzipMinLength | WholeKind::BrotliMinLength => {
                self.compress.min_bytes(d, report);
            }
            WholeKind::AccessLog => self.access_log(d, report),
            WholeKind::LogFormat => {
                report.remark(d, "the access log has the combined or the JSON format");
            }
            WholeKind::ErrorLog => self.error_log(d, report),
            WholeKind::Charset if is_default_charset(d.arg(0)) => report.leave_out(d),
            WholeKind::MergeSlashes if d.arg(0) == "on" => report.leave_out(d),
            WholeKind::IfModifiedSince if d.arg(0) == "exact" => report.leave_out(d),
            WholeKind::Charset | WholeKind::MergeSlashes | WholeKind::IfModifiedSince => {
                report.refuse(d, needs(&d.name));
            }
        }
    }

    /// Takes the proxies that a server trusts, which must be the same for each of them.
    pub(super) fn trust(&mut self, server: &Block<'_>, report: &mut Report) {
        let list = server.get(|scope| &scope.trusted_proxies);
        let header = server.get(|scope| &scope.real_ip_header).as_deref();
        let is_recursive = *server.get(|scope| &scope.is_recursive);
        let fields = [StructureKind::RealIpHeader, StructureKind::RealIpRecursive];
        if let (true, Some(d)) = (list.is_empty(), server.first(&fields.map(Kind::Structure))) {
            report.remark(d, "it is left out: the server has no set_real_ip_from");
        }
        if let Some((_, d)) = list.first() {
            if header != Some("x-forwarded-for") {
                report.refuse(
                    d,
                    "hurtle takes the client's address from X-Forwarded-For, which clients of \
                     other proxies could write; have the proxy set it, and write real_ip_header \
                     X-Forwarded-For",
                );
            }
            let is_one = |network: &str| network.parse::<IpAddr>().is_ok();
            let distinguishes = server.at.is_some_and(has_address_rules)
                || !server.scope().access.peek().is_empty();
            if !is_recursive && distinguishes && !list.iter().all(|(network, _)| is_one(network)) {
                report.refuse(
                    d,
                    "hurtle skips all trusted addresses at the end of X-Forwarded-For, so that a \
                     client in this network could name another; write real_ip_recursive on, which \
                     does the same, or the addresses of the proxies",
                );
            } else if !is_recursive {
                report.remark(
                    d,
                    "hurtle skips all trusted addresses at the end of X-Forwarded-For, as with \
                     real_ip_recursive on: name proxies only, no clients",
                );
            }
        }
        let mut proxies: Vec<String> = Vec::new();
        for (network, _) in list {
            if !proxies.contains(network) {
                proxies.push(network.clone());
            }
        }
        match (&self.trusted_proxies, server.at) {
            (Some(others), Some(at)) if *others != proxies => report.refuse(
                list.first().map_or(at, |(_, d)| d),
                "hurtle trusts the same proxies for all servers; write set_real_ip_from in http",
            ),
            _ => self.trusted_proxies = Some(proxies),
        }
    }

    fn limit(&mut self, key: &'static str, value: u64, d: &Directive, report: &mut Report) {
        match self.limits.insert(key, value) {
            // An idle connection has no request that waits for an answer.
            Some(other) if other != value && key == "idle_timeout" => {
                let longest = value.max(other);
                self.limits.insert(key, longest);
                report.remark(
                    d,
                    &format!("connections of all servers are kept for {longest}s after GET / without another request"),
                );
            }
            Some(other) if other != value => {
                report.refuse(d, format!("hurtle has one {key} for the whole server"));
            }
            _ => {}
        }
    }

    fn duration(&mut self, key: &'static str, d: &Directive, report: &mut Report) {
        match duration(d, report) {
            Some(0) if key == "idle_timeout" => report.remark(d, "connections are kept"),
            Some(seconds) => self.limit(key, seconds, d, report),
            None => {}
        }
    }

    fn access_log(&mut self, d: &Directive, report: &mut Report) {
        let path = d.arg(0);
        if path == "off" {
            return report.leave_out(d);
        }
        if !path.starts_with('/') && !path.contains([':', '$']) {
            return report.remark(d, RELATIVE_LOG);
        }
        if path.starts_with("syslog:") || has_variable(path) || !path.starts_with('/') {
            return report.refuse(d, "the access log is one file, named by an absolute path");
        }
        match &self.access_log {
            Some(other) if other != path => {
                report.remark(d, "hurtle has one access log for all sites; this file is left out");
            }
            _ => self.access_log = Some(path.to_owned()),
        }
        if !matches!(d.arg(1), "" | "combined" | "main") || d.args.len() > 2 {
            report.remark(d, "the format is combined, without buffers and conditions");
        }
    }

    fn error_log(&mut self, d: &Directive, report: &mut Report) {
        let level = match d.arg(1) {
            "debug" => "debug",
            "info" | "notice" => "info",
            "warn" => "warn",
            _ => "error",
        };
        match d.arg(0) {
            "stderr" => self.error_log = Some(("stderr".to_owned(), level.to_owned())),
            path if path.starts_with('/') => match &self.error_log {
                Some((other, _)) if other != path => {
                    report.remark(d, "hurtle has one error log; this file is left out");
                }
                _ => self.error_log = Some((path.to_owned(), level.to_owned())),
            },
            path if !path.contains([':', '$']) => report.remark(d, RELATIVE_LOG),
            _ => report.refuse(d, "the error log is stderr or one file, named by an absolute path"),
        }
    }
}

/// The remark about a log in a directory that nginx knows.
const RELATIVE_LOG: &str =
    "it is left out: its directory is relative to that of nginx; write an absolute path";

/// `true` if a block or one within it distinguishes clients by their addresses.
fn has_address_rules(block: &Directive) -> bool {
    let is_rule = |d: &Directive| d.name == "allow" || d.name == "deny";
    block.children().iter().any(|d| is_rule(d) || has_address_rules(d))
}

/// `true` for the charset of texts that hurtle names, or none.
fn is_default_charset(name: &str) -> bool {
    name == "off" || name.eq_ignore_ascii_case("utf-8")
}
