//! TLS settings of a proxy's `https://` upstreams. `hurtle::tls` reads the files.

use std::path::PathBuf;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::error::{ValueError, shown};
use super::reader::Reader;
use super::tls::CertificateFiles;
use super::upstream_server::UpstreamServer;
use super::value::Value;

/// TLS settings of connections to upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of the trusted authorities; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// Name to request and verify, in place of the host in the URL.
    pub server_name: Option<String>,
    /// The certificate that this server presents; `None`: none.
    pub client: Option<CertificateFiles>,
    /// `true`: any certificate is accepted.
    pub insecure_skip_verify: bool,
}

impl Serialize for UpstreamTls {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("ca", &self.ca.as_ref().map(text))?;
        map.serialize_entry("server_name", &self.server_name)?;
        if let Some(CertificateFiles { chain, key }) = &self.client {
            map.serialize_entry("certificate", &text(chain))?;
            map.serialize_entry("key", &text(key))?;
        }
        map.serialize_entry("insecure_skip_verify", &self.insecure_skip_verify)?;
        map.end()
    }
}

/// Reads `upstream_tls` of a mount with these upstreams, or `forward_tls`.
pub(super) fn upstream_tls(
    written: &Value<'_>,
    upstreams: &[UpstreamServer],
    reader: &mut Reader<'_>,
) -> Option<UpstreamTls> {
    if !upstreams.is_empty() && !upstreams.iter().any(|server| server.tls) {
        let wrong = ValueError::new("no upstream uses TLS");
        written.report(reader, wrong.hint("write https:// in its URL, or remove the table"));
    }
    let table = written.table(reader)?;
    table.check_companions(reader);
    let mut tls = UpstreamTls::default();
    table.set("ca", reader, |v, r| v.file(r).map(Some), &mut tls.ca);
    table.set(
        "server_name",
        reader,
        |v, r| v.parse(r, server_name).map(Some),
        &mut tls.server_name,
    );
    if let Some(chain) = table.get("certificate").and_then(|value| value.file(reader)) {
        let key = table.get("key").and_then(|value| value.file(reader));
        tls.client = Some(CertificateFiles { key: key.unwrap_or_else(|| chain.clone()), chain });
    }
    table.set("insecure_skip_verify", reader, Value::flag, &mut tls.insecure_skip_verify);
    if tls.insecure_skip_verify
        && let Some(ca) = table.get("ca")
    {
        let wrong = ValueError::new("nothing is verified with insecure_skip_verify");
        ca.report(reader, wrong.hint("remove insecure_skip_verify: ca is the safe way"));
    }
    Some(tls)
}

/// Parses a host name or an address.
fn server_name(text: &str) -> Result<String, ValueError> {
    match rustls_pki_types::ServerName::try_from(text) {
        Ok(name) => Ok(name.to_str().to_ascii_lowercase()),
        Err(_) => Err(ValueError::new(format!("{} is not a host name", shown(text)))
            .hint("write one such as \"api.example.org\", without a port")),
    }
}
