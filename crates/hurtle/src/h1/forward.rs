//! What a proxy passes on: heads written anew from what was parsed of the other side's. What holds
//! for one connection only stays behind, and so does whatever a peer has no right to say.

use std::io::Write;
use std::net::IpAddr;
use std::ops::Range;

use http::{HeaderName, StatusCode};

use super::field::Field;
use super::fields::{begins_as, is_same, pairs};
use super::framing::BodyLength;
use super::reply::Reply;
use super::request::Request;
use super::response::{Delimiter, Persistence, SERVER, status_line};
use crate::semantics::decimal;
use crate::semantics::fields::{has_token, list};
use crate::semantics::host::{self, Host};

/// What a request becomes on its way to an upstream.
#[derive(Clone, Copy, Debug)]
pub struct Onward<'a> {
    /// The path, encoded.
    pub path: &'a [u8],
    /// The query as sent.
    pub query: Option<&'a [u8]>,
    /// The Host of a request that has none.
    pub authority: &'a str,
    /// Who sent the request here; `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// Who sent it in the first place.
    pub client: Option<IpAddr>,
    /// Whether the peer is believed in what it says of those before it.
    pub trusted: bool,
    /// Whether the request came here over TLS.
    pub secure: bool,
    /// Whether it came by HTTP/2.
    pub http2: bool,
    /// The protocol to change to, in lower case, if the client may.
    pub upgrade: Option<&'a str>,
    /// Lines in the place of the request's conditions and ranges: it is asked for whoever comes.
    pub for_all: Option<&'a [u8]>,
    /// The lines that tell of the way here, where they are known (`Way`).
    pub way: Option<&'a [u8]>,
}

/// What a trusted proxy said of those before it.
#[derive(Default)]
struct Said<'a> {
    chain: Vec<&'a [u8]>,
    forwarded: Vec<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

/// Appends a request's whole head.
pub fn request(out: &mut Vec<u8>, request: &Request<'_>, onward: &Onward<'_>) {
    out.extend_from_slice(request.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(onward.path);
    if let Some(query) = onward.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    let host = append(out, |out| host_value(out, request, onward));
    out.extend_from_slice(b"\r\n");
    let mut said = Said::default();
    match &request.section {
        // What passes depends on nothing else.
        Some(section) if !onward.trusted && onward.for_all.is_none() => {
            out.extend_from_slice(section.passing(|out| passing(out, request, onward, &mut said)));
        }
        _ => passing(out, request, onward, &mut said),
    }
    out.extend_from_slice(onward.for_all.unwrap_or_default());
    of_this_hop(out, request, onward);
    match onward.way {
        Some(lines) => out.extend_from_slice(lines),
        None => of_the_way(out, onward, &said, host),
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the fields that are passed on as they are.
fn passing<'a>(out: &mut Vec<u8>, request: &Request<'a>, onward: &Onward<'_>, said: &mut Said<'a>) {
    let mut nominated: Vec<&[u8]> = Vec::new();
    if let Some(connection) = request.connection {
        nominated.extend(list(connection).filter(|name| !is_usual(name)));
    }
    for (name, value) in pairs(request.field_lines) {
        if is_nominated(name, &nominated) || (onward.for_all.is_some() && is_own_wish(name)) {
            continue;
        }
        match fate(name) {
            Fate::Pass => line(out, name, value),
            Fate::Drop => {}
            Fate::Trust(what) if onward.trusted => said.take(what, name, value, out),
            Fate::Trust(_) => {}
        }
    }
}

/// Whether a field asks for what only this client wants: some ranges, or nothing if it has it.
fn is_own_wish(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"range") || begins_as(name, b"if-")
}

/// Appends what a request is told from others by: the scheme, host and target as they are forwarded,
/// and what a trusted proxy says of them.
pub fn identity(out: &mut Vec<u8>, request: &Request<'_>, onward: &Onward<'_>) {
    out.extend_from_slice(if onward.secure { b"https://" } else { b"http://" });
    host_value(out, request, onward);
    out.extend_from_slice(onward.path);
    if let Some(query) = onward.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    if !onward.trusted {
        return;
    }
    for (name, value) in pairs(request.field_lines) {
        let of_client = is_same(name, b"x-forwarded-for");
        if !of_client && begins_as(name, b"x-forwarded-") {
            out.push(b'\n');
            line(out, name, value);
        }
    }
}

/// RFC 9110 7.2, written from what was parsed of the target or the Host field.
fn host_value(out: &mut Vec<u8>, request: &Request<'_>, onward: &Onward<'_>) {
    match request.host.filter(|host| !host.name.is_empty()) {
        None => out.extend_from_slice(onward.authority.as_bytes()),
        Some(host) => authority(out, host),
    }
}

/// Appends a host and its port, as they were parsed.
pub(super) fn authority(out: &mut Vec<u8>, host: Host<'_>) {
    out.extend_from_slice(host.name);
    if let Some(port) = host.port {
        out.push(b':');
        decimal::number(port, out);
    }
}

/// The fields of the connection to the upstream, and of the body.
fn of_this_hop(out: &mut Vec<u8>, request: &Request<'_>, onward: &Onward<'_>) {
    match request.body {
        BodyLength::None => {
            // RFC 9110 8.6: where a body is usual, that there is none is said.
            if matches!(request.method.as_bytes(), b"POST" | b"PUT" | b"PATCH") {
                out.extend_from_slice(b"Content-Length: 0\r\n");
            }
        }
        BodyLength::Exactly(len) => {
            length_line(out, len);
        }
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if request.expect_continue && request.body != BodyLength::None {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    match onward.upgrade {
        Some(protocol) => {
            // Writing into a Vec cannot fail.
            let _ = write!(out, "Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
        }
        // RFC 9110 10.1.4: TE is for one hop, and is named as such.
        None if request.te_trailers => {
            out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n");
        }
        None => {}
    }
}

/// Appends who has handled a request so far whose peer is not believed; `host`: where in `out` it
/// stands.
pub(super) fn way(out: &mut Vec<u8>, onward: &Onward<'_>, host: Range<usize>) {
    of_the_way(out, onward, &Said::default(), host);
}

/// Who has handled the request so far: what is known here, behind what is believed.
fn of_the_way(out: &mut Vec<u8>, onward: &Onward<'_>, said: &Said<'_>, host: Range<usize>) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    for node in &said.chain {
        out.extend_from_slice(node);
        out.extend_from_slice(b", ");
    }
    let peer = append(out, |out| match onward.peer {
        Some(peer) => decimal::address(peer, out),
        None => out.extend_from_slice(b"unknown"),
    });
    out.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
    let own_scheme: &[u8] = if onward.secure { b"https" } else { b"http" };
    out.extend_from_slice(said.scheme.unwrap_or(own_scheme));
    out.extend_from_slice(b"\r\nX-Forwarded-Host: ");
    match said.host {
        Some(host) => out.extend_from_slice(host),
        None => out.extend_from_within(host.clone()),
    }
    if let Some(client) = onward.client {
        out.extend_from_slice(b"\r\nX-Real-IP: ");
        match onward.peer == Some(client) {
            true => out.extend_from_within(peer.clone()),
            false => decimal::address(client, out),
        }
    }
    // RFC 7239 4; an IPv6 address is in brackets and quoted, and so is a host with its port.
    out.extend_from_slice(b"\r\nForwarded: ");
    for element in &said.forwarded {
        out.extend_from_slice(element);
        out.extend_from_slice(b", ");
    }
    let (open, close): (&[u8], &[u8]) = match onward.peer {
        Some(IpAddr::V6(_)) => (b"for=\"[", b"]\";host=\""),
        _ => (b"for=", b";host=\""),
    };
    out.extend_from_slice(open);
    out.extend_from_within(peer);
    out.extend_from_slice(close);
    // A host that was parsed holds neither quotes nor backslashes.
    out.extend_from_within(host);
    out.extend_from_slice(b"\";proto=");
    out.extend_from_slice(own_scheme);
    // RFC 9110 7.6.3: a gateway must say that it was there.
    out.extend_from_slice(if onward.http2 { b"\r\nVia: 2.0 " } else { b"\r\nVia: 1.1 " });
    out.extend_from_slice(SERVER.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends something; where it now stands.
fn append(out: &mut Vec<u8>, what: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    let start = out.len();
    what(out);
    start..out.len()
}

/// What becomes of a request's field.
enum Fate {
    Pass,
    Drop,
    /// It says something of those before the peer: believed only of some.
    Trust(What),
}

#[derive(Clone, Copy)]
enum What {
    For,
    Proto,
    Host,
    Forwarded,
    /// Another one: passed on.
    More,
}

impl<'a> Said<'a> {
    fn take(&mut self, what: What, name: &[u8], value: &'a [u8], out: &mut Vec<u8>) {
        match what {
            What::For => self.chain.extend(list(value)),
            What::Forwarded => self.forwarded.extend(list(value)),
            What::Proto => {
                self.scheme = Some(value).filter(|v| matches!(*v, b"http" | b"https"));
            }
            What::Host => self.host = Some(value).filter(|v| host::parse(v).is_ok()),
            What::More => line(out, name, value),
        }
    }
}

/// Names are compared as a CGI-like upstream would: `X_Forwarded_For` is one of them too.
fn fate(name: &[u8]) -> Fate {
    let is = |known: &str| is_same(name, known.as_bytes());
    let drop = match name.len() {
        2 => is("te"),
        4 => is("host"),
        // What CGI programs would take for the proxy they are to use (CVE-2016-5385).
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
        return Fate::Drop;
    }
    let what = match name.len() {
        9 if is("forwarded") => What::Forwarded,
        // Written from what was found out here.
        9 if is("x-real-ip") => return Fate::Drop,
        15 if is("x-forwarded-for") => What::For,
        16 if is("x-forwarded-host") => What::Host,
        17 if is("x-forwarded-proto") => What::Proto,
        _ if begins_as(name, b"x-forwarded-") => What::More,
        _ => return Fate::Pass,
    };
    // No proxy writes them so.
    if name.contains(&b'_') { Fate::Drop } else { Fate::Trust(what) }
}

/// Appends the head of an upstream's response as the client gets it. `length`: what its body has to
/// be told apart by; `leave_out`: fields that rules remove; `added`: lines that they set.
pub fn reply(
    out: &mut Vec<u8>,
    reply: &Reply<'_>,
    date: &[u8; 29],
    delimiter: Delimiter,
    persistence: Persistence,
    dress: &Dress<'_>,
) {
    status_line(reply.status, out);
    let (mut dated, mut named) = (false, false);
    for_client(reply, |field| {
        dated |= field.name.eq_ignore_ascii_case(b"date");
        named |= field.name.eq_ignore_ascii_case(b"server");
        if !(dress.removes)(field.name) {
            field.write(out);
        }
    });
    // RFC 9110 6.6.1: who receives an answer without a date gives it one.
    if !dated {
        date_line(out, date);
    }
    if !named && !(dress.removes)(b"server") {
        out.extend_from_slice(b"Server: ");
        out.extend_from_slice(SERVER.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(&dress.set);
    match delimiter {
        Delimiter::Given | Delimiter::Close => {}
        Delimiter::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Delimiter::Length(len) => length_line(out, len),
    }
    out.extend_from_slice(match persistence {
        Persistence::Implied => b"\r\n".as_slice(),
        Persistence::KeepAlive => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
        Persistence::Upgrade => b"Connection: upgrade\r\n\r\n",
    });
}

/// Fields that a site's rules set and remove.
pub struct Dress<'a> {
    /// Whether a field of this name is left out.
    pub removes: &'a dyn Fn(&[u8]) -> bool,
    /// Whole lines to add.
    pub set: Vec<u8>,
}

/// Appends an interim response (RFC 9110 15.2): a hint, or the leave to send a body.
pub fn interim(out: &mut Vec<u8>, reply: &Reply<'_>) {
    status_line(reply.status, out);
    for_client(reply, |field| field.write(out));
    out.extend_from_slice(b"\r\n");
}

/// Appends the head that ends HTTP on a connection (RFC 9110 15.2.2).
pub fn switching(out: &mut Vec<u8>, reply: &Reply<'_>, protocol: &str, date: &[u8; 29]) {
    status_line(StatusCode::SWITCHING_PROTOCOLS, out);
    let mut dated = false;
    each_for_client(reply, |name, value| {
        dated |= name.eq_ignore_ascii_case(b"date");
        line(out, name, value);
    });
    if !dated {
        date_line(out, date);
    }
    let _ = write!(out, "Connection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
}

/// Appends a field if it is one that a response keeps when a file is sent in its place; `content`: with
/// what describes the content (a part's or a missing one's description is the file's own).
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

/// A file's field lines in which those of `kept` and `set` (whole lines) stand in the place of the
/// file's own; `removed`: names that are left out.
pub fn redressed(lines: &[u8], kept: &[u8], removed: &[HeaderName], set: &[u8]) -> Vec<u8> {
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

/// Every field of a response that is the client's business.
pub fn each_for_client<'a>(reply: &Reply<'a>, mut each: impl FnMut(&'a [u8], &'a [u8])) {
    for_client(reply, |field| each(field.name, field.value));
}

fn for_client<'a>(reply: &Reply<'a>, each: impl FnMut(Field<'a>)) {
    if reply.connection.is_empty() {
        return reply.public().for_each(each);
    }
    let nominated: Vec<&[u8]> = (reply.connection.iter().flat_map(|value| list(value)))
        .filter(|name| !is_usual(name))
        .collect();
    reply.public().filter(|field| !is_nominated(field.name, &nominated)).for_each(each);
}

/// RFC 9110 7.6.1: what Connection names is for this connection only.
fn is_nominated(name: &[u8], nominated: &[&[u8]]) -> bool {
    nominated.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// What Connection names without there being a field to drop, or one that is dropped anyway.
fn is_usual(option: &[u8]) -> bool {
    [b"close".as_slice(), b"keep-alive", b"upgrade", b"te"]
        .iter()
        .any(|usual| option.eq_ignore_ascii_case(usual))
}

/// The protocol a client asks to change to, if it is one of those it may (all in lower case).
pub fn upgrade<'a>(request: &Request<'_>, allowed: &'a [String]) -> Option<&'a str> {
    let asked = upgrades(request)?;
    allowed.iter().find(|token| has_token(asked, token.as_bytes())).map(String::as_str)
}

/// The protocols a client asks to change to, as sent.
pub fn upgrades<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let asked = request.upgrade?;
    let connection = request.connection?;
    // RFC 9110 7.8: without the option it is ignored; HTTP/1.0 does not know it; and behind a body
    // there is no saying where the other protocol begins.
    if !has_token(connection, b"upgrade") || request.http10 || request.body != BodyLength::None {
        return None;
    }
    Some(asked)
}

fn date_line(out: &mut Vec<u8>, date: &[u8; 29]) {
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(date);
    out.extend_from_slice(b"\r\n");
}

fn length_line(out: &mut Vec<u8>, len: u64) {
    out.extend_from_slice(b"Content-Length: ");
    decimal::number(len, out);
    out.extend_from_slice(b"\r\n");
}

/// Writes a field line from the parts it was parsed into.
pub(super) fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::HeadLimits;
    use crate::h1::reply as replies;
    use crate::h1::request::{self as requests, Joined};

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 8192, target_bytes: 999, fields: 50 };

    /// The fields that arrive, without those that are always added.
    fn passed(fields: &str, trusted: bool) -> String {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let joined = Joined::default();
        let parsed = requests::parse(head.as_bytes(), &joined, &LIMITS).unwrap();
        let onward = Onward {
            path: b"/x",
            query: Some(b"q"),
            authority: "up",
            peer: Some([192, 0, 2, 1].into()),
            client: Some([198, 51, 100, 1].into()),
            trusted,
            secure: false,
            http2: false,
            upgrade: None,
            for_all: None,
            way: None,
        };
        let mut out = Vec::new();
        request(&mut out, &parsed, &onward);
        let text = String::from_utf8(out).unwrap();
        let rest = text.strip_prefix("GET /x?q HTTP/1.1\r\nHost: a\r\n").unwrap();
        let rest = rest.strip_suffix("Via: 1.1 hurtle\r\n\r\n").unwrap();
        rest.replace("\r\n", "\n")
    }

    const OURS: &str = "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a\n\
                        X-Real-IP: 198.51.100.1\nForwarded: for=192.0.2.1;host=\"a\";proto=http\n";

    #[test]
    fn what_is_the_connections_own_or_a_lie_stays_behind() {
        for (sentence, fields) in [
            ("nothing", ""),
            ("the connection's", "Connection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"),
            ("the next proxy's", "Proxy-Connection: a\r\nProxy-Authorization: b\r\n"),
            (
                "HTTP/2 in the clear",
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n",
            ),
            ("HTTP/2, not named", "HTTP2-Settings: a\r\nUpgrade: h2c\r\n"),
            (
                "the way, made up",
                "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\n",
            ),
            (
                "more of it",
                "X-Forwarded-Host: b\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Anything: 1\r\n",
            ),
            ("the client", "X-Real-IP: 1.1.1.1\r\n"),
            (
                "as CGI would read it",
                "X_Forwarded_For: 1.1.1.1\r\nX_Real-IP: 1.1.1.1\r\nTransfer_Encoding: a\r\n",
            ),
            (
                "what asks for files",
                "X-Accel-Redirect: /a\r\nX-Sendfile: /a\r\nX-Sendfile-Type: X-Sendfile\r\nX-Accel-Mapping: /=/\r\n",
            ),
            (
                "the same in CGI's spelling",
                "X_Sendfile_Type: X-Sendfile\r\nX_Accel_Mapping: /=/\r\n",
            ),
            ("a proxy to use", "Proxy: http://evil\r\n"),
        ] {
            assert_eq!(passed(fields, false), OURS, "{sentence}");
        }
        assert_eq!(
            passed("Cookie: a\r\ncookie: b\r\n", false),
            format!("Cookie: a\ncookie: b\n{OURS}")
        );
    }

    #[test]
    fn a_trusted_peer_is_believed() {
        let said = "X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-Proto: https\r\n\
                    X-Forwarded-Host: b:81\r\nX-Forwarded-Prefix: /p\r\nForwarded: for=1.1.1.1\r\n\
                    X-Real-IP: 6.6.6.6\r\n";
        let expected = "X-Forwarded-Prefix: /p\nX-Forwarded-For: 1.1.1.1, 2.2.2.2, 192.0.2.1\n\
                        X-Forwarded-Proto: https\nX-Forwarded-Host: b:81\nX-Real-IP: 198.51.100.1\n\
                        Forwarded: for=1.1.1.1, for=192.0.2.1;host=\"a\";proto=http\n";
        assert_eq!(passed(said, true), expected);
        let odd = "X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a b\r\n";
        assert_eq!(passed(odd, true), OURS, "what is no scheme or host is not repeated");
    }

    #[test]
    fn bodies_are_announced_as_they_were() {
        let head = |method: &str, fields: &str| {
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let joined = Joined::default();
            let parsed = requests::parse(head.as_bytes(), &joined, &LIMITS).unwrap();
            let onward = Onward {
                path: b"/",
                query: None,
                authority: "up",
                peer: None,
                client: None,
                trusted: false,
                secure: false,
                http2: false,
                upgrade: None,
                for_all: None,
                way: None,
            };
            let mut out = Vec::new();
            request(&mut out, &parsed, &onward);
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
    fn of_a_response_the_client_gets_what_is_its_own() {
        let head = b"HTTP/1.1 200 Fine\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\
                     Content-Length: 5\r\nX-Accel-Redirect: /a\r\nX-Accel-Buffering: no\r\n\
                     X-Sendfile: /a\r\nSet-Cookie: a\r\nset-cookie: b\r\nX-Gone: 1\r\n\
                     Upgrade: h2c\r\nProxy-Authenticate: Basic\r\nDate: then\r\n\r\n";
        let parsed = replies::parse(head).unwrap();
        let mut out = Vec::new();
        let dress = Dress { removes: &|name| name == b"X-Gone", set: b"X-Set: 1\r\n".to_vec() };
        let delimiter = Delimiter::Length(5);
        reply(&mut out, &parsed, &[b'D'; 29], delimiter, Persistence::Implied, &dress);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie: b\r\nDate: then\r\nServer: hurtle\r\n\
             X-Set: 1\r\nContent-Length: 5\r\n\r\n"
        );
    }
}
