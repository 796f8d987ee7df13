//! Tickets: servers with the same `ticket_secret` resume each other's TLS sessions, and a client
//! policy holds for resumed ones.

use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustix::process::{Signal, geteuid};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SupportedProtocolVersion,
};

use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::{Dir, reserved_address};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";

/// A server for `a.test`.
struct Server {
    dir: Dir,
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a server; an empty `secret`: it has none.
    fn start(pair: &CertifiedKey<KeyPair>, secret: &str) -> Server {
        let key = match secret {
            "" => "",
            _ => "ticket_secret = '{root}/../tickets'\n",
        };
        Server::of(pair, secret, key)
    }

    /// Starts a server with these keys in `[site.tls]`.
    fn of(pair: &CertifiedKey<KeyPair>, secret: &str, keys: &str) -> Server {
        let dir = Dir::new(&[("a.txt", "text")]);
        fs::write(dir.path("../chain.pem"), pair.cert.pem()).unwrap();
        fs::write(dir.path("../key.pem"), pair.signing_key.serialize_pem()).unwrap();
        write_secret(&dir.path("../tickets"), secret);
        let address = reserved_address();
        let child = Child::configured(&dir, &config(address, keys));
        Server { dir, child, address }
    }
}

fn config(address: SocketAddr, keys: &str) -> String {
    format!(
        "listen_tls = '{address}'\n[[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{{root}}'\n\
         [site.tls]\ncertificate = '{{root}}/../chain.pem'\nkey = '{{root}}/../key.pem'\n{keys}"
    )
}

/// Writes a file that only the server may read.
fn write_secret(path: &Path, secret: &str) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    if geteuid().is_root() {
        let user = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        chown(path, Some(user.uid.as_raw()), None).unwrap();
    }
}

/// A client that keeps tickets, of this version only.
fn client(
    pair: &CertifiedKey<KeyPair>,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pair.cert.der().to_vec())).unwrap();
    let client = ClientConfig::builder_with_protocol_versions(&[version]);
    Arc::new(client.with_root_certificates(roots).with_no_client_auth())
}

/// Requests the file on a new connection; returns whether the session was resumed.
#[track_caller]
fn is_resumed(client: &Arc<ClientConfig>, server: &Server) -> bool {
    request(client, server).unwrap() == Some(HandshakeKind::Resumed)
}

/// Requests the file on a new connection.
///
/// # Errors
/// The server ends the connection.
#[track_caller]
fn request(client: &Arc<ClientConfig>, server: &Server) -> io::Result<Option<HandshakeKind>> {
    let name = ServerName::try_from("a.test").unwrap();
    let mut session = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut tls = rustls::Stream::new(&mut session, &mut stream);
    tls.write_all(b"GET /a.txt HTTP/1.1\r\nConnection: close\r\nHost: a.test\r\n\r\n")?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer)?;
    assert!(answer.ends_with("text"), "{answer}");
    Ok(session.handshake_kind())
}

#[test]
fn servers_with_the_same_secret_resume_each_others_sessions() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let start = |secret| Server::start(&pair, secret);
    let (a, b) = (start(SECRET), start(SECRET));
    let (other, without) = (start(OTHER_SECRET), start(""));
    for version in [&TLS13, &TLS12] {
        let rows =
            [("the same secret", &b, true), ("another", &other, false), ("none", &without, false)];
        for (sentence, server, resumed) in rows {
            let client = client(&pair, version);
            assert!(!is_resumed(&client, &a), "{sentence}, {version:?}: the first session");
            assert_eq!(is_resumed(&client, server), resumed, "{sentence}, {version:?}");
        }
    }

    // After a restart, too.
    let client = client(&pair, &TLS13);
    is_resumed(&client, &a);
    drop(a);
    assert!(is_resumed(&client, &start(SECRET)), "after a restart");
}

#[test]
fn a_replaced_secret_is_read_and_an_unusable_one_is_not() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let (a, b) = (Server::start(&pair, SECRET), Server::start(&pair, SECRET));
    let client = client(&pair, &TLS13);
    let tickets = b.dir.path("../tickets");

    write_secret(&tickets, "too short");
    eventually("b refuses it", || b.child.stderr().contains("9 bytes, fewer than 32"));
    is_resumed(&client, &a);
    assert!(is_resumed(&client, &b), "the secret before stays in use");

    write_secret(&tickets, OTHER_SECRET);
    eventually("b has read it", || {
        is_resumed(&client, &a);
        !is_resumed(&client, &b)
    });
    assert!(is_resumed(&client, &b), "by its own tickets");
}

#[test]
fn others_must_not_be_able_to_read_the_secret_and_it_must_be_long() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let dir = Dir::new(&[]);
    fs::write(dir.path("../chain.pem"), pair.cert.pem() + &pair.signing_key.serialize_pem())
        .unwrap();
    let secret = dir.path("../tickets");
    let config = write_config(
        &dir,
        "listen_tls = '127.0.0.1:0'\n[[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{root}'\n\
         [site.tls]\ncertificate = '{root}/../chain.pem'\nticket_secret = '{root}/../tickets'\n",
    );
    for (content, mode, expected) in [
        (SECRET, 0o644, Some("its mode is 0644: others may read or change it")),
        ("short\n", 0o600, Some("5 bytes, fewer than 32; write openssl rand -base64 48 > ")),
        ("", 0o600, Some("it is empty")),
        (SECRET, 0o640, None),
    ] {
        fs::write(&secret, content).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
        let output = hurtle().args(["check", "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), expected.is_none(), "{said}");
        assert!(said.contains(expected.unwrap_or_default()), "{said}");
    }
}

#[test]
fn a_session_without_a_certificate_is_not_resumed_when_one_is_required() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    for (key, secret) in [("", ""), ("ticket_secret = '{root}/../tickets'\n", SECRET)] {
        let keys = |auth: &str| {
            format!("{key}client_auth = '{auth}'\nclient_ca = '{{root}}/../chain.pem'\n")
        };
        let server = Server::of(&pair, secret, &keys("optional"));
        let client = client(&pair, &TLS13);
        is_resumed(&client, &server);
        assert!(is_resumed(&client, &server), "{key}: while none is required");

        write_config(&server.dir, &config(server.address, &keys("required")));
        server.child.signal(Signal::HUP);
        eventually("the reload is done", || server.child.stderr().contains("reloaded"));
        assert!(request(&client, &server).is_err(), "{key}: once one is required");
    }
}
