//! How a request came to an application, and the means by which that answers with files.

use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;

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
    pub original: Uri,
    /// Where the application is mounted: `/`, or a path that does not end in `/`.
    pub mount: Arc<str>,
    /// The site it is mounted in: the first of its names as configured (`example.org`,
    /// `*.example.org`), or `*` if it has none.
    pub site: Arc<str>,
    // Here and not beside it: applications that ask for neither pay for one.
    pub(crate) opener: Option<Opener>,
}

/// Where an application's files are opened and read.
#[derive(Clone, Debug)]
pub struct Opener(Arc<(Disk, Lane)>);

impl Opener {
    /// One with a lane of its own.
    pub fn new(disk: &Disk) -> Opener {
        Opener(Arc::new((disk.clone(), disk.lane())))
    }

    pub(super) fn means(&self) -> (&Disk, Lane) {
        let (disk, lane) = &*self.0;
        (disk, *lane)
    }
}
