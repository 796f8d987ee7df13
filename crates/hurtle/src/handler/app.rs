//! Applications: any `tower` service, called on the worker. `call` handles one request, `work` runs
//! the service for it, `calling` turns its failures into responses, `isolated` runs services on
//! threads of their own, and `watchdog` logs services that block their worker.

mod call;
mod calling;
mod isolated;
mod watchdog;
mod work;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{Request, Response};
use tower_service::Service;

pub(crate) use self::calling::Calling;
use self::isolated::Isolated;
use self::watchdog::Watchdog;
use self::work::Work;
use crate::body::{Body, BoxError, RequestBody};
use crate::disk::Disk;
use crate::files::{Arrival, Hashes, Home};
use crate::rt::Threads;

/// A mounted application; each worker has its own clone.
pub(crate) struct App {
    home: Arc<Home>,
    service: Box<dyn Call>,
}

/// A service behind a type-erased interface.
trait Call: Send {
    fn call(&self, request: Request<RequestBody>) -> Calling;
    fn discard(&self, body: Body);
    fn for_worker(&self, home: &Arc<Home>) -> Box<dyn Call>;
}

impl App {
    /// Wraps a service. `mount` is its path: `/`, or a path that does not end in `/`. `site` is the
    /// site's name.
    pub(crate) fn new<S, B>(site: &str, mount: &str, service: S) -> App
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let home = home(site, mount);
        let watchdog = Watchdog::new(&home);
        App { home, service: Box::new(InlineService { service, watchdog }) }
    }

    /// Wraps a service that runs on separate threads.
    pub(crate) fn isolated<S, B>(site: &str, mount: &str, service: S, threads: Arc<Threads>) -> App
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = Box::new(Isolated { service, threads });
        let home = home(site, mount);
        App { home, service }
    }

    /// Path of the mount.
    pub(crate) fn mount(&self) -> &str {
        &self.home.mount
    }

    /// The origin of a request, for its extensions.
    pub(crate) fn arrival(
        &self,
        client: Option<IpAddr>,
        secure: bool,
        is_https: bool,
        original: PathAndQuery,
    ) -> Arrival {
        Arrival { client, secure, original, is_https, home: Arc::clone(&self.home) }
    }

    /// Starts a request. The service runs only when the result is polled.
    fn start(&self, request: Request<RequestBody>) -> Calling {
        self.service.call(request)
    }

    /// Takes the body of a response in whose place the client gets another one. A service with its
    /// own threads reads it to its end, within limits: a component may have work to do after it.
    pub(crate) fn discard(&self, body: Body) {
        self.service.discard(body);
    }

    /// A clone for another worker, without shared counters; its files are opened on `disk`.
    pub(crate) fn for_worker(&self, disk: &Disk) -> App {
        let Home { site, mount, hashes, .. } = &*self.home;
        let (site, mount, hashes) = (site.clone(), mount.clone(), hashes.clone());
        let home = Arc::new(Home { site, mount, disk: Some((disk.clone(), disk.lane())), hashes });
        let service = self.service.for_worker(&home);
        App { home, service }
    }
}

/// Creates the mount of an application before the server has started.
fn home(site: &str, mount: &str) -> Arc<Home> {
    let (site, mount) = (site.into(), mount.into());
    Arc::new(Home { site, mount, disk: None, hashes: Hashes::default() })
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("mount", &self.mount()).finish_non_exhaustive()
    }
}

/// A service that runs on the worker.
struct InlineService<S> {
    service: S,
    watchdog: Arc<Watchdog>,
}

impl<S, B> Call for InlineService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&self, request: Request<RequestBody>) -> Calling {
        let work = Box::pin(Work::new(self.service.clone(), request));
        Calling { work, watchdog: Some(Arc::clone(&self.watchdog)) }
    }

    /// Drops it, which would otherwise be polled by the worker.
    fn discard(&self, _: Body) {}

    fn for_worker(&self, home: &Arc<Home>) -> Box<dyn Call> {
        let (service, watchdog) = (self.service.clone(), Watchdog::new(home));
        Box::new(InlineService { service, watchdog })
    }
}
