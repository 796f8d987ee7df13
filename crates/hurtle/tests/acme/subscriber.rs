//! A server that orders its certificates from a test's authorities.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use rustls::RootCertStore;

use crate::child::{Child, hurtle};
use crate::pebble::{HTTP_PORT, Net, TLS_PORT};
use crate::peer::{Options, Peer};

/// An attempt takes some seconds: servers reload challenges, and the authority validates.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Setup<'a> {
    pub(crate) hosts: &'a [&'a str],
    pub(crate) challenge: &'a str,
    pub(crate) email: &'a str,
    /// Lines of `[acme]` in place of `challenge`.
    pub(crate) acme: String,
    /// Lines of each `[[acme.authority]]` beside `root`.
    pub(crate) authorities: Vec<String>,
    pub(crate) ports: (u16, u16),
    /// Value of `on_demand`; without one, the site has one certificate for `hosts`.
    pub(crate) on_demand: String,
}

impl<'a> Setup<'a> {
    /// A certificate for `a.test` from the first authority.
    pub(crate) fn new(net: &Net) -> Setup<'a> {
        Setup {
            hosts: &["a.test"],
            challenge: "tls-alpn-01",
            email: "admin@a.test",
            acme: String::new(),
            authorities: vec![authority(net, 0)],
            ports: (HTTP_PORT, TLS_PORT),
            on_demand: String::new(),
        }
    }

    /// Starts a server; `number` distinguishes the servers of a test.
    pub(crate) fn start(&self, net: &Net, number: usize) -> Subscriber {
        let path = self.write(net, number);
        let (clear, tls) = (net.at(self.ports.0), net.at(self.ports.1));
        let child = Child::start(hurtle().arg("--config").arg(path));
        Subscriber { child, tls, clear, storage: net.dir.path("../state/acme") }
    }

    /// Writes the configuration of the server with this number.
    pub(crate) fn write(&self, net: &Net, number: usize) -> PathBuf {
        let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
        let (clear, tls) = (net.at(self.ports.0), net.at(self.ports.1));
        let authorities = self.authorities.iter();
        let authorities: String = authorities
            .map(|lines| format!("[[acme.authority]]\nroot = \"root.pem\"\n{lines}\n"))
            .collect();
        let challenge = match self.acme.is_empty() {
            true => format!("challenge = [{:?}]\n", self.challenge),
            false => self.acme.clone(),
        };
        let on_demand = match self.on_demand.as_str() {
            "" => String::new(),
            value => format!("on_demand = {value}\n"),
        };
        let text = format!(
            "listen = \"{clear}\"\nlisten_tls = \"{tls}\"\nworkers = 1\n{user}[acme]\n\
             accept_terms = true\nemail = {:?}\nstorage = \"state/acme\"\n\
             {challenge}{authorities}[[site]]\nhosts = {:?}\ndefault = {}\n[site.tls]\n\
             certificate = \"auto\"\n{on_demand}[[site.mount]]\nfiles = {:?}\n",
            self.email,
            self.hosts,
            self.hosts.is_empty(),
            net.dir.root()
        );
        let path = net.dir.path(format!("../hurtle-{number}.toml"));
        fs::write(&path, text).unwrap();
        path
    }
}

/// Lines of an `[[acme.authority]]` without options.
pub(crate) fn authority(net: &Net, number: u16) -> String {
    format!("directory = {:?}", net.directory(number))
}

/// A running server that orders certificates.
pub(crate) struct Subscriber {
    pub(crate) child: Child,
    pub(crate) tls: SocketAddr,
    pub(crate) clear: SocketAddr,
    pub(crate) storage: PathBuf,
}

impl Subscriber {
    /// Waits until `done`, at most `PATIENCE`.
    #[track_caller]
    pub(crate) fn eventually(&self, what: &str, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done() {
            assert!(Instant::now() < end, "still not: {what}:\n{}", self.child.stderr());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub(crate) fn eventually_says(&self, words: &str) {
        self.eventually(words, || self.child.stderr().contains(words));
    }

    /// Connects to a name.
    pub(crate) fn connect(&self, name: &str, roots: &RootCertStore) -> std::io::Result<Peer> {
        Peer::connect(self.tls, name, &Options::trusting(roots.clone()))
    }

    /// Waits until a client that trusts these roots is served; returns the certificate.
    #[track_caller]
    pub(crate) fn served(&self, name: &str, roots: &RootCertStore) -> Vec<u8> {
        let mut shown = None;
        self.eventually("it has a certificate", || {
            shown = self.connect(name, roots).ok().map(|mut peer| {
                assert_eq!(peer.get_of(name, "/a.txt").body, b"hello\n");
                peer.certificate()
            });
            shown.is_some()
        });
        shown.unwrap()
    }

    /// The error of a handshake for this name.
    pub(crate) fn refusal(&self, name: &str) -> String {
        let refused = self.connect(name, &RootCertStore::empty()).err();
        refused.map(|e| e.to_string()).unwrap_or_default()
    }

    /// Reads a certificate's record.
    pub(crate) fn record(&self, name: &str) -> serde_json::Value {
        let text = fs::read(self.storage.join(format!("{name}.json"))).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Ends the delay after a failed attempt.
    pub(crate) fn forgive(&self, name: &str) {
        self.set_next(name, 0);
    }

    /// Sets the time of the next attempt, in seconds since 1970.
    pub(crate) fn set_next(&self, name: &str, secs: u64) {
        let mut record = self.record(name);
        for (_, trial) in record["trials"].as_object_mut().unwrap() {
            trial["next"] = secs.into();
        }
        // Overwritten, not replaced, so that the server's user stays its owner.
        fs::write(self.storage.join(format!("{name}.json")), record.to_string()).unwrap();
    }
}
