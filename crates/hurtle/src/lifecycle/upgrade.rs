//! The upgrade of the binary: starts the program anew, hands over to it, and waits until it accepts
//! connections. With any failure it is ended, and this process serves on. `handover` is what the
//! two processes say to each other, and `process` decides when to stop accepting.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::handover::{Handover, READY, VARIABLE};
use super::starter::Starter;
use super::supervisor;
use crate::monitoring::admin::READY_TIME_MAX;

/// Longest wait for the exit status of a process that has closed its end.
const EXIT_TIME_MAX: Duration = Duration::from_secs(5);

/// Interval of checks for the exit status.
const EXIT_PERIOD: Duration = Duration::from_millis(10);

/// Longest wait for the last messages of an ended process.
const MESSAGES_TIME_MAX: Duration = Duration::from_millis(500);

/// Bytes of the new process's messages that are kept for the operator.
const MESSAGES_BYTES_MAX: usize = 16 << 10;

/// Variables that the service manager sets for one process only (sd_listen_fds(3)).
pub(super) const OF_THIS_PROCESS: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// The program of this process, as it was started.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Path by which the program was found; symbolic links are followed at each start.
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

/// Starts the new process.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    pub(super) program: Program,
    /// `None`: by this process.
    pub(super) starter: Option<Arc<Starter>>,
    /// `true`: this process gives up root, and the new one begins as root.
    pub(super) regains_root: bool,
}

/// A process that has been started.
#[derive(Debug)]
enum Launched {
    Here(Child),
    ByStarter(u32, Arc<Starter>),
}

impl Launcher {
    /// Tells a supervisor that this process accepts connections.
    pub(super) fn tell_serving(&self) {
        if let (true, Some(supervisor)) = (supervisor::is_supervised(), &self.starter) {
            supervisor.tell_serving();
        }
    }

    /// Starts the program with a socket as its standard input, and a pipe as its standard error.
    fn start(&self, theirs: UnixStream, stderr: PipeWriter) -> io::Result<Launched> {
        if let Some(starter) = &self.starter {
            let id = starter.start(&theirs, &stderr)?;
            return Ok(Launched::ByStarter(id, Arc::clone(starter)));
        }
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments).env(VARIABLE, "1");
        for name in OF_THIS_PROCESS {
            command.env_remove(name);
        }
        let stdin = Stdio::from(OwnedFd::from(theirs));
        Ok(Launched::Here(command.stdin(stdin).stderr(stderr).spawn()?))
    }
}

impl Launched {
    fn id(&self) -> u32 {
        match self {
            Launched::Here(child) => child.id(),
            Launched::ByStarter(id, _) => *id,
        }
    }

    /// Waits until the process has ended, for at most `time`; returns its exit status.
    fn wait(&mut self, time: Duration) -> Option<String> {
        let child = match self {
            Launched::Here(child) => child,
            Launched::ByStarter(_, starter) => return starter.wait(time).ok(),
        };
        let by = Instant::now() + time;
        loop {
            let status = child.try_wait().ok().flatten();
            if status.is_some() || Instant::now() >= by {
                return status.map(|status| status.to_string());
            }
            thread::sleep(EXIT_PERIOD);
        }
    }

    fn kill(&mut self) {
        match self {
            // An error means that it has ended.
            Launched::Here(child) => drop(child.kill().and_then(|()| child.wait())),
            Launched::ByStarter(_, starter) => {
                starter.kill();
                // A starter that has ended cannot tell.
                let _ = starter.wait(EXIT_TIME_MAX);
            }
        }
    }
}

/// An upgrade under way.
#[derive(Debug)]
pub(super) struct Upgrade {
    /// Id of the new process, or the problems, one line each.
    pub(super) outcome: JoinHandle<Result<u32, Vec<String>>>,
    channel: UnixStream,
    cancelled: Arc<AtomicBool>,
}

impl Program {
    /// The program of this process. Call it at the start, because later the file may be another
    /// one. Without /proc, the first program of that name in the search path is taken for it.
    pub(super) fn current() -> Program {
        let mut arguments = env::args_os();
        let name = arguments.next().unwrap_or_default();
        let running = env::current_exe().ok();
        let is_running = |path: &PathBuf| {
            running.as_ref().map_or_else(|| path.is_file(), |running| is_same_file(path, running))
        };
        let found = candidates(Path::new(&name)).find(is_running);
        let path = found.or_else(|| running.clone()).unwrap_or_else(|| name.into());
        Program { path, arguments: arguments.collect() }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// The paths at which a program of this name may be: as execvp(3) finds it.
fn candidates(name: &Path) -> impl Iterator<Item = PathBuf> {
    let in_path = name.components().count() == 1 && !name.is_absolute();
    let dirs = env::var_os("PATH").filter(|_| in_path).unwrap_or_default();
    let found: Vec<_> = env::split_paths(&dirs).map(|dir| dir.join(name)).collect();
    let named = (!in_path).then(|| name.to_owned());
    found.into_iter().chain(named).filter_map(|path| absolute(path).ok())
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    let file = |path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    file(a).is_ok_and(|a| file(b).is_ok_and(|b| a == b))
}

impl Upgrade {
    /// Starts the new process, on a thread that may block.
    ///
    /// # Errors
    /// The system refuses a pair of sockets.
    pub(super) fn begin(launcher: Launcher, handover: Handover) -> io::Result<Upgrade> {
        let (channel, theirs) = UnixStream::pair()?;
        let ours = channel.try_clone()?;
        let cancelled = Arc::<AtomicBool>::default();
        let is_cancelled = Arc::clone(&cancelled);
        let run = move || replace(&launcher, &handover, &ours, theirs, &is_cancelled);
        Ok(Upgrade { outcome: tokio::task::spawn_blocking(run), channel, cancelled })
    }

    /// Has the new process ended; `outcome` then fails.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
        // An error means that it has ended.
        let _ = self.channel.shutdown(Shutdown::Both);
    }
}

/// Starts the program and hands over; returns the id of the process once it accepts connections.
fn replace(
    launcher: &Launcher,
    handover: &Handover,
    channel: &UnixStream,
    theirs: UnixStream,
    cancelled: &AtomicBool,
) -> Result<u32, Vec<String>> {
    let program = &launcher.program;
    let started = start(launcher, theirs);
    let (mut new, messages) = started.map_err(|e| vec![format!("cannot start {program}: {e}")])?;
    let sent = |sockets| tracing::info!("handed {sockets} sockets to process {}", new.id());
    let answered = wait_until_ready(handover, channel, sent);
    let answered = answered.and_then(|()| check_alive(channel));
    let Err(mut why) = answered else { return Ok(new.id()) };
    if cancelled.load(SeqCst) {
        why = NotReadyError::Cancelled;
    }
    let mut problems = vec![format!("{program}: {}", end(&mut new, &why))];
    if let Ok(text) = messages.recv_timeout(MESSAGES_TIME_MAX) {
        problems.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    Err(problems)
}

/// Starts the program, and collects its messages.
fn start(launcher: &Launcher, theirs: UnixStream) -> io::Result<(Launched, Receiver<String>)> {
    let (messages, writer) = io::pipe()?;
    let launched = launcher.start(theirs, writer)?;
    let (collected, messages_of) = mpsc::channel();
    thread::Builder::new().name("upgrade".to_owned()).spawn(move || {
        // The upgrade may be over already.
        let _ = collected.send(relay(messages));
    })?;
    Ok((launched, messages_of))
}

/// Copies a process's messages to standard error until it closes its end; returns the first ones.
fn relay(mut messages: PipeReader) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4 << 10]);
    while let Ok(n @ 1..) = messages.read(&mut piece) {
        let piece = piece.get(..n).unwrap_or_default();
        // A failure to write to standard error cannot be reported.
        let _ = io::stderr().write_all(piece);
        let room = MESSAGES_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..n.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Why a new process is not ready.
#[derive(Debug)]
enum NotReadyError {
    /// It has closed its end.
    Closed,
    /// It has ended after it was ready.
    Ended,
    Late,
    /// This process is stopping.
    Cancelled,
    /// An error of the system.
    System(io::Error),
}

impl From<io::Error> for NotReadyError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => NotReadyError::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => NotReadyError::Late,
            _ => NotReadyError::System(e),
        }
    }
}

/// Hands over, then waits for the new process. `sent` gets the number of sockets.
fn wait_until_ready(
    handover: &Handover,
    mut channel: &UnixStream,
    sent: impl FnOnce(usize),
) -> Result<(), NotReadyError> {
    let end = Instant::now() + READY_TIME_MAX;
    channel.set_write_timeout(Some(READY_TIME_MAX))?;
    handover.send(channel)?;
    sent(handover.sockets());
    let mut answer = Vec::new();
    while answer.len() < READY.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NotReadyError::Late);
        }
        channel.set_read_timeout(Some(left))?;
        let mut byte = [0];
        match channel.read(&mut byte) {
            Ok(0) => return Err(NotReadyError::Closed),
            Ok(_) => answer.extend_from_slice(&byte),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    match answer == READY {
        true => Ok(()),
        false => Err(NotReadyError::System(io::Error::other("it is no hurtle"))),
    }
}

/// Checks that a process that was ready has not ended since: it keeps its end of the channel open.
fn check_alive(mut channel: &UnixStream) -> Result<(), NotReadyError> {
    channel.set_nonblocking(true)?;
    match channel.read(&mut [0]) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(NotReadyError::Ended),
    }
}

/// Ends a process that is not ready; returns why it is not.
fn end(new: &mut Launched, why: &NotReadyError) -> String {
    let has_closed = matches!(why, NotReadyError::Closed | NotReadyError::Ended);
    let status = has_closed.then(|| new.wait(EXIT_TIME_MAX)).flatten();
    if status.is_none() {
        new.kill();
    }
    match (why, status) {
        (NotReadyError::Ended, Some(status)) => format!("the new process has ended ({status})"),
        (NotReadyError::Ended, None) => "the new process has ended".to_owned(),
        (_, Some(status)) => format!("the new process has ended before it was ready ({status})"),
        (NotReadyError::Closed, None) => "the new process did not take over".to_owned(),
        (NotReadyError::Late, None) => {
            format!("the new process is not ready after {} s", READY_TIME_MAX.as_secs())
        }
        (NotReadyError::Cancelled, None) => "the server is stopping".to_owned(),
        (NotReadyError::System(e), None) => format!("cannot hand over to the new process: {e}"),
    }
}
