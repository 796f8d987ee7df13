//! A proxying server, and upstreams controlled by the test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use hurtle::config::{Listen, check};
use hurtle::{Running, Server};

use crate::client::{Client, PATIENCE};

/// A GET with the required fields only.
pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Like `GET`, with Connection: close.
pub(crate) const LAST_GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A response with its framing field only.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Like `OK`, after which the upstream's connection ends.
pub(crate) const LAST_OK: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// The address of an upstream that is not there. The system gives port 1 to no other test.
pub(crate) const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// An upstream that accepts connections when the test calls it.
pub(crate) struct Upstream {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Upstream {
    pub(crate) fn new() -> Upstream {
        Upstream::of(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn of(listener: TcpListener) -> Upstream {
        socket2::SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        let address = listener.local_addr().unwrap();
        Upstream { listener, address }
    }

    /// Accepts the server's next connection.
    #[track_caller]
    pub(crate) fn accept(&self) -> Client {
        Client::of(self.listener.accept().expect("no connection comes").0)
    }

    /// Accepts the next connection and reads its first request's head.
    #[track_caller]
    pub(crate) fn next_request(&self) -> (Client, String) {
        let mut peer = self.accept();
        let head = peer.head();
        (peer, head)
    }

    /// Like `next_request`; `None` if no connection arrives within 1 s.
    pub(crate) fn next_request_if_any(&self) -> Option<(Client, String)> {
        let soon = std::time::Duration::from_secs(1);
        socket2::SockRef::from(&self.listener).set_read_timeout(Some(soon)).unwrap();
        let mut peer = Client::of(self.listener.accept().ok()?.0);
        let head = peer.head();
        Some((peer, head))
    }

    /// Asserts that no connection is pending.
    #[track_caller]
    pub(crate) fn expect_no_connection(&self) {
        self.listener.set_nonblocking(true).unwrap();
        assert!(self.listener.accept().is_err(), "a connection came");
        self.listener.set_nonblocking(false).unwrap();
    }
}

/// A running server, stopped when dropped.
pub(crate) struct Proxy {
    running: Option<Running>,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    /// Proxies to one upstream.
    pub(crate) fn to(upstream: &Upstream) -> Proxy {
        Proxy::with(&[upstream.address], "")
    }

    /// Proxies to one upstream, which gets the bodies of requests as they arrive.
    pub(crate) fn streaming(upstream: &Upstream) -> Proxy {
        Proxy::with(&[upstream.address], "buffer = \"off\"")
    }

    /// Proxies to these upstreams, with additional keys of the mount.
    pub(crate) fn with(upstreams: &[SocketAddr], keys: &str) -> Proxy {
        let urls: Vec<_> = upstreams.iter().map(|a| format!("\"http://{a}\"")).collect();
        Proxy::of("", &format!("proxy = [{}]\n{keys}", urls.join(", ")))
    }

    /// Starts one worker with these top-level keys and keys of the mount.
    pub(crate) fn of(top: &str, mount: &str) -> Proxy {
        Proxy::on(1, top, mount)
    }

    /// Like `of`, with this number of workers.
    pub(crate) fn on(workers: usize, top: &str, mount: &str) -> Proxy {
        Proxy::written(workers, &format!("{top}\n[[site]]\n[[site.mount]]\n{mount}\n"))
    }

    /// Starts one worker with these keys of the site and of the mount.
    pub(crate) fn of_site(site: &str, mount: &str) -> Proxy {
        Proxy::written(1, &format!("[[site]]\n{site}\n[[site.mount]]\n{mount}\n"))
    }

    /// Like `of_site`, with top-level keys and tables.
    pub(crate) fn of_sites(top: &str, site: &str, mount: &str) -> Proxy {
        Proxy::written(1, &format!("{top}\n[[site]]\n{site}\n[[site.mount]]\n{mount}\n"))
    }

    pub(crate) fn written(workers: usize, text: &str) -> Proxy {
        let mut config = check(text, Path::new("/nowhere/hurtle.toml")).expect(text);
        config.workers = workers.try_into().unwrap();
        config.listen = vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))];
        let server = Server::bind(config).unwrap();
        let Listen::Tcp(address) = server.addresses()[0] else { panic!("not a TCP address") };
        Proxy { running: Some(server.start().unwrap()), address }
    }

    /// Starts a graceful stop.
    pub(crate) fn drain(&self) {
        self.running.as_ref().unwrap().stop().drain();
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Connects and sends these bytes.
    pub(crate) fn send(&self, request: impl AsRef<[u8]>) -> Client {
        let mut client = self.connect();
        client.send(request);
        client
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop().end();
        let ended = running.join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Sends a request on a connection of its own.
pub(crate) fn ask(proxy: &Proxy, path: &str) -> Client {
    proxy.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
}

/// Sends this many requests at once; their heads arrive in the order in which they are answered.
pub(crate) fn race(proxy: &Proxy, count: usize) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    for _ in 0..count {
        let (mut client, sender) = (ask(proxy, "/"), sender.clone());
        thread::spawn(move || sender.send(client.answer().0));
    }
    receiver
}
