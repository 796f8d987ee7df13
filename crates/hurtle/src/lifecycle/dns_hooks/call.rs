//! One call of the hook: its arguments, its time limit, the end of all its processes, and what it
//! says about a failure.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, retry_on_intr};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::HookOptions;
use crate::acme::hook::LABEL;
use crate::acme::resolvers::Resolvers;

/// Directories in which the hook finds programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Interval of checks for the end of the hook.
const PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Bytes of standard error that are kept, and that get into the log.
const KEPT_BYTES_MAX: usize = 4 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// Reads in a row, so that output without end does not delay the time limit.
const READS_MAX: usize = 16;

/// Length of a value: SHA-256 in base64url (RFC 8555 section 8.4).
const VALUE_BYTES: usize = 43;

/// Longest name (RFC 1035 section 2.3.4), with the root's dot.
const FQDN_BYTES_MAX: usize = 254;

/// A TXT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) fqdn: String,
    value: String,
}

impl Record {
    /// Parses a line of the server; `None` unless it is the record of a challenge. The server may
    /// be under another's control.
    pub(super) fn parse(line: &str) -> Option<Record> {
        let (fqdn, value) = line.split_once(' ')?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let below = fqdn.strip_prefix(LABEL)?.strip_prefix('.')?.strip_suffix('.')?;
        let is_name = fqdn.len() <= FQDN_BYTES_MAX
            && below.split('.').all(|label| !label.is_empty() && label.bytes().all(is_plain));
        let is_value = value.len() == VALUE_BYTES && value.bytes().all(is_plain);
        let record = || Record { fqdn: fqdn.to_owned(), value: value.to_owned() };
        (is_name && is_value).then(record)
    }

    /// Replaces the name by the one to which aliases lead, which the hook then writes, as with
    /// lego. The names are looked up here, so that the server cannot choose them.
    pub(super) fn follow_aliases(&mut self, resolvers: &[SocketAddr]) {
        let found = Resolvers::of(resolvers).and_then(|some| some.record_name(&self.fqdn));
        // Without an answer it is taken for no alias. The server tells of it: it asks the same.
        if let Ok(name) = found {
            self.fqdn = format!("{name}.");
        }
    }
}

/// Why a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The program has ended before the time limit.
    ByItself,
    /// The time limit has passed.
    Late,
    /// The server has closed the connection.
    Abandoned,
}

/// A running program in a process group of its own.
struct Call {
    child: Child,
    stderr: Option<ChildStderr>,
    /// The beginning of its standard error.
    kept: Vec<u8>,
}

/// Calls the hook; `server` abandons the call when it closes the connection.
///
/// # Errors
/// The failure, in one line, without the value.
pub(super) fn run(
    options: &HookOptions,
    home: Option<&OsString>,
    action: &str,
    record: &Record,
    server: Option<&UnixStream>,
) -> Result<(), String> {
    let mut command = Command::new(&options.program);
    command.arg(action).arg(&record.fqdn).arg(&record.value);
    command.env_clear().env("PATH", PATH).env("LANG", "C");
    command.envs(home.map(|home| ("HOME", home)));
    let failed = |what: String| format!("{} {action}: {what}", options.program.display());
    let run = Call::start(&mut command).and_then(|call| call.finish(options.timeout, server));
    let (ended, status, stderr) = run.map_err(|e| failed(e.to_string()))?;
    let how = match ended {
        Ended::ByItself if status.success() => return Ok(()),
        Ended::ByItself => status.to_string(),
        Ended::Late => {
            format!("not done after {:?}; its processes were ended", options.timeout)
        }
        Ended::Abandoned => "the server has given up".to_owned(),
    };
    let text = printable(&stderr, &record.value);
    Err(failed(if text.is_empty() { how } else { format!("{how}: {text}") }))
}

impl Call {
    /// Starts the program in a process group of its own. Standard output is discarded.
    fn start(command: &mut Command) -> io::Result<Call> {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take();
        let mut call = Call { child, stderr, kept: Vec::new() };
        if let Some(Err(e)) = call.stderr.as_ref().map(|stderr| ioctl_fionbio(stderr, true)) {
            call.end(Signal::KILL);
            call.child.wait()?;
            return Err(e.into());
        }
        Ok(call)
    }

    /// Waits for the end, at most `limit`, then ends all processes of the group.
    fn finish(
        mut self,
        limit: Duration,
        server: Option<&UnixStream>,
    ) -> io::Result<(Ended, ExitStatus, Vec<u8>)> {
        let ended = self.wait(limit, server);
        if ended != Ended::ByItself {
            self.end(Signal::TERM);
            self.wait(GRACE, None);
        }
        // The program has not been waited for, so its id is still that of its group.
        self.end(Signal::KILL);
        let status = self.child.wait()?;
        self.read();
        Ok((ended, status, self.kept))
    }

    /// Waits for the end of the program, and reads what it says meanwhile.
    fn wait(&mut self, limit: Duration, server: Option<&UnixStream>) -> Ended {
        let end = Instant::now() + limit;
        loop {
            let mut polled: Vec<_> =
                (self.stderr.iter()).map(|stderr| PollFd::new(stderr, PollFlags::IN)).collect();
            // Without standard error this waits only. An error ends the wait early.
            let _ = retry_on_intr(|| poll(&mut polled, Some(&PERIOD)));
            self.read();
            if self.has_ended() {
                return Ended::ByItself;
            }
            if Instant::now() >= end {
                return Ended::Late;
            }
            if server.is_some_and(is_closed) {
                return Ended::Abandoned;
            }
        }
    }

    /// Reads standard error without waiting, and keeps its beginning.
    fn read(&mut self) {
        let Some(stderr) = &mut self.stderr else { return };
        let mut piece = [0; 4 << 10];
        for _ in 0..READS_MAX {
            match stderr.read(&mut piece) {
                Ok(n @ 1..) => {
                    let room = KEPT_BYTES_MAX.saturating_sub(self.kept.len());
                    self.kept.extend(piece.iter().take(n.min(room)));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.stderr = None;
                    return;
                }
            }
        }
    }

    /// `true`: the program has ended; it stays to be waited for.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.child)), options));
        // An error would be that there is no such process.
        status.map_or(true, |status| status.is_some())
    }

    /// Sends a signal to all processes of the group.
    fn end(&self, signal: Signal) {
        // An error means that all have ended.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

/// `true`: the server has closed its side of the connection.
fn is_closed(server: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = retry_on_intr(|| recv(server, &mut [0; 1], flags));
    match peeked {
        Ok((_, n)) => n == 0,
        Err(e) => e != rustix::io::Errno::AGAIN,
    }
}

/// The text of an error, in one line, without the value and without characters that control a
/// terminal.
fn printable(stderr: &[u8], value: &str) -> String {
    let text = String::from_utf8_lossy(stderr).replace(value, "VALUE");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let end = line.floor_char_boundary(TEXT_BYTES_MAX);
    line.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ";

    #[test]
    fn only_records_of_challenges_are_accepted() {
        let record = |name: &str| format!("{name} {VALUE}");
        let long = format!("{LABEL}.{}.", vec!["a"; 130].join("."));
        let table = [
            ("a record", record("_acme-challenge.a.example."), true),
            ("without the root's dot", record("_acme-challenge.a.example"), false),
            ("another name", record("www.a.example."), false),
            ("the label alone", record("_acme-challenge."), false),
            ("an empty label", record("_acme-challenge.a..example."), false),
            ("a path", record("_acme-challenge./etc/passwd."), false),
            ("too long", record(&long), false),
            ("another value", "_acme-challenge.a.example. value".to_owned(), false),
            ("a second argument", record("_acme-challenge.a.example. b"), false),
            ("no value", "_acme-challenge.a.example.".to_owned(), false),
        ];
        for (sentence, line, expected) in table {
            assert_eq!(Record::parse(&line).is_some(), expected, "{sentence}");
        }
    }

    #[test]
    fn what_a_hook_says_is_one_line_without_the_value() {
        let table = [
            ("", ""),
            ("one\n\n  two\n", "one; two"),
            (&format!("+ curl {VALUE}x"), "+ curl VALUEx"),
            ("\u{1b}[31mred\rx", "\u{fffd}[31mred\u{fffd}x"),
        ];
        for (said, expected) in table {
            assert_eq!(printable(said.as_bytes(), VALUE), expected, "{said:?}");
        }
        assert_eq!(printable("\u{e9}".repeat(4_000).as_bytes(), VALUE).len(), TEXT_BYTES_MAX);
    }
}
