//! A real authority on an address of the test's own, where no other test and no other server is:
//! its ports can then be written down before anything listens.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU8, Ordering};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::child::{Child, eventually};
use crate::peer::{Options, Peer};
use crate::server::Authority;
use crate::support::Dir;

/// Where an authority looks for what it has asked.
pub(crate) const HTTP_PORT: u16 = 5002;
pub(crate) const TLS_PORT: u16 = 5001;
const DNS_PORT: u16 = 8053;
/// The first authority's; the next one's is one more.
const PORT: u16 = 14_000;
const MANAGEMENT_PORT: u16 = 15_000;

/// The key of the account `kid-1`, where one is wanted.
pub(crate) const EAB_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// A loopback address, names that lead there, and what certifies the authorities themselves.
pub(crate) struct Net {
    pub(crate) address: Ipv4Addr,
    pub(crate) authority: Authority,
    pub(crate) dir: Dir,
    tools: PathBuf,
    _dns: Child,
}

/// How an authority differs.
#[derive(Default)]
pub(crate) struct Manner {
    /// It wants accounts made elsewhere.
    pub(crate) binding: bool,
    /// Of 100 nonces it refuses so many.
    pub(crate) bad_nonces: u8,
}

/// An authority.
pub(crate) struct Pebble {
    pub(crate) child: Child,
    number: u16,
    address: Ipv4Addr,
    own: RootCertStore,
}

impl Net {
    /// `None`: what it takes is not installed.
    pub(crate) fn new() -> Option<Net> {
        let tools = tools();
        let missing = ["pebble", "pebble-challtestsrv"].iter().find(|p| !tools.join(p).exists());
        if let Some(missing) = missing {
            eprintln!("not run: no {missing}; cargo xtask test --only packages installs it");
            return None;
        }
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let [high, low] = (process::id() as u16).to_be_bytes();
        let address =
            Ipv4Addr::new(127, 64 | high >> 2, low, NUMBER.fetch_add(1, Ordering::Relaxed));
        let dir = Dir::new(&[("a.txt", "hello\n")]);
        let authority = Authority::new("the authorities' authority");
        fs::write(dir.path("../root.pem"), authority.pem()).unwrap();
        authority.issue(&address.to_string()).write(&dir, "pebble");
        let dns = format!("{address}:{DNS_PORT}");
        let mut command = Command::new(tools.join("pebble-challtestsrv"));
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        command.args(["-defaultIPv6", "", "-defaultIPv4", &address.to_string()]);
        command.args(["-dnsserver", &dns, "-management", &format!("{address}:8055")]);
        let dns = Child::spawn(&mut command);
        Some(Net { address, authority, dir, tools, _dns: dns })
    }

    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        (self.address, port).into()
    }

    /// Where the authority of this number is, whether it is there or not.
    pub(crate) fn directory(&self, number: u16) -> String {
        format!("https://{}:{}/dir", self.address, PORT + number)
    }

    pub(crate) fn pebble(&self, number: u16, manner: &Manner) -> Pebble {
        let address = self.address;
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("{address}:{}", PORT + number),
            "managementListenAddress": format!("{address}:{}", MANAGEMENT_PORT + number),
            "certificate": self.dir.path("../pebble.pem"),
            "privateKey": self.dir.path("../pebble.key"),
            "httpPort": HTTP_PORT,
            "tlsPort": TLS_PORT,
            "domainBlocklist": ["blocked.example"],
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "externalAccountBindingRequired": manner.binding,
            "externalAccountMACKeys": { "kid-1": EAB_KEY },
        }});
        let path = self.dir.path(format!("../pebble-{number}.json"));
        fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new(self.tools.join("pebble"));
        command.arg("-config").arg(path).args(["-dnsserver", &format!("{address}:{DNS_PORT}")]);
        command.arg("-strict").env("PEBBLE_VA_NOSLEEP", "1");
        command.env("PEBBLE_WFE_NONCEREJECT", manner.bad_nonces.to_string());
        let child = Child::spawn(&mut command);
        let pebble = Pebble { child, number, address, own: self.authority.roots() };
        eventually("the authority listens", || {
            [PORT, MANAGEMENT_PORT]
                .iter()
                .all(|port| std::net::TcpStream::connect((address, port + number)).is_ok())
        });
        pebble
    }
}

impl Pebble {
    /// What trusts the certificates it issues.
    pub(crate) fn roots(&self) -> RootCertStore {
        let answer = self.manage("GET /roots/0", "");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&answer).unwrap()).unwrap();
        roots
    }

    /// It would have this certificate (PEM) renewed since long.
    pub(crate) fn advise_renewal(&self, pem: &str) {
        let start = pem.find("-----BEGIN CERTIFICATE").unwrap();
        let advice =
            r#"{"suggestedWindow":{"start":"2021-01-01T00:00:00Z","end":"2021-01-02T00:00:00Z"}}"#;
        let body = serde_json::json!({ "certificate": &pem[start..], "ariResponse": advice });
        self.manage("POST /set-renewal-info/", &body.to_string());
    }

    /// Orders that it has been given.
    pub(crate) fn orders(&self) -> usize {
        let log = self.child.stdout();
        let line = log
            .lines()
            .rev()
            .find_map(|line| line.split_once("There are now ")?.1.split_once(" orders"));
        line.map_or(0, |(number, _)| number.parse().unwrap())
    }

    fn manage(&self, request: &str, body: &str) -> Vec<u8> {
        let to = SocketAddr::from((self.address, MANAGEMENT_PORT + self.number));
        let options = Options::trusting(self.own.clone());
        let mut peer = Peer::connect(to, &self.address.to_string(), &options).unwrap();
        let length = body.len();
        peer.send(format!(
            "{request} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: test\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let answer = peer.answer();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.body
    }
}

/// Where xtask puts what it installs.
fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_hurtle")).ancestors().nth(2).unwrap();
    target.join("tools/bin")
}
