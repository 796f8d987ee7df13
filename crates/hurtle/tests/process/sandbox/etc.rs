//! Files of the system that are replaced while a confined server runs: those of names of hosts and
//! users, and those that come with packages.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::{Later, with_admin};
use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::{Client, Dir};
use crate::tokens::Signer;

/// Replaces a file by another one with this text, in one step.
fn replace(file: &Path, text: &[u8]) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

/// A server in a mount namespace of its own, with a copy of /etc that the test changes.
struct OwnEtc {
    dir: Dir,
    etc: Dir,
    child: Child,
}

impl OwnEtc {
    /// `None`: this user has no mount namespaces, or the kernel has no sandbox.
    #[allow(clippy::print_stdout, reason = "tells that a test did not run")]
    fn start(hosts: &str, config: &str) -> Option<OwnEtc> {
        if !geteuid().is_root() {
            println!("not run: a mount namespace needs root");
            return None;
        }
        let (dir, etc) = (Dir::new(&[("a.txt", "a")]), Dir::new(&[]));
        let copied = Command::new("cp").args(["-a", "/etc/."]).arg(etc.root()).status().unwrap();
        assert!(copied.success());
        replace(&etc.path("hosts"), hosts.as_bytes());
        let file = write_config(&dir, &with_admin(config));
        let script = "mount --make-rprivate / && mount --bind \"$1\" /etc && shift && exec \"$@\"";
        let clean = hurtle();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(etc.root());
        command.arg(clean.get_program()).arg("--config").arg(file);
        let child = Child::start(&mut command);
        let server = OwnEtc { dir, etc, child };
        eventually("the log tells of the sandbox", || server.child.stderr().contains("sandbox: "));
        let has_none = server.child.stderr().contains("the kernel does not offer");
        if has_none {
            println!("not run: the kernel has no sandbox");
        }
        (!has_none).then_some(server)
    }

    fn replace(&self, name: &str, text: &[u8]) {
        replace(&self.etc.path(name), text);
    }

    fn reload(&self) -> (Option<i32>, String) {
        super::command("reload", &self.dir)
    }

    fn get(&self, path: &str) -> String {
        self.child.get(path).text().to_owned()
    }
}

/// An upstream on every loopback address that answers with the address of the connection, and takes
/// WebSockets.
fn upstream() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let text = stream.local_addr().unwrap().ip().to_string();
                let mut head = [0; 4096];
                let n = stream.read(&mut head).unwrap_or(0);
                let is_upgrade = String::from_utf8_lossy(&head[..n]).contains("websocket");
                if is_upgrade {
                    let switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                                     Connection: Upgrade\r\n\r\n";
                    stream.write_all(switching.as_bytes()).unwrap();
                    // Echoes until the other end closes.
                    let mut piece = [0; 64];
                    while let Ok(n @ 1..) = stream.read(&mut piece) {
                        stream.write_all(&piece[..n]).unwrap();
                    }
                    return;
                }
                let length = text.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                // The server may have left.
                let _ = stream.write_all((head + &text).as_bytes());
            });
        }
    });
    port
}

fn hosts(address: &str) -> String {
    format!("127.0.0.1 localhost\n{address} upstream.test\n")
}

fn proxies(port: u16) -> String {
    format!(
        "error_log = {{ level = 'info' }}\ndrain = '1s'\n[[site]]\n[[site.mount]]\n\
         proxy = 'http://upstream.test:{port}'\nresolve = '1s'\n"
    )
}

/// A WebSocket through the server.
struct Tunnel(Client);

impl Tunnel {
    fn open(child: &Child) -> Tunnel {
        let mut client = child.connect();
        client.send(
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Tunnel(client)
    }

    /// `true`: the upstream still answers.
    fn echoes(&mut self) -> bool {
        let mut back = [0; 4];
        let stream = &mut self.0.stream;
        stream.write_all(b"ping").is_ok()
            && stream.read_exact(&mut back).is_ok()
            && &back == b"ping"
    }
}

/// The permission was for the inode of /etc/hosts: once another file had that name, no upstream's
/// name could be resolved until a restart.
#[test]
fn names_of_upstreams_are_resolved_after_etc_hosts_is_replaced() {
    let port = upstream();
    let Some(server) = OwnEtc::start(&hosts("127.0.0.1"), &proxies(port)) else { return };
    let later = Later(&server.child);
    assert_eq!(server.get("/"), "127.0.0.1");
    let mut tunnel = Tunnel::open(&server.child);
    for address in ["127.0.0.2", "127.0.0.3"] {
        server.replace("hosts", hosts(address).as_bytes());
        let begun = Instant::now();
        eventually("the new address is used", || server.get("/") == address);
        println!("{address}: {:?} after the file was replaced", begun.elapsed());
    }
    assert!(tunnel.echoes(), "nothing is cut: {}", server.child.stderr());
    assert_eq!(later.ids(), [0; 0], "{}", server.child.stderr());
}

/// The name was resolved once, so that all requests failed, or another server decided about them.
#[test]
fn the_name_of_an_authentication_server_is_resolved_again() {
    let (port, app) = (upstream(), upstream());
    let config = format!(
        "[[site]]\n[[site.mount]]\nproxy = 'http://127.0.0.1:{app}'\nauth = 'forward'\n\
         forward = 'http://upstream.test:{port}/verify'\n"
    );
    // The server listens on IPv4 only.
    let Some(server) = OwnEtc::start(&hosts("::1"), &config) else { return };
    assert_eq!(server.child.get("/").status, 502);
    server.replace("hosts", hosts("127.0.0.2").as_bytes());
    eventually("the new address is used", || server.child.get("/").status == 200);
}

/// Answers each DNS query for an IPv4 address with `answer`, and others with no record.
fn name_server(at: Ipv4Addr, answer: Ipv4Addr) {
    let socket = UdpSocket::bind(SocketAddr::new(IpAddr::V4(at), 53)).unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((n, client)) = socket.recv_from(&mut query) {
            // The question ends after its name, type and class (RFC 1035 section 4.1.2).
            let name = query[12..n].iter().position(|byte| *byte == 0).unwrap();
            let end = 12 + name + 5;
            let is_address = query[end - 4..end - 2] == [0, 1];
            let mut reply = query[..end].to_vec();
            reply[2..4].copy_from_slice(&[0x81, 0x80]);
            reply[6..12].copy_from_slice(&[0, u8::from(is_address), 0, 0, 0, 0]);
            if is_address {
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                reply.extend(answer.octets());
            }
            socket.send_to(&reply, client).unwrap();
        }
    });
}

#[test]
fn names_of_upstreams_are_resolved_after_etc_resolv_conf_is_replaced() {
    let port = upstream();
    if !geteuid().is_root() {
        return;
    }
    let servers = [[127, 0, 53, 1], [127, 0, 53, 2]].map(Ipv4Addr::from);
    name_server(servers[0], [127, 0, 0, 4].into());
    name_server(servers[1], [127, 0, 0, 5].into());
    let text = |at: Ipv4Addr| format!("nameserver {at}\noptions timeout:1 attempts:1\n");
    let hosts = "127.0.0.1 localhost\n";
    // The first name server is there before the server starts.
    let Some(server) = OwnEtc::start(hosts, &proxies(port)) else { return };
    server.replace("resolv.conf", text(servers[0]).as_bytes());
    let later = Later(&server.child);
    eventually("the first name server answers", || server.get("/") == "127.0.0.4");
    server.replace("resolv.conf", text(servers[1]).as_bytes());
    eventually("the second name server answers", || server.get("/") == "127.0.0.5");
    assert_eq!(later.ids(), [0; 0], "{}", server.child.stderr());
}

/// A reload after the installation of a package was an upgrade, which cuts WebSockets after
/// `drain`: /etc/passwd and /etc/ld.so.cache were other inodes.
#[test]
fn a_reload_after_the_systems_files_are_replaced_cuts_nothing() {
    let port = upstream();
    let Some(server) = OwnEtc::start(&hosts("127.0.0.1"), &proxies(port)) else { return };
    let later = Later(&server.child);
    let mut tunnel = Tunnel::open(&server.child);
    let names = [
        "passwd",
        "group",
        "ld.so.cache",
        "hosts",
        "resolv.conf",
        "nsswitch.conf",
        "host.conf",
        "gai.conf",
        "services",
        "protocols",
        "ssl/certs/ca-certificates.crt",
    ];
    let mut replaced = 0;
    for name in names {
        if let Ok(text) = fs::read(server.etc.path(name)) {
            server.replace(name, &text);
            replaced += 1;
        }
    }
    assert!(replaced > 5, "only {replaced} of them are there");
    let (code, said) = server.reload();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("reloaded"), "{said}");
    assert!(tunnel.echoes(), "{}", server.child.stderr());
    assert_eq!(later.ids(), [0; 0], "{}", server.child.stderr());
    assert_eq!(server.get("/"), "127.0.0.1");
}

/// The server's child with this argument.
fn helper(server: u32, argument: &str) -> Option<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |id: &i32| {
        let read =
            |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        read("status").contains(&format!("PPid:\t{server}\n")) && read("cmdline").contains(argument)
    };
    ids.into_iter().find(is_it).and_then(Pid::from_raw)
}

#[test]
fn without_the_process_that_looks_up_names_another_server_replaces_this_one() {
    let port = upstream();
    let Some(server) = OwnEtc::start(&hosts("127.0.0.1"), &proxies(port)) else { return };
    let later = Later(&server.child);
    assert_eq!(server.get("/"), "127.0.0.1");
    kill_process(helper(server.child.id(), "look-up-names").unwrap(), Signal::KILL).unwrap();
    let log = || server.child.stderr();
    eventually("the log tells of its end", || log().contains("looks up names has failed"));
    assert_eq!(server.get("/"), "127.0.0.1", "the server looks names up itself");
    server.replace("hosts", hosts("127.0.0.2").as_bytes());
    eventually("the new address is used", || server.get("/") == "127.0.0.2");
    eventually("the log names the file", || log().contains("/etc/hosts is another file"));
    assert_eq!(later.ids().len(), 1, "{}", log());
    let new = later.ids()[0];
    assert!(helper(new, "look-up-names").is_some(), "the new server has such a process again");
}

/// Accepts and closes connections; counts those to each address.
fn counted() -> (u16, Arc<Mutex<Vec<IpAddr>>>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = Arc::<Mutex<Vec<IpAddr>>>::default();
    let noted = Arc::clone(&accepted);
    thread::spawn(move || {
        let addresses = listener.incoming().map(|stream| stream.unwrap().local_addr().unwrap());
        addresses.for_each(|address| noted.lock().unwrap().push(address.ip()));
    });
    (port, accepted)
}

#[test]
fn names_of_key_sets_the_store_and_acme_are_resolved_after_etc_hosts_is_replaced() {
    let [keys, store, acme] = [counted(), counted(), counted()];
    let storage = Dir::new(&[]);
    fs::set_permissions(storage.root(), fs::Permissions::from_mode(0o777)).unwrap();
    let config = |acme: &str, store: &str, keys: &str| {
        format!(
            "error_log = {{ level = 'info' }}\nlisten_tls = '127.0.0.1:0'\nstore = 'redis://{store}'\n\
             [acme]\naccept_terms = true\nstorage = '{}'\n[[acme.authority]]\n\
             directory = 'https://{acme}/'\n\
             [[site]]\nhosts = 'a.test'\ntls = {{ certificate = 'auto', redirect = false }}\n\
             [[site.rate_limit]]\nrequests = '100/s'\n\
             [[site.mount]]\nrespond = 'x'\nauth = 'jwt'\nauth_cleartext = true\n\
             jwks = 'http://{keys}/keys'\n",
            storage.root().display()
        )
    };
    // Nothing listens there.
    let none = "127.0.0.1:1";
    let Some(server) = OwnEtc::start(&hosts("127.0.0.1"), &config(none, none, none)) else {
        return;
    };
    let later = Later(&server.child);
    let text = "127.0.0.7 localhost upstream.test\n";
    server.replace("hosts", text.as_bytes());
    let named = |port: u16| format!("upstream.test:{port}");
    // Keys over HTTP come from this machine only.
    let keys_at = format!("localhost:{}", keys.0);
    write_config(&server.dir, &with_admin(&config(&named(acme.0), &named(store.0), &keys_at)));
    let (code, said) = server.reload();
    assert_eq!((code, said.contains("reloaded")), (Some(0), true), "{said}");
    let token = Signer::rs256().token("\"kid\":\"a\"", "");
    for (what, (_, accepted)) in [("keys", keys), ("store", store), ("acme", acme)] {
        eventually(what, || {
            let mut client = server.child.connect();
            client.send(format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {token}\r\n\
                 Connection: close\r\n\r\n"
            ));
            client.rest();
            accepted.lock().unwrap().contains(&IpAddr::from([127, 0, 0, 7]))
        });
    }
    assert_eq!(later.ids(), [0; 0], "{}", server.child.stderr());
}

/// `killall -USR1 hurtle` ended the process that starts upgrades.
#[test]
fn the_processes_beside_a_server_outlive_its_signals() {
    let port = upstream();
    let Some(server) = OwnEtc::start(&hosts("127.0.0.1"), &proxies(port)) else { return };
    let later = Later(&server.child);
    let id = server.child.id();
    let helpers = ["look-up-names", "start-upgrades"].map(|name| helper(id, name).unwrap());
    for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2] {
        helpers.iter().for_each(|helper| kill_process(*helper, signal).unwrap());
    }
    assert_eq!(server.get("/"), "127.0.0.1");
    let (code, said) = super::command("upgrade", &server.dir);
    assert_eq!(code, Some(0), "{said}");
    assert!(!server.child.stderr().contains("has failed"), "{}", server.child.stderr());
    // The new server does not inherit that. A thread that starts another blocks all signals for a
    // moment, so one look is not enough.
    let new = later.ids()[0];
    eventually("the new server can be ended by SIGTERM", || {
        let status = fs::read_to_string(format!("/proc/{new}/status")).unwrap();
        ["SigBlk:", "SigIgn:"].iter().all(|field| {
            let mask = status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim();
            // Bit 14: SIGTERM.
            u64::from_str_radix(mask, 16).unwrap() & (1 << 14) == 0
        })
    });
    drop(later);
    drop(server);
    eventually("they end with the server", || {
        helpers.iter().all(|helper| rustix::process::test_kill_process(*helper).is_err())
    });
}
