//! Clients that send a request before the handshake is over (0-RTT, RFC 8446 4.2.10). The server
//! accepts none of it: it must skip what was sent early and complete an ordinary handshake.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use rustls::{NamedGroup, ServerConfig, ServerConnection, StreamOwned};

use crate::peer::{Options, Peer};
use crate::server::Secure;

/// Limit on early data that OpenSSL and nginx have by default, in bytes.
const EARLY_DATA_BYTES: u32 = 16 << 10;

/// Connects with a ticket, sends so many bytes early in writes of these sizes, and asks again once
/// the handshake is over.
#[track_caller]
fn exchange(server: &Secure, options: &Options, early: usize, piece: usize) {
    let mut peer = Peer::begin(server.address, "a.test", options);
    let request = b"GET /early.txt HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let data: Vec<u8> = request.iter().copied().cycle().take(early).collect();
    let mut writer = peer.session.early_data().expect("the ticket is good for early data");
    // A record for each write.
    for some in data.chunks(piece) {
        writer.write_all(some).unwrap();
    }
    let mut flight = Vec::new();
    while peer.session.wants_write() {
        peer.session.write_tls(&mut flight).unwrap();
    }
    for some in flight.chunks(piece) {
        peer.socket.write_all(some).unwrap();
    }
    while peer.session.is_handshaking() {
        peer.session.complete_io(&mut peer.socket).unwrap();
    }
    assert!(!peer.session.is_early_data_accepted());
    assert_eq!(peer.get("/a.txt").body, b"hello\n");
    peer.socket.set_nonblocking(true).unwrap();
    let more = peer.read(&mut [0]).unwrap_err();
    assert_eq!(more.kind(), ErrorKind::WouldBlock, "early requests are not answered");
    assert!(peer.is_resumed());
}

#[test]
fn early_data_is_skipped_and_the_request_after_it_is_answered() {
    let server = Secure::start(&[("a.txt", "hello\n"), ("early.txt", "early\n")]);
    let all = EARLY_DATA_BYTES as usize;
    // The server asks for a share of the group that the client likes best (RFC 8446 4.1.4).
    let retried = Some(NamedGroup::secp384r1);
    let table = [
        ("a request", None, 100, all),
        ("as much as other servers allow, in one record", None, all, all),
        ("in records of 1,000 bytes", None, all, 1_000),
        ("in many small records", None, 8_000, 50),
        ("a request, and a HelloRetryRequest", retried, 100, all),
        ("as much as allowed, and a HelloRetryRequest", retried, all, all),
        ("in small records, and a HelloRetryRequest", retried, 8_000, 50),
    ];
    for (sentence, group, early, piece) in table {
        println!("{sentence}");
        let options = server.options().sending_early_data(Some(EARLY_DATA_BYTES), group);
        Peer::connect(server.address, "a.test", &options).unwrap().get("/a.txt");
        exchange(&server, &options, early, piece);
    }
}

#[test]
fn tickets_of_this_server_allow_no_early_data() {
    let server = Secure::start(&[("a.txt", "hello\n")]);
    let options = server.options().sending_early_data(None, None);
    Peer::connect(server.address, "a.test", &options).unwrap().get("/a.txt");
    assert!(Peer::begin(server.address, "a.test", &options).session.early_data().is_none());
    assert!(Peer::connect(server.address, "a.test", &options).unwrap().is_resumed());
}

/// Another server for `a.test`, which allows early data; it answers every connection with a word.
fn start_other(server: &Secure) -> SocketAddr {
    let (chain, key) = server.authority.issue("a.test").der();
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.max_early_data_size = EARLY_DATA_BYTES;
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().map(Result::unwrap) {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, socket);
            stream.write_all(b"hello\n").unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        }
    });
    address
}

/// Sends a request with `openssl s_client`; its output.
fn openssl(to: SocketAddr, options: &[&str], request: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &to.to_string(), "-servername", "a.test", "-ign_eof"]);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // It may have ended already.
    let _ = child.stdin.take().unwrap().write_all(request.as_bytes());
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

#[test]
fn openssls_early_data_with_another_servers_ticket_is_skipped() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("not run: no openssl");
        return;
    }
    let server = Secure::start(&[("a.txt", "hello\n"), ("early.txt", "early\n")]);
    let other = start_other(&server);
    let (session, early) = (server.dir.path("../session.pem"), server.dir.path("../early"));
    fs::write(&early, "GET /early.txt HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(300)).unwrap();
    let (session, early) = (session.to_str().unwrap(), early.to_str().unwrap());
    for groups in ["X25519", "P-521:X25519"] {
        openssl(other, &["-sess_out", session], "");
        let options = ["-groups", groups, "-sess_in", session, "-early_data", early];
        let request = "GET /a.txt HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        let said = openssl(server.address, &options, request);
        assert!(said.contains("Early data was rejected"), "{groups}: {said}");
        assert!(said.contains("\r\n\r\nhello\n"), "{groups}: {said}");
        assert!(!said.contains("early\n"), "{groups}: {said}");
    }
}
