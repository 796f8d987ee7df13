//! Runs a step's commands and prints their output: at once if no other step runs, otherwise in one
//! piece when the command ends. A command fails if its exit code is not 0.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::command::shown;
use crate::steps::Failure;
use crate::terminal::heading;

/// The console of one step.
pub(crate) struct Console<'a> {
    pub(crate) name: &'static str,
    /// Other steps may run at the same time.
    pub(crate) is_shared: bool,
    /// Set when a step has failed.
    pub(crate) failed: &'a AtomicBool,
}

impl Console<'_> {
    /// `true` once a step has failed: no other command should start.
    pub(crate) fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn say(&self, line: &str) {
        if self.is_shared {
            self.print("", format!("{line}\n").as_bytes());
        } else {
            println!("{line}");
        }
    }

    /// Runs a command and shows its output.
    ///
    /// # Errors
    /// It cannot be started, or it fails.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Failure> {
        let shown = shown(command);
        if self.is_shared {
            let (status, output) = run_kept(command)?;
            self.print(&format!("$ {shown}\n"), &output);
            return judged(&shown, status);
        }
        println!("$ {shown}");
        judged(&shown, started(&shown, command.stdin(Stdio::null()).status())?)
    }

    /// Runs a command and shows its standard error; returns its standard output.
    ///
    /// # Errors
    /// See `run`.
    pub(crate) fn read(&self, command: &mut Command) -> Result<String, Failure> {
        let shown = shown(command);
        command.stdin(Stdio::null());
        if !self.is_shared {
            println!("$ {shown}");
            command.stderr(Stdio::inherit());
        }
        let output = started(&shown, command.output())?;
        if self.is_shared {
            self.print(&format!("$ {shown}\n"), &output.stderr);
        }
        judged(&shown, output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Prints lines in one piece, under the step's name if other steps print too.
    pub(crate) fn print(&self, first: &str, rest: &[u8]) {
        let mut all = Vec::new();
        if self.is_shared {
            all.extend(heading(self.name, "").as_bytes());
        }
        all.extend(first.as_bytes());
        all.extend(rest);
        let mut stdout = io::stdout().lock();
        // The terminal may have been closed.
        let _ = stdout.write_all(&all).and_then(|()| stdout.flush());
    }
}

/// Runs a command; returns its standard output and error, in order. Both go to a file, since a pipe
/// would also wait for background processes that the command leaves.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run_kept(command: &mut Command) -> Result<(ExitStatus, Vec<u8>), Failure> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let shown = shown(command);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("xtask-{}-{number}", std::process::id()));
    let keep = |path: &PathBuf| -> io::Result<(File, File)> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        Ok((file.try_clone()?, file))
    };
    let problem = |error: io::Error| Failure(format!("{}: {error}", path.display()));
    let (out, err) = keep(&path).map_err(problem)?;
    let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
    let output = fs::read(&path).map_err(problem);
    let _ = fs::remove_file(&path);
    Ok((started(&shown, status)?, output?))
}

fn started<T>(shown: &str, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure(format!("`{shown}` did not start: {error}")))
}

fn judged(shown: &str, status: ExitStatus) -> Result<(), Failure> {
    if status.success() { Ok(()) } else { Err(Failure(format!("`{shown}`: {status}"))) }
}
