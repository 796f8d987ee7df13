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

/// An application and its site's number.
#[derive(Debug)]
pub(super) struct Mounted {
    pub(super) site: usize,
    pub(super) app: App,
}

impl Mounted {
    /// The same, for another worker.
    pub(super) fn another(&self, disk: &Disk) -> Mounted {
        Mounted { site: self.site, app: self.app.another(disk) }
    }
}

impl Server {
    /// Mounts an application: an `axum::Router`, or any other `tower` service of requests.
    ///
    /// `host` is a name (`example.org`), every name beneath one (`*.example.org`), or `*`: every
    /// name that no other site has. `path` begins with `/`; the application answers what is beneath
    /// it, unless a longer mount does, and sees paths that begin there (`/api` and `/api/` are its
    /// `/`). [`Arrival`](crate::Arrival), in the request's extensions, has the URI as it was sent.
    ///
    /// The service is cloned for each worker, and again for each request, as hyper's users know it;
    /// it is called, and its answer's body polled, on the worker that has the connection, beside the
    /// others there: it must not block, and a poll of it that takes more than 10 ms is told to the
    /// error log. What may take longer is for [`mount_isolated`](Server::mount_isolated). Its future
    /// is dropped when the client resets the connection. A panic or an error becomes a 500 and a line
    /// in the error log.
    ///
    /// # Errors
    /// `InvalidInput`, if `host` or `path` is malformed or the place is taken.
    pub fn mount<S, B>(self, host: &str, path: &str, service: S) -> io::Result<Server>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.place(host, path, |site, path| Ok(App::new(site, path, service)))
    }

    /// The same on threads of its own (a multi-threaded tokio runtime with as many as there are
    /// processors, shared by all workers): there it is called, and there its request's body is read
    /// and its answer's made. However long it blocks, it delays nobody but its own requests; each
    /// exchange costs two or more changes of threads.
    ///
    /// # Errors
    /// As of `mount`; and the system's, if it refuses a thread.
    pub fn mount_isolated<S, B>(self, host: &str, path: &str, service: S) -> io::Result<Server>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.place(host, path, |site, path| {
            Ok(App::isolated(site, path, service, Threads::start("app")?))
        })
    }

    fn place(
        mut self,
        host: &str,
        path: &str,
        make: impl FnOnce(&str, &str) -> io::Result<App>,
    ) -> io::Result<Server> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let config = Arc::make_mut(&mut self.config);
        let (site, path) = config.place(host, path).map_err(invalid)?;
        if self.apps.iter().any(|other| (other.site, other.app.mount()) == (site, &*path)) {
            return Err(invalid(format!("{path:?} is taken by another application")));
        }
        let name = config.sites[site].hosts.first().map_or("*".to_owned(), ToString::to_string);
        self.apps.push(Mounted { site, app: make(&name, &path)? });
        Ok(self)
    }
}
