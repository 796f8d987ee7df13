//! Rate limits, `auth_request`, TLS to upstreams and compression.

use toml::Value;

use super::kind::{Kind, UpstreamKind};
use super::modifier::{Modifier, modifier};
use super::mount::{Keys, put, put_list};
use super::path::{bytes, has_variable};
use super::report::Report;
use super::scope::Scope;
use super::shared::Shared;
use super::syntax::Directive;
use super::tuning::{is_tuning, needs};
use super::upstream::{Groups, Pass, is_variable_end, proxy_pass};

/// A zone of `limit_req_zone`.
#[derive(Clone, Debug)]
pub(super) struct RateZone {
    key: String,
    requests: String,
}

/// The settings of TLS to upstreams.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsSettings {
    verifies: bool,
    ca: Option<String>,
    name: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

/// The settings of compression, of the whole server.
#[derive(Debug, Default)]
pub(super) struct CompressSettings {
    types: Option<Vec<String>>,
    min_bytes: Option<u64>,
}

/// A location that `auth_request` names.
#[derive(Debug)]
pub(super) struct AuthServer {
    pub(super) path: String,
    url: String,
    tls: Option<toml::Table>,
}

impl Shared {
    pub(super) fn limit_req_zone(&mut self, d: &Directive, report: &mut Report) {
        let option = |name: &str| d.args.iter().find_map(|arg| arg.strip_prefix(name));
        let key = match d.arg(0) {
            "$binary_remote_addr" | "$remote_addr" => "address".to_owned(),
            "$uri" => "path".to_owned(),
            other => match other.strip_prefix("$http_").filter(|name| is_variable_end(name)) {
                Some(name) => format!("header:{}", name.replace('_', "-")),
                None => {
                    return report.refuse(d, "a key is the address, $uri or a field ($http_...)");
                }
            },
        };
        let zone = option("zone=").and_then(|zone| zone.split(':').next());
        let rate = option("rate=").and_then(|rate| rate.split_once("r/"));
        match (zone, rate) {
            (Some(zone), Some((count, unit @ ("s" | "m")))) => {
                let requests = format!("{count}/{unit}");
                self.rate_zones.insert(zone.to_owned(), RateZone { key, requests });
            }
            _ => report.refuse(d, "write zone=NAME:SIZE and rate=10r/s or 10r/m"),
        }
    }
}

impl Scope {
    pub(super) fn limit_req(&mut self, d: &Directive, shared: &Shared, report: &mut Report) {
        let option = |name: &str| d.args.iter().find_map(|arg| arg.strip_prefix(name));
        let Some(zone) = option("zone=").and_then(|zone| shared.rate_zones.get(zone)) else {
            return report.refuse(d, "no limit_req_zone before it has this zone");
        };
        let Ok(burst) = option("burst=").unwrap_or("0").parse::<u32>() else {
            return report.refuse(d, "write a number as burst");
        };
        if burst > 0 && !d.args.iter().any(|arg| arg == "nodelay") {
            report.remark(d, "hurtle delays no request: those within the burst pass at once");
        }
        report.general(
            "limit_req: hurtle answers 429 in place of 503, and counts for each mount on its own"
                .to_owned(),
        );
        let mut limit = toml::Table::new();
        limit.insert("requests".to_owned(), Value::from(zone.requests.clone()));
        // The burst of nginx comes on top of the request that the rate admits.
        limit.insert("burst".to_owned(), Value::from(i64::from(burst) + 1));
        if zone.key != "address" {
            limit.insert("key".to_owned(), Value::from(zone.key.clone()));
        }
        self.rate_limits.edit().push(limit);
    }

    pub(super) fn auth_request_set(&mut self, d: &Directive, report: &mut Report) {
        let variable = d.arg(0).strip_prefix('$');
        match variable.zip(d.arg(1).strip_prefix("$upstream_http_")) {
            Some((variable, field)) if is_variable_end(field) => {
                self.auth_fields.insert(variable.to_owned(), field.replace('_', "-"));
            }
            _ => report.refuse(d, "of variables it knows $upstream_http_..."),
        }
    }

    pub(super) fn compression(&mut self, d: &Directive) {
        match d.arg(0) {
            "off" if d.name == "brotli" => {}
            "off" => self.compress.set(Some(false)),
            _ => self.compress.set(Some(true)),
        }
    }
}

impl TlsSettings {
    pub(super) fn apply(&mut self, kind: UpstreamKind, d: &Directive, report: &mut Report) {
        let is_path = matches!(
            kind,
            UpstreamKind::ProxySslTrustedCertificate
                | UpstreamKind::ProxySslCertificate
                | UpstreamKind::ProxySslCertificateKey
        );
        if is_path && !d.arg(0).starts_with('/') {
            return report.refuse(d, "write an absolute path");
        }
        let is_host = kind == UpstreamKind::ProxySslName && d.arg(0) == "$proxy_host";
        if has_variable(d.arg(0)) && !is_host {
            return report.refuse(d, "it needs variables");
        }
        let value = Some(d.arg(0).to_owned());
        match kind {
            UpstreamKind::ProxySslVerify => self.verifies = d.arg(0) == "on",
            UpstreamKind::ProxySslTrustedCertificate => self.ca = value,
            UpstreamKind::ProxySslCertificate => self.certificate = value,
            UpstreamKind::ProxySslCertificateKey => self.key = value,
            UpstreamKind::ProxySslName => self.name = value.filter(|_| !is_host),
            _ => report.refuse(d, needs(&d.name)),
        }
    }

    /// The table `upstream_tls` of the upstreams of a `proxy_pass`.
    pub(super) fn table(&self, d: &Directive, pass: &Pass, report: &mut Report) -> toml::Table {
        let mut table = toml::Table::new();
        let mut set = |key: &str, value: Option<&String>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), Value::from(value.clone()));
            }
        };
        let host = Some(pass.host.clone());
        // nginx verifies the name of the group.
        let is_group = !pass.only().is_some_and(|url| url.contains(&pass.host));
        set("server_name", self.name.as_ref().or(host.as_ref().filter(|_| is_group)));
        set("certificate", self.certificate.as_ref());
        set("key", self.key.as_ref());
        if self.verifies {
            set("ca", self.ca.as_ref());
        } else {
            table.insert("insecure_skip_verify".to_owned(), Value::from(true));
            report.remark(
                d,
                "nginx does not verify the upstream's certificate unless proxy_ssl_verify is on; \
                 remove insecure_skip_verify to have it verified",
            );
        }
        table
    }
}

impl CompressSettings {
    pub(super) fn types(&mut self, d: &Directive, report: &mut Report) {
        let mut types = vec!["text/html".to_owned()];
        let others = d.args.iter().filter(|media| *media != "text/html");
        types.extend(
            others.map(|media| if media == "*" { "*/*".to_owned() } else { media.clone() }),
        );
        if types.iter().any(|media| media == "*/*") {
            return report.refuse(d, "write the media types");
        }
        match &self.types {
            Some(known) if *known != types => {
                report.refuse(d, "hurtle has one list of media types for the whole server");
            }
            _ => self.types = Some(types),
        }
    }

    pub(super) fn min_bytes(&mut self, d: &Directive, report: &mut Report) {
        match (bytes(d.arg(0)), self.min_bytes) {
            (None, _) => report.refuse(d, "write a size, such as 256"),
            (size, known) if known.is_some() && known != size => {
                report.refuse(d, "hurtle has one least size for the whole server");
            }
            (size, _) => self.min_bytes = size,
        }
    }

    pub(super) fn keys(self) -> Keys {
        let mut keys = Keys::new();
        put_list(&mut keys, "types", &self.types.unwrap_or_default());
        if let Some(size) = self.min_bytes {
            put(&mut keys, "min_bytes", format!("{size} B"));
        }
        keys
    }
}

impl AuthServer {
    /// Adds the keys of forward authentication.
    pub(super) fn put(&self, copied: &[String], keys: &mut Keys) {
        put(keys, "auth", "forward");
        put(keys, "forward", self.url.clone());
        put_list(keys, "copy_headers", copied);
        if let Some(tls) = &self.tls {
            put(keys, "forward_tls", tls.clone());
        }
    }
}

/// Returns the locations that `auth_request` may name: `internal`, with `proxy_pass` to one server.
pub(super) fn auth_servers(
    locations: &[&Directive],
    groups: &Groups,
    outer: &Scope,
    report: &mut Report,
) -> Vec<AuthServer> {
    let named = |path: &str| {
        let is_named = |d: &Directive| d.name == "auth_request" && d.arg(0) == path;
        let is_outer = outer.auth_request.peek().as_ref().is_some_and(|(known, _)| known == path);
        is_outer || locations.iter().any(|d| d.children().iter().any(is_named))
    };
    let mut servers = Vec::new();
    for d in locations {
        let Some((Modifier::Exact, path)) = modifier(d).filter(|(_, path)| named(path)) else {
            continue;
        };
        let Some(to) = d.children().iter().find(|d| d.name == "proxy_pass") else { continue };
        let Some(pass) = proxy_pass(to, groups, report) else { continue };
        if !d.children().iter().any(|inner| inner.name == "internal") {
            report.refuse(d, "write internal: nginx sends requests of clients to it, hurtle none");
        }
        let Some(origin) = pass.only() else {
            report.refuse(to, "one server decides about requests");
            continue;
        };
        let mut tls = outer.tls.peek().clone();
        for inner in d.children() {
            let name = inner.name.as_str();
            match (name, inner.arg(0).to_ascii_lowercase().as_str(), inner.arg(1)) {
                ("proxy_pass", ..) if !std::ptr::eq(inner, to) => {
                    report.refuse(inner, "it is written a second time");
                }
                ("internal" | "proxy_pass" | "proxy_pass_request_body", ..) => {}
                ("proxy_set_header", "content-length" | "host" | "x-real-ip", _)
                | ("proxy_set_header", "x-forwarded-for" | "x-forwarded-proto", _) => {
                    report.leave_out(inner);
                }
                ("proxy_set_header", _, "$request_uri" | "$request_method") => report.remark(
                    inner,
                    "the server gets the fields X-Forwarded-Uri and X-Forwarded-Method",
                ),
                _ if is_tuning(name) => report.leave_out(inner),
                _ if let Some(Kind::Upstream(kind)) = Kind::named(name)
                    && name.starts_with("proxy_ssl_") =>
                {
                    tls.apply(kind, inner, report);
                    if !pass.is_tls() {
                        report.leave_out(inner);
                    }
                }
                _ => report.refuse(inner, "it has no counterpart in a location of auth_request"),
            }
        }
        report.remark(
            d,
            "a client's request for this path gets 404 from nginx; hurtle has the mount that holds \
             the path handle it",
        );
        let tls = pass.is_tls().then(|| tls.table(to, &pass, report));
        let is_socket = origin.starts_with("unix:");
        if is_socket && pass.uri.as_deref() != Some("/") {
            report.refuse(d, "a server on a unix socket is asked for / only");
            continue;
        }
        let url = match &pass.uri {
            _ if is_socket => origin,
            Some(uri) => format!("{origin}{uri}"),
            None => format!("{origin}{path}"),
        };
        servers.push(AuthServer { path: path.to_owned(), url, tls });
    }
    servers
}
