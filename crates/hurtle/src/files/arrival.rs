//! How a request came to an application, and the means by which that answers with files.

use std::net::IpAddr;
use std::sync::Arc;

use http::uri::PathAndQuery;

use crate::disk::{Disk, Lane};

/// How a request came to an application: in the request's extensions.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The client's address: the peer's, or whom a load balancer speaks for (`[proxy_protocol]`).
    /// `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// Whether it came over TLS.
    pub secure: bool,
    /// Path and query as the client sent them; the request's own URI begins at the mount.
    pub original: PathAndQuery,
    pub(crate) home: Arc<Home>,
}

/// Where an application is mounted, and where its files are opened and read.
#[derive(Debug)]
pub struct Home {
    /// The first of its site's names as configured, or `*`.
    pub site: Box<str>,
    /// `/`, or a path that does not end in `/`.
    pub mount: Box<str>,
    /// `None`: the server has not started.
    pub disk: Option<(Disk, Lane)>,
}

impl Arrival {
    /// Where the application is mounted: `/`, or a path that does not end in `/`.
    pub fn mount(&self) -> &str {
        &self.home.mount
    }

    /// The site it is mounted in: the first of its names as configured (`example.org`,
    /// `*.example.org`), or `*` if it has none.
    pub fn site(&self) -> &str {
        &self.home.site
    }
}
