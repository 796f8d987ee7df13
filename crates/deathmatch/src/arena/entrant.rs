//! A participant: a contender that is started here, or a server that runs already, perhaps on
//! another machine, where only its responses can be seen.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::remote::Remote;
use crate::contender::{Contender, Prepared, Site};
use crate::process::{Reload, Running};
use crate::tls::Trust;

/// A contender that takes part.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// As in the samples.
    pub name: String,
    /// The name in the report.
    pub title: String,
    /// The version it reports.
    pub version: String,
    /// Its executable, as in `report::Contender`.
    pub program: Option<String>,
    host: Host,
}

#[derive(Clone, Debug)]
enum Host {
    Here(Box<Prepared>),
    Elsewhere(Remote),
}

/// A server that answers.
#[derive(Debug)]
pub(super) enum Server {
    Here(Box<Running>),
    Elsewhere(Remote),
}

impl Entrant {
    /// Prepares a contender for starting.
    ///
    /// # Errors
    /// It cannot take part; the text gives the reason.
    pub fn prepare(contender: &Contender, site: &Site) -> Result<Entrant, String> {
        let version = contender.probe().map_err(|missing| missing.to_string())?;
        let prepared = contender.prepare(site).map_err(|e| e.to_string())?;
        Ok(Entrant {
            name: contender.name.clone(),
            title: contender.title.clone(),
            version,
            program: contender.program(),
            host: Host::Here(Box::new(prepared)),
        })
    }

    /// A server that runs already and serves the plan's files at its root. It is neither started
    /// nor stopped, and its machine is measured only with the number of its process.
    pub fn elsewhere(name: &str, at: impl Into<Remote>) -> Entrant {
        let at = at.into();
        Entrant {
            name: name.to_owned(),
            title: format!("{name} ({})", at.address()),
            version: "as it runs there".to_owned(),
            program: None,
            host: Host::Elsewhere(at),
        }
    }

    /// The command and all configuration files it is started with.
    pub fn config(&self) -> String {
        let prepared = match &self.host {
            Host::Here(prepared) => prepared,
            Host::Elsewhere(at) => {
                return format!("runs at {}; its settings are not known here\n", at.address());
            }
        };
        let mut text = format!("$ {}\n", prepared.shown());
        for (name, contents) in &prepared.files {
            text.push_str(&format!("\n# {name}\n{contents}"));
        }
        text
    }

    /// Each setting with its value here, and its reason.
    pub fn tuned(&self) -> &[(String, String)] {
        match &self.host {
            Host::Here(prepared) => &prepared.tuned,
            Host::Elsewhere(_) => &[],
        }
    }

    /// `true` if files can be uploaded to it.
    pub(super) fn takes_uploads(&self) -> bool {
        self.prepared().is_some_and(Prepared::takes_uploads)
    }

    /// Path of a stored upload of this name; `None` if it is stored out of sight.
    pub(super) fn stored(&self, name: &str) -> Option<PathBuf> {
        self.prepared().and_then(|prepared| prepared.stored(name))
    }

    /// Removes what was uploaded to it, once it is stopped.
    pub(super) fn discard_uploads(&self) -> io::Result<()> {
        self.prepared().map_or(Ok(()), Prepared::discard_uploads)
    }

    fn prepared(&self) -> Option<&Prepared> {
        match &self.host {
            Host::Here(prepared) => Some(prepared),
            Host::Elsewhere(_) => None,
        }
    }

    pub(super) fn start(&self) -> Result<Server, String> {
        match &self.host {
            Host::Here(prepared) => {
                prepared.start().map(|r| Server::Here(Box::new(r))).map_err(|e| e.to_string())
            }
            Host::Elsewhere(at) => Ok(Server::Elsewhere(at.clone())),
        }
    }
}

impl Server {
    pub(super) fn addr(&self) -> SocketAddr {
        match self {
            Server::Here(running) => running.addr(),
            Server::Elsewhere(at) => at.address(),
        }
    }

    /// The Host field of requests.
    pub(super) fn authority(&self) -> String {
        match self {
            Server::Here(running) => running.addr().to_string(),
            Server::Elsewhere(at) => at.authority().to_owned(),
        }
    }

    /// `true` if it may close a connection after each response.
    pub(super) fn may_close(&self) -> bool {
        matches!(self, Server::Elsewhere(_))
    }

    /// The certificate of a TLS server.
    pub(super) fn trust(&self) -> Option<&Trust> {
        match self {
            Server::Here(running) => running.trust(),
            Server::Elsewhere(at) => at.trust(),
        }
    }

    pub(super) fn url_path(&self, file: &str) -> String {
        match self {
            Server::Here(running) => running.url_path(file),
            Server::Elsewhere(at) => at.url_path(file),
        }
    }

    /// The path of uploads of this name; `None` if it takes none.
    pub(super) fn upload_path(&self, file: &str) -> Option<String> {
        match self {
            Server::Here(running) => running.upload_path(file),
            Server::Elsewhere(_) => None,
        }
    }

    /// Its processes; `None` where they cannot be seen.
    pub(super) fn pids(&self) -> Option<Vec<u32>> {
        match self {
            Server::Here(running) => Some(running.pids()),
            Server::Elsewhere(at) => at.pids(),
        }
    }

    /// The processes of its upstream.
    pub(super) fn upstream_pids(&self) -> Vec<u32> {
        match self {
            Server::Here(running) => running.upstream_pids(),
            Server::Elsewhere(_) => Vec::new(),
        }
    }

    /// The address of its upstream.
    pub(super) fn upstream_addr(&self) -> Option<SocketAddr> {
        match self {
            Server::Here(running) => running.upstream_addr(),
            Server::Elsewhere(_) => None,
        }
    }

    /// The way to reload its configuration; `None` if there is none.
    pub(super) fn reload(&self) -> Option<Reload> {
        match self {
            Server::Here(running) => running.reload(),
            Server::Elsewhere(_) => None,
        }
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// It died; the text has the end of its log.
    pub(super) fn check_alive(&mut self) -> Result<(), String> {
        match self {
            Server::Elsewhere(at) => at.check_alive(),
            Server::Here(running) => match running.is_alive() {
                true => Ok(()),
                false => Err(format!("it died; its log ends:\n{}", running.log_tail())),
            },
        }
    }

    pub(super) fn stop(self) -> io::Result<()> {
        match self {
            Server::Here(running) => running.stop(),
            Server::Elsewhere(_) => Ok(()),
        }
    }
}
