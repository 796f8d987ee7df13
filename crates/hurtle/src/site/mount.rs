//! A mount: a handler at a path of a site, with its gates and helpers.

use std::cmp::Reverse;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use super::gate::{Compiler, Gate};
use super::handler_builder::HandlerBuilder;
use super::internal::Internal;
use http::StatusCode;

use crate::compress::Policy;
use crate::config::{self, ClientTimeouts, MatchedRequest, Matcher};
use crate::edits::ResponseEdits;
use crate::files::Routes;
use crate::files::routes::holds;
use crate::handler::Handler;
use crate::handler::app::App;
use crate::handler::proxy::Proxy;
use crate::metrics::RouteMetrics;

/// A handler at a path.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(super) path: Vec<u8>,
    /// `true`: no path beneath its own is the mount's.
    exact: bool,
    /// Conditions on its requests.
    matcher: Option<Matcher>,
    /// `true`: mounts with conditions take none of its requests.
    pub(super) is_final: bool,
    /// The name, which is unique in the site.
    name: String,
    /// `true`: only `otherwise` of another mount leads to it.
    pub(super) is_handed_on: bool,
    /// The name of the mount that has its requests for which there is no file.
    pub(super) otherwise: Option<String>,
    /// Its number in keys of the file cache, where paths alone do not decide about mounts; `None`:
    /// that of the site.
    pub(super) key: Option<usize>,
    /// The gates of its paths; one that is deployed at run time has those of its site.
    pub(super) gates: Vec<Gate>,
    pub(super) handler: Handler,
    /// The edits of its responses; `None`: those of the site.
    edits: Option<Rc<ResponseEdits>>,
    /// Internal files that its upstreams may name.
    pub(super) internal: Option<Internal>,
    /// The policy by which the handler's responses are compressed; `None`: they are not. Files have
    /// their own.
    pub(super) compress: Option<Policy>,
    /// Pages for error statuses, before those of the site.
    error_pages: config::ErrorPages,
    /// `true`: they replace errors of the handler, too.
    intercepts_errors: bool,
    /// Timeouts of its clients; `None`: those of the server.
    pub(super) timeouts: Option<Rc<ClientTimeouts>>,
    /// Counters of its requests.
    pub(super) metrics: Arc<RouteMetrics>,
}

/// The mount of a path. Deployed applications may be replaced while a request uses them.
#[derive(Clone, Debug)]
pub(crate) enum MountRef<'a> {
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
    /// Returns its path with its conditions; the root's path is `/`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counters of its requests.
    #[inline]
    pub(crate) fn metrics(&self) -> &Arc<RouteMetrics> {
        &self.metrics
    }

    /// Returns the edits of its responses; `None`: those of the site.
    pub(crate) fn edits(&self) -> Option<&ResponseEdits> {
        self.edits.as_deref()
    }

    /// Returns the handler of its requests.
    pub(crate) fn handler(&self) -> &Handler {
        &self.handler
    }

    /// Returns what replaces an error, if it is the mount's own matter.
    pub(super) fn error_page(&self, status: StatusCode) -> Option<&config::ErrorPage> {
        self.error_pages.get(&status)
    }

    /// Returns whether error pages replace errors of its upstream or application, too.
    pub(crate) fn intercepts_errors(&self) -> bool {
        self.intercepts_errors
    }

    /// Returns the internal files that its upstreams may name; `None`: none.
    pub(crate) fn internal(&self) -> Option<&Internal> {
        self.internal.as_ref()
    }

    /// Creates a mount of the compiler's site, with its gates. `previous` is the proxy that was at
    /// its path; it stays if its configuration does.
    pub(super) fn new(
        config: &config::Mount,
        compiler: &Compiler<'_>,
        routes: &Arc<Routes>,
        edits: &Rc<ResponseEdits>,
        previous: Option<&Rc<Proxy>>,
        compression: &Compression,
    ) -> Mount {
        let (site, resources) = (&compiler.site.name(), compiler.resources);
        let (of_files, compress) = compression.of_mount(config.compress, config.takes_uploads());
        let own_edits = (!config.headers.is_empty()).then(|| Rc::new(edits.of_mount(config)));
        let name = config.name();
        let metrics = resources.metrics.route(site, &name);
        let internal = config.handler.internal();
        let internal = internal.map(|root| Internal::new(root, resources, of_files.clone()));
        let builder = HandlerBuilder {
            site,
            name: &name,
            resources,
            routes,
            edits: own_edits.as_ref().unwrap_or(edits),
            metrics: &metrics,
            compress: of_files,
            previous,
        };
        let handler = builder.build(config);
        Mount {
            path: if config.exact { config.path.clone().into() } else { mount_path(&config.path) },
            exact: config.exact,
            // The handler of a mount with a name has it.
            matcher: config.matcher.clone().filter(|_| config.given_name.is_none()),
            is_final: config.is_final,
            name,
            is_handed_on: config.given_name.is_some(),
            otherwise: config.otherwise().map(|name| format!("@{name}")),
            key: None,
            gates: compiler.of_mount(config),
            handler,
            edits: own_edits,
            internal,
            compress,
            error_pages: config.error_pages.clone(),
            intercepts_errors: config.intercept_errors,
            timeouts: None,
            metrics,
        }
    }

    /// Creates the mount of an application.
    pub(super) fn of_app(
        app: App,
        gates: Vec<Gate>,
        compress: Option<Policy>,
        metrics: Arc<RouteMetrics>,
    ) -> Mount {
        let name = app.mount().to_owned();
        let handler = Handler::App(app);
        Mount { gates, compress, ..Mount::of_path(&name, handler, metrics) }
    }

    /// Creates the mount of an application that is deployed at run time.
    pub(super) fn of_deployment(path: &str, proxy: Proxy, metrics: Arc<RouteMetrics>) -> Mount {
        // A later configuration of the site has other gates, and may compress.
        Mount::of_path(path, Handler::Proxy(Rc::new(proxy)), metrics)
    }

    /// The mount of a path and all beneath it, without gates.
    fn of_path(path: &str, handler: Handler, metrics: Arc<RouteMetrics>) -> Mount {
        Mount {
            path: mount_path(path),
            exact: false,
            matcher: None,
            is_final: false,
            name: path.to_owned(),
            is_handed_on: false,
            otherwise: None,
            key: None,
            gates: Vec::new(),
            compress: None,
            handler,
            edits: None,
            internal: None,
            error_pages: config::ErrorPages::new(),
            intercepts_errors: false,
            timeouts: None,
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

    /// Returns whether a path is the mount's, conditions aside.
    pub(super) fn holds(&self, path: &[u8]) -> bool {
        match (self.is_handed_on, self.exact) {
            (true, _) => false,
            (_, true) => path == self.path,
            (_, false) => holds(&self.path, path),
        }
    }

    /// Returns whether a request is the mount's. Without one only the path is known.
    pub(super) fn takes(&self, path: &[u8], request: Option<&MatchedRequest<'_>>) -> bool {
        let matches = |matcher: &Matcher| matcher.matches(path, request);
        self.holds(path) && self.matcher.as_ref().is_none_or(matches)
    }

    /// Returns whether it takes every path beneath its own.
    pub(super) fn is_prefix(&self) -> bool {
        !self.exact && self.matcher.is_none() && !self.is_handed_on
    }

    /// Returns whether it hands requests without a file on.
    pub(super) fn hands_on(&self) -> bool {
        self.otherwise.is_some()
    }

    /// Returns whether its path is its only one.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// The key by which mounts are tried: exact ones, those with conditions in the order of the
    /// configuration, and the others with the longest path first.
    pub(super) fn rank(&self) -> (u8, Reverse<usize>) {
        match (self.exact, &self.matcher) {
            // Those of one path with conditions go before that without.
            (true, Some(_)) => (0, Reverse(0)),
            (true, None) => (1, Reverse(0)),
            (false, Some(_)) => (2, Reverse(0)),
            (false, None) if self.is_handed_on => (4, Reverse(0)),
            (false, None) => (3, Reverse(self.path.len())),
        }
    }

    /// Returns the part of a path beneath the mount. For files of an exact mount it is the last
    /// name.
    pub(super) fn rest<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        let is_of_files = match &self.handler {
            Handler::Directory(_) => true,
            Handler::Gateway { gateway, .. } => gateway.scripts().is_some(),
            _ => false,
        };
        if self.exact && is_of_files {
            let name = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
            return &path[name..];
        }
        let rest = &path[self.path.len().min(path.len())..];
        rest.strip_prefix(b"/").unwrap_or(rest)
    }
}

/// The compression of a site.
#[derive(Clone, Debug)]
pub(super) struct Compression {
    pub(super) policy: Policy,
    /// The site's `compress`; `None`: it is not set.
    pub(super) site: Option<bool>,
}

impl Compression {
    /// Returns the policies of a mount: for files, and for all else. `own` is the mount's
    /// `compress`. With `takes_uploads` files are sent as they are, because a client that puts one
    /// back names its entity-tag, and an encoding has another.
    pub(super) fn of_mount(
        &self,
        own: Option<bool>,
        takes_uploads: bool,
    ) -> (Option<Policy>, Option<Policy>) {
        let written = own.or(self.site);
        let policy = |is_on| if is_on { Some(self.policy.clone()) } else { None };
        (policy(written.unwrap_or(!takes_uploads)), policy(written.unwrap_or(false)))
    }
}

/// Returns a mount's path; the root is empty, because its slash begins the rest.
pub(super) fn mount_path(path: &str) -> Vec<u8> {
    if path == "/" { vec![] } else { path.as_bytes().to_vec() }
}
