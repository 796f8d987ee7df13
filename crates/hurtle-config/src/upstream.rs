//! Types and readers of proxy settings. `hurtle::handler::proxy` connects to the upstreams.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::balance::{Balancing, balancing};
use super::bounds::{HOST_BYTES_MAX, SOCKET_PATH_BYTES_MAX, TIME_MS_MAX};
use super::buffering::Buffer;
use super::error::{ValueError, shown};
use super::gateway::internal;
use super::health_check::{HealthCheck, StatusRange, error_statuses, health_check};
use super::listen::UNIX;
use super::print;
use super::reader::Reader;
use super::request_fields::{RequestFields, request_fields};
use super::response_cache::{ResponseCache, response_cache};
use super::schema::Kind::{Flag, List, Time};
use super::schema_mount::PROXY;
use super::send_proxy::{self, ProxyProtocolVersion};
use super::settings::settings;
use super::table::Table;
use super::upstream_queue::{UpstreamQueue, upstream_queue};
use super::upstream_server::{UpstreamServer, servers};
use super::upstream_timeouts::{Connecting, UpstreamTimeouts};
use super::upstream_tls::{UpstreamTls, upstream_tls};
use super::value::Value;

settings! {
    /// A reverse proxy, the handler of a mount.
    #[derive(Eq)]
    pub struct Proxy: PROXY_KEYS with PROXY {
        /// Error statuses of an upstream in place of which another one is tried, if the method may
        /// be repeated (GET, HEAD, OPTIONS, PUT, DELETE). The client gets the response of the last
        /// one.
        #[serde(serialize_with = "print::texts")]
        retry_status: Vec<StatusRange> = Vec::new(), List("statuses"), "[502, 503]", by error_statuses;
        /// Time between two resolutions of an upstream's name. Addresses that are gone get no
        /// further requests.
        #[serde(serialize_with = "print::duration")]
        resolve: Duration = Duration::from_secs(30), Time(1_000, TIME_MS_MAX), "\"5s\"";
        /// Protocols a client may upgrade to if the upstream agrees; never `h2c`.
        upgrades: Vec<String> = vec!["websocket".to_owned()], List("protocols"), "[]",
            by |v, r| Some(upgrades(v, r));
        /// Translate calls of gRPC-Web, which browsers make, to gRPC. See
        /// [proxy.md](proxy.md#http2-to-upstreams-and-grpc).
        grpc_web: bool = false, Flag, "true";
        /// Translate URLs with the upstream's own address in redirects (`Location` and the like),
        /// and cookies of its domain; with `strip_prefix` or a path in the URL the paths of
        /// cookies, too.
        rewrite_location: bool = true, Flag, "false";
    }
    beside {
        /// The upstream servers: at least one, no duplicates.
        #[serde(rename = "proxy")]
        upstreams: Vec<UpstreamServer> = Vec::new();
        /// The choice of an upstream for each request.
        #[serde(flatten)]
        balancing: Balancing = Balancing::default();
        /// Requests that wait for upstreams with `max_connections`; `None`: none has it.
        #[serde(flatten)]
        queue: Option<UpstreamQueue> = None;
        /// Bodies that are kept for slow clients.
        #[serde(flatten)]
        buffer: Buffer = Buffer::default();
        /// Time limits of connecting to them.
        #[serde(flatten)]
        connecting: Connecting = Connecting::default();
        /// Time limits of a request.
        #[serde(flatten)]
        timeouts: UpstreamTimeouts = UpstreamTimeouts::default();
        /// Health checks of the upstreams; `None`: none are made.
        #[serde(flatten)]
        health: Option<HealthCheck> = None;
        /// Directory of files that an upstream may name in X-Accel-Redirect or X-Sendfile; `None`:
        /// none.
        #[serde(serialize_with = "print::optional_path")]
        internal: Option<PathBuf> = None;
        /// Version of the PROXY protocol's header that names the client on each connection; `None`:
        /// none is sent.
        send_proxy_protocol: Option<ProxyProtocolVersion> = None;
        /// `true`: the upstream gets paths without that of the mount.
        strip_prefix: bool = false;
        /// Edits of the fields of requests; `None`: there are none.
        request_fields: Option<RequestFields> = None;
        /// TLS settings of `https://` upstreams; `None`: the defaults.
        upstream_tls: Option<UpstreamTls> = None;
        /// Response cache; `None`: off.
        cache: Option<ResponseCache> = None;
    }
}

/// One server behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// An IP address and a port.
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
        Proxy { upstreams, ..Proxy::default() }
    }

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
    let mut proxy = Proxy {
        upstreams: servers(written, reader),
        balancing: balancing(table, reader),
        buffer: Buffer::read(table, reader),
        connecting: Connecting::read(table, reader),
        timeouts: UpstreamTimeouts::read(table, reader),
        health: health_check(table, reader),
        internal: internal(table, reader),
        cache: response_cache(table, reader),
        ..Proxy::read(table, reader)
    };
    let p = &mut proxy;
    p.queue = upstream_queue(table, &p.upstreams, reader);
    if p.grpc_web && !p.upstreams.iter().any(|server| server.http2) {
        let wrong = ValueError::new("no upstream uses HTTP/2, which gRPC needs");
        let hint = "write h2c:// in its URL, or h2:// over TLS";
        if let Some(written) = table.get("grpc_web") {
            written.report(reader, wrong.hint(hint));
        }
    }
    let tls = table.get("upstream_tls");
    p.upstream_tls = tls.and_then(|written| upstream_tls(&written, &p.upstreams, reader));
    p.send_proxy_protocol = send_proxy::version(table, &p.upstreams, reader);
    table.set("strip_prefix", reader, Value::flag, &mut p.strip_prefix);
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

/// Parses `host:port`, or `unix:` and a path, which `absolute` makes absolute. `socket` is an
/// example of such a path.
pub(super) fn address(
    text: &str,
    socket: &str,
    absolute: impl FnOnce(&str) -> Result<PathBuf, ValueError>,
) -> Result<Upstream, ValueError> {
    let wrong = || {
        ValueError::new(format!("{} is not an address", shown(text)))
            .hint(format!("write \"127.0.0.1:9000\" or \"{socket}\""))
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
            let found =
                address(text, "unix:/run/app.sock", |path| Ok(PathBuf::from("/etc").join(path)));
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
