//! Sends a command to a running server by its admin socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{ConfigProblems, FileArgs};
use crate::config::written_admin;

/// Time limit of a command.
const TIME_MAX: Duration = Duration::from_secs(90);

/// Selects a running server.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The server's admin socket [default: `admin` of the configuration].
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    admin: Option<PathBuf>,
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) text: String,
}

/// A server has not executed a command.
#[derive(Debug)]
pub enum CommandError {
    /// It has these problems; nothing has changed.
    Problems(ConfigProblems),
    /// The server cannot be reached.
    Unreachable(io::Error),
}

impl AdminArgs {
    /// The problems of the configuration file, if it names the socket.
    fn problems(&self) -> Option<ConfigProblems> {
        self.admin.is_none().then(|| self.file.load().err()).flatten()
    }

    /// Path of the server's admin socket. A configuration with problems may name it: the server
    /// that runs has another one, and reports them if it is to read this one.
    ///
    /// # Errors
    /// The configuration is wrong, or names no socket.
    pub(super) fn socket(&self) -> Result<PathBuf, ConfigProblems> {
        if let Some(path) = &self.admin {
            return Ok(path.clone());
        }
        let named = match self.file.load() {
            Ok(config) => config.admin,
            Err(problems) => Some(written_admin(&self.file.path()).ok_or(problems)?),
        };
        named.ok_or_else(|| {
            vec!["the configuration has no admin socket: write admin = \"PATH\"".to_owned()]
        })
    }
}

/// Has the server execute a command; returns its text.
///
/// # Errors
/// The command has failed, or the server cannot be reached.
pub(super) fn post(server: &AdminArgs, path: &str) -> Result<String, CommandError> {
    let socket = server.socket().map_err(CommandError::Problems)?;
    let reply = send(&socket, &format!("POST {path}"), "localhost");
    let reply = reply.map_err(|e| match server.problems() {
        Some(problems) => CommandError::Problems(problems),
        None => CommandError::Unreachable(e),
    })?;
    match reply.status {
        200 => Ok(reply.text),
        422 => Err(CommandError::Problems(reply.text.lines().map(str::to_owned).collect())),
        _ => Err(CommandError::Unreachable(io::Error::other(reply.text.trim_end().to_owned()))),
    }
}

/// Sends a request of this method and target, and reads the response.
///
/// # Errors
/// The socket's, with what to do.
pub(super) fn send(socket: &Path, request: &str, host: &str) -> io::Result<Reply> {
    let mut server = UnixStream::connect(socket).map_err(|e| unreachable(socket, &e))?;
    server.set_read_timeout(Some(TIME_MAX))?;
    write!(server, "{request} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    server.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok(Reply { status, text: body.to_owned() })
}

/// Explains how to reach a server whose socket cannot be used.
fn unreachable(socket: &Path, e: &io::Error) -> io::Error {
    let socket = socket.display();
    let text = match e.kind() {
        // The socket does not exist, or its server has ended.
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no server listens on {socket}: start it, or name the admin socket of a running server \
             with --admin"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{socket}: {e}: only the server's own user and root may connect")
        }
        _ => format!("{socket}: {e}"),
    };
    io::Error::new(e.kind(), text)
}
