//! A process outside of the sandbox that starts the program anew for an upgrade, because what a
//! confined process starts is confined too. It does nothing else, and ends with the server. The
//! two talk over a pair of unix sockets that is the standard input of the starter.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use tokio::signal::unix::{SignalKind, signal};

use super::handover::VARIABLE;
use super::upgrade::{OF_THIS_PROCESS, Program};
use crate::sockets::descriptors::{receive_descriptor, send_descriptor, take_stdin};

/// Longest wait for the starter.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Interval of the starter's checks for the end of a new process.
const PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Longest line of the starter, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;

/// The command of the server that ends a new process.
pub(super) const KILL: u8 = b'k';

/// The message of a helper to its server that it handles signals.
const READY: u8 = b'r';

/// The message of a server to its supervisor that it accepts connections.
pub(super) const SERVES: u8 = b's';

/// The server's end of the socket to a starter or a supervisor.
#[derive(Debug)]
pub(super) struct Starter(UnixStream);

impl Starter {
    pub(super) fn new(channel: UnixStream) -> Starter {
        Starter(channel)
    }

    /// The supervisor, whose channel is the standard input of the first server. A later one gets
    /// the channel from the server before.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of_supervisor() -> io::Result<Option<Starter>> {
        if std::env::var_os(VARIABLE).is_some() {
            return Ok(None);
        }
        let channel = take_stdin()?;
        let limited = |channel: &UnixStream| channel.set_read_timeout(Some(ANSWER_TIME_MAX));
        channel.as_ref().map(limited).transpose()?;
        Ok(channel.map(Starter))
    }

    /// Tells the supervisor that this server accepts connections.
    pub(super) fn tell_serving(&self) {
        // An error means that the supervisor has ended, and this process with it.
        let _ = (&self.0).write_all(&[SERVES]);
    }

    /// Duplicates the channel.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn channel(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Starts the process, which will start `program`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn spawn(program: &Program) -> io::Result<Starter> {
        let (channel, theirs) = UnixStream::pair()?;
        let mut command =
            Command::new(std::env::current_exe().unwrap_or_else(|_| program.path.clone()));
        command.arg("start-upgrades").arg(&program.path).arg("--").args(&program.arguments);
        for name in OF_THIS_PROCESS {
            command.env_remove(name);
        }
        command.stderr(Stdio::null());
        command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        await_ready(&channel)?;
        Ok(Starter(channel))
    }

    /// Starts the program with this standard input and standard error; returns the id of the
    /// process.
    ///
    /// # Errors
    /// The system's, or the starter has ended.
    pub(super) fn start(&self, stdin: &UnixStream, stderr: &PipeWriter) -> io::Result<u32> {
        send_descriptor(&self.0, stdin.as_fd())?;
        send_descriptor(&self.0, stderr.as_fd())?;
        loop {
            let line = self.line()?;
            if let Some(id) = line.strip_prefix("started ") {
                return id.parse().map_err(io::Error::other);
            }
            if let Some(why) = line.strip_prefix("failed ") {
                return Err(io::Error::other(why.to_owned()));
            }
            // The end of a process before.
        }
    }

    /// Waits until the new process has ended; returns its exit status.
    ///
    /// # Errors
    /// It still runs after `time`, or the starter has ended.
    pub(super) fn wait(&self, time: Duration) -> io::Result<String> {
        self.0.set_read_timeout(Some(time))?;
        let line = self.line();
        self.0.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        line.map(|line| line.trim_start_matches("ended ").to_owned())
    }

    /// Ends the new process.
    pub(super) fn kill(&self) {
        // An error means that the starter has ended.
        let _ = (&self.0).write_all(&[KILL]);
    }

    fn line(&self) -> io::Result<String> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.len() < LINE_BYTES_MAX {
            (&self.0).read_exact(&mut byte)?;
            if byte == *b"\n" {
                break;
            }
            line.extend(byte);
        }
        String::from_utf8(line).map_err(io::Error::other)
    }
}

/// Starts the program each time that the server asks for it; returns when the server has ended.
///
/// # Errors
/// Standard input is no socket of a server.
pub fn run(program: &PathBuf, arguments: &[OsString]) -> io::Result<()> {
    let mut channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    outlive_signals(&channel)?;
    loop {
        let stdin = match receive_descriptor(&channel) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            // To end a process that has ended by itself.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => continue,
            received => received?,
        };
        let stderr = receive_descriptor(&channel)?;
        let mut command = Command::new(program);
        command.args(arguments).env(VARIABLE, "1").stdin(stdin).stderr(stderr);
        let spawned = command.spawn();
        // Closes the descriptors.
        drop(command);
        match spawned {
            Err(e) => writeln!(channel, "failed {e}")?,
            Ok(child) => {
                writeln!(channel, "started {}", child.id())?;
                attend(&mut channel, child)?;
            }
        }
    }
}

/// Handles the signals that servers handle, by doing nothing: a terminal, a service manager or a
/// script may send them to all processes of a server. A helper ends with the server, whose end its
/// channel tells. They are not blocked or ignored, because programs that are started would inherit
/// that. Then says on the channel that it is ready.
///
/// # Errors
/// The system's, or the server has ended.
pub(super) fn outlive_signals(mut channel: &UnixStream) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    // The handlers outlive the streams.
    kinds.into_iter().try_for_each(|kind| signal(kind).map(drop))?;
    channel.write_all(&[READY])
}

/// Waits until the helper at the other end of the channel handles signals: one that comes before,
/// to all processes of a new server, would end it.
///
/// # Errors
/// The helper has ended, or says nothing for [`ANSWER_TIME_MAX`].
pub(super) fn await_ready(mut channel: &UnixStream) -> io::Result<()> {
    channel.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    channel.read_exact(&mut [0])
}

/// Waits until the process has ended, and ends it when the server says so. Returns also when the
/// server has ended.
fn attend(channel: &mut UnixStream, mut child: Child) -> io::Result<()> {
    loop {
        if let Some(status) = child.try_wait()? {
            return writeln!(channel, "ended {status}");
        }
        let mut polled = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
        if retry_on_intr(|| poll(&mut polled, Some(&PERIOD)))? == 0 {
            continue;
        }
        let mut byte = [0];
        match channel.read(&mut byte)? {
            0 => return Ok(()),
            // An error means that it has ended.
            _ => drop(child.kill()),
        }
    }
}
