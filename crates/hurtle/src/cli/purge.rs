//! `hurtle purge`: removes responses from a running server's cache by its admin socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{ConfigProblems, FileArgs};

/// Time limit of the command.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Arguments of `purge`.
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// The response to remove: http://HOST/PATH as clients request it, or http://HOST/PREFIX* for
    /// every path with this prefix.
    #[arg(value_name = "URL", value_parser = parse_url)]
    url: (String, String),
    #[command(flatten)]
    file: FileArgs,
    /// The server's admin socket [default: `admin` of the configuration].
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    admin: Option<PathBuf>,
}

impl PurgeArgs {
    /// Path of the server's admin socket.
    ///
    /// # Errors
    /// The configuration is wrong, or names no socket.
    pub fn socket(&self) -> Result<PathBuf, ConfigProblems> {
        match &self.admin {
            Some(path) => Ok(path.clone()),
            None => self.file.load()?.admin.ok_or_else(|| {
                vec!["the configuration has no admin socket: write admin = \"PATH\"".to_owned()]
            }),
        }
    }

    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The socket's, or the server refused.
    pub fn send(&self, socket: &PathBuf) -> io::Result<String> {
        let mut server = UnixStream::connect(socket).map_err(|e| unreachable(socket, &e))?;
        server.set_read_timeout(Some(TIME_MAX))?;
        let (host, path) = &self.url;
        write!(server, "PURGE {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
        let mut answer = String::new();
        server.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        match head.starts_with("HTTP/1.1 200 ") {
            true => Ok(body.to_owned()),
            false => Err(io::Error::other(format!("refused: {}", body.trim_end()))),
        }
    }
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

/// Splits a URL into the host and the rest.
fn parse_url(text: &str) -> Result<(String, String), String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let rest = rest.filter(|rest| rest.bytes().all(|b| b.is_ascii_graphic()));
    let split = rest.and_then(|rest| Some(rest.split_at(rest.find('/')?)));
    match split.filter(|(host, _)| !host.is_empty()) {
        Some((host, path)) => Ok((host.to_owned(), path.to_owned())),
        None => Err("write http://HOST/PATH".to_owned()),
    }
}
