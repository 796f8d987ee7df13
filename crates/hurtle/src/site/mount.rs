//! A mount: a handler at a path of a site, with its gates and helpers.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use super::gate::Gate;
use super::internal::Internal;
use crate::compress::Policy;
use crate::config::{self, MountHandler};
use crate::disk::{Disk, Lane};
use crate::edits::ResponseEdits;
use crate::files::Routes;
use crate::files::routes::holds;
use crate::handler::Handler;
use crate::handler::app::App;
use crate::handler::directory::{Directory, Resources};
use crate::handler::fixed::{Fixed, Redirect};
use crate::handler::gateway::{Gateway, Slots};
use crate::handler::proxy::Proxy;
use crate::handler::status::Status;
use crate::metrics::RouteMetrics;
use crate::wasm::NotLoaded;

/// A handler at a path.
#[derive(Debug)]
pub struct Mount {
    pub(super) path: Vec<u8>,
    /// The gates of its paths; one that is deployed at run time has those of its site.
    pub(super) gates: Vec<Gate>,
    pub(super) handler: Handler,
    /// Internal files that its upstreams may name.
    pub(super) internal: Option<Internal>,
    /// The policy by which the handler's responses are compressed; `None`: they are not. Files have
    /// their own.
    pub(super) compress: Option<Policy>,
    /// Counters of its requests.
    pub(super) metrics: Arc<RouteMetrics>,
}

/// The mount of a path. Deployed applications may be replaced while a request uses them.
#[derive(Clone, Debug)]
pub enum MountRef<'a> {
    /// A configured mount, with its number in the site.
    Configured(usize, &'a Mount),
    /// A mount that was deployed at run time.
    Deployed(Rc<Mount>),
}

impl Deref for MountRef<'_> {
    type Target = Mount;

    fn deref(&self) -> &Mount {
        match self {
            MountRef::Configured(_, mount) => mount,
            MountRef::Deployed(mount) => mount,
        }
    }
}

impl MountRef<'_> {
    /// Returns whether both are the same mount.
    pub(super) fn is(&self, other: &MountRef<'_>) -> bool {
        std::ptr::eq::<Mount>(&**self, &**other)
    }
}

impl Mount {
    /// Returns the path; the root is `/`.
    pub fn path(&self) -> &str {
        let path = std::str::from_utf8(&self.path).unwrap_or("");
        if path.is_empty() { "/" } else { path }
    }

    /// Returns the counters of its requests.
    #[inline]
    pub fn metrics(&self) -> &Arc<RouteMetrics> {
        &self.metrics
    }

    /// Returns the handler.
    pub fn handler(&self) -> &Handler {
        &self.handler
    }

    /// Returns the internal files that its upstreams may name; `None`: none.
    pub fn internal(&self) -> Option<&Internal> {
        self.internal.as_ref()
    }

    /// Creates a mount of the site with this name. `previous` is the proxy that was at its path; it
    /// stays if its configuration does.
    pub(super) fn new(
        config: &config::Mount,
        site: &str,
        (resources, slots): (&Resources, &Slots),
        (routes, edits): (&Arc<Routes>, &Rc<ResponseEdits>),
        gates: Vec<Gate>,
        previous: Option<&Rc<Proxy>>,
        compression: &Compression,
    ) -> Mount {
        let (of_files, compress) = compression.of_mount(config.compress);
        let named = match &config.handler {
            MountHandler::Proxy(proxy) => proxy.internal.as_ref(),
            MountHandler::FastCgi(app) => app.internal.as_ref(),
            MountHandler::Cgi(cgi) => cgi.internal.as_ref(),
            MountHandler::Wasm(wasm) => wasm.internal.as_ref(),
            _ => None,
        };
        let metrics = resources.metrics.route(site, &config.path);
        let internal = named.map(|root| Internal::new(root, resources, of_files.clone()));
        let handler = match &config.handler {
            MountHandler::Files(files) => {
                let directory = Directory::new(files.clone(), resources, of_files);
                let directory = directory.of_site(edits, &metrics);
                Handler::Directory(directory.with_archives(&resources.disk, routes))
            }
            MountHandler::Redirect { status, to } => {
                Handler::Redirect(Redirect { status: *status, to: to.clone() })
            }
            MountHandler::Proxy(proxy) => {
                let tls = resources.upstream_tls.of(proxy);
                let known = previous.filter(|known| known.is_as(proxy, tls));
                Handler::Proxy(known.cloned().unwrap_or_else(|| {
                    let names = (&resources.disk, names_lane(&resources.disk));
                    let cache = resources.caches.of(proxy, &resources.disk);
                    Rc::new(Proxy::new((**proxy).clone(), names, tls.cloned(), cache))
                }))
            }
            MountHandler::FastCgi(app) => {
                let beside = app.files_beside();
                let beside = beside.map(|files| {
                    Directory::new(files, resources, of_files).of_site(edits, &metrics)
                });
                let gateway = Rc::new(Gateway::fastcgi(app, &resources.disk));
                Handler::Gateway { gateway, beside }
            }
            MountHandler::Cgi(cgi) => {
                let gateway = Rc::new(Gateway::programs(cgi, &resources.disk, slots));
                Handler::Gateway { gateway, beside: None }
            }
            MountHandler::Wasm(_) => match resources.wasm.service(site, &config.path) {
                Some((service, threads)) => {
                    Handler::App(App::isolated(site, &config.path, service, threads))
                }
                None => Handler::App(App::new(site, &config.path, NotLoaded)),
            },
            MountHandler::Status => {
                Handler::Status(Status::new(&resources.status, &resources.disk))
            }
            MountHandler::Fixed { status, body, content_type } => Handler::Fixed(Fixed {
                status: *status,
                body: body.clone().into(),
                media_type: content_type.clone(),
            }),
        };
        if let Handler::Proxy(proxy) = &handler {
            proxy.count_in(&resources.metrics, site, &config.path);
        }
        Mount { path: mount_path(&config.path), gates, handler, internal, compress, metrics }
    }

    /// Creates the mount of an application.
    pub(super) fn of_app(
        app: App,
        gates: Vec<Gate>,
        compress: Option<Policy>,
        metrics: Arc<RouteMetrics>,
    ) -> Mount {
        let path = mount_path(app.mount());
        Mount { path, gates, handler: Handler::App(app), internal: None, compress, metrics }
    }

    /// Creates the mount of an application that is deployed at run time.
    pub(super) fn of_deployment(path: &str, proxy: Proxy, metrics: Arc<RouteMetrics>) -> Mount {
        Mount {
            path: mount_path(path),
            // A later configuration of the site has other gates, and may compress.
            gates: Vec::new(),
            compress: None,
            handler: Handler::Proxy(Rc::new(proxy)),
            internal: None,
            metrics,
        }
    }

    pub(super) fn takes_uploads(&self) -> bool {
        matches!(&self.handler, Handler::Directory(directory) if directory.takes_uploads())
    }

    pub(super) fn reads_bodies(&self) -> bool {
        matches!(&self.handler, Handler::App(_) | Handler::Proxy(_) | Handler::Gateway { .. })
            || self.takes_uploads()
    }

    pub(super) fn has_cache(&self) -> bool {
        matches!(&self.handler, Handler::Proxy(proxy) if proxy.cache().is_some())
    }

    pub(super) fn has_files(&self) -> bool {
        matches!(&self.handler, Handler::Directory(_) | Handler::Gateway { beside: Some(_), .. })
    }

    pub(super) fn holds(&self, path: &[u8]) -> bool {
        holds(&self.path, path)
    }
}

/// The compression of a site.
#[derive(Clone, Debug)]
pub(super) struct Compression {
    pub(super) policy: Policy,
    /// The site's `compress`.
    pub(super) site: Option<bool>,
}

impl Compression {
    /// Returns the policies of a mount: for files, and for all else. `own` is the mount's `compress`.
    pub(super) fn of_mount(&self, own: Option<bool>) -> (Option<Policy>, Option<Policy>) {
        let written = own.or(self.site);
        let policy = |is_on| if is_on { Some(self.policy.clone()) } else { None };
        (policy(written.unwrap_or(true)), policy(written.unwrap_or(false)))
    }
}

/// Returns the lane in which the names of upstreams are resolved.
pub(super) fn names_lane(disk: &Disk) -> Lane {
    disk.lane_of("host names".to_owned())
}

/// Returns a mount's path; the root is empty, because its slash begins the rest.
pub(super) fn mount_path(path: &str) -> Vec<u8> {
    if path == "/" { vec![] } else { path.as_bytes().to_vec() }
}
