//! A server in this process, stopped when dropped.

use std::net::SocketAddr;

use hurtle::config::{Config, Listen};
use hurtle::server::Running;

use super::site;
use super::{Client, Dir, Response};

/// A running server and the directory it serves.
#[derive(Debug)]
pub(crate) struct Server {
    /// `None` only while it is being dropped.
    running: Option<Running>,
    /// Address of its listener.
    pub(crate) address: SocketAddr,
    /// Directory that it serves.
    pub(crate) dir: Dir,
}

impl Server {
    /// Serves these files with the default configuration.
    pub(crate) fn start(tree: &[(&str, &str)]) -> Server {
        Server::with(tree, |_| ())
    }

    /// Serves these files with a changed configuration.
    pub(crate) fn with(tree: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Server {
        Server::of(Dir::new(tree), change)
    }

    pub(crate) fn of(dir: Dir, change: impl FnOnce(&mut Config)) -> Server {
        let mut config = site::config(&dir.root());
        change(&mut config);
        let server = hurtle::server::Server::bind(config).unwrap();
        let Listen::Tcp(address) = server.addresses()[0] else { panic!("not a TCP address") };
        Server { running: Some(server.start().unwrap()), address, dir }
    }

    /// Stops the server and returns its directory.
    pub(crate) fn stop(mut self) -> Dir {
        std::mem::replace(&mut self.dir, Dir::new(&[]))
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends a GET on a new connection. `target` may be followed by field lines, each after a line
    /// break: `"/a\nRange: bytes=0-1"`.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Response {
        self.request("GET", target)
    }

    /// Sends a HEAD; see `get`.
    #[track_caller]
    pub(crate) fn head(&self, target: &str) -> Response {
        self.request("HEAD", target)
    }

    /// Sends a request without a body; see `get`.
    #[track_caller]
    pub(crate) fn request(&self, method: &str, target: &str) -> Response {
        let mut client = self.connect();
        client.request(method, target)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop().end();
        let ended = running.join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}
