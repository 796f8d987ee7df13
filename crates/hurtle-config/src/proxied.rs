//! Settings of listeners behind load balancers that send the PROXY protocol
//! (`hurtle_http::proxy_protocol`).

use ipnet::IpNet;
use serde::Serialize;

use super::error::{ValueError, shown};
use super::listen::listen;
use super::network::network;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::types::Listen;
use super::value::Value;

/// Listeners whose connections begin with a PROXY protocol header, and the trusted peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProxyProtocol {
    /// Addresses of `listen` and `listen_tls`; empty: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "print::texts")]
    pub on: Vec<Listen>,
    /// Networks of trusted peers; connections of all others are closed. Peers of a unix socket have
    /// no address and are always trusted: the permissions of its file decide who may connect.
    #[serde(serialize_with = "print::texts")]
    pub from: Vec<IpNet>,
}

/// Reads `[proxy_protocol]`; `listening` are the server's addresses.
pub(super) fn proxy_protocol(
    table: &Table<'_>,
    listening: &[&Listen],
    reader: &mut Reader<'_>,
) -> ProxyProtocol {
    let mut proxied = ProxyProtocol::default();
    if let Some(written) = table.get("on") {
        if written.is_empty_list() {
            let wrong = ValueError::new("no address");
            written.report(reader, wrong.hint("leave the key out for every address"));
        }
        proxied.on = written.list(reader, |item, reader| listener(item, listening, reader));
    }
    let written = table.get("from");
    if let Some(written) = &written {
        proxied.from = written.list(reader, |item, reader| item.parse(reader, network));
    }
    let by_address = |listen: &Listen| matches!(listen, Listen::Tcp(_));
    let needs_from = match proxied.on.is_empty() {
        true => listening.iter().any(|listen| by_address(listen)),
        false => proxied.on.iter().any(by_address),
    };
    if needs_from && written.is_none_or(|written| written.is_empty_list()) {
        let wrong = ValueError::new("from is missing, so every connection would be closed");
        let hint = "write the balancers' addresses, for example from = \"10.0.0.0/24\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
    }
    proxied
}

fn listener(item: &Value<'_>, listening: &[&Listen], reader: &mut Reader<'_>) -> Option<Listen> {
    let text = item.text(reader)?;
    let wrong = match listen(text, |path| reader.absolute(path, item.spot.at)) {
        Ok(named) if listening.contains(&&named) => return Some(named),
        Ok(_) => ValueError::new(format!("nothing listens on {}", shown(text)))
            .hint("write an address of listen or listen_tls"),
        Err(wrong) => wrong,
    };
    item.report(reader, wrong);
    None
}
