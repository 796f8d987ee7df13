//! The upstream servers of a proxy as the `proxy` key lists them.

use std::fmt;

use hurtle_http::semantics::target;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::error::{ValueError, shown};
use super::listen::UNIX;
use super::reader::Reader;
use super::schema_proxy::UPSTREAM;
use super::upstream::{PORT, Upstream, origin, upstream};
use super::value::Value;

/// Scheme of an upstream's URL over TLS.
const SCHEME_TLS: &str = "https://";

/// Schemes of upstreams with HTTP/2: the names of the protocol over TLS and in clear (RFC 9113
/// section 3.1, RFC 7540 section 3.1).
const SCHEME_H2: &str = "h2://";
const SCHEME_H2C: &str = "h2c://";

/// Begins a unix socket with HTTP/2.
const UNIX_H2C: &str = "unix+h2c:";

/// The port of such a URL without one.
const PORT_TLS: u16 = 443;

/// An upstream server of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamServer {
    /// Address, name or socket by which it is reached.
    pub upstream: Upstream,
    /// `true`: connections use TLS.
    pub tls: bool,
    /// `true`: requests use HTTP/2, on connections that they share.
    pub http2: bool,
    /// Its share, relative to the weights of the others; at least 1.
    pub weight: u32,
    /// `true`: it is used only while none of the others is available.
    pub backup: bool,
    /// Most requests at once, over all workers; `None`: any number.
    pub max_connections: Option<u64>,
    /// The path that requests get in place of the mount's, encoded; empty: they keep theirs.
    pub base: String,
}

impl From<Upstream> for UpstreamServer {
    /// A server in clear, of weight 1.
    fn from(upstream: Upstream) -> UpstreamServer {
        UpstreamServer {
            upstream,
            tls: false,
            http2: false,
            weight: 1,
            backup: false,
            max_connections: None,
            base: String::new(),
        }
    }
}

impl fmt::Display for UpstreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.tls, self.http2, &self.upstream) {
            (false, false, _) => return write!(f, "{}{}", self.upstream, self.base),
            (false, true, Upstream::Unix(path)) => {
                return write!(f, "{UNIX_H2C}{}", path.display());
            }
            (false, true, _) => SCHEME_H2C,
            (true, false, _) => SCHEME_TLS,
            (true, true, _) => SCHEME_H2,
        };
        write!(f, "{scheme}{}{}", self.upstream.plain(), self.base)
    }
}

impl UpstreamServer {
    /// Describes the server with its settings.
    pub fn describe(&self) -> String {
        let backup = self.backup.then(|| "backup".to_owned());
        let weight = (self.weight != 1).then(|| format!("weight {}", self.weight));
        let limit = self.max_connections.map(|max| format!("at most {max} requests at once"));
        let settings: Vec<String> = [backup, weight, limit].into_iter().flatten().collect();
        match settings.as_slice() {
            [] => self.to_string(),
            settings => format!("{self} ({})", settings.join(", ")),
        }
    }
}

impl Serialize for UpstreamServer {
    /// A URL, or a table if there are other settings.
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        if self.weight == 1 && !self.backup && self.max_connections.is_none() {
            return out.collect_str(self);
        }
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("url", &self.to_string())?;
        map.serialize_entry("weight", &self.weight)?;
        map.serialize_entry("backup", &self.backup)?;
        if let Some(max) = self.max_connections {
            map.serialize_entry("max_connections", &max)?;
        }
        map.end()
    }
}

/// Reads the value of `proxy`.
pub(super) fn servers(written: &Value<'_>, reader: &mut Reader<'_>) -> Vec<UpstreamServer> {
    if written.is_empty_list() {
        let hint = "write for example proxy = \"http://127.0.0.1:9000\"";
        written.report(reader, ValueError::new("there is no upstream").hint(hint));
    }
    let (mut servers, mut is_whole): (Vec<UpstreamServer>, bool) = (Vec::new(), true);
    for item in written.items_or_table(reader) {
        let (url, table) = match item.as_table_of(&UPSTREAM, reader) {
            Some(table) => (table.get("url"), Some(table)),
            None => (Some(item.clone()), None),
        };
        if let (None, Some(table)) = (&url, &table) {
            let wrong = ValueError::new("url is missing");
            reader.report_missing(&table.spot, wrong.hint("write url = \"http://10.0.0.2:80\""));
        }
        let parsed = url.and_then(|url| Some((url.text(reader)?, url)));
        let Some((text, url)) = parsed else {
            is_whole = false;
            continue;
        };
        match server_with_base(text, url.spot.at, reader) {
            Ok(server) if servers.iter().any(|other| other.to_string() == server.to_string()) => {
                let wrong = ValueError::new(format!("{} is listed twice", shown(text)));
                url.report(reader, wrong.hint("remove one"));
            }
            Ok(mut server) => {
                if let Some(table) = table {
                    table.set("weight", reader, Value::integer, &mut server.weight);
                    table.set("backup", reader, Value::flag, &mut server.backup);
                    let max = |v: &Value<'_>, r: &mut Reader<'_>| v.integer(r).map(Some);
                    table.set("max_connections", reader, max, &mut server.max_connections);
                }
                servers.push(server);
            }
            Err(wrong) => {
                is_whole = false;
                url.report(reader, wrong);
            }
        }
    }
    if is_whole && !servers.is_empty() && servers.iter().all(|server| server.backup) {
        let wrong = ValueError::new("every upstream is a backup");
        written.report(reader, wrong.hint("remove backup = true from one that is always used"));
    }
    if let Some(other) = servers.iter().find(|server| server.base != servers[0].base) {
        let wrong = ValueError::new(format!("{other} has another path than {}", servers[0]));
        written.report(reader, wrong.hint("any of them may get a request: give all the same path"));
    }
    servers
}

/// Parses a URL, which may have a path, or `unix:` and a path, which stands at `at`.
fn server_with_base(
    text: &str,
    at: usize,
    reader: &Reader<'_>,
) -> Result<UpstreamServer, ValueError> {
    let authority = text.find("://").map_or(text.len(), |at| at + 3);
    let end = text[authority..].find('/').map_or(text.len(), |at| authority + at);
    let (url, base) = text.split_at(end);
    if matches!(base, "" | "/") {
        return server(text, at, reader);
    }
    let is_plain = base.bytes().all(|b| b.is_ascii_graphic() && !b"?#\\;".contains(&b));
    let decoded =
        target::decoded(base.as_bytes()).ok().filter(|_| is_plain && !base.contains("//"));
    if !decoded.is_some_and(|decoded| target::is_spelling_of(base.as_bytes(), &decoded)) {
        let wrong = format!("{} has no path that an upstream reads as written", shown(text));
        return Err(ValueError::new(wrong).hint(
            "write it percent-encoded, without a query, parameters, empty segments and segments of dots",
        ));
    }
    Ok(UpstreamServer { base: base.to_owned(), ..server(url, at, reader)? })
}

/// Parses a URL without a path, or `unix:` and a path, which stands at `at`.
pub(super) fn server(
    text: &str,
    at: usize,
    reader: &Reader<'_>,
) -> Result<UpstreamServer, ValueError> {
    for (scheme, port, tls, http2) in [
        (SCHEME_TLS, PORT_TLS, true, false),
        (SCHEME_H2, PORT_TLS, true, true),
        (SCHEME_H2C, PORT, false, true),
    ] {
        if let Some(rest) = text.strip_prefix(scheme) {
            let upstream = origin(text, rest, port)?;
            return Ok(UpstreamServer { tls, http2, ..upstream.into() });
        }
    }
    if let Some(scheme) = ["grpc", "grpcs"].iter().find(|s| text.starts_with(&format!("{s}://"))) {
        let (wrong, right) = (shown(text), if *scheme == "grpc" { SCHEME_H2C } else { SCHEME_H2 });
        let hint = format!("gRPC is proxied as any other request over HTTP/2: write {right}");
        return Err(ValueError::new(format!("{wrong} is not the URL of an upstream")).hint(hint));
    }
    let absolute = |path: &str| reader.absolute(path, at);
    match text.strip_prefix(UNIX_H2C) {
        Some(path) => {
            let upstream = upstream(&format!("{UNIX}{path}"), absolute)?;
            Ok(UpstreamServer { http2: true, ..upstream.into() })
        }
        None => upstream(text, absolute).map(UpstreamServer::from),
    }
}
