//! Pebble on a loopback address that only this test uses, so that its ports are known in advance.

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

/// Ports that the authority connects to for its validations.
pub(crate) const HTTP_PORT: u16 = 5002;
pub(crate) const TLS_PORT: u16 = 5001;
const DNS_PORT: u16 = 8053;
/// Port of the first authority; the next one has the next port.
const PORT: u16 = 14_000;
const MANAGEMENT_PORT: u16 = 15_000;

const DAY_SECS: u64 = 24 * 60 * 60;

/// HMAC key of the external account `kid-1`.
pub(crate) const EAB_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// A loopback address, DNS that resolves every name to it, and the root of the authorities'
/// own certificates.
pub(crate) struct Net {
    pub(crate) address: Ipv4Addr,
    pub(crate) authority: Authority,
    pub(crate) dir: Dir,
    tools: PathBuf,
    _dns: Child,
}

/// Options of an authority.
#[derive(Default)]
pub(crate) struct PebbleOptions {
    /// Requires external account bindings (RFC 8555 section 7.3.4).
    pub(crate) binding: bool,
    /// Port of the DNS server that it asks; `None`: that of `Net`.
    pub(crate) dns_port: Option<u16>,
    /// Percentage of nonces that it refuses.
    pub(crate) bad_nonces: u8,
}

/// A running authority.
pub(crate) struct Pebble {
    pub(crate) child: Child,
    number: u16,
    address: Ipv4Addr,
    own: RootCertStore,
}

impl Net {
    /// `None` if Pebble is not installed.
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

    /// Directory URL of the authority with this number, running or not.
    pub(crate) fn directory(&self, number: u16) -> String {
        format!("https://{}:{}/dir", self.address, PORT + number)
    }

    pub(crate) fn pebble(&self, number: u16, options: &PebbleOptions) -> Pebble {
        let address = self.address;
        let dns_port = options.dns_port.unwrap_or(DNS_PORT);
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
            "externalAccountBindingRequired": options.binding,
            "externalAccountMACKeys": { "kid-1": EAB_KEY, "kid-2": EAB_KEY },
            "profiles": {
                "default": { "description": "ninety days", "validityPeriod": 90 * DAY_SECS },
                "shortlived": { "description": "six days", "validityPeriod": 6 * DAY_SECS },
            },
        }});
        let path = self.dir.path(format!("../pebble-{number}.json"));
        fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new(self.tools.join("pebble"));
        command.arg("-config").arg(path).args(["-dnsserver", &format!("{address}:{dns_port}")]);
        command.arg("-strict").env("PEBBLE_VA_NOSLEEP", "1");
        command.env("PEBBLE_WFE_NONCEREJECT", options.bad_nonces.to_string());
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
    /// A store that trusts the certificates it issues.
    pub(crate) fn roots(&self) -> RootCertStore {
        let answer = self.manage("GET /roots/0", "");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&answer).unwrap()).unwrap();
        roots
    }

    /// Sets a renewal window in the past for this certificate (PEM).
    pub(crate) fn advise_renewal(&self, pem: &str) {
        let start = pem.find("-----BEGIN CERTIFICATE").unwrap();
        let advice =
            r#"{"suggestedWindow":{"start":"2021-01-01T00:00:00Z","end":"2021-01-02T00:00:00Z"}}"#;
        let body = serde_json::json!({ "certificate": &pem[start..], "ariResponse": advice });
        self.manage("POST /set-renewal-info/", &body.to_string());
    }

    /// Number of orders it has received.
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
        let client = Options::trusting(self.own.clone());
        let mut peer = Peer::connect(to, &self.address.to_string(), &client).unwrap();
        let length = body.len();
        peer.send(format!(
            "{request} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: test\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let answer = peer.answer();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.body
    }
}

/// The directory that xtask installs tools to.
fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_hurtle")).ancestors().nth(2).unwrap();
    target.join("tools/bin")
}
