//! The way to a server that is not its URL's host and port: another address or host, or a unix
//! socket.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Url;

/// The address to connect to. With neither `to` nor `socket` it is the URL's host and port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Another host, or an address, and port.
    pub to: Option<(String, u16)>,
    /// A unix domain socket.
    pub socket: Option<PathBuf>,
}

impl Route {
    /// The route of `HOST:PORT:ADDRESS`, as curl's `--resolve`: the host has that address.
    ///
    /// # Errors
    /// It cannot be read, or has another host or port than the URL.
    pub fn resolve(text: &str, url: &Url) -> Result<Route, String> {
        let bad = |why: &str| format!("--resolve {text}: {why}");
        let (host, rest) = split(text).ok_or_else(|| bad("write HOST:PORT:ADDRESS"))?;
        let (port, address) = rest.split_once(':').ok_or_else(|| bad("write HOST:PORT:ADDRESS"))?;
        let address = address.trim_matches(['[', ']']);
        let address: IpAddr = address.parse().map_err(|_| bad("write an IP address at its end"))?;
        is_of(url, host, port).map_err(|why| bad(&why))?;
        Ok(Route { to: Some((address.to_string(), url.port)), socket: None })
    }

    /// The route of `HOST:PORT:OTHER:PORT`, as curl's `--connect-to`: connections go to the other
    /// host and port. An empty part means any, or the URL's own.
    ///
    /// # Errors
    /// As `resolve`.
    pub fn connect_to(text: &str, url: &Url) -> Result<Route, String> {
        let bad = |why: &str| format!("--connect-to {text}: {why}");
        let parts = || {
            let (host, rest) = split(text)?;
            let (port, rest) = rest.split_once(':')?;
            let (other, other_port) = split(rest)?;
            Some((host, port, other, other_port))
        };
        let parts = parts().ok_or_else(|| bad("write HOST:PORT:OTHER:PORT"))?;
        let (host, port, other, other_port) = parts;
        is_of(url, host, port).map_err(|why| bad(&why))?;
        let other = if other.is_empty() { url.host.clone() } else { other.to_owned() };
        let other_port = match other_port {
            "" => Some(url.port),
            digits => digits.parse().ok().filter(|port| *port != 0),
        };
        let other_port = other_port.ok_or_else(|| bad("its last port is not 1 to 65535"))?;
        Ok(Route { to: Some((other, other_port)), socket: None })
    }
}

/// A host, without its brackets, and the text after its colon.
fn split(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(inside) => {
            let (host, rest) = inside.split_once(']')?;
            Some((host, rest.strip_prefix(':')?))
        }
        None => text.split_once(':'),
    }
}

/// Checks that a route is of this URL; an empty part is of any.
fn is_of(url: &Url, host: &str, port: &str) -> Result<(), String> {
    let is_host = host.is_empty() || host.eq_ignore_ascii_case(&url.host);
    let is_port = port.is_empty() || port.parse() == Ok(url.port);
    match is_host && is_port {
        true => Ok(()),
        false => Err(format!("the URL has {} and port {}", url.host, url.port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_written_as_for_curl() {
        let url: Url = "https://a.example/x".parse().unwrap();
        type Read = fn(&str, &Url) -> Result<Route, String>;
        let rows: [(Read, &str, Result<(&str, u16), &str>); 11] = [
            (Route::resolve, "a.example:443:127.0.0.1", Ok(("127.0.0.1", 443))),
            (Route::resolve, "a.example:443:[::1]", Ok(("::1", 443))),
            (Route::resolve, "a.example:80:127.0.0.1", Err("port 443")),
            (Route::resolve, "a.example:443:host", Err("IP address")),
            (Route::resolve, "a.example", Err("HOST:PORT:ADDRESS")),
            (Route::connect_to, "a.example:443:b.example:8443", Ok(("b.example", 8443))),
            (Route::connect_to, "::127.0.0.1:8443", Ok(("127.0.0.1", 8443))),
            (Route::connect_to, "::[::1]:", Ok(("::1", 443))),
            (Route::connect_to, "A.EXAMPLE::b:", Ok(("b", 443))),
            (Route::connect_to, "c.example:443:b:1", Err("the URL has a.example")),
            (Route::connect_to, "::b:0", Err("1 to 65535")),
        ];
        for (read, text, expected) in rows {
            match (read(text, &url), expected) {
                (Ok(route), Ok((host, port))) => {
                    assert_eq!(route.to, Some((host.to_owned(), port)), "{text}");
                }
                (Err(why), Err(words)) => assert!(why.contains(words), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
