//! The server as a child process: started as a user would start it, observed from outside,
//! signalled, and ended with the test.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, geteuid, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open};
#[cfg(target_os = "linux")]
use rustix::time::Timespec;

use crate::support::{Client, Dir, Response};

/// Time limit of waits; only a failing test reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running `hurtle`, killed when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    /// Address of its listener; `None`: a unix socket.
    address: Option<SocketAddr>,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

/// A process that is killed at the end of the test.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Pid);

impl Drop for Killed {
    fn drop(&mut self) {
        kill(self.0);
    }
}

/// Kills a process, also one that this one did not start, and waits until it has closed its
/// sockets: the next server of a test may listen at them. It may have ended already.
#[cfg(target_os = "linux")]
pub(crate) fn kill(pid: Pid) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let _ = kill_process(pid, Signal::KILL);
    let time = Timespec::try_from(PATIENCE).ok();
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], time.as_ref());
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn kill(pid: Pid) {
    // It may have ended already.
    let _ = kill_process(pid, Signal::KILL);
}

/// A command that runs `hurtle`.
pub(crate) fn hurtle() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hurtle"));
    // These variables of the test runner must not reach the server.
    let names =
        ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "FDSTORE", "RUST_LOG"];
    for name in names {
        command.env_remove(name);
    }
    command
}

/// Number of processes and threads of the user that servers of `write_config` run as.
pub(crate) fn threads_of_the_user() -> usize {
    let user = match geteuid().is_root() {
        true => nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.as_raw(),
        false => geteuid().as_raw(),
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let counts = entries.filter_map(|entry| {
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let of = |key| status.lines().find_map(|line: &str| line.strip_prefix(key));
        let is_theirs = of("Uid:")?.split_whitespace().next()?.parse() == Ok(user);
        of("Threads:")?.trim().parse::<usize>().ok().filter(|_| is_theirs)
    });
    counts.sum()
}

/// Waits until `done` is true, at most `PATIENCE`.
#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "still not: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a configuration next to its root directory, with one worker and any port. `{root}` stands
/// for the directory. A server started by root switches to an ordinary user, because root passes
/// every permission check.
pub(crate) fn write_config(dir: &Dir, text: &str) -> PathBuf {
    let mut whole = "listen = \"127.0.0.1:0\"\n".to_owned();
    if !text.contains("workers = ") {
        whole.push_str("workers = 1\n");
    }
    if geteuid().is_root() {
        whole.push_str("user = \"nobody\"\n");
    }
    whole.push_str(&text.replace("{root}", &dir.root().display().to_string()));
    let path = dir.path("../hurtle.toml");
    fs::write(&path, whole).unwrap();
    path
}

impl Child {
    /// Starts `hurtle DIR` with one worker and any port.
    #[track_caller]
    pub(crate) fn serve(dir: &Dir, arguments: &[&str]) -> Child {
        let mut command = hurtle();
        command.arg(dir.root()).args(["--listen", "127.0.0.1:0", "--workers", "1"]);
        Child::start(command.args(arguments))
    }

    /// Starts `hurtle --config` with a file of `write_config`.
    #[track_caller]
    pub(crate) fn configured(dir: &Dir, config: &str) -> Child {
        let path = write_config(dir, config);
        Child::start(hurtle().arg("--config").arg(path))
    }

    /// Starts the process and waits for its greeting.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Child {
        let mut child = Child::spawn(command);
        eventually("it says where it listens", || {
            child.address = address_in(&child.stdout());
            let ended = child.process.try_wait().unwrap();
            assert!(ended.is_none(), "it ended, {ended:?}: {}", child.stderr());
            child.address.is_some() || child.stdout().contains("  unix:")
        });
        child
    }

    pub(crate) fn spawn(command: &mut Command) -> Child {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let readers = vec![
            keep(process.stdout.take().unwrap(), Arc::clone(&stdout)),
            keep(process.stderr.take().unwrap(), Arc::clone(&stderr)),
        ];
        Child { process, address: None, stdout, stderr, readers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Address of its listener.
    #[track_caller]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("it listens on TCP")
    }

    #[track_caller]
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Opens a connection with a small receive buffer.
    #[track_caller]
    pub(crate) fn connect_narrow(&self) -> TcpStream {
        let domain = socket2::Domain::for_address(self.address());
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        socket.connect(&self.address().into()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.into()
    }

    /// Sends a GET on a new connection.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Response {
        self.connect().request("GET", target)
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Processor time used, in clock ticks of 10 ms.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = self.proc("stat");
        // Fields after the name in parentheses: state is the first, utime and stime the 12th and
        // 13th (proc(5)).
        let mut fields = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().skip(11);
        let mut ticks = || fields.next().unwrap().parse::<u64>().unwrap();
        ticks() + ticks()
    }

    /// `true` if every thread is sleeping.
    pub(crate) fn sleeps(&self) -> bool {
        self.threads_are('S')
    }

    /// `true` if every thread is in this state (proc_pid_stat(5)).
    pub(crate) fn threads_are(&self, state: char) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        // A thread may end between the two calls.
        let mut stats =
            tasks.filter_map(|t| fs::read_to_string(t.unwrap().path().join("stat")).ok());
        let state = format!(") {state}");
        stats.all(|stat| stat[stat.rfind(')').unwrap()..].starts_with(&state))
    }

    /// Targets of its open descriptors.
    pub(crate) fn descriptors(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        // A descriptor may be closed between the two calls.
        folder.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).collect()
    }

    /// `true` if it has a thread of this name.
    pub(crate) fn has_thread(&self, name: &str) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        // A thread may end between the two calls.
        let names =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.into_iter().any(|found| found.trim_end() == name)
    }

    /// Reads a file in its /proc directory.
    pub(crate) fn proc(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.process.id())).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Its status if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// Waits until it ends and its output is read.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = self.wait_for_process();
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        status
    }

    /// Waits until it ends, while another process may have its standard streams.
    #[track_caller]
    pub(crate) fn wait_for_process(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("it has ended", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Its standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// Its standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }
}

impl Child {
    /// A server that is killed leaves the directory for sockets of its applications.
    fn remove_sockets(&self) {
        let begin = format!("hurtle-{}-", self.id());
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&begin) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Child {
    #[allow(clippy::print_stdout, reason = "shown if the test fails")]
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.remove_sockets();
        if thread::panicking() {
            println!("standard error of process {}:\n{}", self.id(), self.stderr());
        }
    }
}

fn keep(from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).unwrap() > 0 {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}

fn address_in(stdout: &str) -> Option<SocketAddr> {
    stdout
        .lines()
        .filter_map(|line| line.trim().strip_prefix("http")?.split_once("://"))
        .find_map(|(_, address)| address.strip_suffix('/')?.parse().ok())
}
