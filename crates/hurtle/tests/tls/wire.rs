//! What is not TLS, or not the TLS that is spoken here, byte by byte.

use std::io::{Read, Write};

use crate::server::Secure;
use crate::support::Client;

const FATAL: u8 = 2;
const PROTOCOL_VERSION: u8 = 70;

/// A ClientHello in a record (RFC 8446 4.1.2); `extensions` without their length.
fn hello(version: [u8; 2], suites: &[u8], extensions: &[u8]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    body.push(0);
    body.extend(u16::try_from(suites.len()).unwrap().to_be_bytes());
    body.extend(suites);
    body.extend([1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    let mut message = vec![1, 0, len[0], len[1]];
    message.extend(body);
    let len = u16::try_from(message.len()).unwrap().to_be_bytes();
    let mut record = vec![22, 3, 1, len[0], len[1]];
    record.extend(message);
    record
}

fn all(client: &mut Client) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end too.
    let _ = client.stream.read_to_end(&mut all);
    all
}

#[test]
fn plain_http_on_the_tls_port_is_told_so_in_clear() {
    let server = Secure::start(&[("a.txt", "secret\n")]);
    for request in ["GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", "POST / HTTP/1.0\r\n\r\n", "G"] {
        let mut client = Client::connect(server.address);
        client.send(request);
        let answer = client.response();
        assert_eq!(answer.status, 400, "{request}");
        assert!(answer.text().contains("https://"), "{answer:?}");
        assert_eq!(answer.field("Connection"), Some("close"));
        client.half_close();
        assert_eq!(all(&mut client), b"");
    }
}

#[test]
fn old_versions_are_refused_with_the_alert_for_it() {
    let server = Secure::start(&[("a.txt", "")]);
    for version in [[3, 0], [3, 1], [3, 2]] {
        let mut client = Client::connect(server.address);
        let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
        client.send(hello(version, &[0xc0, 0x13, 0xc0, 0x09, 0x00, 0x2f], &signatures));
        let answer = all(&mut client);
        assert_eq!(answer.get(5..7), Some(&[FATAL, PROTOCOL_VERSION][..]), "{version:?}");
    }
}

#[test]
fn a_client_that_could_do_better_can_see_that_it_was_held_down() {
    let server = Secure::start(&[("a.txt", "")]);
    // X25519 and P-256; ECDSA and RSA-PSS with SHA-256: what TLS 1.2 needs, and no 1.3.
    let extensions = [0, 10, 0, 6, 0, 4, 0, 29, 0, 23, 0, 13, 0, 6, 0, 4, 4, 3, 8, 4, 0, 23, 0, 0];
    let mut client = Client::connect(server.address);
    client.send(hello([3, 3], &[0xc0, 0x2b, 0xc0, 0x2f], &extensions));
    let mut answer = [0; 43];
    client.stream.read_exact(&mut answer).unwrap();
    // RFC 8446 4.1.3: the end of the server's random, in a TLS 1.2 hello.
    assert_eq!(&answer[35..43], b"DOWNGRD\x01");
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let server = Secure::start(&[("a.txt", "hello\n")]);
    let mut huge = vec![22, 3, 1, 0xff, 0xff];
    huge.extend([0; 70_000]);
    let mut endless = Vec::new();
    for _ in 0..20 {
        // A message said to be 16 MiB long, in full records.
        endless.extend([22, 3, 1, 0x40, 0x00, 1, 0xff, 0xff, 0xff]);
        endless.extend([0; 0x4000 - 4]);
    }
    let table: [(&str, Vec<u8>); 6] = [
        ("a record of no known type", b"\x80\x2e\x01\x00\x02".to_vec()),
        ("an empty handshake record", vec![22, 3, 1, 0, 0]),
        ("a record longer than any may be", huge),
        ("a hello without end", endless),
        ("an alert before anything", vec![21, 3, 3, 0, 2, 2, 40]),
        ("application data before anything", vec![23, 3, 3, 0, 5, 1, 2, 3, 4, 5]),
    ];
    for (sentence, bytes) in table {
        let mut client = Client::connect(server.address);
        // It may be closed before all is sent.
        let _ = client.stream.write_all(&bytes);
        client.half_close();
        let answer = all(&mut client);
        assert!(!answer.starts_with(b"HTTP"), "{sentence}");
    }
    assert_eq!(server.connect().get("/a.txt").body, b"hello\n");
}

#[test]
fn a_record_that_was_tampered_with_ends_the_connection_with_an_alert() {
    let server = Secure::start(&[("a.txt", "hello\n")]);
    let mut peer = server.connect();
    assert_eq!(peer.get("/a.txt").status, 200);
    peer.socket.write_all(&[23, 3, 3, 0, 20]).unwrap();
    peer.socket.write_all(&[9; 20]).unwrap();
    let e = peer.read(&mut [0; 16]).unwrap_err().to_string();
    assert!(e.contains("BadRecordMac"), "{e}");
}
