//! `hurtle purge`: tells a running server, by its admin socket, to forget what it has kept.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{FileArgs, Refused};

/// How long the server may take.
const TIME_MAX: Duration = Duration::from_secs(10);

/// What `purge` takes.
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// What to forget: http://HOST/PATH as clients ask for it, or http://HOST/BEGINNING* for all
    /// that begins so.
    #[arg(value_name = "URL", value_parser = parse_url)]
    url: (String, String),
    #[command(flatten)]
    file: FileArgs,
    /// The server's admin socket [default: `admin` of the configuration].
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    admin: Option<PathBuf>,
}

impl PurgeArgs {
    /// Where the server takes orders.
    ///
    /// # Errors
    /// What is wrong with the configuration, or that it names no socket.
    pub fn socket(&self) -> Result<PathBuf, Refused> {
        match &self.admin {
            Some(path) => Ok(path.clone()),
            None => self.file.load()?.admin.ok_or_else(|| {
                vec!["the configuration has no admin socket: write admin = \"PATH\"".to_owned()]
            }),
        }
    }

    /// Gives the order; what was answered.
    ///
    /// # Errors
    /// The socket's, and what the server refused.
    pub fn give(&self, socket: &PathBuf) -> io::Result<String> {
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

/// Says what to do where a server cannot be told.
fn unreachable(socket: &Path, e: &io::Error) -> io::Error {
    let socket = socket.display();
    let text = match e.kind() {
        // Nobody has made it, or who has is gone.
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no server takes orders on {socket}: start it, or name the socket of one that runs (its \
             `admin`) with --admin"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{socket}: {e}: only the server's own user and root may give it orders")
        }
        _ => format!("{socket}: {e}"),
    };
    io::Error::new(e.kind(), text)
}

/// A URL's host and the rest.
fn parse_url(text: &str) -> Result<(String, String), String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let rest = rest.filter(|rest| rest.bytes().all(|b| b.is_ascii_graphic()));
    let split = rest.and_then(|rest| Some(rest.split_at(rest.find('/')?)));
    match split.filter(|(host, _)| !host.is_empty()) {
        Some((host, path)) => Ok((host.to_owned(), path.to_owned())),
        None => Err("write http://HOST/PATH".to_owned()),
    }
}
