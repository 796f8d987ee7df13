//! The service manager keeps the listeners of the server in its file descriptor store, so that a
//! crash or a restart loses no connection that waits in their queues.

use std::fs::{self, Permissions};
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::thread;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;

use crate::child::{Child, PATIENCE, hurtle, write_config};
use crate::support::{Client, Dir, reserved_address};

/// Receives the server's notifications in place of systemd.
struct Manager {
    _folder: Dir,
    path: std::path::PathBuf,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Manager {
        let folder = Dir::new(&[]);
        let path = folder.path("../notify");
        fs::set_permissions(folder.path(".."), Permissions::from_mode(0o777)).unwrap();
        let socket = UnixDatagram::bind(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager { _folder: folder, path, socket }
    }

    /// The next notification, with its descriptor.
    fn next(&self) -> (String, Option<OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 256];
        let mut into = [IoSliceMut::new(&mut bytes)];
        let n =
            recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap().bytes;
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        (String::from_utf8_lossy(&bytes[..n]).into_owned(), descriptor)
    }

    /// Expects a listener to be stored; returns its name too.
    #[track_caller]
    fn expect_stored(&self) -> (String, OwnedFd) {
        let (text, descriptor) = self.next();
        let name = text.strip_prefix("FDSTORE=1\nFDNAME=").unwrap_or_else(|| panic!("{text}"));
        (name.to_owned(), descriptor.unwrap())
    }

    fn attach(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.path).env("FDSTORE", "16");
    }
}

/// Passes descriptors from 3 on like systemd, then runs a program: the arguments are the
/// descriptors, an empty one, and the program.
const PASS: &str = "import os, sys
end = sys.argv.index('')
high = [os.dup2(int(fd), 500 + at) for at, fd in enumerate(sys.argv[1:end])]
for at, fd in enumerate(high):
    os.dup2(fd, 3 + at)
    os.close(fd)
os.environ.update(LISTEN_FDS=str(len(high)), LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[end + 1], sys.argv[end + 1:])";

/// A command that runs `hurtle` with these descriptors from the store.
fn restarted(stored: &[(&str, &OwnedFd)]) -> Command {
    let names: Vec<_> = stored.iter().map(|(name, _)| *name).collect();
    let mut command = Command::new("python3");
    for (name, _) in hurtle().get_envs() {
        command.env_remove(name);
    }
    command.args(["-c", PASS]);
    for (_, descriptor) in stored {
        fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
        command.arg(descriptor.as_raw_fd().to_string());
    }
    command.args(["", env!("CARGO_BIN_EXE_hurtle")]).env("LISTEN_FDNAMES", names.join(":"));
    command
}

#[test]
fn connections_in_the_queue_survive_a_crash_and_a_restart() {
    if Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: it takes python3 to hand descriptors over");
        return;
    }
    let manager = Manager::new();
    let dir = Dir::new(&[("a.txt", "text")]);
    let file = write_config(&dir, "root = '{root}'\n");
    let mut command = hurtle();
    manager.attach(&mut command);
    let mut child = Child::start(command.arg("--config").arg(&file));
    let (name, stored) = manager.expect_stored();
    assert_eq!(manager.next().0, "READY=1");
    let address = child.address();
    let other = OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
    for (signal, sentence) in [(Signal::KILL, "a crash"), (Signal::TERM, "a restart")] {
        child.signal(signal);
        child.wait_for_process();
        if signal == Signal::TERM {
            assert_eq!(manager.next().0, "STOPPING=1");
        }
        // The last one is of an address that the configuration no longer has.
        let mut command = restarted(&[(&name, &stored), ("hurtle-0", &other)]);
        manager.attach(&mut command);
        let mut client = Client::connect(address);
        client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        child = thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(manager.next().0, "FDSTOREREMOVE=1\nFDNAME=hurtle-0", "{sentence}");
                assert_eq!(manager.next().0, "BARRIER=1", "{sentence}");
            });
            Child::start(command.arg("--config").arg(&file))
        });
        assert_eq!(client.response().text(), "text", "{sentence}");
        assert_eq!(child.address(), address, "{sentence}");
        assert_eq!(manager.expect_stored().0, name, "{sentence}");
        assert_eq!(manager.next().0, "READY=1", "{sentence}");
    }
}

/// A service manager removes the directory of sockets, and keeps their listeners.
#[test]
fn a_unix_socket_whose_file_is_gone_is_bound_anew() {
    if Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: it takes python3 to hand descriptors over");
        return;
    }
    let manager = Manager::new();
    let dir = Dir::new(&[("a.txt", "text")]);
    let file = write_config(&dir, "root = '{root}'\n");
    let socket = manager.path.with_file_name("web.sock");
    let text = fs::read_to_string(&file).unwrap();
    let listen = format!("[\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
    fs::write(&file, text.replace("\"127.0.0.1:0\"", &listen)).unwrap();
    let mut command = hurtle();
    manager.attach(&mut command);
    let mut child = Child::start(command.arg("--config").arg(&file));
    let stored = [manager.expect_stored(), manager.expect_stored()];
    assert_eq!(manager.next().0, "READY=1");
    child.signal(Signal::KILL);
    child.wait_for_process();
    fs::remove_file(&socket).unwrap();
    let mut command = restarted(&stored.each_ref().map(|(name, fd)| (name.as_str(), fd)));
    manager.attach(&mut command);
    let _child = thread::scope(|scope| {
        scope.spawn(|| {
            let (text, _) = manager.next();
            assert_eq!(text, format!("FDSTOREREMOVE=1\nFDNAME={}", stored[1].0));
            assert_eq!(manager.next().0, "BARRIER=1");
        });
        Child::start(command.arg("--config").arg(&file))
    });
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\ntext"), "{answer}");
}

/// The listener of the configuration before made the start fail, each time anew.
#[test]
fn a_server_starts_where_a_stored_listener_of_another_address_is() {
    if Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: it takes python3 to hand descriptors over");
        return;
    }
    // Bound there, so that no child of another test has it, too.
    const BIND: &str = "import os, socket, sys
s = socket.create_server(('0.0.0.0', int(sys.argv[1])))
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])";
    let manager = Manager::new();
    let dir = Dir::new(&[("a.txt", "text")]);
    let address = reserved_address();
    let mut command = Command::new("python3");
    for (name, _) in hurtle().get_envs() {
        command.env_remove(name);
    }
    command.args(["-c", BIND, &address.port().to_string(), env!("CARGO_BIN_EXE_hurtle")]);
    command.arg(dir.root()).arg("--listen").arg(address.to_string());
    command.env("LISTEN_FDNAMES", "hurtle-0");
    manager.attach(&mut command);
    let child = thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(manager.next().0, "FDSTOREREMOVE=1\nFDNAME=hurtle-0");
            assert_eq!(manager.next().0, "BARRIER=1");
        });
        Child::start(&mut command)
    });
    assert_eq!(child.get("/a.txt").text(), "text");
}

#[test]
fn a_reload_stores_new_listeners_and_forgets_closed_ones() {
    let manager = Manager::new();
    let dir = Dir::new(&[("a.txt", "text")]);
    let file = write_config(&dir, "root = '{root}'\n");
    let mut command = hurtle();
    manager.attach(&mut command);
    let child = Child::start(command.arg("--config").arg(&file));
    let (first, _) = manager.expect_stored();
    assert_eq!(manager.next().0, "READY=1");
    let text = fs::read_to_string(&file).unwrap();
    let moved = text.replace("\"127.0.0.1:0\"", "\"127.0.0.2:0\"");
    fs::File::create(&file).unwrap().write_all(moved.as_bytes()).unwrap();
    child.signal(Signal::HUP);
    assert!(manager.next().0.starts_with("RELOADING=1\n"));
    assert_eq!(manager.next().0, format!("FDSTOREREMOVE=1\nFDNAME={first}"));
    let (second, stored) = manager.expect_stored();
    assert_ne!(second, first);
    assert_eq!(manager.next().0, "READY=1");
    let listener = TcpListener::from(stored.as_fd().try_clone_to_owned().unwrap());
    let mut client = Client::connect(listener.local_addr().unwrap());
    assert_eq!(client.request("GET", "/a.txt").text(), "text");
}
