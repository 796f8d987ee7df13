//! Tests of `https://` upstreams: verification, client certificates, reuse, uploads and tunnels.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hurtle::config::check;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::client::PATIENCE;
use crate::log;
use crate::support::{GET, OK, Proxy, Upstream};

/// A test authority, whose files are in a directory that is removed when this is dropped.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) roots: RootCertStore,
    pub(crate) dir: PathBuf,
}

impl Authority {
    pub(crate) fn new(test: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("Authority {test}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let signed = params.self_signed(&key).unwrap();
        let dir = std::env::temp_dir().join(format!("hurtle-{}-{test}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("ca.pem"), signed.pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(signed.der().clone()).unwrap();
        Authority { issuer: Issuer::new(params, key), roots, dir }
    }

    /// The path of a file in its directory, quoted for TOML.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{:?}", self.dir.join(name).to_str().unwrap())
    }

    /// Configuration of a server whose certificate is for `name`.
    pub(crate) fn server(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> ServerConfig {
        let (chain, key) = self.sign(name, change);
        builder().with_no_client_auth().with_single_cert(vec![chain], key).unwrap()
    }

    pub(crate) fn sign(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (rustls::pki_types::CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let pem = signed.pem() + &key.serialize_pem();
        fs::write(self.dir.join(format!("{name}.pem")), pem).unwrap();
        (signed.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn builder() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap()
}

/// An upstream with TLS that accepts connections when the test calls it.
pub(crate) struct Secure {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    config: Arc<ServerConfig>,
}

/// The upstream's end of a connection.
pub(crate) struct Peer(pub(crate) StreamOwned<ServerConnection, TcpStream>);

impl Secure {
    pub(crate) fn new(config: ServerConfig) -> Secure {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        let address = listener.local_addr().unwrap();
        Secure { listener, address, config: Arc::new(config) }
    }

    /// A proxy to it by the name `localhost`, which trusts `authority`.
    pub(crate) fn proxy(&self, authority: &Authority, keys: &str) -> Proxy {
        let (port, ca) = (self.address.port(), authority.file("ca.pem"));
        Proxy::of(
            "",
            &format!(
                "proxy = 'https://localhost:{port}'\n{keys}\n[site.mount.upstream_tls]\nca = {ca}\n"
            ),
        )
    }

    #[track_caller]
    pub(crate) fn accept(&self) -> Peer {
        let (socket, _) = self.listener.accept().expect("no connection comes");
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer(StreamOwned::new(ServerConnection::new(Arc::clone(&self.config)).unwrap(), socket))
    }

    /// Accepts a connection whose handshake the proxy breaks off.
    pub(crate) fn accept_broken(&self) {
        self.accept().0.read(&mut [0]).expect_err("the handshake succeeded");
    }
}

impl Peer {
    #[track_caller]
    pub(crate) fn head(&mut self) -> String {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte).expect("no head comes");
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    #[track_caller]
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).expect("too few bytes come");
        bytes
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
        self.0.flush().unwrap();
    }
}

#[test]
fn http2_must_be_selected_by_alpn() {
    let authority = Authority::new("http2");
    for (alpn, status) in [("h2", "200 OK"), ("http/1.1", "502 Bad Gateway")] {
        let mut config = authority.server("localhost", |_| ());
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let upstream = Secure::new(config);
        let (port, ca) = (upstream.address.port(), authority.file("ca.pem"));
        let tls = format!("[site.mount.upstream_tls]\nca = {ca}\n");
        let proxy = Proxy::of("", &format!("proxy = 'h2://localhost:{port}'\n{tls}"));
        let mut client = proxy.send(GET);
        let mut peer = upstream.accept();
        if alpn == "h2" {
            assert_eq!(peer.take(24), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            assert_eq!(peer.0.conn.alpn_protocol(), Some(&b"h2"[..]));
            // SETTINGS, and the head of a response without a body.
            peer.send(b"\0\0\0\x04\0\0\0\0\0");
            let mut frame = vec![0; 9];
            while frame[3] != 1 {
                let len = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
                peer.take(len);
                frame = peer.take(9);
            }
            peer.send(b"\0\0\x01\x01\x05\0\0\0\x01\x88");
            assert!(client.head().contains(status));
        } else {
            // The handshake fails: no protocol in common.
            let _ = peer.0.read(&mut [0]);
            drop((peer, upstream));
            assert!(client.head().contains(status));
        }
    }
}

#[test]
fn requests_share_one_verified_connection() {
    let authority = Authority::new("shared");
    let mut config = authority.server("localhost", |_| ());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let upstream = Secure::new(config);
    let proxy = upstream.proxy(&authority, "");
    let mut client = proxy.send(GET);
    let mut peer = upstream.accept();
    assert!(peer.head().starts_with("GET / HTTP/1.1\r\nHost: a\r\n"));
    assert_eq!(peer.0.conn.server_name(), Some("localhost"));
    assert_eq!(peer.0.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    for _ in 0..3 {
        peer.send(OK);
        assert_eq!(client.answer().1, "ok");
        client.send(GET);
        peer.head();
    }
    // A new connection resumes the session.
    let mut second = proxy.send(GET);
    let mut other = upstream.accept();
    other.head();
    assert_eq!(other.0.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    other.send(OK);
    assert_eq!(second.answer().1, "ok");
    // A connection that the upstream has closed is not used again.
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
    peer.0.conn.send_close_notify();
    peer.0.flush().unwrap();
    drop((peer, other));
    client.send(GET);
    let mut peer = upstream.accept();
    peer.head();
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn large_bodies_pass_both_ways() {
    let authority = Authority::new("bodies");
    let upstream = Secure::new(authority.server("localhost", |_| ()));
    let proxy = upstream.proxy(&authority, "");
    let body: Vec<u8> = (0..3 << 20).map(|n: u32| (n % 251) as u8).collect();
    let mut client = proxy.connect();
    let (sent, len) = (body.clone(), body.len());
    let sender = std::thread::spawn(move || {
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n"));
        client.send(&sent);
        client
    });
    let mut peer = upstream.accept();
    peer.head();
    assert!(peer.take(len) == body, "another body arrived");
    let mut client = sender.join().unwrap();
    let sent = body.clone();
    let answering = std::thread::spawn(move || {
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"));
        peer.send(&sent);
    });
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    assert!(client.take(len) == body, "another body came back");
    answering.join().unwrap();
}

#[test]
fn a_response_that_ends_without_close_notify_is_truncated() {
    let authority = Authority::new("truncated");
    let upstream = Secure::new(authority.server("localhost", |_| ()));
    let proxy = upstream.proxy(&authority, "");
    for is_complete in [true, false] {
        let mut client = proxy.send(GET);
        let mut peer = upstream.accept();
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\n\r\nhello");
        client.head();
        assert_eq!(client.chunk(), "hello");
        if is_complete {
            peer.0.conn.send_close_notify();
            peer.0.flush().unwrap();
        }
        drop(peer);
        // RFC 9112 section 9.8.
        match is_complete {
            true => assert_eq!(client.chunk(), ""),
            false => assert_eq!(client.rest(), ""),
        }
    }
}

#[test]
fn a_tunnel_passes_through() {
    let authority = Authority::new("tunnel");
    let upstream = Secure::new(authority.server("localhost", |_| ()));
    let proxy = upstream.proxy(&authority, "");
    let mut client = proxy.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst",
    );
    let mut peer = upstream.accept();
    peer.head();
    peer.send("HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello");
    client.head();
    assert_eq!((client.take(5), peer.take(5)), (b"hello".to_vec(), b"first".to_vec()));
    client.send("more");
    assert_eq!(peer.take(4), b"more");
    client.half_close();
    assert_eq!(peer.0.read(&mut [0]).unwrap(), 0, "close_notify");
    peer.send("bye");
    peer.0.conn.send_close_notify();
    peer.0.flush().unwrap();
    drop(peer);
    assert_eq!(client.rest(), "bye");
}

#[test]
fn a_certificate_that_cannot_be_trusted_is_502_with_a_reason_in_the_log() {
    log::begin();
    let (authority, stranger) = (Authority::new("reasons"), Authority::new("stranger"));
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    };
    let early = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    let table = [
        (authority.server("localhost", expired), "its certificate has expired"),
        (authority.server("localhost", early), "its certificate is not valid yet"),
        (stranger.server("localhost", |_| ()), "the issuer of its certificate is unknown"),
        (authority.server("b.example", |_| ()), "its certificate is not for localhost"),
    ];
    for (config, reason) in table {
        let upstream = Secure::new(config);
        let proxy = upstream.proxy(&authority, "");
        let mut client = proxy.send(GET);
        upstream.accept_broken();
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 502 "), "{reason}: {head}");
        assert_eq!(body, "502 Bad Gateway\n", "the client learns no reason");
        let lines =
            log::lines_with(&format!("upstream https://localhost:{}", upstream.address.port()));
        assert!(lines.iter().any(|line| line.contains(reason)), "{reason}: {lines:?}");
    }
    let upstream = Upstream::new();
    let url = format!("https://localhost:{}", upstream.address.port());
    let ca = authority.file("ca.pem");
    let proxy = Proxy::of("", &format!("proxy = '{url}'\nupstream_tls = {{ ca = {ca} }}"));
    let mut client = proxy.send(GET);
    upstream.accept().send("HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 502 "));
    assert!(log::lines_with(&url).iter().any(|line| line.contains("it does not speak TLS")));
}

#[test]
fn the_name_and_the_verification_can_be_configured() {
    let authority = Authority::new("names");
    let upstream = Secure::new(authority.server("api.example.org", |_| ()));
    let (address, ca) = (upstream.address, authority.file("ca.pem"));
    let table = [
        (format!("{{ ca = {ca}, server_name = 'API.example.org' }}"), Some("api.example.org")),
        // An address is never requested as a name (RFC 6066 section 3).
        ("{ insecure_skip_verify = true }".to_owned(), None),
    ];
    for (tls, name) in table {
        let proxy = Proxy::of("", &format!("proxy = 'https://{address}'\nupstream_tls = {tls}"));
        let mut client = proxy.send(GET);
        let mut peer = upstream.accept();
        peer.head();
        assert_eq!(peer.0.conn.server_name(), name);
        peer.send(OK);
        assert_eq!(client.answer().1, "ok", "{tls}");
    }
}

#[test]
fn a_client_certificate_is_presented() {
    let authority = Authority::new("client");
    let (chain, key) = authority.sign("localhost", |_| ());
    authority.sign("proxy.example", |_| ());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = Arc::new(authority.roots.clone());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
    let config = builder().with_client_cert_verifier(verifier);
    let upstream = Secure::new(config.with_single_cert(vec![chain], key).unwrap());
    let (port, ca) = (upstream.address.port(), authority.file("ca.pem"));
    let own = authority.file("proxy.example.pem");
    let mount = format!("proxy = 'https://localhost:{port}'\nupstream_tls = {{ ca = {ca}, ");
    let proxy = Proxy::of("", &format!("{mount}certificate = {own} }}"));
    let mut client = proxy.send(GET);
    let mut peer = upstream.accept();
    peer.head();
    assert_eq!(peer.0.conn.peer_certificates().map(<[_]>::len), Some(1));
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
    let proxy = Proxy::of("", &format!("{} }}", mount.trim_end_matches(", ")));
    let mut client = proxy.send(GET);
    upstream.accept_broken();
    assert!(client.head().starts_with("HTTP/1.1 502 "));
}

#[test]
fn health_checks_are_made_over_tls() {
    let authority = Authority::new("health");
    let upstream = Secure::new(authority.server("localhost", |_| ()));
    let keys = "health = '/up'\nhealth_interval = '10ms'";
    let proxy = upstream.proxy(&authority, keys);
    for _ in 0..2 {
        let mut peer = upstream.accept();
        assert!(peer.head().starts_with("GET /up HTTP/1.1\r\n"));
        peer.send("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    }
    // The third health check follows the evaluation of the second.
    let mut third = upstream.accept();
    assert!(proxy.send(GET).head().starts_with("HTTP/1.1 503 "));
    third.head();
}

#[test]
fn a_handshake_counts_into_the_connect_timeout() {
    let authority = Authority::new("timeout");
    let upstream = Secure::new(authority.server("localhost", |_| ()));
    let proxy = upstream.proxy(&authority, "connect_timeout = '100ms'");
    let mut client = proxy.send(GET);
    let _silent = upstream.accept();
    assert!(client.head().starts_with("HTTP/1.1 504 "));
}

#[test]
fn missing_and_mismatched_files_are_problems_at_the_start() {
    let authority = Authority::new("files");
    authority.sign("a.example", |_| ());
    let (ca, own) = (authority.file("ca.pem"), authority.file("a.example.pem"));
    let table = [
        (format!("ca = {}", authority.file("none.pem")), "none.pem: No such file or directory"),
        (format!("ca = {ca}, certificate = {ca}"), "ca.pem: no private key in it"),
        (format!("ca = {ca}, certificate = {ca}, key = {own}"), "cannot be used with the key in"),
    ];
    for (tls, reason) in table {
        let text = format!(
            "listen = '127.0.0.1:0'\n[[site]]\n[[site.mount]]\nproxy = 'https://a'\n\
             upstream_tls = {{ {tls} }}\n"
        );
        let config = check(&text, Path::new("/nowhere/hurtle.toml")).expect(&text);
        let error = hurtle::Server::bind(config).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("mount /: "), "{error}");
    }
}
