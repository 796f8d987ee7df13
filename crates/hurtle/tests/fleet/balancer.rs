//! HAProxy or Envoy with the configuration of the example, and its view of the servers.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child::{Child, eventually};
use crate::servers::{BALANCER_PORT, SERVERS, Servers, example, replace};

/// A kind of balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    HaProxy,
    Envoy,
}

pub(crate) struct Balancer {
    kind: Kind,
    child: Child,
    /// HAProxy's socket for commands.
    socket: PathBuf,
    /// Envoy's address for commands.
    admin: (IpAddr, u16),
}

/// The balancer's view of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// `true`: it gets requests.
    pub(crate) is_up: bool,
    /// The check's result in the balancer's words.
    pub(crate) detail: String,
}

const ENVOY_PORT: u16 = 9901;

impl Balancer {
    /// Starts the balancer before these servers and waits until it sends them requests. `None` if
    /// the program is not installed.
    pub(crate) fn start(kind: Kind, servers: &Servers) -> Option<Balancer> {
        let program = program(kind)?;
        let socket = servers.dir.path("../haproxy.sock");
        let mut command = Command::new(program);
        match kind {
            Kind::HaProxy => {
                let path = servers.dir.path("../haproxy.cfg");
                fs::write(&path, haproxy_configuration(servers, &socket)).unwrap();
                command.arg("-db").arg("-f").arg(path);
            }
            Kind::Envoy => {
                let path = servers.dir.path("../envoy.yaml");
                fs::write(&path, envoy_configuration(servers)).unwrap();
                command.arg("-c").arg(path).args(["--disable-hot-restart", "--concurrency", "2"]);
                command.args(["--log-level", "error"]);
            }
        }
        let admin = (servers.balancer().ip(), ENVOY_PORT);
        let mut balancer = Balancer { kind, child: Child::spawn(&mut command), socket, admin };
        eventually("the balancer has all servers", || {
            assert_eq!(balancer.child.ended(), None, "{kind:?}: {}", balancer.child.stderr());
            let health = balancer.try_health(servers);
            health.is_some_and(|health| health.iter().all(|server| server.is_up))
        });
        Some(balancer)
    }

    /// Waits until a server gets requests, or gets none.
    #[track_caller]
    pub(crate) fn expect(&self, servers: &Servers, index: usize, is_up: bool) -> Health {
        let mut seen = None;
        eventually(&format!("server {index} is up: {is_up}"), || {
            seen = self.try_health(servers).map(|mut health| health.swap_remove(index));
            seen.as_ref().is_some_and(|health| health.is_up == is_up)
        });
        seen.unwrap()
    }

    /// The health of all servers; `None`: the balancer does not answer.
    fn try_health(&self, servers: &Servers) -> Option<Vec<Health>> {
        let addresses = (0..SERVERS).map(|index| servers.address_of(index));
        match self.kind {
            Kind::HaProxy => {
                let table = self.ask_haproxy("show stat\n")?;
                (1..=SERVERS)
                    .map(|number| haproxy_health(&table, &format!("web{number}")))
                    .collect()
            }
            Kind::Envoy => {
                let table = self.ask_envoy("/clusters")?;
                addresses.map(|address| envoy_health(&table, address)).collect()
            }
        }
    }

    fn ask_haproxy(&self, command: &str) -> Option<String> {
        let mut peer = UnixStream::connect(&self.socket).ok()?;
        peer.write_all(command.as_bytes()).ok()?;
        let mut reply = String::new();
        peer.read_to_string(&mut reply).ok()?;
        Some(reply)
    }

    fn ask_envoy(&self, path: &str) -> Option<String> {
        let mut peer = TcpStream::connect(self.admin).ok()?;
        write!(peer, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
        let mut reply = String::new();
        peer.read_to_string(&mut reply).ok()?;
        Some(reply)
    }
}

/// The example with this test's addresses, paths and intervals.
fn haproxy_configuration(servers: &Servers, socket: &Path) -> String {
    let mut text = example("haproxy.cfg");
    servers.readdress(&mut text);
    let (from, to) = (format!("{}:80\n", servers.balancer().ip()), servers.balancer());
    replace(&mut text, &from, &format!("{to}\n"), 1);
    replace(&mut text, "/run/haproxy/admin.sock", &socket.display().to_string(), 1);
    replace(&mut text, "inter 1s fastinter 500ms", "inter 50ms fastinter 50ms", 1);
    // A busy machine is no fault of a server.
    replace(&mut text, "timeout check 1s", "timeout check 10s", 1);
    text
}

/// The example with this test's addresses and intervals.
fn envoy_configuration(servers: &Servers) -> String {
    let mut text = example("envoy.yaml");
    servers.readdress(&mut text);
    let address = servers.balancer().ip().to_string();
    replace(&mut text, "port_value: 80 }", &format!("port_value: {BALANCER_PORT} }}"), 1);
    replace(
        &mut text,
        "address: 127.0.0.1, port_value: 9901",
        &format!("address: {address}, port_value: {ENVOY_PORT}"),
        1,
    );
    replace(&mut text, "interval: 1s\n", "interval: 0.05s\n", 2);
    replace(&mut text, "- timeout: 1s\n", "- timeout: 10s\n", 1);
    text
}

/// A server's line of HAProxy's statistics (CSV with a line of names).
fn haproxy_health(table: &str, server: &str) -> Option<Health> {
    let names: Vec<&str> = table.lines().next()?.trim_start_matches("# ").split(',').collect();
    let line = table.lines().find(|line| line.starts_with(&format!("hurtle,{server},")))?;
    let values: Vec<&str> = line.split(',').collect();
    let value = |name: &str| Some(*values.get(names.iter().position(|known| *known == name)?)?);
    let detail = format!("{} {}", value("check_status")?, value("check_code")?);
    Some(Health { is_up: value("status")?.starts_with("UP"), detail })
}

/// A server's line of Envoy's list of clusters.
fn envoy_health(table: &str, address: Ipv4Addr) -> Option<Health> {
    let begin = format!("hurtle::{address}:8080::health_flags::");
    let flags = table.lines().find_map(|line| line.strip_prefix(&begin))?;
    Some(Health { is_up: flags == "healthy", detail: flags.to_owned() })
}

/// The program of a balancer; `None` if it is not installed, which is said.
fn program(kind: Kind) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = match kind {
        Kind::HaProxy => std::env::split_paths(&path)
            .chain([PathBuf::from("/usr/sbin")])
            .map(|dir| dir.join("haproxy"))
            .find(|program| program.is_file()),
        Kind::Envoy => Some(tools().join("envoy/envoy/_bin/envoy")).filter(|path| path.is_file()),
    };
    if found.is_none() {
        eprintln!("not run: no {kind:?}; cargo xtask test --only packages installs it");
    }
    found
}

/// The directory of the programs that are no Debian packages, beside the profile's.
pub(crate) fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_hurtle")).ancestors().nth(2).unwrap();
    target.join("tools")
}
