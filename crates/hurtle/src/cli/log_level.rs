//! `hurtle log-level`: changes the level of a running server's error log.

use std::io;

use clap::Args;

use super::ConfigProblems;
use super::admin::{self, AdminArgs};

#[derive(Debug, Args)]
pub struct LogLevelArgs {
    /// The least severe level written.
    #[arg(value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug", "trace"])]
    level: String,
    #[command(flatten)]
    server: AdminArgs,
}

impl LogLevelArgs {
    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The configuration is wrong or names no socket, or the server refused.
    pub fn send(&self) -> Result<io::Result<String>, ConfigProblems> {
        let socket = self.server.socket()?;
        let request = format!("POST /log-level?level={}", self.level);
        Ok(admin::send(&socket, &request, "localhost").and_then(|reply| match reply.status {
            200 => Ok(reply.text),
            _ => Err(io::Error::other(reply.text.trim_end().to_owned())),
        }))
    }
}
