//! Reloads: another configuration comes into force, and nothing that is under way is cut.

mod load;
mod memory;
mod ports;
mod quic;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, geteuid};

use crate::child::{Child, Killed, PATIENCE, eventually, hurtle, write_config};
use crate::support::{Client, Dir, MODIFIED};
use crate::tokens::{Signer, set};

const SITE_A: &str = "[[site]]\nhosts = 'a'\n[[site.mount]]\nfiles = '{root}/a'\n";
const SITE_B: &str = "[[site]]\nhosts = 'b'\n[[site.mount]]\nfiles = '{root}/b'\n";

/// A server whose configuration can be changed.
struct Reloaded {
    dir: Dir,
    child: Child,
    file: PathBuf,
}

impl Reloaded {
    fn start(config: &str) -> Reloaded {
        Reloaded::prepared(config, |_| ())
    }

    /// Like `start`; `prepare` writes files that the configuration names.
    fn prepared(config: &str, prepare: impl FnOnce(&Dir)) -> Reloaded {
        let dir = Dir::new(&[("a/x.txt", "of a"), ("b/x.txt", "of b")]);
        prepare(&dir);
        let file = write_config(&dir, &with_admin(config));
        let child = Child::start(hurtle().arg("--config").arg(&file));
        Reloaded { dir, child, file }
    }

    /// Changes the file and runs `hurtle reload`; returns the exit code and all it printed.
    fn reload(&self, config: &str) -> (Option<i32>, String) {
        write_config(&self.dir, &with_admin(config));
        self.run_reload()
    }

    /// Runs `hurtle reload`; returns its exit code and its output.
    fn run_reload(&self) -> (Option<i32>, String) {
        let admin = self.dir.path("../admin.sock");
        let output = hurtle().arg("reload").arg("--admin").arg(admin).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    }
}

fn with_admin(config: &str) -> String {
    format!("admin = '{{root}}/../admin.sock'\n{config}")
}

fn get(client: &mut Client, host: &str) -> (u16, String) {
    client.send(format!("GET /x.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let answer = client.response();
    (answer.status, answer.text().to_owned())
}

#[test]
fn an_open_connection_is_served_by_the_new_configuration() {
    let server = Reloaded::start(SITE_A);
    let mut client = server.child.connect();
    assert_eq!(get(&mut client, "a"), (200, "of a".to_owned()));
    assert_eq!(get(&mut client, "b").0, 421);

    let (code, said) = server.reload(&format!("{SITE_A}{SITE_B}"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(get(&mut client, "b"), (200, "of b".to_owned()), "a site that came");
    assert_eq!(get(&mut client, "a"), (200, "of a".to_owned()), "a site that stayed");

    let moved = SITE_A.replace("{root}/a", "{root}/b");
    let (code, said) = server.reload(&moved);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(get(&mut client, "a"), (200, "of b".to_owned()), "no file of the old directory");
    assert_eq!(get(&mut client, "b").0, 421, "a site that went");

    let limited = format!("{moved}[limits]\ntarget_bytes = 3\n");
    assert_eq!(server.reload(&limited).0, Some(0));
    let mut client = server.child.connect();
    assert_eq!(get(&mut client, "a").0, 414, "limits");
}

#[test]
fn a_dictionary_comes_and_goes_with_the_configuration() {
    let server = Reloaded::start(SITE_A);
    fs::write(server.dir.path("a/app.1.css"), "/* style */ ".repeat(200)).unwrap();
    server.dir.set_modified("a/app.1.css", MODIFIED.0);
    let mut client = server.child.connect();
    let mut field = || {
        let response = client.request("GET", "/app.1.css\nHost: a");
        response.field("Use-As-Dictionary").map(str::to_owned)
    };
    assert_eq!(field(), None);
    let with = |pattern: &str| {
        format!("{SITE_A}[[site.mount.dictionary]]\nmatch = '{pattern}'\nid = 'x'\n")
    };
    for (pattern, expected) in [
        ("app.*.css", Some("match=\"/app.*.css\", id=\"x\"")),
        ("app.*", Some("match=\"/app.*\", id=\"x\"")),
        ("other.*", None),
    ] {
        let (code, said) = server.reload(&with(pattern));
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(field().as_deref(), expected, "{pattern}");
    }
}

#[test]
fn a_configuration_with_problems_changes_nothing_and_all_are_printed() {
    let server = Reloaded::start(SITE_A);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let rows = [
        (
            "two mistakes",
            format!("bogus = 1\n{SITE_B}[limits]\nhead_timeout = 'soon'\n"),
            vec!["bogus", "head_timeout"],
        ),
        ("no such directory", SITE_B.replace("{root}/b", "{root}/none"), vec!["none"]),
        (
            "a used address",
            format!("listen = '{address}'\n{SITE_B}"),
            vec!["cannot listen on", "in use"],
        ),
    ];
    for (sentence, config, problems) in rows {
        // `write_config` sets `listen` itself.
        let (code, said) = match sentence {
            "a used address" => {
                let text =
                    format!("admin = '{}/../admin.sock'\n{config}", server.dir.root().display());
                fs::write(
                    &server.file,
                    text.replace("{root}", &server.dir.root().display().to_string()),
                )
                .unwrap();
                let admin = server.dir.path("../admin.sock");
                let output = hurtle().arg("reload").arg("--admin").arg(admin).output().unwrap();
                (output.status.code(), String::from_utf8(output.stderr).unwrap())
            }
            _ => server.reload(&config),
        };
        assert_eq!(code, Some(2), "{sentence}: {said}");
        for problem in problems {
            assert!(said.contains(problem), "{sentence}: {said}");
            eventually("the log has it", || server.child.stderr().contains(problem));
        }
        let mut client = server.child.connect();
        assert_eq!(get(&mut client, "a"), (200, "of a".to_owned()), "{sentence}");
        assert_eq!(get(&mut client, "b").0, 421, "{sentence}");
    }
}

#[test]
fn settings_that_only_a_start_changes_are_changed_by_an_upgrade() {
    let server = Reloaded::start(SITE_A);
    let before = server.child.id();
    let text = fs::read_to_string(&server.file).unwrap();
    let mut changed = text.replace("workers = 1", "workers = 3\ndisk_threads = 5\nbacklog = 9");
    if geteuid().is_root() {
        changed = changed.replace("user = \"nobody\"", "user = \"daemon\"");
    }
    fs::write(&server.file, changed.replace("files = ", "path = '/p'\nfiles = ")).unwrap();
    let (code, said) = server.run_reload();
    assert_eq!(code, Some(0), "{said}");
    let new = said.strip_prefix("upgraded: process ").and_then(|rest| rest.split_once(' '));
    let new: u32 = new.and_then(|(new, _)| new.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    let _new = Killed(Pid::from_raw(new.cast_signed()).unwrap());
    assert_ne!(new, before);
    for setting in ["workers", "disk_threads", "backlog"] {
        assert!(server.child.stderr().contains(setting), "{}", server.child.stderr());
    }
    let threads = |name: &str| {
        let tasks = fs::read_dir(format!("/proc/{new}/task")).unwrap().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|found| found.starts_with(name)).count()
    };
    assert_eq!(threads("worker-"), 3);
    let mut client = server.child.connect();
    client.send("GET /p/x.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "of a", "the other changes too");
    let status = fs::read_to_string(format!("/proc/{new}/status")).unwrap();
    let users =
        |status: &str| status.lines().find(|line| line.starts_with("Uid:")).map(str::to_owned);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(users(&status) == users(&own), !geteuid().is_root(), "it has given up root");
}

#[test]
fn a_start_that_fails_changes_nothing() {
    let server = Reloaded::start(SITE_A);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = format!("[metrics]\nlisten = '{}'\n", taken.local_addr().unwrap());
    let (code, said) = server.reload(&format!("{metrics}{SITE_B}"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("in use"), "{said}");
    let mut client = server.child.connect();
    assert_eq!(get(&mut client, "a"), (200, "of a".to_owned()));
    assert_eq!(get(&mut client, "b").0, 421);
}

#[test]
fn listeners_are_kept_opened_and_closed() {
    let server = Reloaded::start(SITE_A);
    // The server's user may write here, although root has started it.
    let sockets = server.dir.path("../sockets");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, Permissions::from_mode(0o777)).unwrap();
    let socket = sockets.join("second");
    let text = fs::read_to_string(&server.file).unwrap();
    let mut kept = server.child.connect();
    let listening = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
    fs::write(&server.file, text.replace("listen = \"127.0.0.1:0\"", &listening)).unwrap();
    server.child.signal(Signal::HUP);
    eventually("the second one is open", || socket.exists());
    assert_eq!(get(&mut kept, "a").0, 200);
    assert_eq!(get(&mut server.child.connect(), "a").0, 200, "the first one is kept");
    let mut over = UnixStream::connect(&socket).unwrap();
    over.write_all(b"GET /x.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&over).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");

    fs::write(&server.file, text).unwrap();
    server.child.signal(Signal::HUP);
    eventually("its file is gone", || !socket.exists());
    over.write_all(b"GET /x.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut rest = [0; 12];
    over.read_exact(&mut rest).unwrap();
    assert_eq!(get(&mut kept, "a").0, 200, "connections outlive their listeners");
}

/// Opens a WebSocket at /socket; returns both of its ends.
fn open_tunnel(child: &Child, upstream: &TcpListener) -> (TcpStream, TcpStream) {
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut near = TcpStream::connect(child.address()).unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    near.write_all(format!("GET /socket HTTP/1.1\r\nHost: a\r\n{upgrade}").as_bytes()).unwrap();
    let (mut far, _) = upstream.accept().unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = [0; 4096];
    assert!(far.read(&mut head).unwrap() > 0);
    far.write_all(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}").as_bytes()).unwrap();
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        near.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    (near, far)
}

#[test]
fn a_tunnel_goes_on_when_its_mount_is_gone() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mount = format!(
        "[[site.mount]]\npath = '/socket'\nproxy = 'http://{}'\n",
        upstream.local_addr().unwrap()
    );
    let server = Reloaded::start(&format!("{SITE_A}{mount}"));
    let (mut client, mut far) = open_tunnel(&server.child, &upstream);

    let (code, said) = server.reload(SITE_A);
    assert_eq!(code, Some(0), "{said}");
    let mut other = server.child.connect();
    other.send("GET /socket HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(other.response().status, 404, "its mount is gone");
    client.write_all(b"there").unwrap();
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    far.write_all(b"and back").unwrap();
    let mut bytes = [0; 8];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"and back");
}

#[test]
fn the_file_is_watched_if_asked_for() {
    let dir = Dir::new(&[("a/x.txt", "of a"), ("b/x.txt", "of b")]);
    let file = write_config(&dir, SITE_A);
    let child = Child::start(hurtle().arg("--watch").arg(&file));
    let mut client = child.connect();
    assert_eq!(get(&mut client, "b").0, 421);
    write_config(&dir, &format!("{SITE_A}{SITE_B}"));
    eventually("the new site is served", || get(&mut client, "b").0 == 200);
}

#[test]
fn a_reload_reads_the_keys_of_tokens_again() {
    let site = "[[site]]\nauth = 'jwt'\njwks = '{root}/../keys.json'\nalgorithms = 'HS256'\n\
                [[site.mount]]\nfiles = '{root}/a'\n";
    let dir = Dir::new(&[("a/x.txt", "of a")]);
    let keys = dir.path("../keys.json");
    let (old, new) = (Signer::hs256(), Signer::hs256());
    fs::write(&keys, set(&[old.jwk("old")])).unwrap();
    let file = write_config(&dir, &with_admin(site));
    let server = Reloaded { child: Child::start(hurtle().arg("--config").arg(&file)), dir, file };
    let mut client = server.child.connect();
    let mut status = |signer: &Signer| {
        let token = signer.token("", "");
        client.send(format!(
            "GET /x.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
        ));
        client.response().status
    };
    assert_eq!((status(&old), status(&new)), (200, 401));
    // A file that cannot be used changes nothing.
    fs::write(&keys, "{}").unwrap();
    let (code, said) = server.reload(site);
    assert!(code != Some(0) && said.contains("it is not a JWK Set"), "{said}");
    assert_eq!((status(&old), status(&new)), (200, 401));

    fs::write(&keys, set(&[new.jwk("new")])).unwrap();
    let (code, said) = server.reload(site);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((status(&old), status(&new)), (401, 200));
}
