//! A process that runs the program `dns_hook` for a confined server, which starts no program. It
//! has the server's user and a fixed environment, and knows no secret. The program is an argument
//! of the process, so the server cannot have it run another one, and chooses only the name and the
//! value of a record.
//!
//! Each attempt to get a certificate is a connection: the server sends its other end, then a line
//! for each record, and gets one for each. When the server closes its side, also by its end, the
//! records are removed.

mod call;

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{User, geteuid};

use self::call::Record;
use super::starter::{await_ready, outlive_signals};
use crate::acme::hook::{self, DONE, FAILED};
use crate::config::{Config, DnsHook};
use crate::sockets::descriptors::{receive_descriptor, send_descriptor, take_stdin};
use crate::users::switch_user;

/// Variable of the linker, for this program only.
const LINKER_VARIABLE: &str = "LD_LIBRARY_PATH";

/// Longest line of the server: a name of 253 characters, a value of 43.
const LINE_BYTES_MAX: u64 = 1 << 10;

/// Most records of an attempt, one for each name of a certificate.
const RECORDS_MAX: usize = 100;

/// The server's end of the socket to the process that runs the hook.
#[derive(Debug)]
pub(super) struct DnsHooks(UnixStream);

/// The program and its limits.
#[derive(Debug)]
pub struct HookOptions {
    /// The user that the process becomes, and its group.
    pub user: Option<String>,
    /// Its group, if it is not that of the user.
    pub group: Option<String>,
    /// Resolvers that are asked for aliases; empty: the system's.
    pub resolvers: Vec<SocketAddr>,
    /// Time limit of a call.
    pub timeout: Duration,
    /// Path of the program.
    pub program: PathBuf,
}

/// The hook of a configuration: another one needs another process.
pub(super) fn process_of(config: &Config) -> Option<&DnsHook> {
    config.acme.as_ref()?.dns.as_ref()
}

impl DnsHooks {
    /// Starts the process if the configuration has a hook. Call it before this one is confined and
    /// gives up root.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn spawn(config: &Config) -> io::Result<Option<DnsHooks>> {
        let Some(DnsHook { program, timeout, resolvers }) = process_of(config) else {
            return Ok(None);
        };
        let (channel, theirs) = UnixStream::pair()?;
        let mut command = Command::new(env::current_exe()?);
        command.arg("run-dns-hook");
        let options = [("--user", &config.user), ("--group", &config.group)];
        for (option, value) in options {
            command.args(value.iter().flat_map(|value| [option, value]));
        }
        let resolvers = resolvers.iter().map(ToString::to_string);
        command.args(resolvers.flat_map(|address| ["--resolver".to_owned(), address]));
        command.arg("--timeout-ms").arg(timeout.as_millis().to_string()).arg("--").arg(program);
        // Others may be secrets.
        let kept = env::vars_os().filter(|(name, _)| name == LINKER_VARIABLE);
        command.env_clear().envs(kept);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn()?;
        await_ready(&channel)?;
        Ok(Some(DnsHooks(channel)))
    }

    /// Has the attempts of this process connect to the other one.
    pub(super) fn install(self) {
        hook::set_process(Box::new(move || {
            let (ours, theirs) = UnixStream::pair()?;
            send_descriptor(&self.0, theirs.as_fd())?;
            Ok(ours)
        }));
    }
}

/// Runs the hook for the server, until it has ended and its records are removed.
///
/// # Errors
/// Standard input is no socket of a server, or the user is unknown.
pub fn run(options: &HookOptions) -> io::Result<()> {
    let channel = take_stdin()?.ok_or(io::ErrorKind::InvalidInput)?;
    outlive_signals(&channel)?;
    if let Some(user) = &options.user {
        switch_user(user, options.group.as_deref())?;
    }
    env::set_current_dir("/")?;
    let home = User::from_uid(geteuid())?.map(|user| user.dir.into_os_string());
    loop {
        // One after the other: records of an earlier attempt are removed before a later one begins.
        match receive_descriptor(&channel) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            received => attend(options, home.as_ref(), &received?.into()),
        }
    }
}

/// Writes the records of an attempt until the server closes its side, then removes them. A record
/// is also removed if it could not be written, because it may have been in part.
fn attend(options: &HookOptions, home: Option<&OsString>, server: &UnixStream) {
    let mut records = Vec::new();
    while let Some(line) = read_line(server) {
        let record = Record::parse(&line).filter(|_| records.len() < RECORDS_MAX);
        let Some(mut record) = record else {
            answer(server, Err("a malformed request".to_owned()));
            break;
        };
        record.follow_aliases(&options.resolvers);
        answer(server, call::run(options, home, "present", &record, Some(server)));
        records.push(record);
    }
    for record in records.iter().rev() {
        let removed = call::run(options, home, "cleanup", record, None);
        answer(server, removed.map_err(|why| format!("{}: {why}", record.fqdn)));
    }
}

/// Reads one line; `None`: the server has closed its side, or sends none.
fn read_line(server: &UnixStream) -> Option<String> {
    let mut line = String::new();
    // The server waits for the answer before it sends another line.
    BufReader::new(server.take(LINE_BYTES_MAX)).read_line(&mut line).ok()?;
    line.strip_suffix('\n').map(str::to_owned)
}

/// Answers with one line.
fn answer(mut server: &UnixStream, outcome: Result<(), String>) {
    let line = match outcome {
        Ok(()) => format!("{DONE}\n"),
        Err(why) => format!("{FAILED}{why}\n"),
    };
    // The server may have ended.
    let _ = server.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests;
