//! `hurtle reload`: a running server puts its configuration file in force.

use clap::Args;

use super::admin::{self, AdminArgs, CommandError};

#[derive(Debug, Args)]
pub struct ReloadArgs {
    #[command(flatten)]
    server: AdminArgs,
}

impl ReloadArgs {
    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The configuration has problems, or the server cannot be reached.
    pub fn send(&self) -> Result<String, CommandError> {
        admin::post(&self.server, "/reload")
    }
}
