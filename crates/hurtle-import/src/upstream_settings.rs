//! Settings of upstreams: time limits, fields of requests, variables of FastCGI, TLS and the cache.

use super::kind::UpstreamKind;
use super::map_value::{marked, unmarked};
use super::report::Report;
use super::scope::{Scope, Use};
use super::syntax::Directive;
use hurtle_config::RequestFields;

impl Scope {
    /// Applies a setting of upstreams.
    pub(super) fn upstream(
        &mut self,
        kind: UpstreamKind,
        d: &Directive,
        report: &mut Report,
    ) -> Use {
        let server_name = self.server_name.as_deref();
        for own in [&mut self.http, &mut self.fastcgi, &mut self.uwsgi] {
            own.apply(kind, d, server_name, report);
        }
        match kind {
            UpstreamKind::ProxyNextUpstream => self.next_upstream(d, report),
            UpstreamKind::ProxySetHeader => self.proxy_set_header(d, report),
            UpstreamKind::ProxyRedirect => self.proxy_redirects.edit().push(d.clone()),
            UpstreamKind::ProxyCookieFlags => self.proxy_cookies.set(Some(d.clone())),
            UpstreamKind::ProxyCache => {
                self.cache.set(Some(d.arg(0).to_owned()).filter(|zone| zone != "off"));
            }
            UpstreamKind::ProxyCacheValid => self.cache_lifetimes.edit().push(d.clone()),
            UpstreamKind::ProxyCacheUseStale => self.cache_stale.set(Some(d.clone())),
            UpstreamKind::ProxySslVerify
            | UpstreamKind::ProxySslTrustedCertificate
            | UpstreamKind::ProxySslCertificate
            | UpstreamKind::ProxySslCertificateKey
            | UpstreamKind::ProxySslName => self.tls.edit().apply(kind, d, report),
            // `UpstreamScope` has them.
            _ => {}
        }
        Use::Held
    }

    fn next_upstream(&mut self, d: &Directive, report: &mut Report) {
        let mut statuses = Vec::new();
        for arg in &d.args {
            match (arg.as_str(), arg.strip_prefix("http_").map(str::parse)) {
                // hurtle tries another upstream where the request got no byte of a response.
                ("error" | "timeout" | "invalid_header", _) => {}
                (_, Some(Ok(status @ 400..=599))) => statuses.push(status),
                _ => {
                    let why = format!(
                        "hurtle repeats no request for `{arg}`; see retry_status in proxy.md"
                    );
                    return report.refuse(d, why);
                }
            }
        }
        self.retry_status.set(statuses);
    }

    fn proxy_set_header(&mut self, d: &Directive, report: &mut Report) {
        let value = d.arg(1);
        if let Some(field) = value.strip_prefix('$').and_then(|name| self.auth_fields.get(name)) {
            if !field.eq_ignore_ascii_case(d.arg(0)) {
                let why = format!("the request gets the field {field} under its own name");
                return report.refuse(d, why);
            }
            return self.copied.edit().push(d.arg(0).to_owned());
        }
        match (d.arg(0).to_ascii_lowercase().as_str(), value) {
            ("host", "$host" | "$http_host" | "$host:$server_port") => {
                if value.ends_with("$server_port") {
                    report.remark(
                        d,
                        "the upstream gets Host as the client sent it, without a port for GET https://a.example/; \
                         nginx writes a.example:443",
                    );
                }
                self.sends_client_host.set(true);
            }
            ("host", "$proxy_host") => self.sends_client_host.set(false),
            ("x-real-ip", "$remote_addr")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
            | ("x-forwarded-proto", "$scheme")
            | ("x-forwarded-host", "$host" | "$http_host")
            | ("upgrade", "$http_upgrade")
            | ("connection", "upgrade" | "Upgrade" | "$connection_upgrade" | "$http_connection" | "")
            | ("accept-encoding", "$http_accept_encoding")
            // hurtle never forwards it.
            | ("proxy", "") => {}
            (name, value) if self.passes_on(name, value) => {}
            // `main_context` has hurtle make it.
            ("x-request-id", "$request_id") => report.remark(
                d,
                "all upstreams get an X-Request-Id, that of a trusted proxy if it sends one; GET /x gets a new one in \
                 nginx",
            ),
            ("connection" | "upgrade" | "te" | "expect" | "content-length" | "transfer-encoding", _) => {
                report.refuse(d, "hurtle makes the fields of the connection itself");
            }
            (name, value) => match template(&marked(value, &self.value_maps), self.server_name.as_deref()) {
                None => report.refuse(
                    d,
                    "of variables it knows $host, $remote_addr, $scheme, $server_name, $server_port, $args, $request_uri, $request_method, $ssl_client_s_dn \
                     and $http_NAME",
                ),
                Some(value) if !RequestFields::takes(name, &unmarked(&value)) || name == "host" && value.is_empty() => {
                    report.refuse(d, "hurtle does not set this field, or not to this value");
                }
                Some(value) => {
                    if name == "host" {
                        self.sends_client_host.set(true);
                    }
                    if self.request_fields.edit().insert(name.to_owned(), value).is_some() {
                        report.refuse(d, "it sets a field twice");
                    }
                }
            },
        }
    }
}

impl Scope {
    /// `true` for a map that takes what a proxy in front sends in this field, and else the value
    /// that hurtle sends: hurtle does so for trusted proxies.
    fn passes_on(&self, field: &str, value: &str) -> bool {
        let own: &[&str] = match field {
            "x-forwarded-proto" => &["$scheme", "http", "https"],
            "x-forwarded-host" => &["$host", "$http_host"],
            "x-real-ip" => &["$remote_addr"],
            "x-forwarded-for" => &["$remote_addr", "$proxy_add_x_forwarded_for"],
            _ => return false,
        };
        let variable = format!("$http_{}", field.replace('-', "_"));
        let map = value.strip_prefix('$').and_then(|name| self.value_maps.get(name));
        map.is_some_and(|map| {
            let is_own = |value: &str| value == variable || own.contains(&value);
            let mut rows = map.at.children().iter();
            map.at.arg(0) == variable && rows.all(|row| is_own(row.arg(0)))
        })
    }
}

/// Returns a value as a template of hurtle; `None`: it has another variable.
pub(super) fn template(value: &str, server_name: Option<&str>) -> Option<String> {
    let mut parts = value.split('$');
    let mut out = parts.next()?.replace('{', "{{");
    for part in parts {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, rest) = match part.strip_prefix('{') {
            Some(part) => part.split_once('}')?,
            None => part.split_at(part.find(|c| !is_name(c)).unwrap_or(part.len())),
        };
        if name == "server_name" {
            out.push_str(&format!("{}{}", server_name?, rest.replace('{', "{{")));
            continue;
        }
        let variable = match name {
            "host" => "host".to_owned(),
            "remote_addr" => "client".to_owned(),
            "scheme" => "scheme".to_owned(),
            "server_port" => "server.port".to_owned(),
            "args" | "query_string" => "query".to_owned(),
            "request_uri" => "uri".to_owned(),
            "request_method" => "method".to_owned(),
            // hurtle takes no early data.
            "ssl_early_data" => {
                out.push_str(&rest.replace('{', "{{"));
                continue;
            }
            "ssl_client_s_dn" => "tls.client.subject".to_owned(),
            name => format!("request.{}", name.strip_prefix("http_")?.replace('_', "-")),
        };
        out.push_str(&format!("{{{variable}}}{}", rest.replace('{', "{{")));
    }
    Some(out)
}
