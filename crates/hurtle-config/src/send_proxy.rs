//! The PROXY protocol towards upstreams: `send_proxy_protocol`.

use hurtle_http::proxy_protocol::Version;

use super::error::ValueError;
use super::names::Named;
use super::reader::Reader;
use super::table::Table;
use super::upstream_server::UpstreamServer;

/// A version of the header, as it is named in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyProtocolVersion(pub Version);

impl ProxyProtocolVersion {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Named::name(self)
    }
}

impl Named for ProxyProtocolVersion {
    const NAMES: &'static [(&'static str, Self)] =
        &[("v1", ProxyProtocolVersion(Version::One)), ("v2", ProxyProtocolVersion(Version::Two))];
}

/// Reads the version that these upstreams get.
pub(super) fn version(
    table: &Table<'_>,
    upstreams: &[UpstreamServer],
    reader: &mut Reader<'_>,
) -> Option<ProxyProtocolVersion> {
    let written = table.get("send_proxy_protocol")?;
    if upstreams.iter().any(|server| server.http2) {
        let wrong =
            ValueError::new("clients share the connections of HTTP/2, and the header names one");
        written.report(reader, wrong.hint("write http:// or https:// in the upstream's URL"));
    }
    written.choice(reader)
}
