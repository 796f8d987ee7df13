//! Routes a host name and a path to a handler: sites, rules, mounts, and the gates before them.

mod access;
mod deployed;
mod gate;
mod handler_builder;
mod https;

use std::rc::Rc;
use std::sync::Arc;

use http::{StatusCode, header};
use hurtle_http::message::field_lines::field;
use hurtle_http::message::forward;
use hurtle_http::message::response::Fields;

use crate::answer::{Answer, Needs};
use crate::auth::Guard;
use crate::compress::Policy;
use crate::config::{self, ClientTimeouts, Compress, EarlyHints, Listen, Sendfile};
use crate::edits::ResponseEdits;
use crate::files::{Entry, Routes, Store};
use crate::handler::Handler;
use crate::handler::app::App;
use crate::handler::proxy::Proxy;
use crate::handler::request::MatchedPath;
use crate::handler::resources::Resources;
use crate::metrics::{RouteMetrics, WorkerMetrics};
use crate::tls;
use deployed::Deployed;
use gate::Compiler;
use https::Demand;

pub(crate) use access::admits;
pub(crate) use deployed::Deployment;
pub(crate) use gate::{Gate, Visitor};
pub(crate) use https::Channel;
pub(crate) use maintenance::Maintenance;
pub(crate) use resolved::Resolved;
pub(crate) use route::Route;

mod internal;
mod maintenance;
mod mount;
mod names;
mod resolved;
mod route;
mod slashes;

use mount::{Compression, Mount};
use names::{Names, NamesByListener};
use route::Routing;

pub(crate) use mount::MountRef;

/// All sites of one worker.
#[derive(Debug)]
pub(crate) struct Sites {
    sites: Vec<Rc<Site>>,
    names: NamesByListener,
    sendfile: Sendfile,
    compress: Arc<Compress>,
    /// The next number for keys of the file cache.
    next_key: usize,
}

/// The configuration and the handlers of a set of host names.
#[derive(Debug)]
pub(crate) struct Site {
    /// The site's number in keys of the file cache; unique in this process.
    key: usize,
    config: config::Site,
    mounts: Vec<Mount>,
    /// Applications that are deployed at run time.
    deployed: Deployed,
    demand: Demand,
    /// The policy for deployed applications.
    compress_apps: Option<Policy>,
    /// The versions of its WebAssembly applications.
    wasm: Vec<u64>,
    routing: Routing,
    /// The gates of paths without a mount, and of applications that are deployed at run time.
    gates: Vec<Gate>,
    /// Timeouts of clients whose requests have no mount, or that of an application that is deployed
    /// at run time; `None`: those of the server.
    timeouts: Option<Rc<ClientTimeouts>>,
    /// The edits of its responses.
    edits: Rc<ResponseEdits>,
    /// Counters of the responses that no mount makes.
    metrics: Arc<RouteMetrics>,
}

impl Sites {
    /// Creates the sites. `guard` holds the users. Sites that are as they were in `previous`, the
    /// sites of the configuration before, are shared with it. So are upstreams of changed sites,
    /// and the applications that were deployed in them.
    pub(crate) fn new(
        config: &config::Config,
        resources: &Resources<'_>,
        guard: &Guard,
        previous: Option<&Sites>,
    ) -> Sites {
        let sites = &config.sites;
        let https_port = |site: &config::Site| {
            let own = config.listen_tls.iter().filter(|listen| site.answers_at(listen));
            own.chain(&config.listen_tls).find_map(Listen::port)
        };
        let sendfile = resources.sendfile;
        let compress = Arc::new(config.compress.clone());
        let mut next_key = previous.map_or(0, |sites| sites.next_key);
        let mut create = |site: &config::Site| {
            let demand = Demand::new(site, tls::policy(site), https_port(site));
            let known = previous.and_then(|sites| sites.of_name(&site.name()));
            let is_alike = previous
                .is_some_and(|sites| sites.sendfile == sendfile && sites.compress == compress);
            if let Some(known) =
                known.filter(|known| is_alike && known.is_as(site, &demand, guard, resources))
            {
                return Rc::clone(known);
            }
            let policy = Policy::new(Arc::clone(&compress));
            let compression = Compression { policy, site: site.compress };
            let mut created = Site::new(site, demand, &compression, resources, guard, known);
            let keys = created.mounts.iter_mut().flat_map(|mount| {
                // Internal files have keys of their own, because no client may request them.
                let internal = mount.internal.as_mut().map(|internal| &mut internal.key);
                internal.into_iter().chain(mount.key.as_mut())
            });
            for (key, number) in std::iter::once(&mut created.key).chain(keys).zip(next_key..) {
                *key = number;
                next_key = number + 1;
            }
            Rc::new(created)
        };
        let built = sites.iter().map(&mut create).collect();
        let names = NamesByListener::new(sites);
        Sites { sites: built, names, sendfile, compress, next_key }
    }

    fn of_name(&self, name: &str) -> Option<&Rc<Site>> {
        self.sites.iter().find(|site| site.config.name() == name)
    }

    /// Returns the numbers of the sites in keys of the file cache, and those of mounts and of
    /// internal files.
    pub(crate) fn keys(&self) -> Vec<usize> {
        let own = |site: &Rc<Site>| {
            let keys = site.mounts.iter().flat_map(|mount| {
                let internal = mount.internal.as_ref().map(|internal| internal.key);
                internal.into_iter().chain(mount.key)
            });
            keys.chain([site.key]).collect::<Vec<_>>()
        };
        self.sites.iter().flat_map(own).collect()
    }

    /// Returns the sites that answer on a listener with this configured address.
    #[inline]
    pub(crate) fn at(&self, listen: Option<&Listen>) -> SitesAt<'_> {
        SitesAt { sites: &self.sites, names: self.names.at(listen) }
    }

    /// Returns the names of all sites.
    pub(crate) fn names(&self) -> Vec<String> {
        self.sites.iter().map(|site| site.config.name()).collect()
    }

    /// Starts to resolve the names of upstreams, and of the servers that gates ask, and the health
    /// checks, where they are configured.
    pub(crate) fn watch_upstreams(&self) {
        for mount in self.sites.iter().flat_map(|site| &site.mounts) {
            if let Handler::Proxy(proxy) = &mount.handler {
                proxy.watch();
            }
        }
        for gate in self.sites.iter().flat_map(|site| site.all_gates()) {
            if let Gate::Forward(server) = gate {
                server.watch();
            }
        }
    }

    /// Publishes the state of all upstreams.
    pub(crate) fn publish_upstreams(&self, now_ms: u64) {
        for mount in self.sites.iter().flat_map(|site| &site.mounts) {
            if let Handler::Proxy(proxy) = &mount.handler {
                proxy.publish(now_ms);
            }
        }
        self.sites.iter().for_each(|site| site.deployed.publish(now_ms));
    }

    /// Mounts an application in the site with this number, at a path without a mount.
    pub(crate) fn mount(&mut self, number: usize, app: App, metrics: &WorkerMetrics) {
        // Nobody shares a site before the server starts.
        let Some(site) = Rc::get_mut(&mut self.sites[number]) else { return };
        let route = metrics.route(&site.config.name(), app.mount());
        let compress = site.compress_apps.clone();
        site.deployed.routes().mount(app.mount());
        let mut mount = Mount::of_app(app, site.gates.clone(), compress, route);
        mount.timeouts.clone_from(&site.timeouts);
        site.mounts.push(mount);
        site.mounts.sort_by_key(Mount::rank);
    }
}

/// The sites that answer on a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SitesAt<'a> {
    sites: &'a [Rc<Site>],
    names: &'a Names,
}

impl<'a> SitesAt<'a> {
    /// Returns the site of a host name, with its number. `None`: 421 (RFC 9110 section 15.5.20).
    pub(crate) fn find(self, name: Option<&[u8]>) -> Option<(usize, &'a Site)> {
        let number = self.names.find(name)?;
        Some((number, &self.sites[number]))
    }
}

impl Site {
    fn new(
        config: &config::Site,
        demand: Demand,
        compression: &Compression,
        resources: &Resources<'_>,
        guard: &Guard,
        previous: Option<&Rc<Site>>,
    ) -> Site {
        let routes = Arc::new(Routes::new(config));
        let edits = Rc::new(ResponseEdits::new(config));
        let compiler = Compiler::new(config, guard, resources);
        let mounted = |mount: &config::Mount| {
            let known = previous.and_then(|site| site.proxy_of(&mount.name()));
            let timeouts = mount.policy.timeouts.or(&config.policy.timeouts).map(Rc::new);
            let mut mount = Mount::new(mount, &compiler, &routes, &edits, known, compression);
            mount.timeouts = timeouts;
            if let Handler::Proxy(proxy) = &mount.handler {
                proxy.limit_by(guard.limiters());
            }
            mount
        };
        let mut mounts: Vec<_> = config.mounts.iter().map(mounted).collect();
        mounts.sort_by_key(Mount::rank);
        let routing = Routing::of(config);
        if routing == Routing::ByRequest {
            mounts.iter_mut().for_each(|mount| mount.key = Some(0));
        }
        let gates = compiler.of_site();
        Site {
            key: 0,
            wasm: resources.wasm.versions(config),
            routing,
            gates,
            timeouts: config.policy.timeouts.or(&ClientTimeouts::default()).map(Rc::new),
            metrics: resources.metrics.route(&config.name(), ""),
            mounts,
            deployed: previous
                .map_or_else(Deployed::default, |site| site.deployed.clone())
                .with_routes(routes),
            demand,
            compress_apps: compression.of_mount(None, false).1,
            edits,
            config: config.clone(),
        }
    }

    /// The gates of its mounts, and its own.
    fn all_gates(&self) -> impl Iterator<Item = &Gate> {
        self.mounts.iter().flat_map(|mount| &mount.gates).chain(&self.gates)
    }

    /// Returns whether the site has this configuration and these requirements, and its users are
    /// unchanged, and so are the certificates for its upstreams.
    fn is_as(
        &self,
        config: &config::Site,
        demand: &Demand,
        guard: &Guard,
        resources: &Resources<'_>,
    ) -> bool {
        let mut gates = self.all_gates();
        self.demand == *demand
            && self.wasm == resources.wasm.versions(config)
            && self.config == *config
            && gates.all(|gate| gate.is_of(guard, resources))
            && self.mounts.iter().all(|mount| match &mount.handler {
                Handler::Proxy(proxy) => proxy.uses(resources.upstream_tls.of(proxy.config())),
                _ => true,
            })
    }

    fn proxy_of(&self, name: &str) -> Option<&Rc<Proxy>> {
        let known = self.mounts.iter().find(|mount| mount.name() == name)?;
        match &known.handler {
            Handler::Proxy(proxy) => Some(proxy),
            _ => None,
        }
    }

    /// Returns its number in keys of the file cache.
    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Returns the counters of the responses that no mount makes.
    pub(crate) fn own_metrics(&self) -> &Arc<RouteMetrics> {
        &self.metrics
    }

    /// Returns the edits of its responses.
    pub(crate) fn edits(&self) -> &ResponseEdits {
        &self.edits
    }

    /// Returns whether the site answers requests on this channel.
    pub(crate) fn is_open_to(&self, channel: Channel) -> bool {
        self.demand.is_met(channel)
    }

    /// Returns whether a mount that requires client certificates refuses requests on this channel.
    /// On `false`, they may still be on the wrong channel.
    pub(crate) fn lacks_certificate(&self, channel: Channel) -> bool {
        self.demand.lacks_certificate(channel)
    }

    /// Returns the response to a request on the wrong channel. `target` has the path and the query
    /// as sent.
    pub(crate) fn elsewhere(
        &self,
        channel: Channel,
        name: Option<&[u8]>,
        target: Option<(&[u8], Option<&[u8]>)>,
    ) -> Answer {
        self.demand.answer(channel, name, target)
    }

    /// Returns the policy by which the responses of a mount's handler are compressed; `None`: they
    /// are not. Files have their own policy.
    pub(crate) fn compress<'a>(&'a self, mount: &'a MountRef<'_>) -> Option<&'a Policy> {
        match mount {
            MountRef::Configured(_, mount) => mount.compress.as_ref(),
            MountRef::Deployed(_) => self.compress_apps.as_ref(),
        }
    }

    /// Returns whether a handler reads request bodies: applications, proxies, upload directories.
    pub(crate) fn reads_bodies(&self) -> bool {
        !self.deployed.is_empty() || self.mounts.iter().any(Mount::reads_bodies)
    }

    /// Returns whether each gate of its mount lets a request for a file from the file cache pass.
    pub(crate) fn allows_known_file(&self, entry: &Entry, visitor: &Visitor<'_>) -> bool {
        self.mounts[entry.mount].gates.iter().all(|gate| gate.allows_known(self, visitor))
    }

    /// Returns the timeouts of clients of a known file; `None`: those of the server.
    #[inline]
    pub(crate) fn timeouts_of(&self, entry: &Entry) -> Option<&Rc<ClientTimeouts>> {
        self.mounts[entry.mount].timeouts.as_ref()
    }

    /// Returns the clients that get early hints.
    pub(crate) fn early_hints(&self) -> EarlyHints {
        self.config.early_hints
    }

    /// Resolves a path in its mount.
    #[inline]
    pub(crate) fn matched_path<'a>(
        &'a self,
        path: &'a [u8],
        mount: &MountRef<'_>,
    ) -> MatchedPath<'a> {
        MatchedPath {
            path,
            rest: mount.rest(path),
            query: None,
            // Only files use the number, and no deployed mount has files.
            mount: if let MountRef::Configured(number, _) = mount { *number } else { 0 },
            // A file of another mount may appear, which goes before one of a mount that is handed
            // requests.
            cacheable: self.routing != Routing::RewrittenByRequest && !mount.is_handed_on,
        }
    }

    /// Returns what replaces an error of a mount, or of the site itself.
    pub(crate) fn error_page(
        &self,
        at: Option<&MountRef<'_>>,
        status: StatusCode,
    ) -> Option<&config::ErrorPage> {
        let own = match at {
            Some(MountRef::Configured(number, _)) => self.mounts[*number].error_page(status),
            Some(MountRef::Deployed(_)) | None => None,
        };
        own.or_else(|| self.config.error_pages.get(&status))
    }

    /// Returns what replaces an error response of this server.
    pub(crate) fn page_for(
        &self,
        at: Option<&MountRef<'_>>,
        error: &Answer,
    ) -> Option<&config::ErrorPage> {
        // 412 and 416 with a file's fields describe that file, and keep them.
        let is_of_file = matches!(error.fields, Fields::Ready(_) | Fields::Dated(_));
        self.error_page(at, error.status).filter(|_| !is_of_file)
    }

    /// Returns whether the page at a path is a response of an upstream or application, or a fixed
    /// one.
    pub(crate) fn is_of_application(&self, page: &str) -> bool {
        self.mount_of(page.as_bytes(), None).is_some_and(|(_, mount)| {
            matches!(
                mount.handler,
                Handler::Proxy(_) | Handler::Gateway { .. } | Handler::App(_) | Handler::Fixed(_)
            )
        })
    }

    /// Replaces a plain error response with a page of the site, which gets its fields, and a status
    /// of its own if one is given.
    pub(crate) async fn with_page(
        &self,
        path: &[u8],
        status: Option<StatusCode>,
        store: &Rc<Store>,
        accept_encoding: Option<&[u8]>,
        plain: Answer,
    ) -> Answer {
        let Some((number, mount)) = self.mount_of(path, None) else { return plain };
        let Handler::Directory(directory) = &mount.handler else { return plain };
        let matched = self.matched_path(path, &MountRef::Configured(number, mount));
        let status = status.unwrap_or(plain.status);
        let page = directory.error_page(store, &matched, status, accept_encoding).await;
        let Some(mut page) = page else { return plain };
        if let (Fields::Ready(lines), Fields::Map(fields)) = (&mut page.fields, &plain.fields) {
            // Retry-After, Allow and the like.
            let (mut kept, mut added) = (Vec::new(), Vec::new());
            for (name, value) in fields.iter().filter(|(name, _)| *name != header::CONTENT_TYPE) {
                // The page has a Vary of its own where it has variants.
                let out = if *name == header::VARY { &mut added } else { &mut kept };
                field(out, name.as_str(), value.as_bytes());
            }
            *lines = forward::edit_lines(lines, &kept, &[], &added).into();
        }
        // The lines have the edits for the page's path; those for the request's path follow.
        Answer { needs: Needs::OwnEdits, ..page }
    }
}
