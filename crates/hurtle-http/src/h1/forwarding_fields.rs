//! Writes the fields that tell an upstream about the client: X-Forwarded-*, X-Real-IP, Forwarded and
//! Via. Those of a trusted proxy are continued.

use std::net::IpAddr;
use std::ops::Range;

use http::Version;

use super::field_class::ForwardingField;
use super::forward::{ForwardParams, append, line};
use super::response::SERVER;
use crate::semantics::decimal;
use crate::semantics::fields::list;
use crate::semantics::host;

/// Forwarding fields from a trusted proxy.
#[derive(Default)]
pub(super) struct TrustedFields<'a> {
    chain: Vec<&'a [u8]>,
    forwarded: Vec<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

impl<'a> TrustedFields<'a> {
    /// Takes the value of a field, or passes it on.
    pub(super) fn take(
        &mut self,
        field: ForwardingField,
        name: &[u8],
        value: &'a [u8],
        out: &mut Vec<u8>,
    ) {
        match field {
            ForwardingField::For => self.chain.extend(list(value)),
            ForwardingField::Forwarded => self.forwarded.extend(list(value)),
            ForwardingField::Proto => {
                self.scheme = Some(value).filter(|v| matches!(*v, b"http" | b"https"));
            }
            ForwardingField::Host => self.host = Some(value).filter(|v| host::parse(v).is_ok()),
            ForwardingField::More => line(out, name, value),
        }
    }
}

/// Appends the forwarding fields of a request from an untrusted peer. `host` is the range of the
/// Host value in `out`.
pub(super) fn untrusted_forwarding_fields(
    out: &mut Vec<u8>,
    params: &ForwardParams<'_>,
    host: Range<usize>,
) {
    write_forwarding_fields(out, params, &TrustedFields::default(), host);
}

/// Appends the forwarding fields: trusted values first, then those of this hop.
pub(super) fn write_forwarding_fields(
    out: &mut Vec<u8>,
    params: &ForwardParams<'_>,
    trusted: &TrustedFields<'_>,
    host: Range<usize>,
) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    for node in &trusted.chain {
        out.extend_from_slice(node);
        out.extend_from_slice(b", ");
    }
    let peer = append(out, |out| match params.peer {
        Some(peer) => decimal::address(peer, out),
        None => out.extend_from_slice(b"unknown"),
    });
    out.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
    let own_scheme: &[u8] = if params.is_tls { b"https" } else { b"http" };
    out.extend_from_slice(trusted.scheme.unwrap_or(own_scheme));
    out.extend_from_slice(b"\r\nX-Forwarded-Host: ");
    match trusted.host {
        Some(host) => out.extend_from_slice(host),
        None => out.extend_from_within(host.clone()),
    }
    if let Some(client) = params.client {
        out.extend_from_slice(b"\r\nX-Real-IP: ");
        match params.peer == Some(client) {
            true => out.extend_from_within(peer.clone()),
            false => decimal::address(client, out),
        }
    }
    // RFC 7239 section 4: IPv6 addresses need brackets and quotes, and a host with a port needs
    // quotes.
    out.extend_from_slice(b"\r\nForwarded: ");
    for element in &trusted.forwarded {
        out.extend_from_slice(element);
        out.extend_from_slice(b", ");
    }
    let (open, close): (&[u8], &[u8]) = match params.peer {
        Some(IpAddr::V6(_)) => (b"for=\"[", b"]\";host=\""),
        _ => (b"for=", b";host=\""),
    };
    out.extend_from_slice(open);
    out.extend_from_within(peer);
    out.extend_from_slice(close);
    // A parsed host holds neither quotes nor backslashes.
    out.extend_from_within(host);
    out.extend_from_slice(b"\";proto=");
    out.extend_from_slice(own_scheme);
    // RFC 9110 section 7.6.3: a gateway must add Via.
    out.extend_from_slice(match params.version {
        Version::HTTP_2 => b"\r\nVia: 2.0 ",
        Version::HTTP_3 => b"\r\nVia: 3.0 ",
        _ => b"\r\nVia: 1.1 ",
    });
    out.extend_from_slice(SERVER.as_bytes());
    out.extend_from_slice(b"\r\n");
}
