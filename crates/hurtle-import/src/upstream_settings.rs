//! Settings of upstreams: time limits, fields of requests, variables of FastCGI, TLS and the cache.

use super::kind::UpstreamKind;
use super::map_value::{marked, unmarked};
use super::path::{has_variable, milliseconds};
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
        match kind {
            UpstreamKind::ProxyConnectTimeout | UpstreamKind::FastcgiConnectTimeout => {
                self.connect_timeout.set(time_limit(d, report));
            }
            UpstreamKind::ProxySendTimeout | UpstreamKind::FastcgiSendTimeout => {
                self.send_timeout.set(time_limit(d, report));
            }
            UpstreamKind::ProxyReadTimeout | UpstreamKind::FastcgiReadTimeout => {
                self.read_timeout.set(time_limit(d, report));
            }
            UpstreamKind::ProxyNextUpstream => self.next_upstream(d, report),
            UpstreamKind::ProxyBuffering | UpstreamKind::FastcgiBuffering => {
                self.passes_responses_on.set(d.arg(0) == "off");
            }
            UpstreamKind::ProxyRequestBuffering | UpstreamKind::FastcgiRequestBuffering => {
                self.passes_bodies_on.set(d.arg(0) == "off");
            }
            UpstreamKind::ProxyInterceptErrors => self.intercepts.0.set(d.arg(0) == "on"),
            UpstreamKind::FastcgiInterceptErrors => self.intercepts.1.set(d.arg(0) == "on"),
            UpstreamKind::ProxySetHeader => self.proxy_set_header(d, report),
            UpstreamKind::ProxyRedirect => self.proxy_redirects.edit().push(d.clone()),
            UpstreamKind::ProxyCookieFlags => self.proxy_cookies.set(Some(d.clone())),
            UpstreamKind::ProxyHideHeader => self.proxy_hidden.edit().push(d.clone()),
            UpstreamKind::FastcgiHideHeader => self.fastcgi_hidden.edit().push(d.clone()),
            UpstreamKind::ProxyCache => {
                self.cache.set(Some(d.arg(0).to_owned()).filter(|zone| zone != "off"));
            }
            UpstreamKind::ProxyCacheValid => self.cache_lifetimes.edit().push(d.clone()),
            UpstreamKind::ProxyCacheUseStale => self.cache_stale.set(Some(d.clone())),
            UpstreamKind::FastcgiParam => self.fastcgi_param(d, report),
            UpstreamKind::ProxySslVerify
            | UpstreamKind::ProxySslTrustedCertificate
            | UpstreamKind::ProxySslCertificate
            | UpstreamKind::ProxySslCertificateKey
            | UpstreamKind::ProxySslName => self.tls.edit().apply(kind, d, report),
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

    fn fastcgi_param(&mut self, d: &Directive, report: &mut Report) {
        let (name, value) = (d.arg(0), d.arg(1));
        // Those of fastcgi_params and fastcgi.conf, which hurtle makes itself.
        if has_variable(value) {
            let is_usual = matches!(name, "SCRIPT_FILENAME" | "PATH_INFO" | "PATH_TRANSLATED")
                || USUAL_PARAMS.contains(&name);
            // As Debian's fastcgi_params has it.
            let is_host = name == "HTTP_HOST" && matches!(value, "$host" | "$http_host");
            if is_host {
                report.general(
                    "fastcgi_param HTTP_HOST: applications get Host as the client sent it, with its port"
                        .to_owned(),
                );
            } else if (name, value) == ("SERVER_NAME", "$server_name") {
                report.general(
                    "fastcgi_param SERVER_NAME: applications get the name that the client asked, such as that of \
                     GET / with Host: www.a.example; nginx writes the first server_name"
                        .to_owned(),
                );
            } else if !is_usual && !self.fastcgi_field(name, value) {
                report.refuse(d, "it needs variables");
            }
        } else if !USUAL_PARAMS.contains(&name) {
            self.params.edit().insert(name.to_owned(), value.to_owned());
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

    /// Translates a field of the request with variables. `false`: it is another parameter.
    fn fastcgi_field(&mut self, name: &str, value: &str) -> bool {
        let name =
            name.strip_prefix("HTTP_").map(|name| name.to_ascii_lowercase().replace('_', "-"));
        let value = template(value, self.server_name.as_deref());
        let Some((name, value)) = name.zip(value) else { return false };
        let is_taken = RequestFields::takes(&name, &value);
        if is_taken {
            self.fastcgi_fields.edit().insert(name, value);
        }
        is_taken
    }
}

/// Milliseconds of a time limit; `None` if it was refused.
fn time_limit(d: &Directive, report: &mut Report) -> Option<u64> {
    let limit = milliseconds(d.arg(0)).filter(|ms| *ms > 0);
    if limit.is_none() {
        report.refuse(d, "write a duration, such as 30s");
    }
    limit
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

/// Variables that hurtle gives to every FastCGI application.
const USUAL_PARAMS: &[&str] = &[
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SCRIPT_NAME",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "REDIRECT_STATUS",
    "HTTP_PROXY",
];
