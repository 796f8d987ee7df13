//! Mounting applications on a server, before it starts.

use std::io;
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use super::Server;
use crate::body::{BoxError, RequestBody};
use crate::disk::Disk;
use crate::handler::app::App;
use crate::rt::Threads;

/// An application and the index of its site.
#[derive(Debug)]
pub(super) struct MountedApp {
    pub(super) site: usize,
    pub(super) app: App,
}

impl MountedApp {
    /// A copy for another worker.
    pub(super) fn for_worker(&self, disk: &Disk) -> MountedApp {
        MountedApp { site: self.site, app: self.app.for_worker(disk) }
    }
}

impl Server {
    /// Mounts an application: an `axum::Router`, or any other `tower` service of requests.
    ///
    /// `host` is a name (`example.org`), every name beneath one (`*.example.org`), or `*` for every
    /// name that no other site has. `path` begins with `/`. The application gets every request
    /// beneath `path` unless a longer mount matches, and sees the rest of the path (`/api` and
    /// `/api/` become `/`). [`Arrival`](crate::Arrival), in the request's extensions, has the
    /// original URI.
    ///
    /// The service is cloned for each worker and again for each request. Its future and its
    /// response's body are polled on the connection's worker, together with other connections, so
    /// it must not block; a poll that takes more than 10 ms is logged as an error. Use
    /// [`mount_isolated`](Server::mount_isolated) for blocking work. The future is dropped when the
    /// client resets the connection. A panic or an error becomes a 500 and a line in the error log.
    ///
    /// # Errors
    /// `InvalidInput`, if `host` or `path` is malformed or another mount has this path.
    pub fn mount<S, B>(self, host: &str, path: &str, service: S) -> io::Result<Server>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.mount_app(host, path, |site, path| Ok(App::new(site, path, service)))
    }

    /// Mounts an application on threads of its own: a multi-threaded tokio runtime with one thread
    /// for each processor, shared by all workers. The service is called there, its request's body
    /// is read there, and its response is made there. It may block without delaying other
    /// connections; each request costs two or more thread switches.
    ///
    /// # Errors
    /// As of `mount`, or the system refuses a thread.
    pub fn mount_isolated<S, B>(self, host: &str, path: &str, service: S) -> io::Result<Server>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.mount_app(host, path, |site, path| {
            Ok(App::isolated(site, path, service, Arc::new(Threads::start("app")?)))
        })
    }

    fn mount_app(
        mut self,
        host: &str,
        path: &str,
        make: impl FnOnce(&str, &str) -> io::Result<App>,
    ) -> io::Result<Server> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let config = Arc::make_mut(&mut self.settings.config);
        let (site, path) = config.reserve_mount(host, path).map_err(invalid)?;
        if self.apps.iter().any(|other| (other.site, other.app.mount()) == (site, &*path)) {
            return Err(invalid(format!("{path:?} is taken by another application")));
        }
        let name = config.sites[site].name();
        self.apps.push(MountedApp { site, app: make(&name, &path)? });
        Ok(self)
    }
}
