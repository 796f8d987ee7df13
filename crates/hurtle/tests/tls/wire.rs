//! Invalid and unsupported handshakes, byte by byte.

use std::io::{Read, Write};

use crate::server::Secure;
use crate::support::Client;

const FATAL: u8 = 2;
const HANDSHAKE_FAILURE: u8 = 40;
const PROTOCOL_VERSION: u8 = 70;
const UNRECOGNIZED_NAME: u8 = 112;
const NO_APPLICATION_PROTOCOL: u8 = 120;

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
    // A reset ends the connection, too.
    let _ = client.stream.read_to_end(&mut all);
    all
}

#[test]
fn plain_http_on_the_tls_port_gets_a_plain_400() {
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

/// An extension of a ClientHello (RFC 8446 4.2): its type, its length, its contents.
fn extension(kind: u8, contents: &[u8]) -> Vec<u8> {
    [&[0, kind, 0, u8::try_from(contents.len()).unwrap()], contents].concat()
}

/// Parameters of a ClientHello. The server has one certificate, for `a.test`, with an ECDSA P-256
/// key.
struct Offer {
    suites: &'static [u8],
    signatures: &'static [u8],
    groups: &'static [u8],
    others: Vec<u8>,
}

/// Cipher suites of TLS 1.3: AES-128-GCM, which the server has, and AES-128-CCM-8.
const GCM: &[u8] = &[0x13, 0x01];
const CCM_8: &[u8] = &[0x13, 0x05];
/// Cipher suites of TLS 1.2: ECDHE with AES-128-GCM for each kind of key.
const ECDHE_ECDSA: &[u8] = &[0xc0, 0x2b];
const ECDHE_RSA: &[u8] = &[0xc0, 0x2f];
/// RSA key exchange with AES-128-CBC.
const RSA_CBC: &[u8] = &[0x00, 0x2f];
/// Signature schemes (RFC 8446 section 4.2.3).
const ECDSA_P256: &[u8] = &[4, 3];
const RSA_PSS: &[u8] = &[8, 4];
const BOTH: &[u8] = &[4, 3, 8, 4];
/// Groups: P-256, which the server has, and P-521.
const P256: &[u8] = &[0, 23];
const P521: &[u8] = &[0, 25];

impl Offer {
    const NEW: fn() -> Offer = || Offer {
        suites: GCM,
        signatures: ECDSA_P256,
        groups: P256,
        others: [extension(43, &[2, 3, 4]), extension(51, &[0, 0])].concat(),
    };
    const OLD: fn() -> Offer =
        || Offer { suites: ECDHE_ECDSA, others: extension(23, &[]), ..Offer::NEW() };

    fn with(mut self, kind: u8, contents: &[u8]) -> Offer {
        self.others.extend(extension(kind, contents));
        self
    }

    fn hello(&self) -> Vec<u8> {
        let list = |items: &[u8]| [&[0, u8::try_from(items.len()).unwrap()], items].concat();
        let extensions = [
            extension(13, &list(self.signatures)),
            extension(10, &list(self.groups)),
            self.others.clone(),
        ];
        hello([3, 3], self.suites, &extensions.concat())
    }
}

#[test]
fn a_handshake_that_cannot_succeed_ends_with_the_alert_for_its_reason() {
    let server = Secure::with(&[("a.txt", "")], |config, _, _| config.sites[0].default = false);
    let (new, old) = (Offer::NEW, Offer::OLD);
    let named = |name: &[u8]| [&[0, name.len() as u8 + 3, 0, 0, name.len() as u8], name].concat();
    let (ours, unknown) = (named(b"a.test"), named(b"b.test"));
    let of_ours = |offer: Offer| offer.with(0, &ours);
    let table = [
        ("1.3, no cipher suite", of_ours(Offer { suites: CCM_8, ..new() }), HANDSHAKE_FAILURE),
        ("1.3, only suites of 1.2", of_ours(Offer { suites: RSA_CBC, ..new() }), HANDSHAKE_FAILURE),
        ("1.3, no scheme", of_ours(Offer { signatures: RSA_PSS, ..new() }), HANDSHAKE_FAILURE),
        ("1.3, no group", of_ours(Offer { groups: P521, ..new() }), HANDSHAKE_FAILURE),
        ("1.2, no cipher suite", of_ours(Offer { suites: RSA_CBC, ..old() }), HANDSHAKE_FAILURE),
        (
            "1.2, only suites for another kind of key",
            of_ours(Offer { suites: ECDHE_RSA, signatures: BOTH, ..old() }),
            HANDSHAKE_FAILURE,
        ),
        ("1.2, no scheme", of_ours(Offer { signatures: RSA_PSS, ..old() }), HANDSHAKE_FAILURE),
        ("1.2, no group", of_ours(Offer { groups: P521, ..old() }), HANDSHAKE_FAILURE),
        ("1.2, no protocol", of_ours(old()).with(16, b"\0\x03\x02h9"), NO_APPLICATION_PROTOCOL),
        ("1.3, a name of no site", new().with(0, &unknown), UNRECOGNIZED_NAME),
        (
            "1.2, a name of no site, and nothing in common",
            Offer { suites: RSA_CBC, ..old() }.with(0, &unknown),
            UNRECOGNIZED_NAME,
        ),
    ];
    for (sentence, offer, alert) in table {
        let mut client = Client::connect(server.address);
        client.send(offer.hello());
        // The alert in clear, and then the end of the connection.
        assert_eq!(all(&mut client), [21, 3, 3, 0, 2, FATAL, alert], "{sentence}");
    }
}

#[test]
fn a_tls_1_2_server_hello_has_the_downgrade_marker() {
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
fn garbage_ends_only_its_own_connection() {
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
