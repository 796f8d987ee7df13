//! `hurtle upgrade`: another process replaces a running server.

use clap::Args;

use super::admin::{self, AdminArgs, CommandError};

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    #[command(flatten)]
    server: AdminArgs,
}

impl UpgradeArgs {
    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The new process is not ready, or the server cannot be reached.
    pub fn send(&self) -> Result<String, CommandError> {
        admin::post(&self.server, "/upgrade")
    }
}
