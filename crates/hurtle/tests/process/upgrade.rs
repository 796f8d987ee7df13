//! Upgrades: the program's file is replaced, another process serves, and no request is lost; or the
//! new program is unusable, and the one before serves on.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

use crate::child::{Child, PATIENCE, eventually, hurtle, write_config};
use crate::frames::*;
use crate::support::{Client, Dir};

const SITE: &str = "[[site]]\n[[site.mount]]\nfiles = '{root}'\n";

/// Seconds after which the server gives up a program that is not ready.
const READY_SECS: &str = "30";

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

    /// Starts an upgrade to a program that waits for a file before it is hurtle; returns the command
    /// and the new process.
    fn begin_waiting(&mut self) -> (std::process::Child, Pid) {
        let (pid, go) = (self.dir.path("../pid"), self.dir.path("../go"));
        self.install_script(&format!(
            "echo $$ > {0}.new; mv {0}.new {0}\nwhile [ ! -e {1} ]; do sleep 0.01; done\n\
             exec {2} \"$@\"",
            pid.display(),
            go.display(),
            env!("CARGO_BIN_EXE_hurtle"),
        ));
        let command = self.command("upgrade").spawn().unwrap();
        eventually("the new program runs", || pid.exists());
        let new = fs::read_to_string(&pid).unwrap().trim().parse().ok().and_then(Pid::from_raw);
        self.later.push(new.unwrap());
        (command, new.unwrap())
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        for pid in &self.later {
            // It may have ended already.
            let _ = kill_process(*pid, Signal::KILL);
        }
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
    let mut server = Upgraded::start(&format!("drain = '20s'\n{SITE}"));
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

/// HTTP/2: after GOAWAY, the streams that it covers are answered (RFC 9113 section 6.8).
fn multiplex(address: SocketAddr, done: &AtomicBool, served: &AtomicUsize) {
    'connection: while !done.load(SeqCst) {
        let mut wire = Wire::begin(address, &[]);
        let mut leaving = false;
        for stream in (1..).step_by(2) {
            if leaving || done.load(SeqCst) {
                continue 'connection;
            }
            wire.send(&get(stream, "/a.txt"));
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

#[test]
fn a_program_that_does_not_get_ready_changes_nothing() {
    let mut server = Upgraded::start(SITE);
    let good = fs::read_to_string(&server.file).unwrap();
    let rows: [(&str, &dyn Fn(&Upgraded), &[&str]); 5] = [
        (
            "it fails",
            &|server| server.install_script("echo a library is missing >&2; exit 3"),
            &["ended before it was ready (exit status: 3)", "a library is missing"],
        ),
        (
            "it cannot be executed",
            &|server| {
                let program = server.dir.path("../program");
                fs::set_permissions(program, Permissions::from_mode(0o644)).unwrap();
            },
            &["cannot start", "denied"],
        ),
        (
            "there is none",
            &|server| fs::remove_file(server.dir.path("../program")).unwrap(),
            &["cannot start", "No such file"],
        ),
        (
            "it does not take over",
            &|server| server.install_script("exec <&-; exec sleep 1000"),
            &["did not take over"],
        ),
        (
            "the configuration has a mistake",
            &|server| {
                server.install_hurtle();
                fs::write(&server.file, format!("bogus = 1\n{good}")).unwrap();
            },
            &["ended before it was ready (exit status: 2)", "bogus"],
        ),
    ];
    for (sentence, change, expected) in rows {
        change(&server);
        let output = server.command("upgrade").output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{sentence}: {said}");
        for part in expected {
            assert!(said.contains(part), "{sentence}: {said}");
            eventually("the log has it", || server.child.stderr().contains(part));
        }
        server.expect_service();
    }
    fs::write(&server.file, good).unwrap();
    server.upgrade();
    server.expect_service();
}

#[test]
fn a_program_that_hangs_is_ended() {
    let mut server = Upgraded::start(SITE);
    let (command, new) = server.begin_waiting();
    // A reload waits for the end of the upgrade.
    let text = fs::read_to_string(&server.file).unwrap();
    fs::write(&server.file, format!("{text}[limits]\ntarget_bytes = 3\n")).unwrap();
    server.child.signal(Signal::HUP);
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let late = format!("not ready after {READY_SECS} s");
    assert!(said(&output).contains(&late), "{}", said(&output));
    eventually("it has ended", || test_kill_process(new).is_err());
    eventually("the reload is done", || server.child.get("/a.txt").status == 414);
    assert!(server.child.stderr().contains("reloaded"));
}

#[test]
fn a_stop_during_an_upgrade_ends_both() {
    let mut server = Upgraded::start(SITE);
    let (command, new) = server.begin_waiting();
    server.child.signal(Signal::TERM);
    assert_eq!(server.child.wait_for_process().code(), Some(0));
    eventually("the new process ends", || test_kill_process(new).is_err());
    assert_ne!(command.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_new_process_that_is_killed_before_it_is_ready_changes_nothing() {
    let mut server = Upgraded::start(SITE);
    let (command, new) = server.begin_waiting();
    kill_process(new, Signal::KILL).unwrap();
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("SIGKILL"), "{}", said(&output));
    server.expect_service();
}

#[test]
fn the_new_process_serves_alone_if_the_one_before_is_killed() {
    let mut server = Upgraded::start(SITE);
    let (_, new) = server.begin_waiting();
    server.child.signal(Signal::KILL);
    server.child.wait_for_process();
    // The connection waits in the queue of a listener that the new process has got already.
    let mut client = server.child.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    server.dir.write("../go", "");
    assert_eq!(client.response().text(), "text");
    assert!(test_kill_process(new).is_ok());
    server.install_hurtle();
    server.upgrade();
    server.expect_service();
}

#[test]
fn a_process_that_gets_only_a_part_does_not_serve() {
    let dir = Dir::new(&[("a.txt", "text")]);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"\0\0").unwrap();
    drop(ours);
    let mut command = hurtle();
    command.arg(dir.root()).env("HURTLE_UPGRADE", "1").stdin(Stdio::from(OwnedFd::from(theirs)));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("has not handed over everything"), "{}", said(&output));
}

#[test]
fn unix_sockets_and_the_default_port_are_taken_over() {
    let mut server = Upgraded::start(SITE);
    let socket = server.dir.path("../listen.sock");
    let text = fs::read_to_string(&server.file).unwrap();
    let listen = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
    fs::write(&server.file, text.replace("listen = \"127.0.0.1:0\"", &listen)).unwrap();
    server.child.signal(Signal::HUP);
    eventually("it listens", || UnixStream::connect(&socket).is_ok());
    for _ in 0..2 {
        let new = server.upgrade();
        server.child.wait_for_process();
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\ntext"), "{answer}");
        server.expect_service();
        assert!(test_kill_process(new).is_ok());
    }
    // The last process removes them, unless its user may not.
    let last = *server.later.last().unwrap();
    kill_process(last, Signal::TERM).unwrap();
    eventually("it ends", || test_kill_process(last).is_err());
    let refused = UnixStream::connect(&socket).unwrap_err().kind();
    assert!(matches!(refused, ErrorKind::NotFound | ErrorKind::ConnectionRefused), "{refused}");
}

#[test]
fn tls_sessions_are_resumed_by_the_new_process() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let tls = "[[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{root}'\n\
               [site.tls]\ncertificate = '{root}/../chain.pem'\nkey = '{root}/../key.pem'\n";
    let dir = Dir::new(&[]);
    let (chain, key) = (dir.path("../chain.pem"), dir.path("../key.pem"));
    fs::write(&chain, pair.cert.pem()).unwrap();
    fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let tls = tls
        .replace("{root}/../chain.pem", &chain.display().to_string())
        .replace("{root}/../key.pem", &key.display().to_string());
    let mut server = Upgraded::start(&format!("listen_tls = '{address}'\n{tls}"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pair.cert.der().to_vec())).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let client = Arc::new(client);
    let handshake = || {
        let name = ServerName::try_from("a.test").unwrap();
        let mut session = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        tls.write_all(b"GET /a.txt HTTP/1.1\r\nConnection: close\r\nHost: a.test\r\n\r\n").unwrap();
        let mut answer = String::new();
        tls.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("text"), "{answer}");
        session.handshake_kind()
    };
    assert_eq!(handshake(), Some(HandshakeKind::Full));
    assert_eq!(handshake(), Some(HandshakeKind::Resumed));
    server.upgrade();
    assert_eq!(handshake(), Some(HandshakeKind::Resumed));
}

#[test]
fn an_interrupted_upload_is_resumed_by_the_new_process() {
    const SPEAKS: &str = "Upload-Draft-Interop-Version: 8";
    let body: Vec<u8> = (0..8 << 20).map(|at: u32| at.to_be_bytes()[2]).collect();
    let site = SITE.replace("[[site]]", "[[site]]\nauth = 'none'");
    let uploads = "[site.mount.uploads]\nfree_bytes = 0\n";
    let mut server = Upgraded::start(&format!("drain = '60s'\n{site}{uploads}"));
    fs::set_permissions(server.dir.root(), Permissions::from_mode(0o777)).unwrap();
    let mut client = server.child.connect();
    client.send(format!(
        "PUT /new.bin HTTP/1.1\r\nHost: a\r\n{SPEAKS}\r\nUpload-Complete: ?1\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    ));
    let created = client.answer("PUT");
    let path = created.field("Location").unwrap();
    assert_eq!(client.answer("PUT").status, 100);
    client.send(&body[..body.len() / 2]);
    let send = |method: &str, more: &str, body: &[u8]| {
        let mut client = server.child.connect();
        let len = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{SPEAKS}\r\n{more}");
        client.send(format!("{head}Content-Length: {len}\r\n\r\n"));
        client.send(body);
        client.answer(method)
    };
    let append = |from: usize| {
        let more = format!(
            "Upload-Offset: {from}\r\nUpload-Complete: ?1\r\n\
             Content-Type: application/partial-upload\r\n"
        );
        send("PATCH", &more, &body[from..])
    };
    let store = server.dir.path(".hurtle-upload-resumable");
    eventually("a part is on the disk", || {
        let files = fs::read_dir(&store).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 1 << 20)
    });
    let output = server.command("upgrade").output().unwrap();
    // The process before has the upload until its request ends.
    let refused = append(0);
    drop(client);
    let mut offset = None;
    eventually("the upload is free", || {
        let answer = send("HEAD", "", b"");
        offset = answer.field("Upload-Offset").map(|offset| offset.parse().unwrap());
        offset.is_some()
    });
    let done = append(offset.unwrap());
    assert_eq!(done.field("Upload-Complete"), Some("?1"), "{done:?}");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(server.child.get("/new.bin").body == body);
    server.note(&output);
}

#[test]
fn the_service_manager_learns_the_new_process() {
    let folder = Dir::new(&[]);
    let path = folder.path("../notify");
    fs::set_permissions(folder.path(".."), Permissions::from_mode(0o777)).unwrap();
    let manager = UnixDatagram::bind(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let mut server = Upgraded::with(SITE, |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(told(), "READY=1");
    let new = server.upgrade();
    let mut both = [told(), told()];
    both.sort();
    let main = format!("MAINPID={}", new.as_raw_nonzero());
    assert_eq!(both, [main, "READY=1".to_owned()]);
    assert_eq!(server.child.wait_for_process().code(), Some(0));
    kill_process(new, Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1", "of the new process; the one before said nothing");
}
