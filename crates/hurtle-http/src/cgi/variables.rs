//! The variables of a CGI request (RFC 3875 section 4.1), and the variables that applications
//! expect in addition.

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::message::field_lines::SERVER;
use crate::request::fields::begins_as;
use crate::semantics::forwarded::Family;

/// The properties of a request that its header fields do not carry.
#[derive(Clone, Copy, Debug)]
pub struct RequestInfo<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// `HTTP/1.1`, `HTTP/1.0` or `HTTP/2.0`.
    pub protocol: &'a str,
    /// Path and query, as sent.
    pub target: &'a [u8],
    /// The query as sent, without `?`; empty if there is none.
    pub query: &'a [u8],
    /// The requested host with its port, or a default name if the request has none.
    pub host: &'a str,
    /// The client's address; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// The authenticated user name.
    pub user: Option<&'a str>,
    /// True if the server itself checked the credentials. The application then gets no
    /// Authorization.
    pub has_server_auth: bool,
    /// True if the request came over TLS.
    pub is_tls: bool,
    /// The forwarding fields that are passed on, if the peer is a trusted proxy.
    pub trusted: Option<Family>,
    /// Length of the body in bytes; `None` if there is no body.
    pub length: Option<u64>,
}

/// The script that handles a request, and the parts of the request's path.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The directory of scripts, if there is one.
    pub root: Option<&'a [u8]>,
    /// The script's file, relative to `root`.
    pub file: &'a [u8],
    /// `SCRIPT_NAME`: the decoded part of the path that names the script.
    pub name: &'a [u8],
    /// `PATH_INFO`: the decoded rest of the path.
    pub info: &'a [u8],
}

/// Variable names and values; each name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<Vec<u8>, Vec<u8>>);

impl Variables {
    /// Builds the variables of a request, except those that [`set_script`](Self::set_script) adds.
    /// `fields` are without those that Connection lists: see `forward::remove_nominated`.
    pub fn new(info: &RequestInfo<'_>, fields: &HeaderMap) -> Variables {
        let mut all = Variables::default();
        all.set_fields(info, fields);
        let default_port = if info.is_tls { "443" } else { "80" };
        let (name, port) = match info.host.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && !port.contains(']') => (name, port),
            _ => (info.host, default_port),
        };
        all.set("GATEWAY_INTERFACE", "CGI/1.1");
        all.set("SERVER_SOFTWARE", SERVER);
        all.set("SERVER_NAME", name);
        all.set("SERVER_PORT", port);
        all.set("SERVER_PROTOCOL", info.protocol);
        all.set("REQUEST_METHOD", info.method);
        all.set("REQUEST_URI", info.target);
        all.set("REQUEST_SCHEME", if info.is_tls { "https" } else { "http" });
        all.set("QUERY_STRING", info.query);
        all.set("REMOTE_ADDR", info.client.map_or(String::new(), |client| client.to_string()));
        // PHP's own variable. Some builds of PHP refuse every request without it.
        all.set("REDIRECT_STATUS", "200");
        if info.is_tls {
            all.set("HTTPS", "on");
        }
        if let Some(user) = info.user {
            all.set("AUTH_TYPE", "Basic");
            all.set("REMOTE_USER", user);
        }
        all
    }

    /// Adds the variables that depend on the script and on the body.
    pub fn set_script(&mut self, info: &RequestInfo<'_>, script: &Script<'_>, fields: &HeaderMap) {
        self.set("SCRIPT_NAME", script.name);
        self.set("PATH_INFO", script.info);
        if let Some(root) = script.root {
            self.set("DOCUMENT_ROOT", root);
            self.set("SCRIPT_FILENAME", [root, b"/", script.file].concat());
            if !script.info.is_empty() {
                self.set("PATH_TRANSLATED", [root, script.info].concat());
            }
        }
        // RFC 3875 section 4.1.2: without a body the variable is not set.
        if let Some(length) = info.length {
            self.set("CONTENT_LENGTH", length.to_string());
        }
        if let Some(media_type) = fields.get(header::CONTENT_TYPE) {
            self.set("CONTENT_TYPE", media_type.as_bytes());
        }
    }

    /// Sets a variable, replacing its value. A value with a NUL byte is skipped: an environment
    /// cannot hold it.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        if !value.contains(&0) {
            self.0.insert(name.to_vec(), value.to_vec());
        }
    }

    /// Returns all variables, ordered by name.
    pub fn pairs(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.into_iter().collect()
    }

    /// Adds an `HTTP_` variable for each request field (RFC 3875 section 4.1.18).
    fn set_fields(&mut self, info: &RequestInfo<'_>, fields: &HeaderMap) {
        for name in fields.keys().filter(|name| is_passed_on(name, info)) {
            let values: Vec<_> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            self.set(variable_of(name), values.join(between(name)));
        }
    }

    /// Adds the variable of a field that this server sets, whatever clients may send. The value
    /// follows that of a client's field of this name.
    pub fn add_field(&mut self, name: &HeaderName, value: &[u8]) {
        let variable = match *name {
            header::CONTENT_TYPE => "CONTENT_TYPE".to_owned(),
            _ => variable_of(name),
        };
        match self.0.get(variable.as_bytes()) {
            Some(known) => self.set(variable, [known, value].join(between(name))),
            None => self.set(variable, value),
        }
    }
}

/// The name of a field's variable (RFC 3875 section 4.1.18).
fn variable_of(name: &HeaderName) -> String {
    format!("HTTP_{}", name.as_str().replace('-', "_").to_ascii_uppercase())
}

/// The separator of the values of a field's lines: RFC 6265 section 5.4 for Cookie, RFC 9110
/// section 5.3 for all others.
fn between(name: &HeaderName) -> &'static [u8] {
    if *name == header::COOKIE { b"; " } else { b", " }
}

/// True if an application gets this field of a client. Variable names do not distinguish `_` from
/// `-`, and those of PHP have `_` in place of `.`: a name with other characters than letters,
/// digits and `-` could imitate another field, so it is dropped.
fn is_passed_on(name: &HeaderName, info: &RequestInfo<'_>) -> bool {
    let text = name.as_str();
    let family = match text {
        "forwarded" => Some(Family::Forwarded),
        "x-real-ip" => Some(Family::XForwarded),
        _ => begins_as(text.as_bytes(), b"x-forwarded-").then_some(Family::XForwarded),
    };
    let is_hop_by_hop = matches!(
        text,
        "connection"
            | "content-length"
            | "content-type"
            | "expect"
            | "keep-alive"
            | "te"
            | "upgrade"
            | "http2-settings"
            | "transfer-encoding"
    );
    // CVE-2016-5385: programs take HTTP_PROXY for the proxy of their own requests.
    let is_dangerous = matches!(text, "proxy" | "proxy-connection" | "proxy-authorization")
        || begins_as(text.as_bytes(), b"x-accel-")
        || begins_as(text.as_bytes(), b"x-sendfile");
    let is_checked_here = info.has_server_auth && *name == header::AUTHORIZATION;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain
        && !(is_hop_by_hop || is_dangerous || is_checked_here)
        && (family.is_none() || family == info.trusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::fields;

    const INFO: RequestInfo<'static> = RequestInfo {
        method: "POST",
        protocol: "HTTP/1.1",
        target: b"/a%20b?c=d",
        query: b"c=d",
        host: "example.org:8080",
        client: None,
        user: None,
        has_server_auth: false,
        is_tls: false,
        trusted: None,
        length: Some(3),
    };

    fn get<'v>(variables: &'v Variables, name: &str) -> Option<&'v str> {
        variables.0.get(name.as_bytes()).map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn fields_become_variables() {
        let lines = b"Proxy: http://evil\r\nX_Real_IP: 1\r\nX-Two: 1\r\nX-Two: 2\r\nCookie: a\r\n\
                      Cookie: b\r\nConnection: X\r\nContent-Type: a/b\r\nX.Real.IP: 2\r\nX.Two: 3\r\n\
                      Content-Length: 3\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Sendfile-Type: a\r\n\
                      Authorization: Basic x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let fields = fields::map(lines);
        let table = [
            ("HTTP_X_TWO", Some("1, 2"), Some("1, 2")),
            ("HTTP_COOKIE", Some("a; b"), Some("a; b")),
            ("HTTP_AUTHORIZATION", Some("Basic x"), None),
            ("HTTP_X_FORWARDED_FOR", None, Some("1.2.3.4")),
            ("HTTP_FORWARDED", None, None),
            ("HTTP_PROXY", None, None),
            ("HTTP_X_REAL_IP", None, None),
            // Regression: PHP reads these as the ones above.
            ("HTTP_X.REAL.IP", None, None),
            ("HTTP_X.TWO", None, None),
            ("HTTP_CONNECTION", None, None),
            ("HTTP_CONTENT_TYPE", None, None),
            ("HTTP_CONTENT_LENGTH", None, None),
            ("HTTP_X_SENDFILE_TYPE", None, None),
            ("HTTP_TRANSFER_ENCODING", None, None),
        ];
        let stranger = Variables::new(&INFO, &fields);
        let known = Variables::new(
            &RequestInfo { has_server_auth: true, trusted: Some(Family::XForwarded), ..INFO },
            &fields,
        );
        let mut added = Variables::new(&INFO, &fields);
        for (name, value) in [(header::COOKIE, "c"), (HeaderName::from_static("x-two"), "3")] {
            added.add_field(&name, value.as_bytes());
        }
        assert_eq!(get(&added, "HTTP_COOKIE"), Some("a; b; c"), "this server's own");
        assert_eq!(get(&added, "HTTP_X_TWO"), Some("1, 2, 3"), "this server's own");
        for (name, from_strangers, from_trusted_and_gated) in table {
            assert_eq!(get(&stranger, name), from_strangers, "{name}");
            assert_eq!(get(&known, name), from_trusted_and_gated, "{name}");
        }
    }

    #[test]
    fn request_properties_become_variables() {
        let fields = fields::map(b"Content-Type: a/b\r\n\r\n");
        let mut variables = Variables::new(&INFO, &fields);
        let script =
            Script { root: Some(b"/srv"), file: b"x.php", name: b"/app/x.php", info: b"/more" };
        variables.set_script(&INFO, &script, &fields);
        for (name, value) in [
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "8080"),
            ("REQUEST_URI", "/a%20b?c=d"),
            ("QUERY_STRING", "c=d"),
            ("SCRIPT_FILENAME", "/srv/x.php"),
            ("SCRIPT_NAME", "/app/x.php"),
            ("PATH_INFO", "/more"),
            ("PATH_TRANSLATED", "/srv/more"),
            ("DOCUMENT_ROOT", "/srv"),
            ("CONTENT_LENGTH", "3"),
            ("CONTENT_TYPE", "a/b"),
        ] {
            assert_eq!(get(&variables, name), Some(value), "{name}");
        }
        let host = |host| Variables::new(&RequestInfo { host, is_tls: true, ..INFO }, &fields);
        for (written, name, port) in
            [("a", "a", "443"), ("[::1]", "[::1]", "443"), ("[::1]:81", "[::1]", "81")]
        {
            let variables = host(written);
            assert_eq!(get(&variables, "SERVER_NAME"), Some(name), "{written}");
            assert_eq!(get(&variables, "SERVER_PORT"), Some(port), "{written}");
            assert_eq!(get(&variables, "HTTPS"), Some("on"), "{written}");
        }
    }
}
