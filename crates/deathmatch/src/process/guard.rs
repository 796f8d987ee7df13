//! Ends a server when this program cannot: after a kill, out of memory, or a second Ctrl-C. A small
//! shell waits at the end of a pipe that only this program holds open; when the pipe closes without
//! a line, the shell kills the server's session.
//!
//! A parent-death signal would not be enough: it reaches one process and not its children, a change
//! of user clears it, and it is sent when the starting *thread* ends (prctl(2)).

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Fields of /proc/PID/stat behind the name: state, parent, group, session (proc_pid_stat(5)).
/// Three passes, since a process may have been starting another.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r leader || exit 0
read -r word && exit 0
for turn in 1 2 3; do
  for stat in /proc/[0-9]*/stat; do
    { read -r line < "$stat"; } 2>/dev/null || continue
    pid=${line%% *}
    set -- ${line##*) }
    if [ "$4" = "$leader" ] || [ "$pid" = "$leader" ]; then kill -KILL "$pid" 2>/dev/null; fi
  done
done
"#;

/// The shell that waits.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the shell, before there is a server.
    pub(super) fn start() -> io::Result<Guard> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "deathmatch-guard"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Guard { shell, pipe })
    }

    /// Names the session to end.
    pub(super) fn watch(&mut self, leader: u32) -> io::Result<()> {
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(pipe, "{leader}")
    }

    /// Dismisses the shell: no process is left to end.
    pub(super) fn dismiss(mut self) {
        if let Some(pipe) = self.pipe.as_mut() {
            // If the shell is gone already, no line is needed.
            let _ = writeln!(pipe, "done");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It ends by itself as soon as the pipe is closed.
        let _ = self.shell.wait();
    }
}
