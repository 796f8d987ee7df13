//! The ports of a run's contenders: free ones, which no other run takes meanwhile.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::PORTS;

/// Ports on 127.0.0.1 that belong to this process until it is dropped.
#[derive(Debug)]
pub struct Ports {
    /// The lowest port; a contender has two.
    pub first: u16,
    /// A name in the kernel for each contender's ports, which the end of the process frees too.
    _names: Vec<UnixListener>,
}

impl Ports {
    /// The first block from this port on in which so many contenders find free ports; `None` if no
    /// block is free up to port 65,535.
    pub fn reserve(from: u16, contenders: usize) -> Option<Ports> {
        let count = u16::try_from(contenders).ok()?.checked_mul(PORTS)?;
        let last = u16::MAX.checked_sub(count)?;
        (from..=last).step_by(usize::from(PORTS)).find_map(|first| block(first, count))
    }
}

fn block(first: u16, count: u16) -> Option<Ports> {
    let ports = first..first + count;
    let places = ports.clone().step_by(usize::from(PORTS));
    let names = places.map(reserved).collect::<Option<Vec<UnixListener>>>()?;
    ports.clone().all(is_free).then_some(Ports { first, _names: names })
}

/// The name of a contender's ports, if no other run has it (unix(7), abstract addresses).
fn reserved(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("deathmatch-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_means_another_port() {
        // Below the ports of clients.
        let from = 20_000 + (std::process::id() % 5_000) as u16;
        let one = Ports::reserve(from, 3).unwrap();
        let two = Ports::reserve(one.first, 3).unwrap();
        assert!(two.first >= one.first + 3 * PORTS, "{one:?} and {two:?}");
        let (first, _listener) = (two.first, TcpListener::bind(("127.0.0.1", two.first)).unwrap());
        drop((one, two));
        let three = Ports::reserve(first, 1).unwrap();
        assert!(three.first >= first + PORTS, "a server listens on {first}: {three:?}");
        assert!(Ports::reserve(u16::MAX, 1).is_none());
    }
}
