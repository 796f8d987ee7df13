//! A server with HTTP/3 and a certificate of a test authority.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;

use hurtle::Running;
use hurtle::config::{CertificateFiles, Config, HostName, Listen, Tls, check};
use rustls::RootCertStore;

use crate::authority::Authority;
use crate::peer::{self, Client, NAME};
use crate::support::Dir;

/// A running server, stopped when dropped.
pub(crate) struct Server {
    running: Option<Running>,
    pub(crate) authority: Authority,
    /// The address of HTTP/3, and of TLS over TCP.
    pub(crate) address: SocketAddr,
    pub(crate) dir: Dir,
}

impl Server {
    /// Serves these files, each a path and its content.
    pub(crate) fn start(tree: &[(&str, &str)]) -> Server {
        Server::with(tree, |_| ())
    }

    /// Like `start`, with a changed configuration.
    pub(crate) fn with(tree: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Server {
        let dir = Dir::new(tree);
        let config = Config::for_directory(dir.root());
        Server::of(dir, config, change, |server| server)
    }

    /// Runs this configuration, as text; `{root}` stands for the directory.
    pub(crate) fn configured(tree: &[(&str, &str)], text: &str) -> Server {
        let dir = Dir::new(tree);
        let text = text.replace("{root}", &dir.root().display().to_string());
        let config = check(&text, Path::new("/nowhere/hurtle.toml")).expect(&text);
        Server::of(dir, config, |_| (), |server| server)
    }

    /// Runs an application for all requests.
    pub(crate) fn app(mount: impl FnOnce(hurtle::Server) -> hurtle::Server) -> Server {
        let dir = Dir::new(&[]);
        let mut config = Config::for_directory(dir.root());
        config.sites[0].mounts.clear();
        Server::of(dir, config, |_| (), mount)
    }

    fn of(
        dir: Dir,
        mut config: Config,
        change: impl FnOnce(&mut Config),
        mount: impl FnOnce(hurtle::Server) -> hurtle::Server,
    ) -> Server {
        let authority = Authority::new("the test's authority");
        secure(&mut config, authority.issue(NAME).write(&dir, "a"));
        change(&mut config);
        let server = mount(hurtle::Server::bind(config).unwrap());
        let Listen::Tcp(address) = server.tls_addresses()[0] else { panic!("not a TCP address") };
        Server { running: Some(server.start().unwrap()), authority, address, dir }
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        self.authority.roots()
    }

    /// Runs `conversation` on a new connection of HTTP/3.
    #[track_caller]
    pub(crate) fn talk<T>(&self, conversation: impl AsyncFnOnce(Client) -> T) -> T {
        peer::talk(self.address, self.roots(), conversation)
    }

    /// Runs `conversation` on a new connection of QUIC.
    #[track_caller]
    pub(crate) fn converse<T>(
        &self,
        conversation: impl AsyncFnOnce(quinn::Connection, quinn::Endpoint) -> T,
    ) -> T {
        peer::converse(self.address, self.roots(), conversation)
    }

    /// A handle that stops it.
    pub(crate) fn stopper(&self) -> hurtle::Stop {
        self.running.as_ref().unwrap().stop()
    }

    fn end(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop().end();
        let ended = running.join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A configuration with port 0, and what it needs to be bound.
pub(crate) fn any_port() -> (Dir, Authority, Config) {
    let dir = Dir::new(&[]);
    let authority = Authority::new("the test's authority");
    let mut config = Config::for_directory(dir.root());
    secure(&mut config, authority.issue(NAME).write(&dir, "a"));
    (dir, authority, config)
}

/// Has the first site served with TLS only, at any port, by two workers.
fn secure(config: &mut Config, files: CertificateFiles) {
    config.listen.clear();
    config.listen_tls = vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))];
    config.workers = NonZeroUsize::new(2).unwrap();
    config.sites[0].hosts = vec![HostName::Exact(NAME.to_owned())];
    let certificates = vec![files];
    let tls = Tls { certificates, ..Tls::default() };
    config.sites[0].tls = Some(tls);
}
