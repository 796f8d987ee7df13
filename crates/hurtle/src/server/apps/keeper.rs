//! The process between the server and an application, so that nothing of it outlives either: it
//! starts the application in a group of its own, adopts whatever that leaves behind, and ends all
//! of it when the application ends, when it is told to, or when the server is gone, however it
//! went: a pipe on its standard input ends with the server.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, geteuid, getrlimit, kill_process,
    kill_process_group, setrlimit, wait,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::sys;

/// How long an application that was told to end (SIGTERM) may take, before it is killed.
pub const GRACE: Duration = Duration::from_secs(5);

/// How often it is asked whether anybody is left, at the end.
const REAP_PERIOD: Duration = Duration::from_millis(5);

/// Descriptors that a program is started with.
const STANDARD: i32 = 2;

/// What is kept, and how.
#[derive(Debug)]
pub struct Kept {
    /// Where it listens.
    pub socket: PathBuf,
    /// A socket that listens there is its standard input; else it makes one itself.
    pub stdin: bool,
    /// Limits: the descriptors of a process,
    pub open_files: u64,
    /// its bytes of address space,
    pub memory: Option<u64>,
    /// and what its user may have of processes and threads.
    pub processes: Option<u64>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// How the end was asked for.
#[derive(Debug, Default)]
struct End {
    /// When, if it was.
    begun: OnceLock<Instant>,
    /// Nobody asked: the server is gone.
    orphaned: AtomicBool,
    /// The application's first process is gone, and its number free for another.
    reaped: AtomicBool,
}

/// Starts an application, and keeps it to its end; its exit code, or 128 and the signal.
///
/// # Errors
/// Why it cannot be started.
pub fn keep(kept: &Kept) -> io::Result<u8> {
    close_inherited()?;
    if geteuid().is_root() {
        return Err(io::Error::other("no application is started as root"));
    }
    let adopts = sys::adopt_orphans().is_ok();
    let _deaf = outlive_signals()?;
    limit(kept)?;
    let app = start(kept)?;
    let end = Arc::new(End::default());
    let told = Arc::clone(&end);
    thread::Builder::new().name("tie".to_owned()).spawn(move || end_with_server(app, &told))?;
    let status = wait_for(app);
    end.reaped.store(true, SeqCst);
    if !adopts {
        // What has left the group is beyond reach.
        let _ = kill_process_group(app, Signal::KILL);
    }
    end_rest(end.begun.get().map(|begun| *begun + GRACE));
    remove(&kept.socket, end.orphaned.load(SeqCst));
    let signalled = status.and_then(WaitStatus::terminating_signal).map(|signal| 128 + signal);
    let code = signalled.or_else(|| status.and_then(WaitStatus::exit_status)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Closes what whoever started the server has left open: it is not meant for applications.
fn close_inherited() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > STANDARD) {
        // The directory that was read is among them, and closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// A service manager that signals every process of a service would end this one before what it
/// keeps. It ends with the application, which is signalled too. As long as what is returned.
fn outlive_signals() -> io::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(runtime)
}

/// Sets the limits, which the application inherits.
fn limit(kept: &Kept) -> io::Result<()> {
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Nofile, Some(kept.open_files)),
        (Resource::As, kept.memory),
        (Resource::Nproc, kept.processes),
    ];
    for (resource, most) in limits {
        let Some(most) = most else { continue };
        // Nobody but root may have more than before.
        let most = getrlimit(resource).maximum.map_or(most, |before| before.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn start(kept: &Kept) -> io::Result<Pid> {
    let stdin = match kept.stdin {
        true => Stdio::from(OwnedFd::from(UnixListener::bind(&kept.socket)?)),
        false => Stdio::null(),
    };
    let Some((program, arguments)) = kept.command.split_first() else {
        return Err(io::Error::other("there is no program"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(stdin).process_group(0);
    let child = command.spawn();
    let child = child.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", program.display())));
    child.map(|child| Pid::from_child(&child))
}

/// Waits until the server is gone or wants the application gone, and ends it.
fn end_with_server(app: Pid, end: &End) {
    let mut said = Vec::new();
    // An error is an end as good as any.
    let _ = io::stdin().read_to_end(&mut said);
    end.orphaned.store(said.is_empty(), SeqCst);
    let _ = end.begun.set(Instant::now());
    if !end.reaped.load(SeqCst) {
        let _ = kill_process_group(app, Signal::TERM);
        thread::sleep(GRACE);
    }
    if !end.reaped.load(SeqCst) {
        let _ = kill_process_group(app, Signal::KILL);
    }
}

/// Waits for the application's first process, and buries others on the way.
fn wait_for(app: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == app => return Some(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Ends what the first process has left behind: now, or, where the end was asked for, once the time
/// is over that was given.
fn end_rest(by: Option<Instant>) {
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
        // Those of a process that has ended are this one's from then on: in the end there are none.
        match wait(WaitOptions::NOHANG) {
            Ok(None) => thread::sleep(REAP_PERIOD),
            Err(Errno::CHILD) => return,
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

/// Removes the socket with its directory and, where no server is left to do it, the one that this is
/// in, unless there are others in it still.
fn remove(socket: &Path, orphaned: bool) {
    let _ = fs::remove_file(socket);
    let dirs = socket.ancestors().skip(1).take(if orphaned { 2 } else { 1 });
    let _ = dirs.map(fs::remove_dir).take_while(Result::is_ok).count();
}
