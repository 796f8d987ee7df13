//! A server with certificates of a test authority.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;

use hurtle::config::{CertificateFiles, ClientAuth, Config, HostName, Listen, Site, Tls};
use hurtle::server::Running;

use crate::peer::{Options, Peer};
use crate::support::Dir;

pub(crate) use crate::authority::{Authority, Pair};

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
    Tls { certificates, ..Tls::default() }
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
    ClientAuth { required, authorities, revocation_lists: Vec::new() }
}
