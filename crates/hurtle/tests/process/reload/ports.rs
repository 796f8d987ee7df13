//! Reloads that add ports which only root can bind, after the server has given up root.

use std::io::ErrorKind::AddrInUse;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use rustix::process::{Pid, geteuid};

use super::Reloaded;
use crate::child::Killed;

/// A port below 1024 that nothing uses.
fn low_port() -> SocketAddr {
    let addresses = (600..1024).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let is_free = |address: &SocketAddr| {
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    { addresses }.find(is_free).unwrap()
}

/// The server refused this reload, with the advice to restart it.
#[test]
fn a_port_that_needs_root_is_bound_by_another_process() {
    if !geteuid().is_root() {
        return;
    }
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    for sandbox in ["auto", "off"] {
        let address = low_port();
        let site = "[[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{root}/a'\n";
        let with_tls = |http3: bool| {
            format!(
                "sandbox = '{sandbox}'\nhttp3 = {http3}\nlisten_tls = '{address}'\n{site}\
                 [site.tls]\ncertificate = '{{root}}/../chain.pem'\n\
                 key = '{{root}}/../key.pem'\nredirect = false\n"
            )
        };
        let server = Reloaded::prepared(&format!("sandbox = '{sandbox}'\n{site}"), |dir| {
            dir.write("../chain.pem", pair.cert.pem());
            dir.write("../key.pem", pair.signing_key.serialize_pem());
        });
        let reload = |config: &str| {
            let (code, said) = server.reload(config);
            let new = said.strip_prefix("upgraded: process ").and_then(|rest| rest.split_once(' '));
            let new = new.and_then(|(new, _)| Pid::from_raw(new.parse().unwrap())).map(Killed);
            assert_eq!(code, Some(0), "{sandbox}: {said}");
            (new, said)
        };
        let (tcp, said) = reload(&with_tls(false));
        assert!(tcp.is_some(), "{sandbox}: {said}");
        TcpStream::connect(address).unwrap();
        // The UDP port of HTTP/3 is another such port.
        let (udp, said) = reload(&with_tls(true));
        assert!(udp.is_some(), "{sandbox}: {said}");
        let bound = UdpSocket::bind(address).map_err(|e| e.kind());
        assert_eq!(bound.map(drop), Err(AddrInUse), "{sandbox}: {}", server.child.stderr());
        let (new, said) = reload(&with_tls(true));
        assert!(new.is_none() && said.starts_with("reloaded"), "{sandbox}: {said}");
    }
}
