//! The keeper process between the server and an application. It starts the application in a process
//! group of its own, adopts orphaned processes, and ends all of them when the application ends, on
//! the server's request, or when the server is gone. It notices the latter by a pipe on its
//! standard input, which ends with the server.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, geteuid, getrlimit, kill_process,
    kill_process_group, setrlimit, wait,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::sys;

/// Time between SIGTERM and SIGKILL for an application.
pub const GRACE: Duration = Duration::from_secs(5);

/// Interval of checks for remaining processes at the end.
const REAP_PERIOD: Duration = Duration::from_millis(5);

/// The last of the standard descriptors.
const STDERR: i32 = 2;

/// The application to keep and its limits.
#[derive(Debug)]
pub struct KeeperOptions {
    /// Path of the application's socket.
    pub socket: PathBuf,
    /// `true`: the listening socket becomes the application's standard input; `false`: the
    /// application binds it.
    pub stdin: bool,
    /// Open file descriptors of a process.
    pub open_files: u64,
    /// Address space of a process, in bytes.
    pub memory: Option<u64>,
    /// Processes and threads of its user.
    pub processes: Option<u64>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// State of the end of an application.
#[derive(Debug, Default)]
struct EndRequest {
    /// Time of the request to end, if there was one.
    begun: OnceLock<Instant>,
    /// `true`: the server is gone without a request.
    orphaned: AtomicBool,
    /// `true`: the first process is reaped, so its id may be reused.
    reaped: AtomicBool,
}

/// Starts an application and waits for its end. Returns its exit code, or 128 plus the signal.
///
/// # Errors
/// The application cannot be started.
pub fn run(options: &KeeperOptions) -> io::Result<u8> {
    close_inherited()?;
    if geteuid().is_root() {
        return Err(io::Error::other("no application is started as root"));
    }
    let adopts = sys::adopt_orphans().is_ok();
    let _ignoring = ignore_signals()?;
    let end = Arc::new(EndRequest::default());
    let stop_request = Arc::clone(&end);
    let (started, app) = mpsc::channel();
    // Before the limits, which may permit no thread, and before the application.
    thread::Builder::new().name("tie".to_owned()).spawn(move || {
        if let Ok(app) = app.recv() {
            end_with_server(app, &stop_request);
        }
    })?;
    limit(options)?;
    let app = start(options)?;
    // The thread waits for it.
    let _ = started.send(app);
    let status = wait_for(app);
    end.reaped.store(true, SeqCst);
    if !adopts {
        // Processes that left the group cannot be found without adoption.
        let _ = kill_process_group(app, Signal::KILL);
    }
    end_orphans(end.begun.get().map(|begun| *begun + GRACE));
    remove(&options.socket, end.orphaned.load(SeqCst));
    let signalled = status.and_then(WaitStatus::terminating_signal).map(|signal| 128 + signal);
    let code = signalled.or_else(|| status.and_then(WaitStatus::exit_status)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Closes descriptors that the server inherited, so that applications do not get them.
fn close_inherited() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > STDERR) {
        // The descriptor of the directory itself is already closed.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// Ignores the signals that would end this process, but for those that mean a fault of its own,
/// while the returned runtime lives. A service manager may signal every process of a service; the
/// keeper must then outlive the application, which is signalled too.
fn ignore_signals() -> io::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::alarm(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    for kind in kinds {
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(runtime)
}

/// Sets the limits that the application inherits.
fn limit(options: &KeeperOptions) -> io::Result<()> {
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Nofile, Some(options.open_files)),
        (sys::PROGRAM_MEMORY.0, options.memory),
        (Resource::Nproc, options.processes),
    ];
    for (resource, most) in limits {
        let Some(most) = most else { continue };
        // Only root may raise a limit.
        let most = getrlimit(resource).maximum.map_or(most, |before| before.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn start(options: &KeeperOptions) -> io::Result<Pid> {
    let stdin = match options.stdin {
        true => Stdio::from(OwnedFd::from(UnixListener::bind(&options.socket)?)),
        false => Stdio::null(),
    };
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(io::Error::other("there is no program"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(stdin).process_group(0);
    let child = command.spawn();
    let child = child.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", program.display())));
    child.map(|child| Pid::from_child(&child))
}

/// Waits for the end of the server or its request, then ends the application.
fn end_with_server(app: Pid, end: &EndRequest) {
    let mut message = Vec::new();
    // A read error also means that the server is gone.
    let _ = io::stdin().read_to_end(&mut message);
    end.orphaned.store(message.is_empty(), SeqCst);
    let _ = end.begun.set(Instant::now());
    if !end.reaped.load(SeqCst) {
        let _ = kill_process_group(app, Signal::TERM);
        thread::sleep(GRACE);
    }
    if !end.reaped.load(SeqCst) {
        let _ = kill_process_group(app, Signal::KILL);
    }
}

/// Waits for the application's first process and reaps others meanwhile.
fn wait_for(app: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == app => return Some(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Ends the processes that the first one left behind: at once, or at `by` after a request to end.
fn end_orphans(by: Option<Instant>) {
    let signal_all = |signal| {
        for pid in sys::children().unwrap_or_default() {
            let _ = kill_process(pid, signal);
        }
    };
    if by.is_some() {
        signal_all(Signal::TERM);
    }
    loop {
        if by.is_none_or(|by| Instant::now() >= by) {
            signal_all(Signal::KILL);
        }
        // Children of an ended process are adopted, so in the end there are none.
        match wait(WaitOptions::NOHANG) {
            Ok(None) => thread::sleep(REAP_PERIOD),
            Err(Errno::CHILD) => return,
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

/// Removes the socket and its directory. If the server is gone, also removes the parent directory
/// unless it holds other sockets.
fn remove(socket: &Path, orphaned: bool) {
    let _ = fs::remove_file(socket);
    let dirs = socket.ancestors().skip(1).take(if orphaned { 2 } else { 1 });
    let _ = dirs.map(fs::remove_dir).take_while(Result::is_ok).count();
}
