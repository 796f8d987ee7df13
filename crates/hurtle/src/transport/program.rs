//! Runs a program (CGI) for one request: its limits, its three pipes, and its exit. Callers
//! interpret the data.

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
use crate::sys;

/// Size of a read of a program's output, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// The shell that sets a program's limits.
const SHELL: &str = "/bin/sh";

/// A running program in a separate process group. Dropping it before its exit kills the whole
/// group.
#[derive(Debug)]
pub(crate) struct Program(Child);

/// The program's standard input.
#[derive(Debug)]
pub(crate) struct Stdin(ChildStdin);

/// The program's standard output.
#[derive(Debug)]
pub(crate) struct Stdout(ChildStdout);

/// The program's standard error.
#[derive(Debug)]
pub(crate) struct Stderr(ChildStderr);

impl Program {
    /// Starts a program on a pool thread, in its own directory. Its environment has these variables
    /// only, and it inherits no descriptor but its pipes. A shell sets the limits on itself, then
    /// executes the program, so that they hold from the first instruction. Setting them on the
    /// running program would leave it time to start processes without limits.
    ///
    /// # Errors
    /// Errors of the pool, then of the system.
    pub(crate) async fn start(
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
            // The pipes must be registered with this event loop, whichever thread creates them.
            let _guard = handle.enter();
            // Checked here, because the shell would only print the error.
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

    /// Waits for the program's exit.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }
}

/// Builds the shell script that sets the limits. `ulimit` is in POSIX.1-2024, except for processes,
/// which bash and dash spell differently. A limit is capped by the server's own.
fn script(limits: &ProgramLimits) -> String {
    let within =
        |resource, most: u64| getrlimit(resource).maximum.map_or(most, |max| max.min(most));
    let cpu_secs = within(Resource::Cpu, limits.cpu_time.as_millis().div_ceil(1_000) as u64);
    let (memory, option) = sys::PROGRAM_MEMORY;
    let memory_kib = within(memory, limits.memory) / 1024;
    let open_files = within(Resource::Nofile, limits.open_files);
    // SIGXCPU comes first, so that the cause of the exit is known.
    let cpu_secs_hard = within(Resource::Cpu, cpu_secs + 1);
    let mut script = format!(
        "ulimit -c 0; ulimit -St {cpu_secs}; ulimit -Ht {cpu_secs_hard}; ulimit -{option} {memory_kib}; \
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
        // The process ID is not reused before the program was waited for.
        let id = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = id {
            // The group may be gone.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Stdin {
    /// Writes all bytes.
    ///
    /// # Errors
    /// Errors of the system; the program may have closed its end.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> io::Result<()> {
        self.0.write_all(&bytes).await
    }
}

impl Stdout {
    /// Reads once; an empty result is the end of the output.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn read(&mut self) -> io::Result<Bytes> {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        self.0.read_buf(&mut piece).await?;
        Ok(piece.freeze())
    }
}

impl Stderr {
    /// Reads once; an empty result is the end of the output.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) async fn read(&mut self) -> io::Result<Bytes> {
        let mut piece = BytesMut::with_capacity(1 << 10);
        self.0.read_buf(&mut piece).await?;
        Ok(piece.freeze())
    }
}
