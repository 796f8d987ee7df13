//! Request extension that tells an application where a request came from, and gives it access to
//! files.

use std::net::IpAddr;
use std::sync::Arc;

use http::uri::PathAndQuery;

use super::Hashes;
use crate::disk::{Disk, Lane};

/// Properties of a request for an application, stored in the request's extensions.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The client's address: the peer's, or the one that a load balancer reports
    /// (`[proxy_protocol]`). `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// True if the request came over TLS.
    pub secure: bool,
    /// Path and query as sent by the client. The request's own URI is relative to the mount.
    pub original: PathAndQuery,
    /// `true`: the client uses `https`, at this server or at a trusted proxy that reports it.
    pub is_https: bool,
    pub(crate) home: Arc<Home>,
}

/// The mount of an application, and the threads that open and read its files.
#[derive(Debug)]
pub(crate) struct Home {
    /// The first configured name of the site, or `*`.
    pub site: Box<str>,
    /// `/`, or a path that does not end in `/`.
    pub mount: Box<str>,
    /// `None` before the server has started.
    pub disk: Option<(Disk, Lane)>,
    /// Hashes of its files; all workers share them.
    pub hashes: Hashes,
}

impl Arrival {
    /// The mount's path: `/`, or a path that does not end in `/`.
    pub fn mount(&self) -> &str {
        &self.home.mount
    }

    /// The site of the mount: its first configured name (`example.org`, `*.example.org`), or `*` if
    /// it has none.
    pub fn site(&self) -> &str {
        &self.home.site
    }
}
