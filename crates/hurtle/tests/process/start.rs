//! Start of the server: its user, its sockets, notifications, and errors.

use std::io::{self, PipeWriter, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, iter};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::child::{Child, PATIENCE, eventually, hurtle, write_config};
use crate::support::Dir;

/// Port of `hurtle DIR` by default.
const DEFAULT_PORT: u16 = 8080;

/// Passes descriptor 3 like systemd (sd_listen_fds(3)): a listener and the id of its process.
const ACTIVATE: &str = "import os, socket, sys
s = socket.create_server(('127.0.0.1', 0))
print('activated', s.getsockname()[1], flush=True)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn an_inherited_socket_is_used_and_survives_a_stop() {
    if !has("python3") {
        println!("skipped: it takes python3 to hand a descriptor over");
        return;
    }
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATE, env!("CARGO_BIN_EXE_hurtle")]).arg(dir.root());
    // An inherited listener overrides `--listen`.
    let mut child = Child::start(command.args(["--workers", "2", "--listen", "127.0.0.1:1"]));
    let said = child.stdout();
    let port: u16 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(child.address().port(), port, "{said}");
    for _ in 0..20 {
        assert_eq!(child.get("/a.txt").text(), "a\n");
    }
    child.signal(Signal::HUP);
    eventually("it is reloaded", || child.stderr().contains("reloaded"));
    assert_eq!(child.get("/a.txt").text(), "a\n", "it is used after a reload, too");
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0));
}

#[test]
fn the_service_manager_is_notified_of_start_reload_and_stop() {
    let dir = Dir::new(&[]);
    let path = dir.path("../notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = hurtle();
    command.arg(dir.root()).args(["--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    let mut child = Child::start(&mut command);
    let told = || {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    child.signal(Signal::HUP);
    // systemd.service(5), `Type=notify-reload`.
    assert!(told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(told(), "READY=1");
    child.signal(Signal::TERM);
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(child.wait().code(), Some(0));
}

#[test]
fn a_stop_before_the_greeting_is_graceful() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let path = dir.path("../socket");
    // A full standard output holds the server between its first response and its greeting.
    let (mut kept, stdout) = io::pipe().unwrap();
    let full = fill(&stdout);
    let mut command = hurtle();
    command.arg(dir.root()).arg("--listen").arg(format!("unix:{}", path.display()));
    let mut child =
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    eventually("it listens", || UnixStream::connect(&path).is_ok());
    assert_eq!(get_over(&path, "/a.txt"), "a\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut said = vec![];
    kept.read_to_end(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(said[full..].starts_with(b"hurtle serves"), "{}", said[full..].escape_ascii());
}

/// Writes until the pipe is full; returns the number of bytes.
fn fill(pipe: &PipeWriter) -> usize {
    let blocking = |not: OFlags| fcntl_setfl(pipe, OFlags::WRONLY | not).unwrap();
    blocking(OFlags::NONBLOCK);
    let mut pipe: &PipeWriter = pipe;
    let full = iter::from_fn(|| pipe.write(&[0; 4096]).ok()).sum();
    blocking(OFlags::empty());
    full
}

#[test]
fn a_server_started_as_root_gives_up_root() {
    if !geteuid().is_root() {
        println!("skipped: it takes root to give it up");
        return;
    }
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let child = Child::configured(&dir, "root = '{root}'\n");
    assert_eq!(child.get("/a.txt").status, 200);
    let status = child.proc("status");
    let ids = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    };
    // Real, effective, saved and file system ids, then the supplementary groups.
    for name in ["Uid:", "Gid:", "Groups:"] {
        assert!(!ids(name).contains(&0), "{name} {:?}", ids(name));
    }
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    assert_eq!(line.trim().trim_matches('0'), "", "capabilities are left");
}

#[test]
fn a_used_default_port_is_replaced_and_a_requested_one_is_not() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut child = Child::spawn(hurtle().arg(dir.root()).args(["--listen", &address]));
    assert_eq!(child.wait().code(), Some(1));
    let said = child.stderr();
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    assert!(said.contains("in use"), "{said}");

    // The port may be in use by another process; then it is occupied as well.
    let _default = TcpListener::bind(("127.0.0.1", DEFAULT_PORT));
    let child = Child::start(hurtle().arg(dir.root()));
    assert!(child.address().port() > DEFAULT_PORT, "{}", child.address());
    assert_eq!(child.get("/a.txt").text(), "a\n");
}

#[test]
fn a_wrong_configuration_is_refused_with_all_its_problems() {
    let dir = Dir::new(&[]);
    let faults = "root = '{root}'\nbacklog = 0\n[limits]\nhead_timeout = 'soon'\nhed_bytes = 1\n";
    let path = write_config(&dir, faults);
    for arguments in
        [&["--config"][..], &["check", "--config"], &["check"], &["print-config", "--config"]]
    {
        let mut child = Child::spawn(hurtle().args(arguments).arg(&path));
        assert_eq!(child.wait().code(), Some(2), "{arguments:?}");
        let said = child.stderr();
        for fault in ["backlog", "head_timeout", "hed_bytes", "head_bytes"] {
            assert!(said.contains(fault), "{arguments:?} does not tell {fault}: {said}");
        }
    }
}

#[test]
fn a_file_is_checked_however_it_is_named() {
    let dir = Dir::new(&[("page.html", "a page\n")]);
    let file = write_config(&dir, "root = '{root}'\n");
    let file = file.to_str().unwrap();
    let refused = "cannot be used with";
    let root = dir.root();
    let root = root.to_str().unwrap();
    let page = format!("{root}/page.html");
    let table: [(&[&str], Option<i32>, &str); 11] = [
        (&["check", file], Some(0), "ok\n"),
        (&["check", "--config", file], Some(0), "ok\n"),
        (&["check", "-c", file], Some(0), "ok\n"),
        (&["check", root], Some(0), "ok\n"),
        (&["check", file, "--config", file], Some(2), refused),
        (&["print-config", file], Some(0), "workers = 1\n"),
        (&["print-config", &page], Some(0), "try_files = "),
        (&["explain", root, "/page.html"], Some(0), "page.html"),
        (&["explain", file, "/page.html"], Some(0), "page.html"),
        (&["explain", file, "/page.html", "--config", file], Some(2), refused),
        (&["help", "explain"], Some(0), "URL-PATH"),
    ];
    for (arguments, code, said) in table {
        let output = hurtle().args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(output.status.code(), code, "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let child = Child::start(hurtle().arg(file));
    assert_eq!(child.get("/page.html").text(), "a page\n", "a file is served without --config");
    // Without a name, ./hurtle.toml is read.
    let here = dir.path("..");
    let output = hurtle().arg("check").current_dir(here).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"ok\n"[..]));
}

/// A server whose greeting could not be written ended, with exit code 0.
#[test]
fn a_reader_of_the_greeting_that_has_left_stops_no_service() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let path = dir.path("../socket");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = hurtle();
    command.arg(dir.root()).arg("--listen").arg(format!("unix:{}", path.display()));
    let log = dir.path("../log");
    command.stdout(writer).stdin(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let mut server = command.spawn().unwrap();
    eventually("it says so", || {
        fs::read_to_string(&log).unwrap().contains("the greeting cannot be printed")
    });
    assert_eq!(get_over(&path, "/a.txt"), "a\n");
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_stale_socket_is_replaced_and_a_busy_one_is_not() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let path = dir.path("../socket");
    let serve = || {
        let mut command = hurtle();
        command.arg(dir.root()).arg("--listen").arg(format!("unix:{}", path.display()));
        command
    };
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists() && UnixStream::connect(&path).is_err(), "nobody listens on it");
    let mut first = Child::start(&mut serve());
    assert_eq!(get_over(&path, "/a.txt"), "a\n");

    let mut second = Child::spawn(&mut serve());
    assert_eq!(second.wait().code(), Some(1));
    assert!(second.stderr().contains("in use"), "{}", second.stderr());
    assert_eq!(get_over(&path, "/a.txt"), "a\n", "the first goes on");

    first.signal(Signal::KILL);
    first.wait();
    let third = Child::start(&mut serve());
    assert_eq!(get_over(&path, "/a.txt"), "a\n", "after a crash");
    drop(third);

    // Nor is a socket of another type, to which no connection can be made.
    fs::remove_file(&path).unwrap();
    let datagrams = UnixDatagram::bind(&path).unwrap();
    let mut fourth = Child::spawn(&mut serve());
    assert_eq!(fourth.wait().code(), Some(1));
    assert!(fourth.stderr().contains("in use"), "{}", fourth.stderr());
    assert!(UnixDatagram::unbound().unwrap().connect(&path).is_ok());
    drop(datagrams);

    // A file that is not a socket is not replaced.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    let mut fourth = Child::spawn(&mut serve());
    assert_eq!(fourth.wait().code(), Some(1));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

/// Regression: those behind the first 127 were reset.
#[test]
fn a_stop_accepts_all_that_waits_in_the_queue() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let path = dir.path("../socket");
    let mut command = hurtle();
    command.arg(dir.root()).args(["--workers", "1", "--listen"]);
    let mut child = Child::start(command.arg(format!("unix:{}", path.display())));
    child.signal(Signal::STOP);
    let mut clients: Vec<UnixStream> = (0..400).map(|_| asking(&path, "/a.txt")).collect();
    child.signal(Signal::TERM);
    child.signal(Signal::CONT);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(body_of(client), "a\n", "{number}");
    }
    assert_eq!(child.wait().code(), Some(0));
}

fn get_over(path: &Path, target: &str) -> String {
    body_of(&mut asking(path, target))
}

/// A connection on which a request was sent.
fn asking(path: &Path, target: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

#[track_caller]
fn body_of(stream: &mut UnixStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// `true` if a command is installed.
fn has(command: &str) -> bool {
    Command::new(command).arg("--version").output().is_ok()
}

/// A server waited for ever for the workers that had failed, if another one had begun.
#[test]
fn a_start_with_few_descriptors_serves_or_ends() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let (mut served, mut failed) = (0, 0);
    for limit in (20..84).step_by(2) {
        let mut command = Command::new("sh");
        let script =
            format!("ulimit -n {limit}; exec \"$0\" \"$@\" --listen 127.0.0.1:0 --workers 4");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_hurtle")]).arg(dir.root());
        let mut child = Child::spawn(&mut command);
        eventually(&format!("with {limit} descriptors it serves or ends"), || {
            child.stdout().contains("http://") || child.ended().is_some()
        });
        match child.ended() {
            Some(status) => {
                child.wait();
                assert!(!status.success() && !child.stderr().is_empty(), "{}", child.stderr());
                failed += 1;
            }
            None => served += 1,
        }
    }
    assert!(served > 0 && failed > 0, "{served} served, {failed} failed");
}
