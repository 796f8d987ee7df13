//! A program that is run for one request: its limits, its three pipes, and its end. What it is told
//! and what it says is others' business.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use bytes::{Bytes, BytesMut};
use rustix::fs::{Access, AtFlags, CWD};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

use crate::config::ProgramLimits;
use crate::disk::{Disk, Failure, Lane};

/// One read of what a program says, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// What sets a program's limits.
const SHELL: &str = "/bin/sh";

/// A running program in a process group of its own. Dropped before it has ended, it is killed, and
/// whatever it has begun in that group with it.
#[derive(Debug)]
pub struct Program(Child);

/// What a program reads.
#[derive(Debug)]
pub struct Stdin(ChildStdin);

/// What it answers.
#[derive(Debug)]
pub struct Stdout(ChildStdout);

/// What it complains of.
#[derive(Debug)]
pub struct Stderr(ChildStderr);

impl Program {
    /// Starts a program on a thread of the pool, in its own directory, with these variables as its
    /// whole environment; it inherits no descriptor but its pipes. Its limits hold before its first
    /// step: a shell sets them on itself and becomes the program. (To set them from here, on a process
    /// that runs already, would leave it time to start others without limits.)
    ///
    /// # Errors
    /// The pool's first, then the system's.
    pub async fn start(
        path: &Path,
        limits: &ProgramLimits,
        variables: Vec<(Vec<u8>, Vec<u8>)>,
        disk: &Disk,
        lane: Lane,
    ) -> Result<io::Result<(Program, Stdin, Stdout, Stderr)>, Failure> {
        let program = path.to_owned();
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(script(limits)).arg(path);
        command.current_dir(path.parent().unwrap_or(Path::new("/"))).env_clear();
        for (name, value) in &variables {
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let handle = Handle::current();
        let start = move || {
            // Its pipes are the loop's, whichever thread makes them.
            let _guard = handle.enter();
            // What the shell would only complain of.
            rustix::fs::accessat(CWD, &program, Access::EXEC_OK, AtFlags::EACCESS)?;
            let mut child = command.spawn()?;
            let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
                return Err(io::Error::other("a program without pipes"));
            };
            Ok((Program(child), Stdin(stdin), Stdout(stdout), Stderr(stderr)))
        };
        disk.run(lane, start).await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The system's.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }
}

/// What the shell does (`ulimit`: POSIX.1-2024, but for the processes, which bash and dash spell each
/// in its own way). A limit below one that the server itself has is that one.
fn script(limits: &ProgramLimits) -> String {
    let within =
        |resource, most: u64| getrlimit(resource).maximum.map_or(most, |max| max.min(most));
    let cpu_secs = within(Resource::Cpu, limits.cpu_time.as_millis().div_ceil(1_000) as u64);
    let memory_kib = within(Resource::As, limits.memory) / 1024;
    let open_files = within(Resource::Nofile, limits.open_files);
    // First SIGXCPU, which tells what it was that ended it.
    let cpu_secs_hard = within(Resource::Cpu, cpu_secs + 1);
    let mut script = format!(
        "ulimit -c 0; ulimit -St {cpu_secs}; ulimit -Ht {cpu_secs_hard}; ulimit -v {memory_kib}; \
         ulimit -n {open_files}; "
    );
    if let Some(processes) = limits.processes {
        let processes = within(Resource::Nproc, processes);
        // Writing into a String cannot fail.
        let _ = write!(script, "ulimit -u {processes} 2>/dev/null || ulimit -p {processes}; ");
    }
    script + "exec \"$0\""
}

impl Drop for Program {
    fn drop(&mut self) {
        // Until it is waited for, its number is nobody else's.
        let id = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = id {
            // It may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Stdin {
    /// Writes all of it.
    ///
    /// # Errors
    /// The system's; the program may have closed its end.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }
}

impl Stdout {
    /// Reads once; empty: it will say nothing more.
    ///
    /// # Errors
    /// The system's.
    pub async fn read(&mut self) -> io::Result<Bytes> {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        self.0.read_buf(&mut piece).await?;
        Ok(piece.freeze())
    }
}

impl Stderr {
    /// The same.
    ///
    /// # Errors
    /// The system's.
    pub async fn read(&mut self) -> io::Result<Bytes> {
        let mut piece = BytesMut::with_capacity(1 << 10);
        self.0.read_buf(&mut piece).await?;
        Ok(piece.freeze())
    }
}
