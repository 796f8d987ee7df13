//! Four servers with the example's configuration, on loopback addresses that only this test uses,
//! so that their ports are known in advance and outlive a process.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::geteuid;

use crate::child::{Child, hurtle};
use crate::support::{Client, Dir, Response};

/// Number of servers behind the balancer.
pub(crate) const SERVERS: usize = 4;

/// Files that are served: `/f/0.txt` with the text `0`, and so on.
pub(crate) const FILES: usize = 201;

/// Port of the balancer in place of 80, which needs root.
pub(crate) const BALANCER_PORT: u16 = 8000;

/// Host part of the client's address.
const CLIENT: u8 = 99;

/// The servers and what they serve.
pub(crate) struct Servers {
    pub(crate) dir: Dir,
    /// The first three bytes of all addresses.
    net: [u8; 3],
    /// The drain delay of servers that are started from now on.
    drain_delay: &'static str,
    /// Processes that were started for each server.
    generations: [usize; SERVERS],
    /// The running process of each server.
    pub(crate) processes: Vec<Option<Child>>,
}

impl Servers {
    pub(crate) fn start(drain_delay: &'static str) -> Servers {
        static NUMBER: AtomicU8 = AtomicU8::new(0);
        let [high, low] = (process::id() as u16).to_be_bytes();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Other tests use addresses from 127.64 on.
        let net = [127, 1 + (high % 15) + 16 * (number % 3), low];
        let dir = Dir::new(&[]);
        for number in 0..FILES {
            dir.write(path_of(number).trim_start_matches('/'), number.to_string());
        }
        let processes = (0..SERVERS).map(|_| None).collect();
        let mut servers = Servers { dir, net, drain_delay, generations: [0; SERVERS], processes };
        for index in 0..SERVERS {
            servers.start_one(index);
        }
        servers
    }

    /// Starts a server, which is not running, with the configuration of the example.
    pub(crate) fn start_one(&mut self, index: usize) {
        self.generations[index] += 1;
        let address = self.address_of(index);
        let log = self.log_of(index).display().to_string();
        let root = self.dir.root().display().to_string();
        let mut text = example("hurtle.toml");
        replace(&mut text, "\"0.0.0.0:", &format!("\"{address}:"), 2);
        // The balancer connects from 127.0.0.1.
        replace(&mut text, "10.0.0.0/24", "127.0.0.0/8", 1);
        replace(&mut text, "\"/var/log/hurtle/access.log\"", &format!("\"{log}\""), 1);
        replace(&mut text, "\"/srv/www\"", &format!("\"{root}\""), 1);
        replace(
            &mut text,
            "drain_delay = \"5s\"",
            &format!("drain_delay = \"{}\"", self.drain_delay),
            1,
        );
        text.push_str(&format!(
            "[[site.header]]\nmatch = \"**\"\nset = {{ X-Served-By = \"{}\" }}\n",
            self.name(index)
        ));
        let mut whole = "workers = 1\n".to_owned();
        if geteuid().is_root() {
            whole.push_str("user = \"nobody\"\n");
        }
        let path = self.dir.path(format!("../hurtle-{index}.toml"));
        fs::write(&path, whole + &text).unwrap();
        self.processes[index] = Some(Child::start(hurtle().arg("--config").arg(path)));
    }

    /// The field `X-Served-By` of a server's responses: its index and the number of its process.
    pub(crate) fn name(&self, index: usize) -> String {
        format!("{index}.{}", self.generations[index])
    }

    /// Address of a server.
    pub(crate) fn address_of(&self, index: usize) -> Ipv4Addr {
        self.at(11 + index as u8)
    }

    /// Address of the balancer.
    pub(crate) fn balancer(&self) -> SocketAddr {
        (self.at(1), BALANCER_PORT).into()
    }

    /// Address that clients connect from.
    pub(crate) fn client(&self) -> Ipv4Addr {
        self.at(CLIENT)
    }

    fn at(&self, host: u8) -> Ipv4Addr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, host)
    }

    /// Moves the addresses of an example to the addresses of this test.
    pub(crate) fn readdress(&self, text: &mut String) {
        let [a, b, c] = self.net;
        *text = text.replace("10.0.0.", &format!("{a}.{b}.{c}."));
    }

    /// The access log of a server.
    pub(crate) fn log_of(&self, index: usize) -> PathBuf {
        self.dir.path(format!("../access-{index}.log"))
    }

    /// Opens a connection to the balancer from the client's address.
    #[track_caller]
    pub(crate) fn connect(&self) -> Client {
        Client::of(self.connect_with(None))
    }

    /// Opens a connection to the balancer, with a receive buffer of this size in bytes.
    #[track_caller]
    pub(crate) fn connect_with(&self, receive_buffer: Option<usize>) -> TcpStream {
        connect(self.client(), self.balancer(), receive_buffer)
    }
}

/// Opens a connection from an address.
#[track_caller]
pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr, receive_buffer: Option<usize>) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    // Many connections from one address need the ports of ended ones.
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// The path of a file.
pub(crate) fn path_of(number: usize) -> String {
    format!("/f/{number}.txt")
}

/// The server that sent a response.
#[track_caller]
pub(crate) fn served_by(response: &Response) -> &str {
    response.field("X-Served-By").expect("a server of the fleet has answered")
}

/// A file of `examples/fleet`.
pub(crate) fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replaces a text that occurs this many times.
#[track_caller]
pub(crate) fn replace(text: &mut String, from: &str, to: &str, times: usize) {
    assert_eq!(text.matches(from).count(), times, "`{from}` in the example");
    *text = text.replace(from, to);
}
