//! Addresses to listen on, as the command line spells them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, absolute};

use clap::Args;

use super::ConfigProblems;
use crate::config::{Config, Listen};

/// Arguments that choose where a server listens.
#[derive(Clone, Debug, Args)]
pub(super) struct AddressArgs {
    /// Address to listen on, like --listen, or the port for --bind.
    #[arg(value_name = "PORT", value_parser = parse_named, conflicts_with_all = ["listen", "port"])]
    address: Option<Named>,
    /// Address to listen on: ADDR:PORT, :PORT, PORT, or unix:PATH; may be repeated [default:
    /// 127.0.0.1:8080, or the next free port].
    #[arg(short, long, value_name = "ADDR:PORT", value_parser = parse_listen, conflicts_with_all = ["port", "bind"])]
    listen: Vec<Listen>,
    /// Port to listen on, at the address of --bind.
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// Address to listen on, at --port: 0.0.0.0 is every address of this machine [default:
    /// 127.0.0.1].
    #[arg(short, long, value_name = "ADDR", value_parser = parse_bind)]
    bind: Option<Bind>,
}

/// An address that is an argument of its own.
#[derive(Clone, Debug)]
pub(super) struct Named {
    listen: Listen,
    /// The port, if it is a number alone.
    port: Option<u16>,
}

/// The value of `--bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bind {
    ip: IpAddr,
    port: Option<u16>,
}

/// Addresses that a server listens on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    /// Empty: those of the configuration.
    pub(super) listen: Vec<Listen>,
    /// Address in place of the default one, at the default port or the next free one.
    ip: Option<IpAddr>,
}

impl AddressArgs {
    /// Reads the first argument of the command as an address, if it is one and no file has its
    /// name: `hurtle 8080`.
    pub(super) fn of_path(&self, path: Option<&Path>) -> Option<Named> {
        let path = path.filter(|path| !path.exists())?;
        let is_port = |text: &&str| text.strip_prefix(':').unwrap_or(text).parse::<u16>().is_ok();
        path.to_str().filter(is_port).and_then(|text| parse_named(text).ok())
    }

    /// The addresses; `first` is that of the first argument, and `has_default` says that they may
    /// be left out.
    ///
    /// # Errors
    /// Two arguments contradict each other, or the port is missing.
    pub(super) fn addresses(
        &self,
        first: Option<Named>,
        has_default: bool,
    ) -> Result<Addresses, ConfigProblems> {
        let problem = |text: &str| Err(vec![text.to_owned()]);
        let ip = self.bind.map(|bind| bind.ip);
        let mut ports: Vec<u16> =
            self.port.into_iter().chain(self.bind.and_then(|bind| bind.port)).collect();
        let mut named = self.listen.clone();
        let arguments: Vec<Named> = first.into_iter().chain(self.address.clone()).collect();
        if arguments.len() + named.len().min(1) > 1 {
            return problem("the address is given twice: remove one, or repeat --listen");
        }
        for Named { listen, port } in arguments {
            match port.filter(|_| ip.is_some()) {
                Some(port) => ports.push(port),
                None => named.push(listen),
            }
        }
        match (named.is_empty(), ip, ports.as_slice()) {
            (false, None, []) => Ok(Addresses { listen: named, ip: None }),
            (false, ..) => problem("the address is given twice: remove one"),
            (true, Some(ip), []) if has_default => Ok(Addresses { listen: vec![], ip: Some(ip) }),
            (true, Some(_), []) => problem("--bind needs --port beside a configuration"),
            (true, None, []) => Ok(Addresses::default()),
            (true, ip, [port]) => {
                let ip = ip.unwrap_or(Ipv4Addr::LOCALHOST.into());
                let listen = vec![Listen::Tcp(SocketAddr::new(ip, *port))];
                Ok(Addresses { listen, ip: None })
            }
            (true, ..) => problem("the port is given twice: remove one"),
        }
    }
}

impl Addresses {
    /// Replaces the address of the default listeners.
    pub(super) fn replace_default_ip(&self, config: &mut Config) {
        let Some(ip) = self.ip else { return };
        for listen in config.listen.iter_mut().chain(&mut config.listen_tls) {
            if let Listen::Tcp(address) = listen {
                address.set_ip(ip);
            }
        }
    }
}

/// Parses an address that is an argument of its own.
fn parse_named(text: &str) -> Result<Named, String> {
    Ok(Named { listen: parse_listen(text)?, port: text.parse().ok() })
}

/// Parses the value of `--listen`.
pub(super) fn parse_listen(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return absolute(path).map(Listen::Unix).map_err(|e| e.to_string());
    }
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        // As in other servers, `:80` is every address; a bare number is this machine only.
        let ip = if text.starts_with(':') { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        return Ok(Listen::Tcp(SocketAddr::from((ip, port))));
    }
    let mut addresses = text
        .to_socket_addrs()
        .map_err(|e| format!("{e}; write ADDR:PORT, :PORT, PORT or unix:PATH"))?;
    let address = addresses.next().ok_or("the name has no address")?;
    Ok(Listen::Tcp(address))
}

/// Parses the value of `--bind`: an address or a name, with or without a port.
fn parse_bind(text: &str) -> Result<Bind, String> {
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(Bind { ip, port: None });
    }
    if text.contains(':') {
        return match parse_listen(text)? {
            Listen::Tcp(address) => Ok(Bind { ip: address.ip(), port: Some(address.port()) }),
            Listen::Unix(_) => Err("write --listen unix:PATH".to_owned()),
        };
    }
    let mut addresses = (text, 0).to_socket_addrs().map_err(|e| e.to_string())?;
    let address = addresses.next().ok_or("the name has no address")?;
    Ok(Bind { ip: address.ip(), port: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_address_may_have_a_port() {
        #[rustfmt::skip]
        let table = [
            ("IPv4", "0.0.0.0", Some(("0.0.0.0", None))),
            ("IPv6", "::", Some(("::", None))),
            ("IPv6 in brackets", "[::1]", Some(("::1", None))),
            ("IPv4 and a port", "0.0.0.0:80", Some(("0.0.0.0", Some(80)))),
            ("IPv6 and a port", "[::1]:80", Some(("::1", Some(80)))),
            ("a port for every address", ":80", Some(("0.0.0.0", Some(80)))),
            ("a socket", "unix:/run/a", None),
            ("nothing", "", None),
        ];
        for (sentence, text, expected) in table {
            let expected = expected.map(|(ip, port)| Bind { ip: ip.parse().unwrap(), port });
            assert_eq!(parse_bind(text).ok(), expected, "{sentence}");
        }
    }
}
