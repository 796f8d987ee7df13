//! Applications: any `tower` service, called on the worker. What may go wrong in one becomes an
//! answer; its body is polled by whoever sends it. `work` is one at work on a request, `calling` is who
//! waits for it, `isolated` are those on threads of their own, `watchdog` tells of those that should be.

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

pub use self::calling::Calling;
use self::isolated::Isolated;
use self::watchdog::Watchdog;
use self::work::Work;
use crate::body::{BoxError, RequestBody};
use crate::config::HeaderRule;
use crate::disk::Disk;
use crate::files::{Arrival, Home};
use crate::rt::Threads;

/// A mounted application; each worker has its own clone.
pub struct App {
    home: Arc<Home>,
    service: Box<dyn Call>,
}

/// What `App` needs of a service whose types are forgotten.
trait Call: Send {
    fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Calling;
    fn another(&self, home: &Arc<Home>) -> Box<dyn Call>;
}

impl App {
    /// Takes a service; `mount` is where: `/`, or a path that does not end in `/`; `site`: the site's
    /// name.
    pub fn new<S, B>(site: &str, mount: &str, service: S) -> App
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let home = Arc::new(Home { site: site.into(), mount: mount.into(), disk: None });
        let watchdog = Watchdog::new(&home);
        App { home, service: Box::new(Mounted { service, watchdog }) }
    }

    /// The same on threads of its own.
    pub fn isolated<S, B>(site: &str, mount: &str, service: S, threads: Threads) -> App
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = Box::new(Isolated { service, threads: Arc::new(threads) });
        let home = Arc::new(Home { site: site.into(), mount: mount.into(), disk: None });
        App { home, service }
    }

    /// Where it is mounted.
    pub fn mount(&self) -> &str {
        &self.home.mount
    }

    /// How a request came here.
    pub fn arrival(&self, client: Option<IpAddr>, secure: bool, original: PathAndQuery) -> Arrival {
        Arrival { client, secure, original, home: Arc::clone(&self.home) }
    }

    /// Begins to answer a request; the site's header rules are applied to the answer. Nothing runs
    /// before the answer is asked for.
    pub fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Calling {
        self.service.call(request, rules)
    }

    /// A clone for another worker, with which it shares nothing that either counts; its files are
    /// opened on `disk`.
    pub fn another(&self, disk: &Disk) -> App {
        let Home { site, mount, .. } = &*self.home;
        let files = Some((disk.clone(), disk.lane()));
        let home = Arc::new(Home { site: site.clone(), mount: mount.clone(), disk: files });
        let service = self.service.another(&home);
        App { home, service }
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("mount", &self.mount()).finish_non_exhaustive()
    }
}

/// One that runs on the worker.
struct Mounted<S> {
    service: S,
    watchdog: Arc<Watchdog>,
}

impl<S, B> Call for Mounted<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Calling {
        let work = Box::pin(Work::new(self.service.clone(), request, rules));
        Calling { work, dog: Some(Arc::clone(&self.watchdog)) }
    }

    fn another(&self, home: &Arc<Home>) -> Box<dyn Call> {
        let (service, watchdog) = (self.service.clone(), Watchdog::new(home));
        Box::new(Mounted { service, watchdog })
    }
}
