//! Upgrades that fail, and processes that are killed or stopped in the middle.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{SITE, Upgraded, said};
use crate::child::{eventually, hurtle};
use crate::support::Dir;

/// Seconds after which the server gives up a program that is not ready.
const READY_SECS: &str = "30";

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
    eventually("the log has it", || server.child.stderr().contains("reloaded"));
}

#[test]
fn a_command_to_reload_waits_for_an_upgrade_that_a_signal_began() {
    for (sentence, succeeds) in [("the new process serves", true), ("it is killed", false)] {
        let mut server = Upgraded::start(SITE);
        let ((), new) = server.begin_waiting_after(|server| server.child.signal(Signal::USR2));
        let reload = server.command("reload").spawn().unwrap();
        let waits = "a reload follows the upgrade";
        eventually("the reload waits", || server.child.stderr().contains(waits));
        let expected = match succeeds {
            true => {
                server.dir.write("../go", "");
                format!("process {} serves now, and reloads", new.as_raw_nonzero())
            }
            false => {
                kill_process(new, Signal::KILL).unwrap();
                "reloaded ".to_owned()
            }
        };
        let output = reload.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{sentence}: {}", said(&output));
        assert!(said(&output).contains(&expected), "{sentence}: {}", said(&output));
        server.expect_service();
    }
}

/// Regression: it succeeded with the process of the upgrade before, which may be the old program.
#[test]
fn a_command_to_upgrade_waits_for_an_upgrade_that_a_signal_began() {
    let mut server = Upgraded::start(SITE);
    let ((), new) = server.begin_waiting_after(|server| server.child.signal(Signal::USR2));
    let command = server.command("upgrade").spawn().unwrap();
    let waits = "a command to upgrade waits";
    eventually("the command waits", || server.child.stderr().contains(waits));
    server.dir.write("../go", "");
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let expected = format!("process {} serves since another upgrade", new.as_raw_nonzero());
    assert!(said(&output).contains(&expected), "{}", said(&output));
    server.expect_service();
}

#[test]
fn a_command_to_upgrade_follows_an_upgrade_that_fails() {
    let mut server = Upgraded::start(SITE);
    let ((), new) = server.begin_waiting_after(|server| server.child.signal(Signal::USR2));
    let command = server.command("upgrade").spawn().unwrap();
    let waits = "a command to upgrade waits";
    eventually("the command waits", || server.child.stderr().contains(waits));
    server.install_hurtle();
    kill_process(new, Signal::KILL).unwrap();
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    server.note(&output);
    server.expect_service();
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

/// A step of an upgrade at which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The new process has the sockets and is not ready.
    HandedOver,
    /// The new process has said that it is ready; the one before has not read it.
    Ready,
    /// The process before drains.
    Draining,
}

/// `true`: a thread of the process runs, so its sockets are open. A process that was killed may not
/// have been waited for.
fn is_alive(process: Pid) -> bool {
    threads(process).iter().any(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

/// `true`: no thread of the process runs until it is continued.
fn is_stopped(process: Pid) -> bool {
    threads(process).iter().all(|stat| stat.contains(") T "))
}

/// The line of `/proc` about each thread of a process.
fn threads(process: Pid) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok()).collect()
}

#[test]
fn a_process_may_be_killed_at_any_step() {
    let rows = [
        (Step::HandedOver, "new", "the one before serves on"),
        (Step::HandedOver, "before", "the new one serves alone"),
        (Step::Ready, "new", "the one before serves on"),
        (Step::Ready, "before", "the new one serves alone"),
        (Step::Draining, "new", "requests under way are finished, and nothing serves"),
        (Step::Draining, "before", "the new one serves alone"),
    ];
    for (step, victim, outcome) in rows {
        let sentence = format!("{step:?}, {victim} is killed: {outcome}");
        let mut server = Upgraded::start(&format!("drain = '60s'\n{SITE}"));
        let before = Pid::from_raw(server.child.id().cast_signed()).unwrap();
        // An unfinished request, which the process before drains.
        let mut waiting = server.child.connect();
        assert_eq!(waiting.request("GET", "/a.txt").text(), "text");
        waiting.send("GET /a.txt HTTP/1.1\r\n");

        let pipe = server.read_certificate_from_a_pipe();
        let (command, new) = server.begin_waiting();
        server.dir.write("../go", "");
        eventually("the new process has the sockets", || {
            let held = sockets(before);
            sockets(new).iter().filter(|socket| held.contains(socket)).count() > 1
        });
        if step == Step::Ready {
            kill_process(before, Signal::STOP).unwrap();
            // Until then one of its threads may still accept a connection.
            eventually("it is stopped", || is_stopped(before));
        }
        if step != Step::HandedOver {
            pipe.write();
        }
        let text = match step {
            Step::HandedOver => None,
            Step::Ready => {
                // The one before is stopped, so only the new one can answer.
                server.expect_service();
                None
            }
            Step::Draining => Some(said(&command.wait_with_output().unwrap())),
        };
        let killed = if victim == "new" { new } else { before };
        kill_process(killed, Signal::KILL).unwrap();
        eventually("it is killed", || !is_alive(killed));
        if step == Step::Ready && victim == "new" {
            kill_process(before, Signal::CONT).unwrap();
        }
        match (step, victim) {
            (Step::HandedOver | Step::Ready, "new") => {
                eventually("the one before says so", || {
                    server.child.stderr().contains("not upgraded")
                });
                server.expect_service();
                waiting.send("Host: a\r\n\r\n");
                assert_eq!(waiting.response().text(), "text", "{sentence}");
            }
            (Step::HandedOver, _) => {
                // The connection waits in the queue meanwhile.
                let mut client = server.child.connect();
                client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
                pipe.write();
                assert_eq!(client.response().text(), "text", "{sentence}");
            }
            (Step::Draining, "new") => {
                assert!(text.unwrap().starts_with("upgraded"), "{sentence}");
                waiting.send("Host: a\r\n\r\n");
                assert_eq!(waiting.response().text(), "text", "{sentence}");
                eventually("connections are refused", || {
                    let connected = TcpStream::connect(server.child.address());
                    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
                });
            }
            _ => server.expect_service(),
        }
    }
}

/// A named pipe that a program reads a certificate from.
struct CertificatePipe {
    path: PathBuf,
    certificate: String,
}

impl CertificatePipe {
    /// Writes the certificate once the program has opened the pipe.
    #[track_caller]
    fn write(&self) {
        // Without a reader this fails, and waits no longer than the test's patience.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut pipe = None;
        eventually("the program opens the pipe", || {
            pipe = OpenOptions::new().write(true).custom_flags(flags).open(&self.path).ok();
            pipe.is_some()
        });
        pipe.unwrap().write_all(self.certificate.as_bytes()).unwrap();
    }
}

impl Upgraded {
    /// Adds a mount whose certificate is read from a pipe: a process reads it between the receipt
    /// of the sockets and the start of its workers, and waits there.
    fn read_certificate_from_a_pipe(&self) -> CertificatePipe {
        let path = self.dir.path("../authority.pem");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        let mount = format!(
            "[[site.mount]]\npath = '/proxied'\nproxy = 'https://127.0.0.1:9'\n\
             upstream_tls = {{ ca = '{}' }}\n",
            path.display()
        );
        let text = fs::read_to_string(&self.file).unwrap();
        fs::write(&self.file, text + &mount).unwrap();
        let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        CertificatePipe { path, certificate: pair.cert.pem() }
    }
}

/// The sockets of a process.
fn sockets(process: Pid) -> Vec<PathBuf> {
    let files = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()));
    let files = files.into_iter().flatten().flatten();
    let links = files.filter_map(|open| fs::read_link(open.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
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
