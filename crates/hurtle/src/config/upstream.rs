//! Where a proxy's requests go: the types of its configuration, and reading them. Connecting is
//! the handler's.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::bounds::{HOST_BYTES_MAX, SOCKET_PATH_BYTES_MAX};
use super::listen::UNIX;
use super::problem::{Wrong, shown};
use super::reader::Reader;
use super::response_cache::{ResponseCache, response_cache};
use super::table::Table;
use super::target::url_path;
use super::value::Value;

/// A reverse proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Who answers in truth; at least one, none twice.
    pub upstreams: Vec<Upstream>,
    /// Which of them gets a request.
    pub balance: Balance,
    /// How long a connection may take to be made, its name's look-up included.
    pub connect_timeout: Duration,
    /// How long an upstream may take none of a request's bytes.
    pub send_timeout: Duration,
    /// From the request's last byte to the end of the answer's head.
    pub first_byte_timeout: Duration,
    /// Between two reads of an answer's body.
    pub read_timeout: Duration,
    /// The path asked to learn whether an upstream is well; `None`: nothing is asked.
    pub health: Option<String>,
    /// Between two such questions.
    pub health_interval: Duration,
    /// Protocols a client may change to: lower case, `h2c` never among them.
    pub upgrades: Vec<String>,
    /// The directory whose files an upstream may name in its answer; `None`: none.
    pub internal: Option<PathBuf>,
    /// What is kept of the answers; `None`: nothing.
    pub cache: Option<ResponseCache>,
}

/// One server behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// An address.
    Address(SocketAddr),
    /// A name to look up, and a port.
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
    /// As `fastcgi` and `authorizer` have it: what is spoken there is not HTTP.
    pub fn plain(&self) -> String {
        self.to_string().trim_start_matches(SCHEME).to_owned()
    }
}

/// Which upstream gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Balance {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest requests in flight.
    LeastConnections,
    /// Always the same for a client's address, as long as it is well.
    HashAddress,
    /// Always the same for a path.
    HashPath,
}

impl Proxy {
    /// A proxy with every choice at its default.
    pub fn new(upstreams: Vec<Upstream>) -> Proxy {
        Proxy {
            upstreams,
            balance: Balance::default(),
            connect_timeout: Duration::from_secs(5),
            send_timeout: Duration::from_secs(30),
            first_byte_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            health: None,
            health_interval: Duration::from_secs(5),
            upgrades: vec!["websocket".to_owned()],
            internal: None,
            cache: None,
        }
    }
}

/// What an upstream's URL begins with.
const SCHEME: &str = "http://";

/// The port of a URL without one.
const PORT: u16 = 80;

/// Reads the keys of a proxy; `written` is the value of `proxy`.
pub(super) fn proxy(
    table: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Proxy> {
    let mut proxy = Proxy::new(upstreams(written, reader));
    let p = &mut proxy;
    table.set("balance", reader, Value::choice, &mut p.balance);
    table.set("connect_timeout", reader, Value::duration, &mut p.connect_timeout);
    table.set("send_timeout", reader, Value::duration, &mut p.send_timeout);
    table.set("first_byte_timeout", reader, Value::duration, &mut p.first_byte_timeout);
    table.set("read_timeout", reader, Value::duration, &mut p.read_timeout);
    table.set("health", reader, |v, r| v.parse(r, url_path).map(Some), &mut p.health);
    table.set("health_interval", reader, Value::duration, &mut p.health_interval);
    table.set("upgrades", reader, |v, r| Some(upgrades(v, r)), &mut p.upgrades);
    table.set("internal", reader, |v, r| v.directory(r).map(Some), &mut p.internal);
    p.cache = response_cache(table, reader);
    Some(proxy).filter(|proxy| !proxy.upstreams.is_empty())
}

fn upstreams(written: &Value<'_>, reader: &mut Reader<'_>) -> Vec<Upstream> {
    let items = written.items(reader);
    if written.is_empty_list() {
        let hint = "write for example proxy = \"http://127.0.0.1:9000\"";
        written.wrong(reader, Wrong::new("there is nobody to ask").hint(hint));
    }
    let mut upstreams: Vec<Upstream> = Vec::new();
    for item in items {
        let Some(text) = item.text(reader) else { continue };
        match upstream(text, |path| reader.absolute(path)) {
            Ok(upstream) if upstreams.contains(&upstream) => {
                let wrong = Wrong::new(format!("{} is listed twice", shown(text)));
                item.wrong(reader, wrong.hint("remove one"));
            }
            Ok(upstream) => upstreams.push(upstream),
            Err(wrong) => item.wrong(reader, wrong),
        }
    }
    upstreams
}

/// `http://host:port`, or `unix:` and a path, which `absolute` makes absolute.
pub(super) fn upstream(
    text: &str,
    absolute: impl FnOnce(&str) -> Result<PathBuf, Wrong>,
) -> Result<Upstream, Wrong> {
    let wrong = |what: &str| Wrong::new(format!("{} {what}", shown(text)));
    if let Some(path) = text.strip_prefix(UNIX) {
        let path = absolute(path)?;
        if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(wrong("is too long")
                .hint(format!("a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes")));
        }
        return Ok(Upstream::Unix(path));
    }
    if text.starts_with("https://") {
        return Err(wrong("asks for TLS, which is not spoken to upstreams")
            .hint("write an http:// URL of this machine or of a network you trust"));
    }
    let Some(rest) = text.strip_prefix(SCHEME) else {
        return Err(wrong("is not the URL of an upstream")
            .hint("write \"http://127.0.0.1:9000\" or \"unix:/run/app.sock\""));
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return Err(wrong("has more than a host and a port")
            .hint("the request's own path is what is asked for: remove the rest"));
    }
    if let Ok(address) = authority.parse() {
        return Ok(Upstream::Address(address));
    }
    if let Ok(address) = authority.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(Upstream::Address(SocketAddr::new(address, PORT)));
    }
    let (name, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let port = port.parse().ok().filter(|port| *port != 0);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let named = !name.is_empty() && name.len() <= HOST_BYTES_MAX && name.bytes().all(plain);
    match port {
        Some(port) if named => Ok(Upstream::Name(name.to_ascii_lowercase(), port)),
        _ => Err(wrong("has no host or no port").hint("write \"http://127.0.0.1:9000\"")),
    }
}

/// `host:port`, or `unix:` and a path, which `absolute` makes absolute.
pub(super) fn address(
    text: &str,
    absolute: impl FnOnce(&str) -> Result<PathBuf, Wrong>,
) -> Result<Upstream, Wrong> {
    let wrong = || {
        Wrong::new(format!("{} is not an address", shown(text)))
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
            return Err(Wrong::new(format!("{} is not a protocol's name", shown(text)))
                .hint("write one such as \"websocket\""));
        }
        // RFC 9113 withdrew it, and an upstream that takes it is past every check made here.
        if text.eq_ignore_ascii_case("h2c") {
            return Err(
                Wrong::new("a client must not change to HTTP/2 behind the proxy").hint("remove it")
            );
        }
        Ok(text.to_ascii_lowercase())
    };
    written.list(reader, |item, reader| item.parse(reader, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_what_is_none_is_told_how() {
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
    fn upstreams_are_read_and_what_is_not_one_is_told_how() {
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
            ("TLS", "https://a", Err("asks for TLS, which is not spoken to upstreams")),
            ("a path", "http://a/b", Err("has more than a host and a port")),
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
