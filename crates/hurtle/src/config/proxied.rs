//! Listeners behind balancers that speak the PROXY protocol. The protocol itself is
//! `crate::proxy_protocol`'s.

use ipnet::IpNet;

use super::listen::listen;
use super::network::network;
use super::problem::{Wrong, shown};
use super::reader::Reader;
use super::table::Table;
use super::types::Listen;
use super::value::Value;

/// Where connections begin by saying for whom they are made, and who may say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Addresses of `listen` and `listen_tls`; empty: all of them.
    pub on: Vec<Listen>,
    /// Networks whose peers are believed; all others are closed. A unix socket's peers have no
    /// address, and are: its file says who may connect.
    pub from: Vec<IpNet>,
}

/// Reads `[proxy_protocol]` of a server that listens on these addresses.
pub(super) fn proxy_protocol(
    table: &Table<'_>,
    listening: &[&Listen],
    reader: &mut Reader<'_>,
) -> ProxyProtocol {
    let mut proxied = ProxyProtocol::default();
    if let Some(written) = table.get("on") {
        if written.is_empty_list() {
            let wrong = Wrong::new("no address");
            written.wrong(reader, wrong.hint("leave the key out for every address"));
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
        let wrong = Wrong::new("from is missing, and nobody could connect");
        let hint = "write the balancers' addresses, for example from = \"10.0.0.0/24\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
    }
    proxied
}

fn listener(item: &Value<'_>, listening: &[&Listen], reader: &mut Reader<'_>) -> Option<Listen> {
    let text = item.text(reader)?;
    let wrong = match listen(text, |path| reader.absolute(path)) {
        Ok(named) if listening.contains(&&named) => return Some(named),
        Ok(_) => Wrong::new(format!("nothing listens on {}", shown(text)))
            .hint("write an address of listen or listen_tls"),
        Err(wrong) => wrong,
    };
    item.wrong(reader, wrong);
    None
}
