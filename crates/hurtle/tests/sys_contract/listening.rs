//! Tests of `listen_tcp`: every connection is accepted, and no two servers share an address.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use hurtle::sys;
use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::{LOOPBACK, PATIENCE, wait_for};

#[test]
fn every_connection_is_accepted_by_some_socket() {
    for count in [1, 2, 4] {
        let listeners = sys::listen_tcp(LOOPBACK, 128, count).unwrap();
        assert_eq!(listeners.len(), count);
        let addr = listeners[0].local_addr().unwrap();
        assert_ne!(addr.port(), 0, "port 0 has become one");
        for listener in &listeners {
            assert_eq!(listener.local_addr().unwrap(), addr, "all are on one");
            let flags = rustix::fs::fcntl_getfl(listener).unwrap();
            assert!(flags.contains(OFlags::NONBLOCK), "none waits");
        }
        let clients: Vec<TcpStream> = (0..64_u8)
            .map(|i| {
                let mut client = TcpStream::connect_timeout(&addr, PATIENCE).unwrap();
                client.write_all(&[i]).unwrap();
                client
            })
            .collect();
        let mut said: Vec<u8> = accept_all(&listeners, clients.len());
        said.sort_unstable();
        assert_eq!(said, (0..64).collect::<Vec<u8>>(), "{count} sockets");
    }
}

/// The first byte of each of `count` clients.
fn accept_all(listeners: &[TcpListener], count: usize) -> Vec<u8> {
    let mut said = Vec::new();
    while said.len() < count {
        wait_for(&listeners.iter().collect::<Vec<_>>(), PollFlags::IN);
        for listener in listeners {
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                said.push(byte[0]);
            }
        }
    }
    said
}

#[test]
fn an_address_has_one_server() {
    for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let listeners = sys::listen_tcp(LOOPBACK, 16, first).unwrap();
        let addr = listeners[0].local_addr().unwrap();
        let error = sys::listen_tcp(addr, 16, second).expect_err("the address is taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{first} sockets, then {second}");

        // The server closes first, so the address still has a connection in TIME_WAIT.
        let mut client = TcpStream::connect_timeout(&addr, PATIENCE).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"!").unwrap();
        assert_eq!(accept_all(&listeners, 1), b"!");
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server has closed");
        drop((listeners, client));
        let again = sys::listen_tcp(addr, 16, second);
        assert!(again.is_ok(), "a server that starts again gets its address back: {again:?}");
    }
}

#[test]
fn udp_sockets_share_an_address_that_no_other_server_gets() {
    for count in [1, 3] {
        let sockets = sys::bind_udp(LOOPBACK, count).unwrap();
        assert!(!sockets.is_empty() && sockets.len() <= count);
        let addr = sockets[0].local_addr().unwrap();
        for socket in &sockets {
            assert_eq!(socket.local_addr().unwrap(), addr, "all are on one");
            let flags = rustix::fs::fcntl_getfl(socket).unwrap();
            assert!(flags.contains(OFlags::NONBLOCK), "none waits");
        }
        let error = sys::bind_udp(addr, count).expect_err("the address is taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let client = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        client.send_to(b"x", addr).unwrap();
        wait_for(&sockets.iter().collect::<Vec<_>>(), PollFlags::IN);
        let received = sockets.iter().filter(|socket| socket.recv(&mut [0; 8]).is_ok()).count();
        assert_eq!(received, 1, "{count} sockets");
    }
}
