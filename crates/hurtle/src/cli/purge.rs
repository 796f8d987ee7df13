//! `hurtle purge`: removes responses from a running server's cache by its admin socket.

use std::io;

use clap::Args;

use super::ConfigProblems;
use super::admin::{self, AdminArgs};

#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// The response to remove: http://HOST/PATH, or http://HOST/PREFIX* for every path with this
    /// prefix. The path is the one after the site's rules, with that of the mount, also with
    /// `strip_prefix` or a path in the upstream's URL.
    #[arg(value_name = "URL", value_parser = parse_url)]
    url: (String, String),
    #[command(flatten)]
    server: AdminArgs,
}

impl PurgeArgs {
    /// Sends the command; returns the server's text.
    ///
    /// # Errors
    /// The configuration is wrong or names no socket, the server refused, or it could not tell the
    /// servers that share its store.
    pub fn send(&self) -> Result<io::Result<String>, ConfigProblems> {
        let socket = self.server.socket()?;
        let (host, path) = &self.url;
        let sent = admin::send(&socket, &format!("PURGE {path}"), host);
        Ok(sent.and_then(|reply| match reply.status {
            200 => Ok(reply.text),
            // Done here, and not told to the servers that share the store.
            502 => Err(io::Error::other(reply.text.trim_end().to_owned())),
            _ => Err(io::Error::other(format!("refused: {}", reply.text.trim_end()))),
        }))
    }
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
