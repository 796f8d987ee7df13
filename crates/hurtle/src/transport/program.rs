//! A program that is run for one request: its three pipes, and its end. What it is told and what it
//! says is others' business.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use bytes::{Bytes, BytesMut};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

use crate::disk::{Disk, Failure, Lane};

/// One read of what a program says, in bytes.
const PIECE_BYTES: usize = 16 << 10;

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
    /// whole environment; it inherits no descriptor but its pipes.
    ///
    /// # Errors
    /// The pool's first, then the system's.
    pub async fn start(
        path: &Path,
        variables: Vec<(Vec<u8>, Vec<u8>)>,
        disk: &Disk,
        lane: Lane,
    ) -> Result<io::Result<(Program, Stdin, Stdout, Stderr)>, Failure> {
        let mut command = Command::new(path);
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
