//! The upstream servers of a proxy as the `proxy` key lists them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::error::{ValueError, shown};
use super::reader::Reader;
use super::upstream::{Upstream, origin, upstream};
use super::value::Value;

/// Scheme of an upstream's URL over TLS.
const SCHEME_TLS: &str = "https://";

/// The port of such a URL without one.
const PORT_TLS: u16 = 443;

/// An upstream server of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamServer {
    /// Its address.
    pub upstream: Upstream,
    /// `true`: connections use TLS.
    pub tls: bool,
}

impl From<Upstream> for UpstreamServer {
    /// A server in clear.
    fn from(upstream: Upstream) -> UpstreamServer {
        UpstreamServer { upstream, tls: false }
    }
}

impl fmt::Display for UpstreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tls {
            true => write!(f, "{SCHEME_TLS}{}", self.upstream.plain()),
            false => self.upstream.fmt(f),
        }
    }
}

impl Serialize for UpstreamServer {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Reads the value of `proxy`.
pub(super) fn servers(written: &Value<'_>, reader: &mut Reader<'_>) -> Vec<UpstreamServer> {
    let items = written.items(reader);
    if written.is_empty_list() {
        let hint = "write for example proxy = \"http://127.0.0.1:9000\"";
        written.report(reader, ValueError::new("there is no upstream").hint(hint));
    }
    let mut servers: Vec<UpstreamServer> = Vec::new();
    for item in items {
        let Some(text) = item.text(reader) else { continue };
        match server(text, reader) {
            Ok(server) if servers.contains(&server) => {
                let wrong = ValueError::new(format!("{} is listed twice", shown(text)));
                item.report(reader, wrong.hint("remove one"));
            }
            Ok(server) => servers.push(server),
            Err(wrong) => item.report(reader, wrong),
        }
    }
    servers
}

/// Parses a URL, or `unix:` and a path.
fn server(text: &str, reader: &Reader<'_>) -> Result<UpstreamServer, ValueError> {
    match text.strip_prefix(SCHEME_TLS) {
        Some(rest) => {
            let upstream = origin(text, rest, PORT_TLS)?;
            Ok(UpstreamServer { upstream, tls: true })
        }
        None => upstream(text, |path| reader.absolute(path)).map(UpstreamServer::from),
    }
}
