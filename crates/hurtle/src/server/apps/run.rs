//! One life of an application's processes, seen from the server: a keeper is started, told by a
//! pipe when to end them, and waited for; what they say is logged.

use std::io::{self, PipeReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use nix::unistd::User;
use rustix::process::geteuid;

use super::{Event, output};
use crate::config::{SocketBy, Start};

/// Where programs are looked for.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Processes of an application, which end when this is dropped.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) serial: u64,
    /// Its end is what the keeper waits for.
    tie: Option<ChildStdin>,
}

/// A user to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Whom an application is started as; `None`: the server's own user.
///
/// # Errors
/// Why it cannot be.
pub(super) fn account(start: &Start) -> Result<Option<Account>, String> {
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
        _ => Err(format!("only a server that is root can start it as {name}")),
    }
}

impl Run {
    /// Starts it, in its directory, with a socket there; `start`: what, and where it is mounted. Its
    /// end is told.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(
        name: &str,
        serial: u64,
        start: (&Start, &str),
        dir: &Path,
        socket: &Path,
        account: Option<Account>,
        events: &Sender<Event>,
    ) -> io::Result<Run> {
        let (said, says) = io::pipe()?;
        let (start, mount) = start;
        let mut command = Command::new(own_program()?);
        command.arg("keep-app").arg("--socket").arg(socket);
        if start.socket == SocketBy::Stdin {
            command.arg("--stdin");
        }
        command.args(["--open-files", &start.open_files.to_string()]);
        for (limit, value) in [("--memory", start.memory), ("--processes", start.processes)] {
            if let Some(value) = value {
                command.args([limit, &value.to_string()]);
            }
        }
        command.arg("--").args(&start.command).current_dir(dir);
        // What the keeper has, the application has.
        command.env_clear().env("PATH", PATH).envs(start.env.iter().cloned());
        command.env("HURTLE_PATH", mount).env("HURTLE_APP", name);
        if start.socket == SocketBy::Path {
            command.env("HURTLE_SOCKET", socket);
        }
        if let Some(Account { uid, gid }) = account {
            // Root's other groups are given up with it.
            command.uid(uid).gid(gid);
        }
        // A terminal's Ctrl-C is for the server.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(says.try_clone()?).stderr(says);
        let mut keeper = command.spawn()?;
        // It holds the pipe's other end, which is to end with the application.
        drop(command);
        let tie = keeper.stdin.take();
        let (name, events) = (name.to_owned(), events.clone());
        let life = move || watch(&name, serial, keeper, said, &events);
        thread::Builder::new().name("app-log".to_owned()).spawn(life)?;
        Ok(Run { serial, tie })
    }

    /// Tells it to end; its number.
    pub(super) fn end(mut self) -> u64 {
        // A word is what tells a server that wants it from one that is gone.
        let _ = self.tie.take().map(|mut tie| tie.write_all(b"end"));
        self.serial
    }
}

/// Logs what the processes say until all of them are gone.
fn watch(name: &str, serial: u64, mut keeper: Child, said: PipeReader, events: &Sender<Event>) {
    let read = output::lines(said, |line| tracing::info!("app {name}: {line}"));
    if let Err(e) = read {
        tracing::warn!("app {name}: what it says is lost: {e}");
    }
    let how = keeper.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
    // Nobody listens once the server stops.
    let _ = events.send(Event::Ended(serial, how));
}

/// This program: as it runs, where the system can say that, since its file may be another by now.
fn own_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}
