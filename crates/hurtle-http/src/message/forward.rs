//! Rewrites the heads that a proxy forwards in both directions. Fields of one connection are
//! removed, and so are fields that the peer is not trusted to send.

use std::io::Write;
use std::net::IpAddr;
use std::ops::Range;

use http::{HeaderMap, HeaderName, Version};

use super::field::Field;
use super::field_lines::{SERVER, date_line, line, number_field};
use super::forwarding_fields::{TrustedFields, write_forwarding_fields};
use super::response_head::ResponseHead;
use crate::request::field_class::{FieldClass, ForwardingField, classify};
use crate::request::fields::{begins_as, is_same, pairs};
use crate::request::framing::BodyLength;
use crate::request::{Method, RequestHead};
use crate::semantics::decimal;
use crate::semantics::fields::{has_token, list};
use crate::semantics::forwarded::Family;
use crate::semantics::host::Host;

/// Parameters of a request on its way to an upstream.
#[derive(Clone, Copy, Debug)]
pub struct ForwardParams<'a> {
    /// The path, percent-encoded.
    pub path: &'a [u8],
    /// The query as sent, without `?`.
    pub query: Option<&'a [u8]>,
    /// The Host for a request that has none.
    pub authority: &'a str,
    /// The address of the peer; `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// The address of the original client, for X-Real-IP.
    pub client: Option<IpAddr>,
    /// The forwarding fields that are used, if the peer is a trusted proxy.
    pub trusted: Option<Family>,
    /// True if the request came over TLS.
    pub is_tls: bool,
    /// The protocol version of the request.
    pub version: Version,
    /// The protocol to switch to, in lower case; `None` if the client may not switch.
    pub upgrade: Option<&'a str>,
    /// The Sec-WebSocket-Key for a WebSocket over HTTP/2 or HTTP/3, which has none.
    pub websocket_key: Option<&'a str>,
    /// Field lines that replace the request's preconditions and ranges, for a response that is
    /// cached.
    pub cache_conditions: Option<&'a [u8]>,
    /// The forwarding lines if they are known already (`ForwardedHeaders`).
    pub forwarded: Option<&'a [u8]>,
    /// The operator's edits of the fields; `None`: there are none.
    pub edits: Option<&'a RequestEdits>,
}

/// Edits of the fields of a request, for an upstream.
#[derive(Clone, Debug, Default)]
pub struct RequestEdits {
    /// The value of Host in place of the client's.
    pub host: Option<Vec<u8>>,
    /// Names of fields that neither the client nor this server sends, in any spelling.
    pub removed: Vec<HeaderName>,
    /// Complete field lines to add.
    pub lines: Vec<u8>,
}

/// Returns whether a name is one of these, compared as in [`is_same`].
pub fn is_among(name: &[u8], names: &[HeaderName]) -> bool {
    names.iter().any(|other| is_same(name, other.as_str().as_bytes()))
}

/// Appends the field lines of a forwarded request, but Host, whose value is at `host` in `out`:
/// the client's, those that `write_hop_fields` appends for the connection, and those about the
/// client.
pub(crate) fn request_fields(
    out: &mut Vec<u8>,
    request: &RequestHead<'_>,
    params: &ForwardParams<'_>,
    host: Range<usize>,
    write_hop_fields: impl FnOnce(&mut Vec<u8>),
) {
    let mut trusted = TrustedFields::default();
    match &request.section {
        // These lines depend on the header section alone, so they can be cached with it.
        Some(section)
            if params.trusted.is_none()
                && params.cache_conditions.is_none()
                && params.edits.is_none()
                && request.method != Method::Options =>
        {
            out.extend_from_slice(
                section.forwarded_lines(|out| write_end_to_end(out, request, params, &mut trusted)),
            );
        }
        _ => write_end_to_end(out, request, params, &mut trusted),
    }
    out.extend_from_slice(params.cache_conditions.unwrap_or_default());
    write_hop_fields(out);
    let named = request.host.filter(|host| !host.name.is_empty());
    match (params.edits, params.forwarded) {
        (Some(edits), _) => {
            // The forwarding fields describe the client's own Host.
            let mut own = Vec::new();
            let host = named.map(|host| append(&mut own, |own| authority(own, host)));
            let start = own.len();
            write_forwarding_fields(&mut own, params, &trusted, host);
            for (name, value) in
                pairs(&own[start..]).filter(|(name, _)| !is_among(name, &edits.removed))
            {
                line(out, name, value);
            }
            out.extend_from_slice(&edits.lines);
        }
        (None, Some(lines)) => out.extend_from_slice(lines),
        (None, None) => write_forwarding_fields(out, params, &trusted, named.map(|_| host)),
    }
}

/// Appends Content-Length and Expect, which every protocol sends.
pub(crate) fn content_fields(out: &mut Vec<u8>, request: &RequestHead<'_>) {
    match request.body {
        // RFC 9110 section 8.6: methods that usually have a body announce an empty one.
        BodyLength::None if matches!(request.method.as_bytes(), b"POST" | b"PUT" | b"PATCH") => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        BodyLength::Exactly(len) => number_field(out, "Content-Length", len),
        BodyLength::None | BodyLength::Chunked => {}
    }
    if request.expect_continue && request.body != BodyLength::None {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
}

/// Returns the method for an upstream. RFC 8441 section 5: an extended CONNECT is the GET of
/// HTTP/1.1 that asks for an upgrade.
pub(crate) fn upstream_method<'a>(request: &'a RequestHead<'_>) -> &'a [u8] {
    if request.protocol.is_some() { b"GET" } else { request.method.as_bytes() }
}

/// Appends the path and the query.
pub(crate) fn upstream_target(out: &mut Vec<u8>, params: &ForwardParams<'_>) {
    out.extend_from_slice(params.path);
    if let Some(query) = params.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// Appends the value of Host for an upstream: the operator's or the client's.
pub(crate) fn upstream_authority(
    out: &mut Vec<u8>,
    request: &RequestHead<'_>,
    params: &ForwardParams<'_>,
) {
    match params.edits.and_then(|edits| edits.host.as_ref()) {
        Some(host) => out.extend_from_slice(host),
        None => host_value(out, request, params),
    }
}

/// Appends the end-to-end fields, and collects the trusted forwarding fields in `trusted`.
fn write_end_to_end<'a>(
    out: &mut Vec<u8>,
    request: &RequestHead<'a>,
    params: &ForwardParams<'_>,
    trusted: &mut TrustedFields<'a>,
) {
    let nominated = nominated(request);
    for (name, value) in request.fields.iter() {
        if is_nominated(name, &nominated)
            || (params.cache_conditions.is_some() && is_conditional(name))
        {
            continue;
        }
        let is_removed = params.edits.is_some_and(|edits| is_among(name, &edits.removed));
        match classify(name) {
            // The reports of trusted proxies are continued in other fields.
            FieldClass::Pass | FieldClass::Forwarding(ForwardingField::More) if is_removed => {}
            FieldClass::Pass if request.method == Method::Options && is_max_forwards(name) => {
                write_max_forwards(out, name, value);
            }
            FieldClass::Pass => line(out, name, value),
            FieldClass::Drop => {}
            FieldClass::Forwarding(field) => {
                if let Some(family) = params.trusted {
                    trusted.take(family, field, name, value, out);
                }
            }
        }
    }
}

/// Returns the scheme that the client used, `http` or `https`, if the peer is a trusted proxy that
/// reports it in fields of this family. `client` is the address that it reports.
pub fn reported_scheme<'a>(
    request: &RequestHead<'a>,
    family: Family,
    client: Option<IpAddr>,
) -> Option<&'a [u8]> {
    let (mut trusted, mut passed_on) = (TrustedFields::default(), Vec::new());
    for (name, value) in request.fields.iter() {
        if let FieldClass::Forwarding(field) = classify(name) {
            trusted.take(family, field, name, value, &mut passed_on);
        }
    }
    trusted.scheme(client)
}

/// Returns the number of Max-Forwards, which OPTIONS and TRACE may have (RFC 9110 section 7.6.2).
/// `None`: there is none, or it is malformed.
pub fn max_forwards(request: &RequestHead<'_>) -> Option<u64> {
    let (_, value) = request.fields.iter().find(|(name, _)| is_max_forwards(name))?;
    str::from_utf8(value).ok()?.parse().ok()
}

fn is_max_forwards(name: &[u8]) -> bool {
    name.len() == 12 && name.eq_ignore_ascii_case(b"max-forwards")
}

/// Appends Max-Forwards with one hop less.
fn write_max_forwards(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match str::from_utf8(value).ok().and_then(|value| value.parse::<u64>().ok()) {
        Some(left) => line(out, name, left.saturating_sub(1).to_string().as_bytes()),
        None => line(out, name, value),
    }
}

/// True for preconditions and Range, which apply to this client only.
fn is_conditional(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"range") || begins_as(name, b"if-")
}

/// Appends the identity of a request for a cache key: scheme, host and target as forwarded, and the
/// forwarding fields of a trusted proxy.
pub fn identity(out: &mut Vec<u8>, request: &RequestHead<'_>, params: &ForwardParams<'_>) {
    out.extend_from_slice(if params.is_tls { b"https://" } else { b"http://" });
    host_value(out, request, params);
    upstream_target(out, params);
    let Some(family) = params.trusted else { return };
    let mut trusted = TrustedFields::default();
    out.push(b'\n');
    for (name, value) in request.fields.iter() {
        if let FieldClass::Forwarding(field) = classify(name) {
            trusted.take(family, field, name, value, out);
        }
    }
    for part in [trusted.scheme(params.client), trusted.host(params.client)] {
        out.push(b'\n');
        out.extend_from_slice(part.unwrap_or_default());
    }
}

/// Appends the value of Host (RFC 9110 section 7.2) as parsed from the target or from the Host
/// field.
fn host_value(out: &mut Vec<u8>, request: &RequestHead<'_>, params: &ForwardParams<'_>) {
    match request.host.filter(|host| !host.name.is_empty()) {
        None => out.extend_from_slice(params.authority.as_bytes()),
        Some(host) => authority(out, host),
    }
}

/// Appends a parsed host and its port.
pub(crate) fn authority(out: &mut Vec<u8>, host: Host<'_>) {
    out.extend_from_slice(host.name);
    if let Some(port) = host.port {
        out.push(b':');
        decimal::number(port, out);
    }
}

/// Calls `write` and returns the range of `out` that it appended.
pub(crate) fn append(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    let start = out.len();
    write(out);
    start..out.len()
}

/// Appends the field lines of an upstream's response for the client, with Date and Server, and
/// without framing and connection fields.
#[inline]
pub fn response_fields(out: &mut Vec<u8>, response: &ResponseHead<'_>, date: &[u8; 29]) {
    let (mut dated, mut named) = (false, false);
    for_client(response, |field| {
        dated |= field.name.eq_ignore_ascii_case(b"date");
        named |= field.name.eq_ignore_ascii_case(b"server");
        field.write(out);
    });
    // RFC 9110 section 6.6.1: a recipient adds Date to a response without one.
    if !dated {
        date_line(out, date);
    }
    if !named {
        out.extend_from_slice(b"Server: ");
        out.extend_from_slice(SERVER.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the field lines of an upstream's interim response.
pub fn interim_fields(out: &mut Vec<u8>, response: &ResponseHead<'_>) {
    for_client(response, |field| field.write(out));
}

/// Appends the field lines of a 101 response, which ends HTTP on the connection (RFC 9110 section
/// 15.2.2). `accept` replaces the upstream's Sec-WebSocket-Accept.
pub fn switch_fields(
    out: &mut Vec<u8>,
    response: &ResponseHead<'_>,
    protocol: &str,
    accept: Option<&str>,
    date: &[u8; 29],
) {
    let mut dated = false;
    each_for_client(response, |name, value| {
        dated |= name.eq_ignore_ascii_case(b"date");
        let is_replaced = accept.is_some() && name.eq_ignore_ascii_case(ACCEPT);
        if !is_replaced {
            line(out, name, value);
        }
    });
    if let Some(accept) = accept {
        line(out, ACCEPT, accept.as_bytes());
    }
    if !dated {
        date_line(out, date);
    }
    let _ = write!(out, "Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
}

/// Name of the field that answers Sec-WebSocket-Key (RFC 6455 section 4.2.2).
const ACCEPT: &[u8] = b"Sec-WebSocket-Accept";

/// Appends a field of a response whose body is replaced by a file, if the field is kept. With
/// `content` the fields that describe the content are kept too. Set it for the file and for one
/// range: other responses have their own fields, about an error or several ranges (RFC 9110 section
/// 14.6, multipart/byteranges).
pub fn keep_for_file(out: &mut Vec<u8>, name: &[u8], value: &[u8], content: bool) {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let kept = match name.len() {
        10 => is("set-cookie"),
        12 => content && is("content-type"),
        13 => is("cache-control"),
        19 => content && is("content-disposition"),
        _ => false,
    };
    if kept {
        line(out, name, value);
    }
}

/// Returns a file's field lines with `kept` and `set` (whole lines) in place of the file's own.
/// Fields listed in `removed` are dropped.
pub fn edit_lines(lines: &[u8], kept: &[u8], removed: &[HeaderName], set: &[u8]) -> Vec<u8> {
    let removes =
        |name: &[u8]| removed.iter().any(|r| r.as_str().as_bytes().eq_ignore_ascii_case(name));
    let mut out = Vec::with_capacity(lines.len() + kept.len() + set.len());
    for (name, value) in pairs(lines) {
        let replaced = pairs(kept).any(|(other, _)| other.eq_ignore_ascii_case(name));
        if !replaced && !removes(name) {
            line(&mut out, name, value);
        }
    }
    for (name, value) in pairs(kept).filter(|(name, _)| !removes(name)) {
        line(&mut out, name, value);
    }
    out.extend_from_slice(set);
    out
}

/// Calls `each` with every end-to-end field of a response.
pub fn each_for_client<'a>(response: &ResponseHead<'a>, mut each: impl FnMut(&'a [u8], &'a [u8])) {
    for_client(response, |field| each(field.name, field.value));
}

fn for_client<'a>(response: &ResponseHead<'a>, each: impl FnMut(Field<'a>)) {
    if response.connection.is_empty() {
        return response.public().for_each(each);
    }
    let nominated: Vec<&[u8]> = (response.connection.iter().flat_map(|value| list(value)))
        .filter(|name| !is_known_option(name))
        .collect();
    response.public().filter(|field| !is_nominated(field.name, &nominated)).for_each(each);
}

/// Removes the fields that a client's Connection lists from `fields`, which are those of its
/// request. Those that this server has set in it stay.
pub fn remove_nominated(request: &RequestHead<'_>, fields: &mut HeaderMap) {
    for name in nominated(request) {
        if let Ok(name) = HeaderName::from_bytes(name) {
            fields.remove(name);
        }
    }
}

/// Returns whether a client's Connection lists a field that an upstream would get otherwise.
pub fn is_any_nominated(request: &RequestHead<'_>) -> bool {
    nominated(request).iter().any(|name| !matches!(classify(name), FieldClass::Drop))
}

/// The fields that a client's Connection lists. Those that this server has set are not the
/// client's to list: it would remove what authentication says about it.
fn nominated<'a>(request: &RequestHead<'a>) -> Vec<&'a [u8]> {
    let is_listed = |name: &&[u8]| !is_known_option(name) && !is_among(name, request.own_fields);
    request.connection.map_or_else(Vec::new, |listed| list(listed).filter(is_listed).collect())
}

/// RFC 9110 section 7.6.1: fields that Connection lists are hop-by-hop.
fn is_nominated(name: &[u8], nominated: &[&[u8]]) -> bool {
    nominated.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// True for connection options that need no look-up: there is no such field, or it is always
/// dropped.
fn is_known_option(option: &[u8]) -> bool {
    [b"close".as_slice(), b"keep-alive", b"upgrade", b"te"]
        .iter()
        .any(|usual| option.eq_ignore_ascii_case(usual))
}

/// Returns the protocol that a client wants to switch to, if `allowed` lists it (in lower case).
pub fn upgrade<'a>(request: &RequestHead<'_>, allowed: &'a [String]) -> Option<&'a str> {
    let requested = upgrades(request)?;
    allowed.iter().find(|token| has_token(requested, token.as_bytes())).map(String::as_str)
}

/// Returns the value of Upgrade, or of `:protocol`, if the request may switch protocols.
pub fn upgrades<'a>(request: &RequestHead<'a>) -> Option<&'a [u8]> {
    if request.protocol.is_some() {
        return request.protocol;
    }
    let requested = request.upgrade?;
    let connection = request.connection?;
    // RFC 9110 section 7.8: Upgrade is ignored without the connection option, and in HTTP/1.0. With
    // a body the start of the new protocol is unclear.
    if !has_token(connection, b"upgrade") || request.http10 || request.body != BodyLength::None {
        return None;
    }
    Some(requested)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::forward::request;
    use crate::h1::request as requests;
    use crate::h1::response_head as replies;
    use crate::request::HeadLimits;
    use crate::request::Joined;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 8192, target_bytes: 999, fields: 50 };

    /// Returns the forwarded fields, without those that are always added.
    fn passed(fields: &str, trusted: Option<Family>) -> String {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let joined = Joined::default();
        let parsed = requests::parse(head.as_bytes(), &joined, &LIMITS).unwrap();
        let params = ForwardParams {
            path: b"/x",
            query: Some(b"q"),
            authority: "up",
            peer: Some([192, 0, 2, 1].into()),
            client: Some([198, 51, 100, 1].into()),
            trusted,
            is_tls: false,
            version: Version::HTTP_11,
            upgrade: None,
            websocket_key: None,
            cache_conditions: None,
            forwarded: None,
            edits: None,
        };
        let mut out = Vec::new();
        request(&mut out, &parsed, &params);
        let text = String::from_utf8(out).unwrap();
        let rest = text.strip_prefix("GET /x?q HTTP/1.1\r\nHost: a\r\n").unwrap();
        let rest = rest.strip_suffix("Via: 1.1 hurtle\r\n\r\n").unwrap();
        rest.replace("\r\n", "\n")
    }

    const OURS: &str = "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a\n\
                        X-Real-IP: 198.51.100.1\nForwarded: for=192.0.2.1;host=\"a\";proto=http\n";

    #[test]
    fn hop_by_hop_and_untrusted_fields_are_dropped() {
        for (sentence, fields) in [
            ("nothing", ""),
            ("hop-by-hop fields", "Connection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"),
            ("fields for the next proxy", "Proxy-Connection: a\r\nProxy-Authorization: b\r\n"),
            (
                "HTTP/2 in the clear",
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n",
            ),
            ("HTTP/2 without Connection", "HTTP2-Settings: a\r\nUpgrade: h2c\r\n"),
            (
                "invented forwarding fields",
                "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\n",
            ),
            (
                "more invented forwarding fields",
                "X-Forwarded-Host: b\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Anything: 1\r\n",
            ),
            ("an invented client", "X-Real-IP: 1.1.1.1\r\n"),
            (
                "invented fields in CGI's spelling",
                "X_Forwarded_For: 1.1.1.1\r\nX_Real-IP: 1.1.1.1\r\nTransfer_Encoding: a\r\n\
                 X.Forwarded.For: 1.1.1.1\r\nX.Real-IP: 1.1.1.1\r\n",
            ),
            (
                "orders to send a file",
                "X-Accel-Redirect: /a\r\nX-Sendfile: /a\r\nX-Sendfile-Type: X-Sendfile\r\nX-Accel-Mapping: /=/\r\n",
            ),
            (
                "orders to send a file in CGI's spelling",
                "X_Sendfile_Type: X-Sendfile\r\nX_Accel_Mapping: /=/\r\n",
            ),
            ("a proxy for CGI programs", "Proxy: http://evil\r\n"),
        ] {
            assert_eq!(passed(fields, None), OURS, "{sentence}");
        }
        assert_eq!(
            passed("Cookie: a\r\ncookie: b\r\n", None),
            format!("Cookie: a\ncookie: b\n{OURS}")
        );
    }

    #[test]
    fn the_scheme_is_the_one_that_the_trusted_family_reports() {
        let rows = [
            ("X-Forwarded-Proto: https\r\n", Some("https"), None),
            ("Forwarded: for=198.51.100.1;proto=https\r\n", None, Some("https")),
            ("X-Forwarded-Proto: gopher\r\n", None, None),
            ("", None, None),
        ];
        for (fields, by_x, by_forwarded) in rows {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let joined = Joined::default();
            let parsed = requests::parse(head.as_bytes(), &joined, &LIMITS).unwrap();
            let client = Some([198, 51, 100, 1].into());
            for (family, wanted) in [(Family::XForwarded, by_x), (Family::Forwarded, by_forwarded)]
            {
                let reported = reported_scheme(&parsed, family, client);
                assert_eq!(reported, wanted.map(str::as_bytes), "{family:?}: {fields}");
            }
        }
    }

    #[test]
    fn forwarding_fields_of_a_trusted_peer_are_used() {
        let both = "X-Forwarded-For: 1.1.1.1, 198.51.100.1\r\nX-Forwarded-Proto: https\r\n\
                    X-Forwarded-Host: b:81\r\nX-Forwarded-Prefix: /p\r\nX-Real-IP: 6.6.6.6\r\n\
                    Forwarded: for=6.6.6.6;proto=http;host=evil\r\n";
        let ours = |chain: &str, scheme: &str, host: &str, forwarded: &str| {
            format!(
                "X-Forwarded-For: {chain}192.0.2.1\nX-Forwarded-Proto: {scheme}\n\
                 X-Forwarded-Host: {host}\nX-Real-IP: 198.51.100.1\nForwarded: {forwarded}\n"
            )
        };
        let used = Some(Family::XForwarded);
        let expected = ours(
            "1.1.1.1, 198.51.100.1, ",
            "https",
            "b:81",
            "for=1.1.1.1;host=\"b:81\";proto=https, for=198.51.100.1, for=192.0.2.1",
        );
        let expected = format!("X-Forwarded-Prefix: /p\n{expected}");
        assert_eq!(passed(both, used), expected, "the client's Forwarded is dropped");
        let scheme = "X-Forwarded-Proto: https\r\n";
        let expected = ours("", "https", "a", "for=192.0.2.1;host=\"a\";proto=https");
        assert_eq!(passed(scheme, used), expected, "both families name the scheme");
        let odd = "X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a b\r\n";
        assert_eq!(passed(odd, used), OURS, "a malformed scheme or host is not forwarded");
        let nodes = "X-Forwarded-For: 198.51.100.1:55, 2001:db8::7, [2001:db8::8]:1, a b, _x\r\n";
        let expected = ours(
            "198.51.100.1:55, 2001:db8::7, [2001:db8::8]:1, a b, _x, ",
            "http",
            "a",
            "for=198.51.100.1;host=\"a\";proto=http, for=\"[2001:db8::7]\", \
             for=\"[2001:db8::8]\", for=unknown, for=_x, for=192.0.2.1",
        );
        assert_eq!(passed(nodes, used), expected, "nodes of all kinds");
    }

    #[test]
    fn forwarded_of_a_trusted_peer_is_used_where_its_family_is() {
        let used = Some(Family::Forwarded);
        let rows = [
            (
                "X-Forwarded fields are dropped",
                "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: http\r\n\
                 X-Forwarded-Prefix: /evil\r\n\
                 Forwarded: for=198.51.100.1;proto=https;host=\"b:81\"\r\n",
                "X-Forwarded-For: 198.51.100.1, 192.0.2.1\nX-Forwarded-Proto: https\n\
                 X-Forwarded-Host: b:81\nX-Real-IP: 198.51.100.1\n\
                 Forwarded: for=198.51.100.1;host=\"b:81\";proto=https, for=192.0.2.1\n",
            ),
            (
                "the first proxy's report of the client decides, not one that the client invents",
                "Forwarded: for=6.6.6.6;proto=http;host=evil\r\n\
                 Forwarded: for=198.51.100.1;proto=https, for=10.0.0.2;proto=http;host=c\r\n",
                "X-Forwarded-For: 6.6.6.6, 198.51.100.1, 10.0.0.2, 192.0.2.1\n\
                 X-Forwarded-Proto: https\nX-Forwarded-Host: c\nX-Real-IP: 198.51.100.1\n\
                 Forwarded: for=6.6.6.6;host=\"c\";proto=https, for=198.51.100.1, \
                 for=10.0.0.2, for=192.0.2.1\n",
            ),
            (
                "a client that is not named",
                "Forwarded: for=_hidden;proto=https, proto=https\r\n",
                "X-Forwarded-For: _hidden, unknown, 192.0.2.1\nX-Forwarded-Proto: https\n\
                 X-Forwarded-Host: a\nX-Real-IP: 198.51.100.1\n\
                 Forwarded: for=_hidden;host=\"a\";proto=https, for=unknown, for=192.0.2.1\n",
            ),
            ("none", "X-Forwarded-Proto: https\r\n", OURS),
        ];
        for (sentence, fields, expected) in rows {
            assert_eq!(passed(fields, used), expected, "{sentence}");
        }
    }

    #[test]
    fn framing_is_forwarded() {
        let head = |method: &str, fields: &str| {
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let joined = Joined::default();
            let parsed = requests::parse(head.as_bytes(), &joined, &LIMITS).unwrap();
            let params = ForwardParams {
                path: b"/",
                query: None,
                authority: "up",
                peer: None,
                client: None,
                trusted: None,
                is_tls: false,
                version: Version::HTTP_11,
                upgrade: None,
                websocket_key: None,
                cache_conditions: None,
                forwarded: None,
                edits: None,
            };
            let mut out = Vec::new();
            request(&mut out, &parsed, &params);
            String::from_utf8(out).unwrap()
        };
        assert!(head("POST", "Content-Length: 5\r\n").contains("\r\nContent-Length: 5\r\n"));
        assert!(head("POST", "Content-Length: 0\r\n").contains("\r\nContent-Length: 0\r\n"));
        assert!(!head("GET", "Content-Length: 0\r\n").contains("Content-Length"));
        let chunked = head("POST", "Transfer-Encoding: CHUNKED\r\nExpect: 100-continue\r\n");
        assert!(chunked.contains("\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"));
        assert!(head("GET", "TE: trailers\r\n").contains("\r\nConnection: TE\r\nTE: trailers\r\n"));
    }

    #[test]
    fn the_client_gets_end_to_end_fields_of_a_response() {
        let head = b"HTTP/1.1 200 Fine\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\
                     Content-Length: 5\r\nX-Accel-Redirect: /a\r\nX-Accel-Buffering: no\r\n\
                     X-Sendfile: /a\r\nSet-Cookie: a\r\nset-cookie: b\r\nX-Gone: 1\r\n\
                     Upgrade: h2c\r\nProxy-Authenticate: Basic\r\nDate: then\r\n\r\n";
        let parsed = replies::parse(head).unwrap();
        let mut out = Vec::new();
        response_fields(&mut out, &parsed, &[b'D'; 29]);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Set-Cookie: a\r\nset-cookie: b\r\nX-Gone: 1\r\nDate: then\r\nServer: hurtle\r\n"
        );
    }
}
