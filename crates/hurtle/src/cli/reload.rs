//! `hurtle reload`: a running server puts its configuration file in force.

use std::io;

use clap::Args;

use super::ConfigProblems;
use super::admin::{self, AdminArgs};

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    #[command(flatten)]
    server: AdminArgs,
}

/// The configuration was not reloaded.
#[derive(Debug)]
pub enum ReloadError {
    /// It has these problems; the one before stays in force.
    Problems(ConfigProblems),
    /// The server cannot be reached.
    Unreachable(io::Error),
}

impl ReloadArgs {
    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The configuration has problems, or the server cannot be reached.
    pub fn send(&self) -> Result<String, ReloadError> {
        let socket = self.server.socket().map_err(ReloadError::Problems)?;
        let reply = admin::send(&socket, "POST /reload", "localhost");
        let reply = reply.map_err(ReloadError::Unreachable)?;
        match reply.status {
            200 => Ok(reply.text),
            422 => Err(ReloadError::Problems(reply.text.lines().map(str::to_owned).collect())),
            _ => Err(ReloadError::Unreachable(io::Error::other(reply.text.trim_end().to_owned()))),
        }
    }
}
