//! A server with certificates of a test authority.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use hurtle::config::{CertificateFiles, ClientAuth, Config, HostName, Listen, Site, Tls};
use hurtle::server::Running;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::peer::{Options, Peer};
use crate::support::Dir;

/// A test authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let signed = params.self_signed(&key).unwrap();
        let certificate = signed.der().clone();
        Authority { issuer: Issuer::new(params, key), certificate, pem: signed.pem() }
    }

    /// Issues a server certificate for this name.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.sign(name, &KeyPair::generate().unwrap(), |_| ())
    }

    /// Like `issue`, with an RSA key.
    pub(crate) fn issue_rsa(&self, name: &str) -> Pair {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        self.sign(name, &key, |_| ())
    }

    /// Like `issue`, but expired.
    pub(crate) fn issue_expired(&self, name: &str) -> Pair {
        self.sign(name, &KeyPair::generate().unwrap(), |params| {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        })
    }

    /// Issues a client certificate.
    pub(crate) fn issue_client(&self, name: &str) -> Pair {
        self.sign(&format!("{name}.clients"), &KeyPair::generate().unwrap(), |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.distinguished_name.push(DnType::CommonName, name);
        })
    }

    fn sign(&self, name: &str, key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let signed = params.signed_by(key, &self.issuer).unwrap();
        Pair { chain: signed.pem(), key: key.serialize_pem() }
    }

    /// A store that trusts the authority.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

impl Pair {
    /// The chain and the key for rustls.
    pub(crate) fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        use rustls::pki_types::pem::PemObject;
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        (chain.map(Result::unwrap).collect(), key.into())
    }

    /// Writes both to files with this name.
    pub(crate) fn write(&self, dir: &Dir, name: &str) -> CertificateFiles {
        let files = files(dir, name);
        fs::write(&files.chain, &self.chain).unwrap();
        fs::write(&files.key, &self.key).unwrap();
        files
    }
}

/// Paths of a certificate and its key, beside the served directory.
pub(crate) fn files(dir: &Dir, name: &str) -> CertificateFiles {
    let path = |kind: &str| -> PathBuf { dir.path(format!("../{name}.{kind}")) };
    CertificateFiles { chain: path("pem"), key: path("key") }
}

/// A running server with one plain and one TLS port.
pub(crate) struct Secure {
    running: Option<Running>,
    pub(crate) authority: Authority,
    pub(crate) clear: SocketAddr,
    pub(crate) address: SocketAddr,
    pub(crate) dir: Dir,
}

impl Secure {
    /// Serves these files as `a.test`, the default site.
    pub(crate) fn start(tree: &[(&str, &str)]) -> Secure {
        Secure::with(tree, |_, _, _| ())
    }

    /// Like `start`, with a changed configuration.
    pub(crate) fn with(
        tree: &[(&str, &str)],
        change: impl FnOnce(&mut Config, &Authority, &Dir),
    ) -> Secure {
        Secure::mounted(tree, change, |server| server)
    }

    /// Like `with`, with applications.
    pub(crate) fn mounted(
        tree: &[(&str, &str)],
        change: impl FnOnce(&mut Config, &Authority, &Dir),
        mount: impl FnOnce(hurtle::Server) -> hurtle::Server,
    ) -> Secure {
        let (dir, authority) = (Dir::new(tree), Authority::new("the test's authority"));
        let mut config = Config::for_directory(dir.root());
        let any = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        (config.listen, config.listen_tls) = (vec![any.clone()], vec![any]);
        config.workers = NonZeroUsize::MIN;
        config.sites[0].hosts = vec![HostName::Exact("a.test".to_owned())];
        config.sites[0].tls = Some(tls(authority.issue("a.test").write(&dir, "a")));
        change(&mut config, &authority, &dir);
        let server = mount(hurtle::Server::bind(config).unwrap());
        let tcp = |listen: &Listen| match listen {
            Listen::Tcp(address) => *address,
            Listen::Unix(_) => panic!("not a TCP address"),
        };
        let (clear, address) = (tcp(&server.addresses()[0]), tcp(&server.tls_addresses()[0]));
        Secure { running: Some(server.start().unwrap()), authority, clear, address, dir }
    }

    /// Connects to `a.test` and completes the handshake.
    #[track_caller]
    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address, "a.test", &self.options()).unwrap()
    }

    /// Stops the server and returns its directory, with its logs.
    pub(crate) fn stop(mut self) -> Dir {
        self.end();
        std::mem::replace(&mut self.dir, Dir::new(&[]))
    }

    fn end(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop().end();
        let ended = running.join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }

    /// A client that trusts the server's authority.
    pub(crate) fn options(&self) -> Options {
        Options::trusting(self.authority.roots())
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.end();
    }
}

/// A site's `[site.tls]` with this certificate only.
pub(crate) fn tls(files: CertificateFiles) -> Tls {
    let certificates = vec![files];
    Tls { certificates, automatic: false, client_auth: None, redirect: false, hsts: None }
}

/// Another site with the same files and another name.
pub(crate) fn sibling(config: &Config, name: &str, tls: Option<Tls>) -> Site {
    let hosts = vec![HostName::Exact(name.to_owned())];
    Site { hosts, default: false, tls, ..config.sites[0].clone() }
}

/// Asks clients for certificates of this authority.
pub(crate) fn client_auth(authority: &Authority, required: bool, dir: &Dir) -> ClientAuth {
    let authorities = dir.path("../clients.pem");
    fs::write(&authorities, authority.pem()).unwrap();
    ClientAuth { required, authorities }
}
