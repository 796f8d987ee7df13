//! Writes the fields that tell an upstream about the client: X-Forwarded-*, X-Real-IP, Forwarded
//! and Via. Those of a trusted proxy are continued, in both families (RFC 7239 section 7.4).

use std::net::IpAddr;
use std::ops::Range;

use http::Version;

use super::field_lines::{SERVER, line};
use super::forward::{ForwardParams, append};
use crate::request::field_class::ForwardingField;
use crate::semantics::decimal;
use crate::semantics::fields::list;
use crate::semantics::forwarded::{Element, Family, address, elements};
use crate::semantics::host;

/// The description of the client by trusted proxies.
#[derive(Default)]
pub(super) struct TrustedFields<'a> {
    /// The proxies' reports, nearest last. Those of X-Forwarded-For have an address only.
    chain: Vec<Element<'a>>,
    scheme: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

impl<'a> TrustedFields<'a> {
    /// Takes a field of the family that the proxies set, or passes it on in `out`. A field of the
    /// other family is dropped: the client may have sent it.
    pub(super) fn take(
        &mut self,
        family: Family,
        field: ForwardingField,
        name: &[u8],
        value: &'a [u8],
        out: &mut Vec<u8>,
    ) {
        match (family, field) {
            (Family::XForwarded, ForwardingField::For) => {
                self.chain.extend(list(value).map(|node| Element { node, ..Element::default() }));
            }
            (Family::XForwarded, ForwardingField::Proto) => self.scheme = Some(value),
            (Family::XForwarded, ForwardingField::Host) => self.host = Some(value),
            (Family::XForwarded, ForwardingField::More) => line(out, name, value),
            (Family::Forwarded, ForwardingField::Forwarded) => self.chain.extend(elements(value)),
            (Family::XForwarded, ForwardingField::Forwarded) | (Family::Forwarded, _) => {}
        }
    }

    /// Returns the scheme that the client used, if a proxy reports it.
    pub(super) fn scheme(&self, client: Option<IpAddr>) -> Option<&'a [u8]> {
        let reported = self.reports(client).find_map(|element| element.proto);
        self.scheme.or(reported).filter(|scheme| matches!(*scheme, b"http" | b"https"))
    }

    /// Returns the host that the client used, if a proxy reports it.
    pub(super) fn host(&self, client: Option<IpAddr>) -> Option<&'a [u8]> {
        let reported = self.reports(client).find_map(|element| element.host);
        self.host.or(reported).filter(|host| host::parse(host).is_ok())
    }

    /// The reports of trusted proxies: from the one about `client` on, or the last one if none
    /// names it. The client can have invented those before.
    fn reports(&self, client: Option<IpAddr>) -> impl Iterator<Item = &Element<'a>> {
        let is_client = |element: &Element<'_>| client.is_some() && address(element.node) == client;
        let last = self.chain.len().saturating_sub(1);
        self.chain[self.chain.iter().rposition(is_client).unwrap_or(last).min(self.chain.len())..]
            .iter()
    }
}

/// Appends the forwarding fields of a request with Host from an untrusted peer. `host` is the range
/// of the Host value in `out`.
pub(super) fn untrusted_forwarding_fields(
    out: &mut Vec<u8>,
    params: &ForwardParams<'_>,
    host: Range<usize>,
) {
    write_forwarding_fields(out, params, &TrustedFields::default(), Some(host));
}

/// Appends the forwarding fields: the reports of trusted proxies first, then the peer. Both
/// families name the same client, scheme and host. `host`: as above; `None`: the client named no
/// host.
pub(super) fn write_forwarding_fields(
    out: &mut Vec<u8>,
    params: &ForwardParams<'_>,
    trusted: &TrustedFields<'_>,
    host: Option<Range<usize>>,
) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    for element in &trusted.chain {
        out.extend_from_slice(bare_node(element.node));
        out.extend_from_slice(b", ");
    }
    let peer = append(out, |out| match params.peer {
        Some(peer) => decimal::address(peer, out),
        None => out.extend_from_slice(b"unknown"),
    });
    out.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
    let own_scheme: &[u8] = if params.is_tls { b"https" } else { b"http" };
    let scheme = trusted.scheme(params.client).unwrap_or(own_scheme);
    out.extend_from_slice(scheme);
    let reported = trusted.host(params.client);
    if reported.is_some() || host.is_some() {
        out.extend_from_slice(b"\r\nX-Forwarded-Host: ");
    }
    let host = match (reported, host) {
        (Some(host), _) => Some(append(out, |out| out.extend_from_slice(host))),
        (None, Some(host)) => Some(append(out, |out| out.extend_from_within(host))),
        // HTTP/1.0 has no Host, and the upstream's own name is not the client's.
        (None, None) => None,
    };
    if let Some(client) = params.client {
        out.extend_from_slice(b"\r\nX-Real-IP: ");
        match params.peer == Some(client) {
            true => out.extend_from_within(peer.clone()),
            false => decimal::address(client, out),
        }
    }
    // Scheme and host are those of the client's own request, which the first element describes (RFC
    // 7239 section 5.3, 5.4). A host with a port needs quotes; a parsed one holds neither quotes
    // nor backslashes.
    let about_client = |out: &mut Vec<u8>| {
        if let Some(host) = host.clone() {
            out.extend_from_slice(b";host=\"");
            out.extend_from_within(host);
            out.extend_from_slice(b"\"");
        }
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(scheme);
    };
    out.extend_from_slice(b"\r\nForwarded: ");
    for (number, element) in trusted.chain.iter().enumerate() {
        write_node(out, element.node);
        if number == 0 {
            about_client(out);
        }
        out.extend_from_slice(b", ");
    }
    // RFC 7239 section 4: IPv6 addresses need brackets and quotes.
    let (open, close): (&[u8], &[u8]) = match params.peer {
        Some(IpAddr::V6(_)) => (b"for=\"[", b"]\""),
        _ => (b"for=", b""),
    };
    out.extend_from_slice(open);
    out.extend_from_within(peer);
    out.extend_from_slice(close);
    if trusted.chain.is_empty() {
        about_client(out);
    }
    // RFC 9110 section 7.6.3: a gateway must add Via.
    out.extend_from_slice(match params.version {
        Version::HTTP_10 => b"\r\nVia: 1.0 ",
        Version::HTTP_2 => b"\r\nVia: 2.0 ",
        Version::HTTP_3 => b"\r\nVia: 3.0 ",
        _ => b"\r\nVia: 1.1 ",
    });
    out.extend_from_slice(SERVER.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Returns a node as X-Forwarded-For has it: without the quotes of Forwarded.
fn bare_node(node: &[u8]) -> &[u8] {
    match node.strip_prefix(b"\"").and_then(|node| node.strip_suffix(b"\"")) {
        Some(inner) => inner,
        None if node.is_empty() => b"unknown",
        None => node,
    }
}

/// Appends the `for` parameter of a node: an address, `unknown` or an obfuscated name (RFC 7239
/// section 6). A node that is neither is unknown.
fn write_node(out: &mut Vec<u8>, node: &[u8]) {
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    out.extend_from_slice(b"for=");
    match address(node) {
        Some(IpAddr::V6(address)) => {
            out.extend_from_slice(b"\"[");
            decimal::address(IpAddr::V6(address), out);
            out.extend_from_slice(b"]\"");
        }
        Some(address) => decimal::address(address, out),
        None if node.starts_with(b"_") && node.iter().all(is_token) => out.extend_from_slice(node),
        None => out.extend_from_slice(b"unknown"),
    }
}
