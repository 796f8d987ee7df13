//! `hurtle upstream`: drains an upstream of a running server, or restores it.

use std::io;

use clap::{Args, Subcommand};

use super::ConfigProblems;
use super::admin::{self, AdminArgs};

/// Arguments of the command `upstream`.
#[derive(Debug, Args)]
pub struct UpstreamArgs {
    #[command(subcommand)]
    action: Action,
}

/// A change of an upstream.
#[derive(Debug, Subcommand)]
enum Action {
    /// Send no new requests to an upstream; those in flight are finished.
    Drain(NamedUpstream),
    /// Send requests to an upstream again.
    Restore(NamedUpstream),
}

#[derive(Debug, Args)]
struct NamedUpstream {
    /// The upstream as `hurtle status` names it, such as http://10.0.0.2:8080.
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    #[command(flatten)]
    server: AdminArgs,
}

impl UpstreamArgs {
    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The configuration is wrong or names no socket, or the server has no such upstream.
    pub fn send(&self) -> Result<io::Result<String>, ConfigProblems> {
        let (action, upstream) = match &self.action {
            Action::Drain(upstream) => ("drain", upstream),
            Action::Restore(upstream) => ("restore", upstream),
        };
        let socket = upstream.server.socket()?;
        let request = format!("POST /upstream?{action}={}", upstream.name);
        Ok(admin::send(&socket, &request, "localhost").and_then(|reply| match reply.status {
            200 => Ok(reply.text),
            _ => Err(io::Error::other(reply.text.trim_end().to_owned())),
        }))
    }
}

/// Takes names that a request can hold.
fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    match is_plain && !text.is_empty() {
        true => Ok(text.to_owned()),
        false => Err("write the name that `hurtle status` shows".to_owned()),
    }
}
