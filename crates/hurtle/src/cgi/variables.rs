//! A request as the variables of RFC 3875 4.1, with those that applications expect beside them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::h1::fields::begins_as;
use crate::h1::response::SERVER;
use crate::semantics::fields::list;

/// What of a request its fields do not say.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// As sent.
    pub method: &'a str,
    /// `HTTP/1.1`, `HTTP/1.0`.
    pub protocol: &'a str,
    /// Path and query as sent.
    pub target: &'a [u8],
    /// The query as sent, without `?`.
    pub query: &'a [u8],
    /// Who is asked: the site's name where the request has none.
    pub host: &'a str,
    /// Who asks; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// Who the client has shown to be.
    pub user: Option<&'a str>,
    /// Whether the server has asked for that itself, so that it is not the application's business.
    pub gated: bool,
    /// Whether it came over TLS.
    pub secure: bool,
    /// Whether the peer is believed in what it says of those before it.
    pub trusted: bool,
    /// The body's length, in bytes; `None`: there is none.
    pub length: Option<u64>,
}

/// What answers, of what the path names.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The directory of scripts, if there is one.
    pub root: Option<&'a [u8]>,
    /// The script's file beneath it.
    pub file: &'a [u8],
    /// The part of the path that names it, decoded.
    pub name: &'a [u8],
    /// The part behind that.
    pub info: &'a [u8],
}

/// Names and values, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<Vec<u8>, Vec<u8>>);

impl Variables {
    /// Those of a request, without what it is to be answered by.
    pub fn new(asked: &Asked<'_>, fields: &HeaderMap) -> Variables {
        let mut all = Variables::default();
        all.set_fields(asked, fields);
        let default_port = if asked.secure { "443" } else { "80" };
        let (name, port) = match asked.host.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && !port.contains(']') => (name, port),
            _ => (asked.host, default_port),
        };
        all.set("GATEWAY_INTERFACE", "CGI/1.1");
        all.set("SERVER_SOFTWARE", SERVER);
        all.set("SERVER_NAME", name);
        all.set("SERVER_PORT", port);
        all.set("SERVER_PROTOCOL", asked.protocol);
        all.set("REQUEST_METHOD", asked.method);
        all.set("REQUEST_URI", asked.target);
        all.set("REQUEST_SCHEME", if asked.secure { "https" } else { "http" });
        all.set("QUERY_STRING", asked.query);
        all.set("REMOTE_ADDR", asked.client.map_or(String::new(), |client| client.to_string()));
        // PHP's own, without which some builds of it refuse every request.
        all.set("REDIRECT_STATUS", "200");
        if asked.secure {
            all.set("HTTPS", "on");
        }
        if let Some(user) = asked.user {
            all.set("AUTH_TYPE", "Basic");
            all.set("REMOTE_USER", user);
        }
        all
    }

    /// Adds what it is to be answered by.
    pub fn set_script(&mut self, asked: &Asked<'_>, script: &Script<'_>, fields: &HeaderMap) {
        self.set("SCRIPT_NAME", script.name);
        self.set("PATH_INFO", script.info);
        if let Some(root) = script.root {
            self.set("DOCUMENT_ROOT", root);
            self.set("SCRIPT_FILENAME", [root, b"/", script.file].concat());
            if !script.info.is_empty() {
                self.set("PATH_TRANSLATED", [root, script.info].concat());
            }
        }
        // RFC 3875 4.1.2: no body, no length.
        if let Some(length) = asked.length {
            self.set("CONTENT_LENGTH", length.to_string());
        }
        if let Some(media_type) = fields.get(header::CONTENT_TYPE) {
            self.set("CONTENT_TYPE", media_type.as_bytes());
        }
    }

    /// Sets one, in the place of what it was. What could not stand in an environment is left out.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        if !value.contains(&0) {
            self.0.insert(name.to_vec(), value.to_vec());
        }
    }

    /// All of them.
    pub fn pairs(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.into_iter().collect()
    }

    /// RFC 3875 4.1.18.
    fn set_fields(&mut self, asked: &Asked<'_>, fields: &HeaderMap) {
        let nominated: Vec<&[u8]> =
            fields.get_all(header::CONNECTION).iter().flat_map(|v| list(v.as_bytes())).collect();
        for name in fields.keys() {
            let text = name.as_str().as_bytes();
            let is_nominated = nominated.iter().any(|other| other.eq_ignore_ascii_case(text));
            if is_nominated || !is_passed_on(name, asked) {
                continue;
            }
            // RFC 6265 5.4 and RFC 9110 5.3.
            let between = if *name == header::COOKIE { &b"; "[..] } else { b", " };
            let values: Vec<_> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            let upper = name.as_str().replace('-', "_").to_ascii_uppercase();
            self.set(format!("HTTP_{upper}"), values.join(between));
        }
    }
}

/// Whether an application learns of a field. `_` and `-` are one in a variable's name: a field whose
/// name holds the former could only be mistaken for another.
fn is_passed_on(name: &HeaderName, asked: &Asked<'_>) -> bool {
    let text = name.as_str();
    let of_the_way =
        begins_as(text.as_bytes(), b"x-forwarded-") || matches!(text, "forwarded" | "x-real-ip");
    let of_the_connection = matches!(
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
    // CVE-2016-5385: programs take HTTP_PROXY for the proxy they are to use.
    let dangerous = matches!(text, "proxy" | "proxy-connection" | "proxy-authorization")
        || begins_as(text.as_bytes(), b"x-accel-")
        || begins_as(text.as_bytes(), b"x-sendfile");
    let no_business = asked.gated && *name == header::AUTHORIZATION;
    !(text.contains('_') || of_the_connection || dangerous || no_business)
        && (asked.trusted || !of_the_way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::fields;

    const ASKED: Asked<'static> = Asked {
        method: "POST",
        protocol: "HTTP/1.1",
        target: b"/a%20b?c=d",
        query: b"c=d",
        host: "example.org:8080",
        client: None,
        user: None,
        gated: false,
        secure: false,
        trusted: false,
        length: Some(3),
    };

    fn get<'v>(variables: &'v Variables, name: &str) -> Option<&'v str> {
        variables.0.get(name.as_bytes()).map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn which_fields_become_variables() {
        let lines = b"Proxy: http://evil\r\nX_Real_IP: 1\r\nX-Two: 1\r\nX-Two: 2\r\nCookie: a\r\n\
                      Cookie: b\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Type: a/b\r\n\
                      Content-Length: 3\r\nX-Forwarded-For: 1.2.3.4\r\nX-Sendfile-Type: a\r\n\
                      Authorization: Basic x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let fields = fields::map(lines);
        let table = [
            ("HTTP_X_TWO", Some("1, 2"), Some("1, 2")),
            ("HTTP_COOKIE", Some("a; b"), Some("a; b")),
            ("HTTP_AUTHORIZATION", Some("Basic x"), None),
            ("HTTP_X_FORWARDED_FOR", None, Some("1.2.3.4")),
            ("HTTP_PROXY", None, None),
            ("HTTP_X_REAL_IP", None, None),
            ("HTTP_X_HOP", None, None),
            ("HTTP_CONTENT_TYPE", None, None),
            ("HTTP_CONTENT_LENGTH", None, None),
            ("HTTP_X_SENDFILE_TYPE", None, None),
            ("HTTP_TRANSFER_ENCODING", None, None),
        ];
        let stranger = Variables::new(&ASKED, &fields);
        let known = Variables::new(&Asked { gated: true, trusted: true, ..ASKED }, &fields);
        for (name, from_strangers, from_trusted_and_gated) in table {
            assert_eq!(get(&stranger, name), from_strangers, "{name}");
            assert_eq!(get(&known, name), from_trusted_and_gated, "{name}");
        }
    }

    #[test]
    fn what_the_server_says() {
        let fields = fields::map(b"Content-Type: a/b\r\n\r\n");
        let mut variables = Variables::new(&ASKED, &fields);
        let script =
            Script { root: Some(b"/srv"), file: b"x.php", name: b"/app/x.php", info: b"/more" };
        variables.set_script(&ASKED, &script, &fields);
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
        let host = |host| Variables::new(&Asked { host, secure: true, ..ASKED }, &fields);
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
