//! A running server that a URL names: its address, its requests, and its TLS.

pub mod archive;
mod fetch;
pub mod grpc;
mod request;
mod route;
pub mod scenario;
mod secure;
pub mod targets;
mod websocket;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;

pub use request::Request;
pub use route::Route;
pub use secure::TlsError;
pub use targets::Target;

use crate::load::Tls;
use crate::tls::{Protocol, Trust};

/// Longest time of a connection to one address, and of a handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The URL of a running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `true` for https and wss.
    pub is_secure: bool,
    /// `true` for ws and wss: the WebSocket protocol (RFC 6455, section 3).
    pub is_websocket: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// Port of the URL, or of its scheme.
    pub port: u16,
    /// As in the Host field: the port only if it is not the scheme's.
    pub authority: String,
    /// Path and query; at least `/`.
    pub path: String,
    /// The address to connect to in place of the host and port.
    pub route: Route,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let bad = |why: &str| format!("{text:?} is no URL: {why}, such as http://127.0.0.1:8080/");
        let uri: Uri = text.parse().map_err(|e| bad(&format!("{e}; write one")))?;
        let (is_secure, is_websocket) = match uri.scheme_str() {
            Some("http") => (false, false),
            Some("https") => (true, false),
            Some("ws") => (false, true),
            Some("wss") => (true, true),
            Some(_) => return Err(bad("only http, https, ws and wss are spoken; write one")),
            None => return Err(bad("write one that begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it has no host; write one"))?;
        if authority.as_str().contains('@') {
            let hint = "a user belongs into -H 'Authorization: ...'; write one without";
            return Err(bad(hint));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(bad("it has no host; write one"));
        }
        let known = if is_secure { 443 } else { 80 };
        let port = match authority.as_str().rsplit_once(':') {
            Some((_, digits)) if !digits.contains(']') => digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| bad("its port is not 1 to 65535; write one"))?,
            _ => known,
        };
        let shown = if port == known { authority.host().to_owned() } else { authority.to_string() };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let route = Route::default();
        Ok(Url { is_secure, is_websocket, host, port, authority: shown, path, route })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.is_websocket, self.is_secure) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        write!(to, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// A server that accepts connections.
#[derive(Clone, Debug)]
pub struct Reached {
    /// The first address of the host that accepts them; unspecified for a unix domain socket.
    pub address: SocketAddr,
    /// For the generator's connections; `None` in clear text.
    pub tls: Option<Tls>,
    /// The certificate that it has shown over TCP.
    pub trust: Option<Trust>,
}

impl Url {
    /// `true` if the other URL is of the same server.
    pub fn is_server_of(&self, other: &Url) -> bool {
        let server =
            |its: &Url| (its.is_secure, its.is_websocket, its.host.to_ascii_lowercase(), its.port);
        server(self) == server(other)
    }

    /// All addresses of the host.
    ///
    /// # Errors
    /// The host has none.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let own = (self.host.as_str(), self.port);
        let (host, port) = self.route.to.as_ref().map_or(own, |(host, port)| (host, *port));
        let found: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|e| io::Error::new(e.kind(), format!("{host}: no such host ({e})")))?
            .collect();
        match found.is_empty() {
            true => Err(io::Error::other(format!("{host}: no such host"))),
            false => Ok(found),
        }
    }

    /// Connects to each address in turn until one accepts, and completes a handshake with it if it
    /// is secure; sends no request. Over HTTP/3 all handshakes are QUIC's.
    ///
    /// # Errors
    /// The last address's, in words.
    pub fn reach(&self, protocol: Protocol, insecure: bool) -> io::Result<Reached> {
        if let Some(socket) = &self.route.socket {
            return self.reach_socket(socket, protocol, insecure);
        }
        let mut last = None;
        for address in self.addresses()? {
            if protocol == Protocol::Http3 {
                match self.shake_hands_over_quic(address, insecure) {
                    Ok(tls) => return Ok(Reached { address, tls: Some(tls), trust: None }),
                    Err(e) => last = Some((address, e)),
                }
                continue;
            }
            match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(CONNECT_WITHIN))?;
                    stream.set_write_timeout(Some(CONNECT_WITHIN))?;
                    return self.reached(address, stream, protocol, insecure);
                }
                Err(e) => last = Some((address, e)),
            }
        }
        Err(match last {
            Some((address, e)) => io::Error::new(
                e.kind(),
                format!("cannot connect to {self} at {address}: {}", plain(&e)),
            ),
            None => io::Error::other(format!("{}: no such host", self.host)),
        })
    }

    /// As `reach`, through a unix domain socket.
    fn reach_socket(
        &self,
        socket: &Path,
        protocol: Protocol,
        insecure: bool,
    ) -> io::Result<Reached> {
        let failed = |e: io::Error| {
            let shown = socket.display();
            io::Error::new(e.kind(), format!("cannot connect to {self} at {shown}: {}", plain(&e)))
        };
        let stream = UnixStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(CONNECT_WITHIN))?;
        stream.set_write_timeout(Some(CONNECT_WITHIN))?;
        self.reached((Ipv4Addr::UNSPECIFIED, 0).into(), stream, protocol, insecure)
    }

    /// Completes a handshake on a connection if it is secure.
    fn reached(
        &self,
        address: SocketAddr,
        stream: impl Read + Write,
        protocol: Protocol,
        insecure: bool,
    ) -> io::Result<Reached> {
        if !self.is_secure {
            return Ok(Reached { address, tls: None, trust: None });
        }
        let (tls, trust) = self.shake_hands(stream, protocol, insecure)?;
        Ok(Reached { address, tls: Some(tls), trust: Some(trust) })
    }
}

/// An error of a connection, in words.
fn plain(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there (connection refused)".to_owned(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("no answer within {} s", CONNECT_WITHIN.as_secs())
        }
        _ => e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        let rows = [
            ("http://a", "a", 80, "a", "/"),
            ("http://a:80/x?y=1", "a", 80, "a", "/x?y=1"),
            ("https://a.example:8443/", "a.example", 8443, "a.example:8443", "/"),
            ("https://a:443?q", "a", 443, "a", "/?q"),
            ("http://[::1]:8080/z", "::1", 8080, "[::1]:8080", "/z"),
            ("http://[::1]", "::1", 80, "[::1]", "/"),
            ("ws://a/live", "a", 80, "a", "/live"),
            ("wss://a", "a", 443, "a", "/"),
        ];
        for (text, host, port, authority, path) in rows {
            let url: Url = text.parse().unwrap();
            assert_eq!(
                (url.host.as_str(), url.port, url.authority.as_str(), url.path.as_str()),
                (host, port, authority, path),
                "{text}"
            );
            assert_eq!(url.is_websocket, text.starts_with("ws"), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url), "{text}");
        }
        for (text, why) in [
            ("a:80", "http://"),
            ("nginx", "begins with http://"),
            ("ftp://a/", "only http, https, ws and wss"),
            ("http://me:secret@a/", "Authorization"),
            ("http://a:0/", "port"),
            ("http://a:70000/", "URL"),
            ("http://", "URL"),
            ("http://a b/", "URL"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
