//! A server that runs already: neither started nor stopped here.

use std::net::SocketAddr;
use std::path::Path;

use crate::plan::Plan;
use crate::process;
use crate::target::Url;
use crate::tls::{Protocol, Trust};

/// Address of a server, and the paths of its files.
#[derive(Clone, Debug)]
pub struct Remote {
    address: SocketAddr,
    /// The Host field.
    authority: String,
    path: RemotePath,
    /// The certificate of a TLS server.
    trust: Option<Trust>,
    /// Its first process, if it runs on this machine and is to be sampled.
    pid: Option<u32>,
}

#[derive(Clone, Debug)]
enum RemotePath {
    /// Path of a folder with the plan's files, without the last `/`.
    Folder(String),
    /// Path of the only file.
    File(String),
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Remote {
        let (authority, path) = (address.to_string(), RemotePath::Folder(String::new()));
        Remote { address, authority, path, trust: None, pid: None }
    }
}

impl Remote {
    /// A server with the plan's files beneath the URL's path.
    ///
    /// # Errors
    /// The host has no address, or its certificate is not accepted.
    pub fn folder(url: &Url) -> Result<Remote, String> {
        let folder = url.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        Remote::of(url, RemotePath::Folder(folder.to_owned()), false)
    }

    /// A server whose response to the URL is the plan's only file.
    ///
    /// # Errors
    /// The host has no address, or its certificate is not accepted, unless it is `insecure`.
    pub fn file(url: &Url, insecure: bool) -> Result<Remote, String> {
        Remote::of(url, RemotePath::File(url.path.clone()), insecure)
    }

    fn of(url: &Url, path: RemotePath, insecure: bool) -> Result<Remote, String> {
        let reached = url.reach(Protocol::Http1, insecure).map_err(|e| e.to_string())?;
        let (address, authority) = (reached.address, url.authority.clone());
        Ok(Remote { address, authority, path, trust: reached.trust, pid: None })
    }

    pub(super) fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// Checks that it can do the work of a plan.
    ///
    /// # Errors
    /// The plan and the URL differ in TLS.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let is_secure = self.trust.is_some();
        if plan.needs_tls() && !is_secure {
            return Err("this plan measures TLS: write a URL of https".to_owned());
        }
        if is_secure && plan.works.iter().any(|work| work.beside.is_some()) {
            let why = "this plan's streams and idle connections are in clear text";
            return Err(format!("{why}: write a URL of http"));
        }
        Ok(())
    }

    /// Its processes are this one and those it started.
    ///
    /// # Errors
    /// There is no such process.
    pub fn with_pid(mut self, pid: u32) -> Result<Remote, String> {
        self.pid = Some(pid);
        self.check_alive().map(|()| self)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn url_path(&self, file: &str) -> String {
        match &self.path {
            RemotePath::Folder(folder) => format!("{folder}/{file}"),
            RemotePath::File(path) => path.clone(),
        }
    }

    /// Its processes; `None` if they are not sampled.
    pub(super) fn pids(&self) -> Option<Vec<u32>> {
        self.pid.map(process::pids)
    }

    pub(super) fn check_alive(&self) -> Result<(), String> {
        match self.pid {
            Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => {
                Err(format!("there is no process {pid}"))
            }
            _ => Ok(()),
        }
    }
}
