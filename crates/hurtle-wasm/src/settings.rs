//! The grants and limits of an application.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;

/// The grants and limits of an application.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in log lines.
    pub name: String,
    /// Memory of one instance, in bytes: all its linear memories together.
    pub memory: usize,
    /// Processor time of one request.
    pub cpu_time: Duration,
    /// Instances at once. More requests wait, see [`Application`](crate::Application).
    pub instances: u32,
    /// Longest time in which it reads none of a request's bytes (504).
    pub send_timeout: Duration,
    /// Time from a request's last byte to the response's head (504).
    pub first_byte_timeout: Duration,
    /// Longest pause in a response's body, which then fails.
    pub read_timeout: Duration,
    /// Origins of outbound requests; empty: none.
    pub outbound: Vec<Origin>,
    /// TLS settings of outbound requests; `None`: `https` is refused.
    pub outbound_tls: Option<rustls::ClientConfig>,
    /// Directories that it may read, by their paths in the component.
    pub dirs: BTreeMap<String, PathBuf>,
    /// Directories that it may read and write, likewise.
    pub writable_dirs: BTreeMap<String, PathBuf>,
    /// Environment variables that the component gets.
    pub env: BTreeMap<String, String>,
}

impl Settings {
    /// Settings without grants, with the default limits.
    pub fn new(name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            memory: 128 << 20,
            cpu_time: Duration::from_secs(10),
            instances: 64,
            send_timeout: Duration::from_secs(30),
            first_byte_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            outbound: Vec::new(),
            outbound_tls: None,
            dirs: BTreeMap::new(),
            writable_dirs: BTreeMap::new(),
            env: BTreeMap::new(),
        }
    }
}

/// A scheme, a host and a port (RFC 6454): where outbound requests may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    is_https: bool,
    /// In lower case.
    host: String,
    port: u16,
}

impl Origin {
    /// Reads `http://host`, `https://host` or one of them with a port, and nothing after it.
    pub fn parse(text: &str) -> Option<Origin> {
        let uri: Uri = text.parse().ok()?;
        let has_path = uri.path_and_query().is_some_and(|path| path.as_str() != "/");
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if has_path || has_user || text.ends_with('/') {
            return None;
        }
        Origin::of(&uri)
    }

    /// The origin of a target. `None`: it has none, or another scheme.
    pub(crate) fn of(uri: &Uri) -> Option<Origin> {
        let scheme = uri.scheme()?;
        let is_https = *scheme == Scheme::HTTPS;
        if !is_https && *scheme != Scheme::HTTP {
            return None;
        }
        let host = uri.host().filter(|host| !host.is_empty())?;
        let port = match uri.authority()?.port() {
            Some(port) => port.as_str().parse().ok()?,
            // It has no port, or none that is a number.
            None if !uri.authority()?.as_str().ends_with(host) => return None,
            None if is_https => 443,
            None => 80,
        };
        let host = host.to_ascii_lowercase();
        Some(Origin { is_https, host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_by_scheme_host_and_port() {
        let table = [
            ("https://a.example", Some((true, "a.example", 443))),
            ("http://A.example", Some((false, "a.example", 80))),
            ("http://127.0.0.1:9000", Some((false, "127.0.0.1", 9000))),
            ("https://[::1]:8443", Some((true, "[::1]", 8443))),
            ("a.example", None),
            ("ftp://a.example", None),
            ("http://a.example/", None),
            ("http://a.example/x", None),
            ("http://user@a.example", None),
            ("http://a.example:99999", None),
            ("http://", None),
            ("", None),
        ];
        for (text, expected) in table {
            let parsed = Origin::parse(text);
            let parsed = parsed.as_ref().map(|o| (o.is_https, o.host.as_str(), o.port));
            assert_eq!(parsed, expected, "{text:?}");
        }
    }
}
