//! Upgrades: the program's file is replaced, another process serves, and no request is lost; or the
//! new program is unusable, and the one before serves on.

mod cached;
mod container;
mod faults;
mod handed_over;
mod purges;
mod quic;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::child::{Child, PATIENCE, eventually, hurtle, kill, write_config};
use crate::frames::*;
use crate::support::{Client, Dir, reserved_address};

const SITE: &str = "[[site]]\n[[site.mount]]\nfiles = '{root}'\n";

/// A server whose program can be replaced, and the processes that came after it.
pub(crate) struct Upgraded {
    pub(crate) dir: Dir,
    pub(crate) child: Child,
    file: PathBuf,
    /// Processes after the first one, killed at the end of the test.
    later: Vec<Pid>,
}

impl Upgraded {
    fn start(config: &str) -> Upgraded {
        Upgraded::with(config, |_| {})
    }

    fn with(config: &str, change: impl FnOnce(&mut Command)) -> Upgraded {
        Upgraded::of(Dir::new(&[("a.txt", "text")]), config, change)
    }

    pub(crate) fn of(dir: Dir, config: &str, change: impl FnOnce(&mut Command)) -> Upgraded {
        // The server's user makes sockets here.
        fs::set_permissions(dir.path(".."), Permissions::from_mode(0o777)).unwrap();
        symlink(env!("CARGO_BIN_EXE_hurtle"), dir.path("../program")).unwrap();
        let file = write_config(&dir, &format!("admin = '{{root}}/../admin.sock'\n{config}"));
        let mut command = Command::new(dir.path("../program"));
        let clean = hurtle();
        for (name, _) in clean.get_envs() {
            command.env_remove(name);
        }
        change(&mut command);
        let child = Child::start(command.arg("--config").arg(&file));
        Upgraded { dir, child, file, later: vec![] }
    }

    /// Replaces the program by a shell script, as a package manager would.
    fn install_script(&self, text: &str) {
        self.dir.write("../new", format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.dir.path("../new"), Permissions::from_mode(0o755)).unwrap();
        fs::rename(self.dir.path("../new"), self.dir.path("../program")).unwrap();
    }

    fn install_hurtle(&self) {
        symlink(env!("CARGO_BIN_EXE_hurtle"), self.dir.path("../new")).unwrap();
        fs::rename(self.dir.path("../new"), self.dir.path("../program")).unwrap();
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = hurtle();
        command.arg(name).arg("--admin").arg(self.dir.path("../admin.sock"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `hurtle upgrade`; the new process serves.
    #[track_caller]
    pub(crate) fn upgrade(&mut self) -> Pid {
        let output = self.command("upgrade").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        self.note(&output)
    }

    /// Notes the new process of a successful upgrade.
    #[track_caller]
    fn note(&mut self, output: &Output) -> Pid {
        let said = said(output);
        let new = said.strip_prefix("upgraded: process ").and_then(|rest| rest.split_once(' '));
        let new = new.and_then(|(new, _)| new.parse().ok()).and_then(Pid::from_raw).unwrap();
        self.later.push(new);
        new
    }

    #[track_caller]
    fn expect_service(&self) {
        assert_eq!(self.child.get("/a.txt").text(), "text");
    }

    /// Starts an upgrade to a program that waits for a file before it is hurtle; returns the
    /// command and the new process.
    fn begin_waiting(&mut self) -> (std::process::Child, Pid) {
        self.begin_waiting_after(|server| server.command("upgrade").spawn().unwrap())
    }

    /// Likewise, with another way to begin.
    fn begin_waiting_after<T>(&mut self, begin: impl FnOnce(&Upgraded) -> T) -> (T, Pid) {
        let (pid, go) = (self.dir.path("../pid"), self.dir.path("../go"));
        self.install_script(&format!(
            "echo $$ > {0}.new; mv {0}.new {0}\nwhile [ ! -e {1} ]; do sleep 0.01; done\n\
             exec {2} \"$@\"",
            pid.display(),
            go.display(),
            env!("CARGO_BIN_EXE_hurtle"),
        ));
        let begun = begin(self);
        eventually("the new program runs", || pid.exists());
        // Until then a kill of the old process would close the sockets.
        eventually("it has the sockets", || self.child.stderr().contains("sockets to process"));
        let new = fs::read_to_string(&pid).unwrap().trim().parse().ok().and_then(Pid::from_raw);
        self.later.push(new.unwrap());
        (begun, new.unwrap())
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        self.later.iter().for_each(|pid| kill(*pid));
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr[..]].concat()).unwrap()
}

#[test]
fn another_process_serves_and_the_one_before_ends() {
    let mut server = Upgraded::start(SITE);
    let mut idle = server.child.connect();
    assert_eq!(idle.request("GET", "/a.txt").text(), "text");
    server.upgrade();
    let last = idle.request("GET", "/a.txt");
    assert_eq!((last.text(), last.field("Connection")), ("text", Some("close")));
    drop(idle);
    assert_eq!(server.child.wait_for_process().code(), Some(0), "{}", server.child.stderr());
    server.expect_service();
    for _ in 0..2 {
        let before = *server.later.last().unwrap();
        server.upgrade();
        server.expect_service();
        eventually("the process before ends", || test_kill_process(before).is_err());
    }
    // A signal does the same.
    let before = *server.later.last().unwrap();
    let log = server.dir.path("../admin.sock");
    kill_process(before, Signal::USR2).unwrap();
    eventually("the process before ends", || test_kill_process(before).is_err());
    assert!(log.exists());
    server.expect_service();
    let status = server.command("upgrade").output().unwrap();
    assert_eq!(status.status.code(), Some(0), "{}", said(&status));
    server.note(&status);
}

#[test]
fn upgrades_under_load_fail_no_request() {
    const UPGRADES: usize = 20;
    let dir = Dir::new(&[("a.txt", "text")]);
    let tls = LocalTls::make(&dir);
    let mut server = Upgraded::of(dir, &format!("drain = '20s'\n{}", tls.config), |_| {});
    let text = fs::read_to_string(&server.file).unwrap();
    let address = server.child.address();
    let (done, served) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let clients: Vec<_> = [keep_alive, connect_each_time, multiplex, keep_alive]
        .into_iter()
        .map(|client| {
            let (done, served) = (Arc::clone(&done), Arc::clone(&served));
            thread::spawn(move || client(address, &done, &served))
        })
        .collect();
    let secured = {
        let (done, served, tls) = (Arc::clone(&done), Arc::clone(&served), tls.clone());
        thread::spawn(move || multiplex_over(|| tls.connect(), "https", &done, &served))
    };
    for number in 0..UPGRADES {
        // Sockets are shared among however many workers there are.
        let workers = format!("workers = {}", [2, 1, 3][number % 3]);
        fs::write(&server.file, text.replace("workers = 1", &workers)).unwrap();
        let before = served.load(SeqCst);
        eventually("requests are served", || served.load(SeqCst) > before + 100);
        server.upgrade();
    }
    done.store(true, SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    secured.join().unwrap();
    println!("{} requests over {UPGRADES} upgrades", served.load(SeqCst));
}

fn keep_alive(address: SocketAddr, done: &AtomicBool, served: &AtomicUsize) {
    let mut client = Client::connect(address);
    while !done.load(SeqCst) {
        let answer = client.request("GET", "/a.txt");
        assert_eq!((answer.status, answer.text()), (200, "text"));
        if answer.field("Connection") == Some("close") {
            client = Client::connect(address);
        }
        served.fetch_add(1, SeqCst);
    }
}

fn connect_each_time(address: SocketAddr, done: &AtomicBool, served: &AtomicUsize) {
    while !done.load(SeqCst) {
        let answer = Client::connect(address).request("GET", "/a.txt\nConnection: close");
        assert_eq!((answer.status, answer.text()), (200, "text"));
        served.fetch_add(1, SeqCst);
    }
}

fn multiplex(address: SocketAddr, done: &AtomicBool, served: &AtomicUsize) {
    multiplex_over(|| Wire::begin(address, &[]), "http", done, served);
}

/// HTTP/2: after GOAWAY, the streams that it covers are answered (RFC 9113 section 6.8).
fn multiplex_over<S: Read + Write>(
    connect: impl Fn() -> Wire<S>,
    scheme: &str,
    done: &AtomicBool,
    served: &AtomicUsize,
) {
    let fields =
        [(":method", "GET"), (":scheme", scheme), (":authority", "a.test"), (":path", "/a.txt")];
    let block = block(&fields);
    'connection: while !done.load(SeqCst) {
        let mut wire = connect();
        let mut leaving = false;
        for stream in (1..).step_by(2) {
            if leaving || done.load(SeqCst) {
                continue 'connection;
            }
            wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
            loop {
                let frame = wire.next().expect("the stream is answered");
                match frame.kind {
                    DATA if frame.flags & END_STREAM != 0 => break,
                    GOAWAY => {
                        leaving = true;
                        let last = u32::from_be_bytes(frame.payload[..4].try_into().unwrap());
                        if last < stream {
                            continue 'connection;
                        }
                    }
                    RST_STREAM => panic!("stream {stream} was reset"),
                    _ => {}
                }
            }
            served.fetch_add(1, SeqCst);
        }
    }
}

/// A TLS listener of the server, and how to connect to it with HTTP/2.
#[derive(Clone)]
struct LocalTls {
    address: SocketAddr,
    client: Arc<ClientConfig>,
    roots: RootCertStore,
    /// The configuration of the listener and its site, as TOML.
    config: String,
}

impl LocalTls {
    fn make(dir: &Dir) -> LocalTls {
        LocalTls::named(dir, "a.test")
    }

    fn named(dir: &Dir, name: &str) -> LocalTls {
        let pair = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        fs::write(dir.path("../chain.pem"), pair.cert.pem()).unwrap();
        fs::write(dir.path("../key.pem"), pair.signing_key.serialize_pem()).unwrap();
        // Every process must have the same port.
        let address = reserved_address();
        let config = format!(
            "listen_tls = '{address}'\n[[site]]\ndefault = true\n[[site.mount]]\nfiles = '{{root}}'\n[[site]]\n\
             hosts = '{name}'\n[[site.mount]]\nfiles = '{{root}}'\n[site.tls]\nredirect = false\n\
             certificate = '{{root}}/../chain.pem'\nkey = '{{root}}/../key.pem'\n"
        );
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(pair.cert.der().to_vec())).unwrap();
        let mut client =
            ClientConfig::builder().with_root_certificates(roots.clone()).with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        LocalTls { address, client: Arc::new(client), roots, config }
    }

    fn connect(&self) -> Wire<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from("a.test").unwrap();
        let session = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Wire::over(StreamOwned::new(session, stream), &[])
    }
}

#[test]
fn a_download_and_a_tunnel_go_on_in_the_process_before() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = Upgraded::start(&format!(
        "drain = '60s'\n{SITE}[[site.mount]]\npath = '/socket'\nproxy = 'http://{}'\n",
        upstream.local_addr().unwrap()
    ));
    let large = vec![b'x'; 32 << 20];
    server.dir.write("large.bin", &large);
    let connect = || {
        let stream = TcpStream::connect(server.child.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let (mut download, mut near) = (connect(), connect());
    download.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut first = [0; 512];
    download.read_exact(&mut first).unwrap();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    near.write_all(format!("GET /socket HTTP/1.1\r\nHost: a\r\n{upgrade}").as_bytes()).unwrap();
    let (mut far, _) = upstream.accept().unwrap();
    assert!(far.read(&mut [0; 4096]).unwrap() > 0);
    far.write_all(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}").as_bytes()).unwrap();
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        near.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }

    server.upgrade();
    server.expect_service();
    near.write_all(b"there").unwrap();
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    let mut rest = vec![];
    download.read_to_end(&mut rest).unwrap();
    let received = first.iter().chain(&rest).filter(|byte| **byte == b'x').count();
    assert!(received >= large.len(), "{received} bytes");
    drop((near, far));
    assert_eq!(server.child.wait_for_process().code(), Some(0));
}
