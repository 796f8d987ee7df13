//! Types and readers of proxy settings. `hurtle::handler::proxy` connects to the upstreams.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::balance::{Balancing, balancing};
use super::bounds::{HOST_BYTES_MAX, SOCKET_PATH_BYTES_MAX};
use super::buffering::Buffer;
use super::error::{ValueError, shown};
use super::health_check::{HealthCheck, StatusRange, error_statuses, health_check};
use super::listen::UNIX;
use super::print;
use super::reader::Reader;
use super::request_fields::{RequestFields, request_fields};
use super::response_cache::{ResponseCache, response_cache};
use super::send_proxy::{self, ProxyProtocolVersion};
use super::table::Table;
use super::upstream_queue::{UpstreamQueue, upstream_queue};
use super::upstream_server::{UpstreamServer, servers};
use super::upstream_tls::{UpstreamTls, upstream_tls};
use super::value::Value;

/// A reverse proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proxy {
    /// The upstream servers: at least one, no duplicates.
    #[serde(rename = "proxy")]
    pub upstreams: Vec<UpstreamServer>,
    /// The choice of an upstream for each request.
    #[serde(flatten)]
    pub balancing: Balancing,
    /// Requests that wait for upstreams with `max_connections`; `None`: none has it.
    #[serde(flatten)]
    pub queue: Option<UpstreamQueue>,
    /// Time limit of connecting, name resolution included.
    #[serde(serialize_with = "print::duration")]
    pub connect_timeout: Duration,
    /// Longest time in which an upstream reads none of a request's bytes.
    #[serde(serialize_with = "print::duration")]
    pub send_timeout: Duration,
    /// Time from the request's last byte to the end of the response's head.
    #[serde(serialize_with = "print::duration")]
    pub first_byte_timeout: Duration,
    /// Time between two reads of a response's body.
    #[serde(serialize_with = "print::duration")]
    pub read_timeout: Duration,
    /// Bodies that are kept for slow clients.
    #[serde(flatten)]
    pub buffer: Buffer,
    /// Time for which a request waits while no upstream accepts connections; 0: it fails at once.
    #[serde(serialize_with = "print::duration")]
    pub retry_for: Duration,
    /// Time between two resolutions of an upstream's name.
    #[serde(serialize_with = "print::duration")]
    pub resolve: Duration,
    /// Health checks of the upstreams; `None`: none are made.
    #[serde(flatten)]
    pub health: Option<HealthCheck>,
    /// Protocols a client may upgrade to: lower case, never `h2c`.
    pub upgrades: Vec<String>,
    /// Directory of files that an upstream may name in X-Accel-Redirect or X-Sendfile; `None`:
    /// none.
    #[serde(serialize_with = "print::optional_path")]
    pub internal: Option<PathBuf>,
    /// `true`: calls of gRPC-Web are translated to gRPC.
    pub grpc_web: bool,
    /// Error statuses in place of which another upstream is tried, if the request may be repeated.
    #[serde(serialize_with = "print::texts")]
    pub retry_status: Vec<StatusRange>,
    /// Version of the PROXY protocol's header that names the client on each connection; `None`:
    /// none is sent.
    pub send_proxy_protocol: Option<ProxyProtocolVersion>,
    /// `true`: the upstream gets paths without that of the mount.
    pub strip_prefix: bool,
    /// `true`: URLs and cookies that name the upstream are translated for the client.
    pub rewrite_location: bool,
    /// Edits of the fields of requests; `None`: there are none.
    pub request_fields: Option<RequestFields>,
    /// TLS settings of `https://` upstreams; `None`: the defaults.
    pub upstream_tls: Option<UpstreamTls>,
    /// Response cache; `None`: off.
    pub cache: Option<ResponseCache>,
}

/// One server behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// An address.
    Address(SocketAddr),
    /// A host name and a port.
    Name(String, u16),
    /// A unix stream socket: an absolute path.
    Unix(PathBuf),
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upstream::Address(address) => write!(f, "{SCHEME}{address}"),
            Upstream::Name(name, port) => write!(f, "{SCHEME}{name}:{port}"),
            Upstream::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Upstream {
    /// The address without a scheme, as in `fastcgi` and `authorizer`, which do not speak HTTP.
    pub fn plain(&self) -> String {
        self.to_string().trim_start_matches(SCHEME).to_owned()
    }
}

impl Proxy {
    /// A proxy with default settings.
    pub fn new(upstreams: Vec<UpstreamServer>) -> Proxy {
        Proxy {
            upstreams,
            balancing: Balancing::default(),
            queue: None,
            connect_timeout: Duration::from_secs(5),
            send_timeout: Duration::from_secs(30),
            first_byte_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            buffer: Buffer::default(),
            retry_for: Duration::ZERO,
            resolve: Duration::from_secs(30),
            health: None,
            upgrades: vec!["websocket".to_owned()],
            internal: None,
            grpc_web: false,
            retry_status: Vec::new(),
            send_proxy_protocol: None,
            strip_prefix: false,
            rewrite_location: true,
            request_fields: None,
            upstream_tls: None,
            cache: None,
        }
    }
}

impl Proxy {
    /// The path that requests get in place of the mount's, encoded; empty: they keep theirs.
    pub fn base(&self) -> &str {
        self.upstreams.first().map_or("", |server| &server.base)
    }

    /// Describes the upstreams in one line.
    pub fn describe_upstreams(&self) -> String {
        let upstreams: Vec<_> = self.upstreams.iter().map(UpstreamServer::describe).collect();
        upstreams.join(", ")
    }
}

/// Scheme of an upstream's URL.
const SCHEME: &str = "http://";

/// The port of a URL without one.
pub(super) const PORT: u16 = 80;

/// Reads the keys of a proxy; `written` is the value of `proxy`.
pub(super) fn proxy(
    table: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Proxy> {
    let mut proxy = Proxy::new(servers(written, reader));
    let p = &mut proxy;
    p.balancing = balancing(table, reader);
    p.queue = upstream_queue(table, &p.upstreams, reader);
    table.set("connect_timeout", reader, Value::duration, &mut p.connect_timeout);
    table.set("send_timeout", reader, Value::duration, &mut p.send_timeout);
    table.set("first_byte_timeout", reader, Value::duration, &mut p.first_byte_timeout);
    table.set("read_timeout", reader, Value::duration, &mut p.read_timeout);
    p.buffer = Buffer::read(table, reader);
    table.set("retry_for", reader, Value::duration, &mut p.retry_for);
    table.set("retry_status", reader, error_statuses, &mut p.retry_status);
    table.set("resolve", reader, Value::duration, &mut p.resolve);
    p.health = health_check(table, reader);
    table.set("upgrades", reader, |v, r| Some(upgrades(v, r)), &mut p.upgrades);
    table.set("internal", reader, |v, r| v.directory(r).map(Some), &mut p.internal);
    table.set("grpc_web", reader, Value::flag, &mut p.grpc_web);
    if p.grpc_web && !p.upstreams.iter().any(|server| server.http2) {
        let wrong = ValueError::new("no upstream uses HTTP/2, which gRPC needs");
        let hint = "write h2c:// in its URL, or h2:// over TLS";
        if let Some(written) = table.get("grpc_web") {
            written.report(reader, wrong.hint(hint));
        }
    }
    let tls = table.get("upstream_tls");
    p.upstream_tls = tls.and_then(|written| upstream_tls(&written, &p.upstreams, reader));
    p.cache = response_cache(table, reader);
    p.send_proxy_protocol = send_proxy::version(table, &p.upstreams, reader);
    table.set("strip_prefix", reader, Value::flag, &mut p.strip_prefix);
    table.set("rewrite_location", reader, Value::flag, &mut p.rewrite_location);
    let fields = table.get("request_fields").and_then(|written| written.table(reader));
    p.request_fields = fields.map(|fields| request_fields(&fields, p.cache.is_some(), reader));
    Some(proxy).filter(|proxy| !proxy.upstreams.is_empty())
}

/// Parses `http://host:port`, or `unix:` and a path, which `absolute` makes absolute.
pub(super) fn upstream(
    text: &str,
    absolute: impl FnOnce(&str) -> Result<PathBuf, ValueError>,
) -> Result<Upstream, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    if let Some(path) = text.strip_prefix(UNIX) {
        let path = absolute(path)?;
        if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(wrong("is too long")
                .hint(format!("a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes")));
        }
        return Ok(Upstream::Unix(path));
    }
    let Some(rest) = text.strip_prefix(SCHEME) else {
        return Err(wrong("is not the URL of an upstream")
            .hint("write \"http://127.0.0.1:9000\" or \"unix:/run/app.sock\""));
    };
    origin(text, rest, PORT)
}

/// Parses the host and the port of `text`, a URL whose `rest` follows the scheme.
pub(super) fn origin(text: &str, rest: &str, default_port: u16) -> Result<Upstream, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if let Some((host, base)) = authority.split_once('/')
        && !authority.contains(['?', '#', '@'])
    {
        let scheme = text.strip_suffix(rest).unwrap_or(SCHEME);
        let hint = format!("write \"{scheme}{host}\" without /{base}");
        return Err(wrong("has a path").hint(hint));
    }
    if authority.contains(['/', '?', '#', '@']) {
        return Err(wrong("has more than a host and a port")
            .hint("upstreams get the request's own path: remove the rest"));
    }
    if let Ok(address) = authority.parse() {
        return Ok(Upstream::Address(address));
    }
    if let Ok(address) = authority.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(Upstream::Address(SocketAddr::new(address, default_port)));
    }
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)),
        None => (authority, Some(default_port)),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let named = !name.is_empty() && name.len() <= HOST_BYTES_MAX && name.bytes().all(plain);
    match port {
        Some(port) if named => Ok(Upstream::Name(name.to_ascii_lowercase(), port)),
        _ => Err(wrong("has no host or no port").hint("write \"http://127.0.0.1:9000\"")),
    }
}

/// Parses `host:port`, or `unix:` and a path, which `absolute` makes absolute.
pub(super) fn address(
    text: &str,
    absolute: impl FnOnce(&str) -> Result<PathBuf, ValueError>,
) -> Result<Upstream, ValueError> {
    let wrong = || {
        ValueError::new(format!("{} is not an address", shown(text)))
            .hint("write \"127.0.0.1:9000\" or \"unix:/run/php/php-fpm.sock\"")
    };
    if text.starts_with(UNIX) {
        return upstream(text, absolute);
    }
    let port = text.rsplit_once(':').map(|(_, port)| port);
    if text.contains('/') || port.is_none_or(|port| port.parse::<u16>().is_err()) {
        return Err(wrong());
    }
    upstream(&format!("{SCHEME}{text}"), absolute).map_err(|_| wrong())
}

fn upgrades(written: &Value<'_>, reader: &mut Reader<'_>) -> Vec<String> {
    let token = |text: &str| {
        let mark = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&b);
        if text.is_empty() || !text.bytes().all(mark) {
            return Err(ValueError::new(format!("{} is not a protocol name", shown(text)))
                .hint("write one such as \"websocket\""));
        }
        // RFC 9113 deprecated it, and HTTP/2 would bypass every check that the proxy makes.
        if text.eq_ignore_ascii_case("h2c") {
            return Err(ValueError::new("a client must not change to HTTP/2 behind the proxy")
                .hint("remove it"));
        }
        Ok(text.to_ascii_lowercase())
    };
    written.list(reader, |item, reader| item.parse(reader, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_invalid_ones_refused_with_a_hint() {
        for (text, expected) in [
            ("127.0.0.1:9000", Some("127.0.0.1:9000")),
            ("[::1]:9000", Some("[::1]:9000")),
            ("php:9000", Some("php:9000")),
            ("unix:php.sock", Some("unix:/etc/php.sock")),
            ("127.0.0.1", None),
            ("[::1]", None),
            ("http://127.0.0.1:9000", None),
            ("127.0.0.1:9000/", None),
            (":9000", None),
            ("", None),
        ] {
            let found = address(text, |path| Ok(PathBuf::from("/etc").join(path)));
            assert_eq!(found.ok().map(|u| u.plain()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn upstreams_are_parsed_and_invalid_ones_refused_with_a_hint() {
        let name = |name: &str, port| Ok(Upstream::Name(name.to_owned(), port));
        let address = |text: &str| Ok(Upstream::Address(text.parse().expect("an address")));
        let table = [
            ("an address", "http://127.0.0.1:9000", address("127.0.0.1:9000")),
            ("with a slash", "http://127.0.0.1:9000/", address("127.0.0.1:9000")),
            ("without a port", "http://10.0.0.1", address("10.0.0.1:80")),
            ("IPv6", "http://[::1]:9000", address("[::1]:9000")),
            ("IPv6 without a port", "http://[::1]", address("[::1]:80")),
            ("a name", "http://App.internal:81", name("app.internal", 81)),
            ("a name without a port", "http://localhost", name("localhost", 80)),
            ("a socket", "unix:app.sock", Ok(Upstream::Unix("/etc/app.sock".into()))),
            ("no scheme", "127.0.0.1:9000", Err("is not the URL of an upstream")),
            ("TLS", "https://a", Err("is not the URL of an upstream")),
            ("a path", "http://a/b", Err("has a path")),
            ("userinfo", "http://a@b", Err("has more than a host and a port")),
            ("port 0", "http://a:0", Err("has no host or no port")),
            ("a port too large", "http://a:65536", Err("has no host or no port")),
            ("no host", "http://:80", Err("has no host or no port")),
            ("a space", "http://a b", Err("has no host or no port")),
        ];
        for (sentence, text, expected) in table {
            let found = upstream(text, |path| Ok(PathBuf::from("/etc").join(path)));
            let expected = expected.map_err(|what| format!("{} {what}", shown(text)));
            assert_eq!(found.map_err(|wrong| wrong.what), expected, "{sentence}");
        }
    }
}
