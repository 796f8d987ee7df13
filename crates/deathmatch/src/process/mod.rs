//! A server's processes: started in the foreground on given processors, awaited until they answer,
//! found, and ended so that none remains, however this program ends.
//!
//! `contender` chooses the command; `verify` checks the responses.

mod guard;
mod log;
mod session;

pub use session::pids;

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};

use guard::Guard;

use crate::tls::{Stream, Trust};

/// Interval at which a starting or stopping server is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Timeout of one check for readiness.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time the kernel may take to end killed processes.
const KILL_WITHIN: Duration = Duration::from_secs(5);
/// Time the kernel may take to close the sockets of ended processes.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Descriptors a server may open: more than any step of the ladder needs, and few enough for
/// servers that allocate a table of them (Erlang).
const DESCRIPTORS_MAX: u64 = 65_536;

/// Everything needed to start a server.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The contender's name, for messages.
    pub name: String,
    /// Its upstream, which starts before it and runs as long.
    pub upstream: Option<Box<Launch>>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment variables, in addition to this program's own.
    pub env: Vec<(String, String)>,
    /// Directory in which it is started.
    pub dir: PathBuf,
    /// Its own folder, with its log.
    pub work: PathBuf,
    /// Logs it writes in addition to its standard output and error.
    pub logs: Vec<PathBuf>,
    /// The processors it may use.
    pub cores: Vec<usize>,
    /// Address it will listen on.
    pub addr: SocketAddr,
    /// The certificate of a TLS server.
    pub trust: Option<Trust>,
    /// The path of a file, with `{FILE}` for its name.
    pub url: String,
    /// The path of an upload, likewise; `None` if it takes none.
    pub uploads: Option<String>,
    /// A file that it answers with 200 once it is ready.
    pub ready_file: String,
    /// Time it may take to become ready.
    pub ready_within: Duration,
    /// Signal that makes its first process reload its configuration; `None` if it cannot.
    pub reload_signal: Option<Signal>,
    /// Signal that stops its first process.
    pub stop_signal: Signal,
    /// `true` if its other processes get that signal too.
    pub stops_all: bool,
    /// Time it may take to stop before it is killed.
    pub stop_within: Duration,
}

/// A way to make a running server reload its configuration.
#[derive(Clone, Copy, Debug)]
pub struct Reload {
    pid: u32,
    signal: Signal,
}

impl Reload {
    /// Asks for a reload, and returns at once.
    pub fn send(&self) {
        signal(self.pid, self.signal);
    }
}

/// Reason for which a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Another process listens there.
    PortTaken(SocketAddr, io::Error),
    /// The program or something needed to run it could not be started.
    NotStarted(String, io::Error),
    /// It ended before its first response.
    Died(String, ExitStatus, String),
    /// It did not answer in time; with the last response and the log's end.
    NotReady(String, Duration, String, String),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::PortTaken(addr, e) => {
                write!(
                    f,
                    "cannot listen on {addr} ({e}): stop the process there, or choose another port"
                )
            }
            StartError::NotStarted(what, e) => write!(f, "{what} could not be started: {e}"),
            StartError::Died(name, status, log) => {
                write!(f, "{name} ended before it answered ({status}); its log ends:\n{log}")
            }
            StartError::NotReady(name, within, last, log) => {
                write!(f, "{name} did not answer within {within:?} ({last}); its log ends:\n{log}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// A server that answers. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    launch: Launch,
    child: Child,
    guard: Option<Guard>,
    /// The server behind this one, which is killed after it.
    upstream: Option<Box<Running>>,
}

impl Launch {
    /// Starts it, and returns once it answers. Waits up to a second for its port.
    pub fn start(&self) -> Result<Running, StartError> {
        let upstream = self.upstream.as_ref().map(|launch| launch.start()).transpose()?;
        self.wait_for_port()?;
        let mut guard =
            Guard::start().map_err(|e| StartError::NotStarted("the guard (sh)".to_owned(), e))?;
        let child = self
            .command()
            .and_then(|mut command| command.spawn())
            .map_err(|e| StartError::NotStarted(self.command.join(" "), e))?;
        let guarded = guard.watch(child.id());
        let mut running = Running {
            launch: self.clone(),
            child,
            guard: Some(guard),
            upstream: upstream.map(Box::new),
        };
        guarded.map_err(|e| StartError::NotStarted("the guard (sh)".to_owned(), e))?;
        running.wait_until_ready()?;
        Ok(running)
    }

    /// Waits until no socket listens on its port. The kernel closes those of a ring (io_uring) some
    /// milliseconds after their process has ended.
    fn wait_for_port(&self) -> Result<(), StartError> {
        let deadline = Instant::now() + CLOSE_WITHIN;
        loop {
            // This bind does not set SO_REUSEPORT, which would let two servers share a port
            // unnoticed.
            match TcpListener::bind(self.addr) {
                Ok(_) => return Ok(()),
                Err(e) if Instant::now() >= deadline => {
                    return Err(StartError::PortTaken(self.addr, e));
                }
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// The command line, for the report; the upstream's on a line before it.
    pub fn shown(&self) -> String {
        let upstream = self.upstream.as_ref().map(|launch| format!("{} &\n$ ", launch.shown()));
        let env = self.env.iter().map(|(name, value)| format!("{name}={value} "));
        upstream.unwrap_or_default() + &env.collect::<String>() + &self.command.join(" ")
    }

    /// Runs in a session of its own, so that all its processes can be found and a Ctrl-C at the
    /// terminal does not reach them. Each of util-linux's tools replaces itself by the next, so the
    /// child is the server itself.
    fn command(&self) -> io::Result<Command> {
        let log = OpenOptions::new().create(true).append(true).open(log::own(&self.work))?;
        let cores: Vec<String> = self.cores.iter().map(usize::to_string).collect();
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(DESCRIPTORS_MAX);
        let descriptors = hard.min(DESCRIPTORS_MAX);
        let mut command = Command::new("setsid");
        command.arg("prlimit").arg(format!("--nofile={descriptors}:{descriptors}"));
        if !cores.is_empty() {
            command.arg("taskset").arg("--cpu-list").arg(cores.join(","));
        }
        command
            .args(&self.command)
            .envs(self.env.iter().cloned())
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
}

impl Running {
    /// All its processes, without threads and without those of its upstream.
    pub fn pids(&self) -> Vec<u32> {
        pids(self.child.id())
    }

    /// The processes of its upstream.
    pub fn upstream_pids(&self) -> Vec<u32> {
        self.upstream.as_ref().map_or(Vec::new(), |upstream| upstream.pids())
    }

    /// The address of its upstream.
    pub fn upstream_addr(&self) -> Option<SocketAddr> {
        self.upstream.as_ref().map(|upstream| upstream.addr())
    }

    /// Address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.launch.addr
    }

    /// The certificate of a TLS server.
    pub fn trust(&self) -> Option<&Trust> {
        self.launch.trust.as_ref()
    }

    /// The URL path of a file in the docroot.
    pub fn url_path(&self, file: &str) -> String {
        self.launch.url.replace("{FILE}", file)
    }

    /// The path of uploads of this name; `None` if it takes none.
    pub fn upload_path(&self, file: &str) -> Option<String> {
        self.launch.uploads.as_ref().map(|path| path.replace("{FILE}", file))
    }

    /// `true` if its first process and that of its upstream still run.
    pub fn is_alive(&mut self) -> bool {
        let upstream = self.upstream.as_mut().is_none_or(|upstream| upstream.is_alive());
        upstream && matches!(self.child.try_wait(), Ok(None))
    }

    /// The way to reload its configuration; `None` if it cannot. It is valid while this server
    /// runs.
    pub fn reload(&self) -> Option<Reload> {
        self.launch.reload_signal.map(|signal| Reload { pid: self.child.id(), signal })
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        log::tail(&self.launch.work, &self.launch.logs)
    }

    /// Asks it to stop, kills it if it does not, and returns when all its processes have ended.
    pub fn stop(mut self) -> io::Result<()> {
        let others = self.pids().into_iter().filter(|_| self.launch.stops_all);
        let all = others.filter(|pid| *pid != self.child.id()).chain([self.child.id()]);
        all.for_each(|pid| signal(pid, self.launch.stop_signal));
        if self.is_gone_within(self.launch.stop_within) || self.kill() {
            return Ok(());
        }
        let left = self.pids();
        let text = format!("{}: killed, yet its processes {left:?} stay", self.launch.name);
        Err(io::Error::other(text))
    }

    fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let name = self.launch.name.clone();
        let deadline = Instant::now() + self.launch.ready_within;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(StartError::Died(name, status, self.log_tail()));
            }
            let path = self.url_path(&self.launch.ready_file);
            let last = match ask(self.launch.addr, self.trust(), &path) {
                Ok(status_line) if is_ok(&status_line) => return Ok(()),
                Ok(status_line) => format!("it answered `{status_line}` to {path}"),
                Err(e) => format!("asked for {path}: {e}"),
            };
            if Instant::now() >= deadline {
                let within = self.launch.ready_within;
                return Err(StartError::NotReady(name, within, last, self.log_tail()));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn is_gone_within(&mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            let reaped = matches!(self.child.try_wait(), Ok(Some(_)));
            if reaped && self.pids().is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills all its processes; `true` once they are gone.
    fn kill(&mut self) -> bool {
        let deadline = Instant::now() + KILL_WITHIN;
        // Repeated, since a process may have been starting another.
        while Instant::now() < deadline {
            for pid in self.pids() {
                signal(pid, Signal::KILL);
            }
            if self.is_gone_within(LOOK_EVERY) {
                return true;
            }
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let gone = matches!(self.child.try_wait(), Ok(Some(_))) && self.pids().is_empty();
        if (gone || self.kill())
            && let Some(guard) = self.guard.take()
        {
            guard.dismiss();
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// Requests a path on a connection of its own; returns the response's status line.
fn ask(addr: SocketAddr, trust: Option<&Trust>, path: &str) -> io::Result<String> {
    let mut stream = Stream::connect(addr, trust, ASK_TIMEOUT)?;
    // Closing with a reset leaves the server's port free: one without SO_REUSEADDR could not be
    // started again for a minute.
    socket2::SockRef::from(stream.socket()).set_linger(Some(Duration::ZERO))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut head = Vec::new();
    let mut piece = [0; 512];
    while !head.contains(&b'\n') && head.len() < 8 * piece.len() {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => head.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let line = head.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn is_ok(status_line: &str) -> bool {
    status_line.starts_with("HTTP/1.") && status_line.split(' ').nth(1) == Some("200")
}
