//! One run of an application's processes: starts a keeper, asks it to end by a pipe, waits for it,
//! and logs the processes' output.

use std::io::{self, PipeReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;

use nix::unistd::User;
use rustix::process::geteuid;

use super::{Event, output};
use crate::config::{AppCommand, SocketPassing};

/// Search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A run of an application's processes; they end when it is dropped.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) serial: u64,
    /// Pipe to the keeper, which ends the application when the pipe ends.
    tie: Option<ChildStdin>,
}

/// A user to switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The user that runs an application; `None`: the server's own user.
///
/// # Errors
/// The user is missing or not allowed.
pub(super) fn account(start: &AppCommand) -> Result<Option<Account>, String> {
    let own = geteuid();
    let Some(name) = &start.user else {
        return match own.is_root() {
            true => Err("no application is started as root: write user = in its manifest, or in \
                         the server's configuration"
                .to_owned()),
            false => Ok(None),
        };
    };
    let user = User::from_name(name).map_err(|e| format!("the user {name}: {e}"))?;
    let user = user.ok_or_else(|| format!("there is no user {name}"))?;
    match (user.uid.as_raw(), own.as_raw()) {
        (0, _) => Err("no application is started as root".to_owned()),
        (uid, own) if uid == own => Ok(None),
        (uid, 0) => Ok(Some(Account { uid, gid: user.gid.as_raw() })),
        _ => Err(format!("only a server that runs as root can start it as {name}")),
    }
}

/// The paths of an application that its processes get.
pub(super) struct RunPaths<'a> {
    /// The path of the mount.
    pub(super) mount: &'a str,
    pub(super) dir: &'a Path,
    pub(super) socket: &'a Path,
}

impl Run {
    /// Starts a run in the application's directory. `events` gets [`Event::Ended`].
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn start(
        name: &str,
        serial: u64,
        start: &AppCommand,
        paths: &RunPaths<'_>,
        account: Option<Account>,
        events: &Sender<Event>,
    ) -> io::Result<Run> {
        let (output, output_writer) = io::pipe()?;
        let RunPaths { mount, dir, socket } = *paths;
        let mut command = Command::new(own_program()?);
        command.arg("keep-app").arg("--socket").arg(socket);
        if start.socket == SocketPassing::Stdin {
            command.arg("--stdin");
        }
        command.args(["--open-files", &start.open_files.to_string()]);
        for (limit, value) in [("--memory", start.memory), ("--processes", start.processes)] {
            if let Some(value) = value {
                command.args([limit, &value.to_string()]);
            }
        }
        command.arg("--").args(&start.command).current_dir(dir);
        // The application inherits the keeper's environment.
        command.env_clear().env("PATH", PATH).envs(start.env.iter().cloned());
        command.env("HURTLE_PATH", mount).env("HURTLE_APP", name);
        if start.socket == SocketPassing::Path {
            command.env("HURTLE_SOCKET", socket);
        }
        if let Some(Account { uid, gid }) = account {
            // Setting the uid also drops root's supplementary groups.
            command.uid(uid).gid(gid);
        }
        // Keeps a terminal's Ctrl-C away from the application.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(output_writer.try_clone()?).stderr(output_writer);
        let (name, events) = (name.to_owned(), events.clone());
        let (started, keeper) = mpsc::channel();
        // Before the keeper, which would be lost if the system refused the thread.
        thread::Builder::new().name("app-log".to_owned()).spawn(move || {
            if let Ok(keeper) = keeper.recv() {
                watch(&name, serial, keeper, output, &events);
            }
        })?;
        let mut keeper = command.spawn()?;
        // `command` holds the write end of the pipe, which must end with the application.
        drop(command);
        let tie = keeper.stdin.take();
        // The thread waits for it.
        let _ = started.send(keeper);
        Ok(Run { serial, tie })
    }

    /// Asks the processes to end; returns the run's number.
    pub(super) fn end(mut self) -> u64 {
        // The keeper takes the end of the pipe for the end of the server. This message differs from
        // it.
        let _ = self.tie.take().map(|mut tie| tie.write_all(b"end"));
        self.serial
    }
}

/// Logs the processes' output until all of them have ended.
fn watch(name: &str, serial: u64, mut keeper: Child, output: PipeReader, events: &Sender<Event>) {
    let read = output::lines(output, |line| tracing::info!("app {name}: {line}"));
    if let Err(e) = read {
        tracing::warn!("app {name}: its output is lost: {e}");
    }
    let how = keeper.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
    // An error means that the server is stopping.
    let _ = events.send(Event::Ended(serial, how));
}

/// Path of this program: the running one where the system knows it, because the file may be
/// replaced.
fn own_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}
