//! `reverse_proxy` and its subdirectives.

use toml::{Table, Value};

use super::fields::Edits;
use super::pattern::is_placeholder;
use crate::mount::{Keys, put};
use crate::report::Report;
use crate::syntax::Directive;

/// Subdirectives that only tune Caddy.
const TUNING: &[&str] = &[
    "buffer_requests",
    "buffer_responses",
    "flush_interval",
    "health_body",
    "health_follow_redirects",
    "health_timeout",
    "lb_retries",
    "lb_try_interval",
    "max_buffer_size",
    "request_buffers",
    "response_buffers",
    "stream_close_delay",
    "stream_timeout",
    "unhealthy_latency",
    "unhealthy_status",
    "verbose_logs",
];

/// Settings of `transport http` that only tune Caddy.
const TRANSPORT_TUNING: &[&str] = &[
    "compression",
    "dial_fallback_delay",
    "expect_continue_timeout",
    "keepalive",
    "keepalive_idle_conns",
    "keepalive_idle_conns_per_host",
    "keepalive_interval",
    "local_address",
    "max_conns_per_host",
    "max_response_header",
    "read_buffer",
    "tls",
    "tls_renegotiation",
    "tls_timeout",
    "versions",
    "write_buffer",
];

#[derive(Clone, Debug, Default)]
pub(super) struct Proxy {
    pub(super) keys: Keys,
    pub(super) request: Edits,
    pub(super) response: Edits,
    /// Host and port of the only upstream; empty where there are several.
    pub(super) upstream: String,
}

/// Translates a proxy. `None`: something of it was refused.
pub(super) fn translate(d: &Directive, args: &[String], report: &mut Report) -> Option<Proxy> {
    let before = report.problems.len();
    let mut reader = Reader::default();
    let mut addresses: Vec<String> = args.to_vec();
    for line in d.children() {
        if line.name == "to" {
            addresses.extend(line.args.iter().cloned());
        } else if let Err(needs) = reader.line(line, report) {
            report.refuse(line, needs);
        }
    }
    if reader.is_tls {
        match addresses.iter().map(|address| over_tls(address)).collect() {
            Ok(secure) => addresses = secure,
            Err(needs) => report.refuse(d, needs),
        }
    }
    let urls: Result<Vec<String>, String> = addresses.iter().map(|address| url(address)).collect();
    let gets_port = |(address, url): (&String, &String)| {
        address.contains("{env.")
            && [":80", ":443"].iter().any(|port| url.ends_with(port) && !address.ends_with(port))
    };
    if addresses.iter().zip(urls.iter().flatten()).any(gets_port) {
        report.remark(
            d,
            "the variable is a host, and the upstream has the port of its scheme, also for GET /; where it has a port, \
             write {$HOST}:{$PORT}",
        );
    }
    match urls {
        Err(needs) => report.refuse(d, needs),
        Ok(urls) if urls.is_empty() => report.refuse(d, "it has no upstream"),
        Ok(urls) => reader.finish(d, urls, report),
    }
    (report.problems.len() == before).then_some(reader.proxy)
}

#[derive(Default)]
struct Reader {
    proxy: Proxy,
    tls: Table,
    ejection: Table,
    /// `true`: the transport uses TLS, whatever the addresses say.
    is_tls: bool,
    health_port: String,
    weights: Vec<i64>,
    /// Most requests to an upstream at once.
    count: Option<i64>,
}

impl Reader {
    fn line(&mut self, line: &Directive, report: &mut Report) -> Result<(), String> {
        let keys = &mut self.proxy.keys;
        let value = line.arg(0);
        match line.name.as_str() {
            "header_up" => {
                for line in super::fields::lines(line, &line.args) {
                    if line.args.iter().any(|arg| arg.contains("{remote}")) {
                        report.remark(&line, "the value is the client's address without its port");
                    }
                    self.proxy.request.line(&line)?;
                }
            }
            "header_down" => self.proxy.response.line(
                &super::fields::lines(line, &line.args)[..]
                    .first()
                    .cloned()
                    .ok_or("it has no field")?,
            )?,
            "health_uri" | "health_path" => {
                put(keys, "health", value.split('?').next().unwrap_or_default());
                if value.contains('?') {
                    return Err("a health check of hurtle has no query".to_owned());
                }
            }
            "health_port" => self.health_port = value.to_owned(),
            "health_interval" => put(keys, "health_interval", duration(value)?),
            "health_status" => match value.parse::<i64>() {
                Ok(status) => put(keys, "health_status", vec![status]),
                Err(_) => put(keys, "health_status", vec![value.to_owned()]),
            },
            name @ ("health_fails" | "health_passes") => {
                let count: i64 = value.parse().map_err(|_| "it is a number".to_owned())?;
                put(keys, name, count);
            }
            "lb_policy" => self.policy(line, report)?,
            "lb_try_duration" => put(keys, "retry_for", duration(value)?),
            "fail_duration" if value != "0" => {
                self.ejection.insert("time".to_owned(), Value::from(duration(value)?));
            }
            "max_fails" => {
                let count: i64 = value.parse().map_err(|_| "it is a number".to_owned())?;
                self.ejection.insert("failures".to_owned(), Value::from(count));
            }
            "unhealthy_request_count" => {
                let count: i64 = value.parse().map_err(|_| "it is a number".to_owned())?;
                self.count = Some(count);
                put(keys, "upstream_queue", 0);
            }
            "transport" => return self.transport(line, report),
            name if TUNING.contains(&name) => report.leave_out(line),
            _ => return Err("hurtle's proxy has no such setting".to_owned()),
        }
        Ok(())
    }

    fn policy(&mut self, line: &Directive, report: &mut Report) -> Result<(), String> {
        let keys = &mut self.proxy.keys;
        let balance = match line.arg(0) {
            "round_robin" => return Ok(()),
            "weighted_round_robin" => {
                let weights = line.args[1..].iter().map(|weight| weight.parse().ok());
                self.weights = weights.collect::<Option<_>>().ok_or("its weights are numbers")?;
                return Ok(());
            }
            "random" => {
                report.remark(line, "the upstreams are chosen in turn, not at random");
                return Ok(());
            }
            "least_conn" => "least-connections",
            "ip_hash" | "client_ip_hash" => "hash-address",
            "uri_hash" => {
                report.remark(line, "the hash is of the path, without the query");
                "hash-path"
            }
            "header" => {
                put(keys, "hash_header", line.arg(1));
                "hash-header"
            }
            "cookie" => {
                if !line.arg(1).is_empty() {
                    put(keys, "cookie", line.arg(1));
                }
                if !line.arg(2).is_empty() {
                    put(keys, "cookie_secret", line.arg(2));
                }
                "cookie"
            }
            _ => return Err("hurtle has no such policy".to_owned()),
        };
        put(keys, "balance", balance);
        Ok(())
    }

    fn transport(&mut self, transport: &Directive, report: &mut Report) -> Result<(), String> {
        if transport.arg(0) != "http" {
            return Err("of transports it knows http; for FastCGI there is php_fastcgi".to_owned());
        }
        for line in transport.children() {
            let keys = &mut self.proxy.keys;
            let value = line.arg(0);
            if line.name == "proxy_protocol" && matches!(value, "v1" | "v2") {
                put(keys, "send_proxy_protocol", value);
                continue;
            }
            let timeout = match line.name.as_str() {
                "dial_timeout" => Some("connect_timeout"),
                "response_header_timeout" => Some("first_byte_timeout"),
                "read_timeout" => Some("read_timeout"),
                "write_timeout" => Some("send_timeout"),
                _ => None,
            };
            if let Some(timeout) = timeout {
                match duration(value) {
                    Ok(value) => put(keys, timeout, value),
                    Err(needs) => report.refuse(line, needs),
                }
                continue;
            }
            let (key, value) = match line.name.as_str() {
                "tls_insecure_skip_verify" => ("insecure_skip_verify", Value::from(true)),
                "tls_server_name" => ("server_name", Value::from(value)),
                "tls_trusted_ca_certs" if line.args.len() == 1 => ("ca", Value::from(value)),
                "tls_trust_pool" if value == "file" && line.args.len() == 2 => {
                    ("ca", Value::from(line.arg(1)))
                }
                "tls_client_auth" if line.args.len() == 2 => {
                    self.tls.insert("key".to_owned(), Value::from(line.arg(1)));
                    ("certificate", Value::from(value))
                }
                "resolvers" => {
                    report.remark(line, "the system's DNS knows the upstreams, such as for GET /");
                    continue;
                }
                name if TRANSPORT_TUNING.contains(&name)
                    || (name == "network_proxy" && value == "none") =>
                {
                    report.leave_out(line);
                    continue;
                }
                _ => {
                    report.refuse(line, "hurtle's proxy has no such setting");
                    continue;
                }
            };
            self.tls.insert(key.to_owned(), value);
        }
        let lines = transport.children().iter();
        let versions = lines.clone().find(|line| line.name == "versions");
        if versions.is_some_and(|line| line.args.iter().any(|version| version == "h2c")) {
            return Err("write the upstream as h2c://HOST:PORT in the Caddyfile".to_owned());
        }
        self.is_tls |=
            lines.clone().any(|line| line.name == "tls" || line.name.starts_with("tls_"));
        Ok(())
    }

    fn finish(&mut self, d: &Directive, mut urls: Vec<String>, report: &mut Report) {
        let all = urls.clone();
        let mut seen = 0;
        urls.retain(|url| {
            seen += 1;
            !all[..seen - 1].contains(url)
        });
        let is_tls = urls.iter().any(|url| url.starts_with("https://"));
        if let [url] = urls.as_slice() {
            let (scheme, host) = url.split_once("://").unwrap_or_default();
            let port = if scheme == "https" { ":443" } else { ":80" };
            self.proxy.upstream = host.strip_suffix(port).unwrap_or(host).to_owned();
        }
        let is_own = |url: &String| url.ends_with(&format!(":{}", self.health_port));
        if !self.health_port.is_empty() && !urls.iter().all(is_own) {
            report.refuse(d, "health checks of hurtle are at the upstream's own port");
        }
        if is_tls {
            report.general(
                "Upstreams with https:// get the client's Host field, as from Caddy before 2.11"
                    .to_owned(),
            );
        }
        let fields = self.proxy.request.take_of_connection();
        if let Some(name) = fields {
            report.remark(
                d,
                &format!("{name} is of each connection: hurtle sends its own, also for WebSockets"),
            );
        }
        let mut keys = Keys::new();
        match self.weights.is_empty() && self.count.is_none() {
            true => crate::mount::put_list(&mut keys, "proxy", &urls),
            false => put(&mut keys, "proxy", self.servers(&urls)),
        }
        keys.append(&mut self.proxy.keys);
        // A setting may be written twice; the last one counts.
        let all = keys.clone();
        let mut at = 0;
        keys.retain(|(name, _)| {
            at += 1;
            !all[at..].iter().any(|(later, _)| later == name)
        });
        if !self.ejection.is_empty() {
            put(&mut keys, "ejection", Value::Table(self.ejection.clone()));
        }
        if !self.tls.is_empty() {
            put(&mut keys, "upstream_tls", Value::Table(self.tls.clone()));
        }
        self.proxy.keys = keys;
    }
}

impl Reader {
    /// Upstreams with a weight or a limit.
    fn servers(&self, urls: &[String]) -> Vec<Value> {
        let server = |(at, url): (usize, &String)| {
            let mut server = Table::new();
            server.insert("url".to_owned(), Value::from(url.as_str()));
            if let Some(weight) = self.weights.get(at).filter(|weight| **weight != 1) {
                server.insert("weight".to_owned(), Value::from(*weight));
            }
            if let Some(count) = self.count {
                server.insert("max_connections".to_owned(), Value::from(count));
            }
            Value::Table(server)
        };
        urls.iter().enumerate().map(server).collect()
    }
}

/// The address of an upstream behind TLS. Caddy takes no port for it but one that is written.
fn over_tls(address: &str) -> Result<String, String> {
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| {
        port != "80" && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
    });
    match address.split_once("://") {
        Some(("https", _)) => Ok(address.to_owned()),
        None if has_port && !address.starts_with("unix/") => Ok(format!("https://{address}")),
        _ => Err("write the upstream as https://HOST in the Caddyfile".to_owned()),
    }
}

/// Translates the address of an upstream.
pub(super) fn url(address: &str) -> Result<String, String> {
    if is_placeholder(address) {
        return Err(format!("the upstream {address} is known for each request only"));
    }
    for (caddy, ours) in [("unix+h2c/", "unix+h2c:"), ("unix/", "unix:")] {
        if let Some(path) = address.strip_prefix(caddy) {
            return Ok(format!("{ours}/{}", path.trim_start_matches('/')));
        }
    }
    let (scheme, host) = address.split_once("://").unwrap_or(("http", address));
    if !matches!(scheme, "http" | "https" | "h2c") {
        return Err(format!("upstreams are http, https and h2c, not {scheme}"));
    }
    let host = host.trim_end_matches('/');
    if host.contains('/') {
        return Err("the address of an upstream has no path".to_owned());
    }
    // An address without a host is on this machine, as is 0.0.0.0.
    let host = match host.strip_prefix(':').or_else(|| host.strip_prefix("0.0.0.0:")) {
        Some(port) => format!("127.0.0.1:{port}"),
        None => host.to_owned(),
    };
    let has_port = match host.rfind('}').max(host.rfind(']')) {
        Some(end) if host.contains("{env.") => {
            // `{env.NAME:localhost:3000}` has it in its default.
            let default = host.strip_prefix("{env.").and_then(|rest| rest.split_once(':'));
            let has_one = default.is_some_and(|(_, default)| default.contains(':'));
            has_one
                || host[end..].contains(':')
                || host[..end].contains(":{env.")
                || !host.ends_with('}')
        }
        Some(end) => host[end..].contains(':'),
        None => host.contains(':'),
    };
    let port = match scheme {
        _ if has_port => "",
        "https" => ":443",
        _ => ":80",
    };
    Ok(format!("{scheme}://{host}{port}"))
}

/// Translates a duration: Go's `1h30m` has several units, and `d` is a day.
pub(super) fn duration(text: &str) -> Result<String, String> {
    let wrong = || format!("of durations it knows a number and ms, s, m, h or d, not {text}");
    let (mut seconds, mut rest) = (0_u64, text);
    if text.starts_with("{env.") {
        return Ok(text.to_owned());
    }
    let units = text.chars().filter(char::is_ascii_alphabetic).count();
    if text.ends_with("ms") && units == 2 {
        return Ok(text.to_owned());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..end].parse().map_err(|_| wrong())?;
        let unit = rest[end..].chars().next().ok_or_else(wrong)?;
        let factor = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        seconds =
            number.checked_mul(factor).and_then(|n| seconds.checked_add(n)).ok_or_else(wrong)?;
        rest = &rest[end + 1..];
    }
    match seconds {
        0 => Err(wrong()),
        n if n % 3_600 == 0 => Ok(format!("{}h", n / 3_600)),
        n if n % 60 == 0 => Ok(format!("{}m", n / 60)),
        n => Ok(format!("{n}s")),
    }
}
