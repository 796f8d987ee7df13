//! Classifies the fields of a forwarded request: forwarded, dropped, or used only from a trusted
//! proxy.

use super::fields::{begins_as, is_same};

/// Classifies a request field. Names are compared as CGI-like upstreams do: `X_Forwarded_For`
/// and `X.Forwarded.For` count as `X-Forwarded-For`.
#[inline]
pub(crate) fn classify(name: &[u8]) -> FieldClass {
    let is = |known: &str| is_same(name, known.as_bytes());
    let drop = match name.len() {
        2 => is("te"),
        4 => is("host"),
        // CVE-2016-5385: CGI programs take HTTP_PROXY for the proxy of their own requests.
        5 => is("proxy"),
        6 => is("expect"),
        7 => is("upgrade"),
        10 => is("connection") || is("keep-alive") || begins_as(name, b"x-sendfile"),
        14 => is("content-length") || is("http2-settings"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        19 => is("proxy-authorization"),
        _ => false,
    };
    if drop || begins_as(name, b"x-accel-") || begins_as(name, b"x-sendfile") {
        return FieldClass::Drop;
    }
    let field = match name.len() {
        9 if is("forwarded") => ForwardingField::Forwarded,
        // X-Real-IP is always written anew.
        9 if is("x-real-ip") => return FieldClass::Drop,
        15 if is("x-forwarded-for") => ForwardingField::For,
        16 if is("x-forwarded-host") => ForwardingField::Host,
        17 if is("x-forwarded-proto") => ForwardingField::Proto,
        _ if begins_as(name, b"x-forwarded-") => ForwardingField::More,
        _ => return FieldClass::Pass,
    };
    // Proxies do not write forwarding fields with `_` or `.`.
    if name.iter().any(|byte| matches!(byte, b'_' | b'.')) {
        FieldClass::Drop
    } else {
        FieldClass::Forwarding(field)
    }
}

/// Treatment of a request field.
pub(crate) enum FieldClass {
    /// Forwarded unchanged.
    Pass,
    /// Never forwarded.
    Drop,
    /// A forwarding field, used only from a trusted proxy.
    Forwarding(ForwardingField),
}

/// A field that describes the client's request to a proxy.
#[derive(Clone, Copy)]
pub(crate) enum ForwardingField {
    For,
    Proto,
    Host,
    Forwarded,
    /// Another X-Forwarded field, forwarded unchanged.
    More,
}
