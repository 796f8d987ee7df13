//! Routes a host name and a path to a handler: sites, access, rules, mounts.

mod access;
mod deployed;
mod https;

use std::net::IpAddr;
use std::rc::Rc;

use hashbrown::HashMap;
use http::{HeaderValue, StatusCode, header};
use hurtle_http::h1::response::Fields;
use hurtle_http::semantics::glob;
use hurtle_http::semantics::host;

use crate::answer::Answer;
use crate::auth::{Gate, Guard};
use crate::config::{self, Access, Auth, EarlyHints, HeaderRule, HostName};
use crate::files::{self, Entry, Store};
use crate::handler::app::App;
use crate::handler::directory::Resources;
use crate::handler::gateway::Slots;
use crate::handler::{Handler, HandlerRequest, MatchedPath, apply_header_rules};
use crate::tls;
use access::admits;
use deployed::{Deployed, NamesLane};
use https::{Demand, hsts_rule};

pub use deployed::Deployment;
pub use https::Channel;
pub use resolved::Resolved;
pub use route::Route;

mod internal;
mod mount;
mod resolved;
mod route;
mod slashes;

use internal::Internal;
use mount::Mount;

/// All sites of one worker.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Site>,
    exact: HashMap<Vec<u8>, usize>,
    /// Wildcard suffixes with their leading dot, longest first.
    wildcards: Vec<(Vec<u8>, usize)>,
    default: Option<usize>,
    names_lane: NamesLane,
}

/// The configuration and the handlers of a set of host names.
#[derive(Debug)]
pub struct Site {
    config: config::Site,
    mounts: Vec<Mount>,
    /// Applications that are deployed at run time.
    deployed: Deployed,
    /// `true` if the site or a mount restricts client addresses.
    guarded: bool,
    demand: Demand,
    /// `true` if a handler may read request bodies.
    has_readers: bool,
    /// `true` if a handler may respond, or forward, without a wait.
    answers_at_once: bool,
    /// `true` if a mount serves files.
    has_files: bool,
    /// `true` if a mount has a response cache, and no route depends on the client.
    stores_for_all: bool,
    /// The authentication of mounts without their own.
    gate: Option<Rc<Gate>>,
    /// `true` if the site or a mount requires authentication.
    gated: bool,
    /// `true` if a mount has an authorizer.
    has_authorizers: bool,
}

impl Sites {
    /// Creates the sites; each files mount gets its own lane in the pool. `guard` holds the users,
    /// and `slots` limits the running programs.
    pub fn new(
        config: &config::Config,
        resources: &Resources,
        guard: &Guard,
        slots: &Slots,
    ) -> Sites {
        let sites = &config.sites;
        let https_port = config.listen_tls.iter().find_map(config::Listen::port);
        let mut exact = HashMap::new();
        let mut wildcards = Vec::new();
        for (number, site) in sites.iter().enumerate() {
            for name in &site.hosts {
                match name {
                    HostName::Exact(name) => {
                        exact.insert(name.clone().into_bytes(), number);
                    }
                    HostName::Wildcard(suffix) => {
                        wildcards.push((format!(".{suffix}").into_bytes(), number));
                    }
                }
            }
        }
        wildcards.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        let mut built: Vec<_> = (sites.iter().zip(tls::policies(sites)))
            .map(|(site, policy)| {
                Site::new(site, Demand::new(site, policy, https_port), (resources, slots), guard)
            })
            .collect();
        // Internal files have cache keys of their own, because no client may request them.
        let internals = built.iter_mut().flat_map(|site| &mut site.mounts);
        for (n, internal) in internals.filter_map(|m| m.internal.as_mut()).enumerate() {
            internal.key = sites.len() + n;
        }
        let default = sites.iter().position(|site| site.default);
        Sites { default, sites: built, exact, wildcards, names_lane: NamesLane::default() }
    }

    /// Returns the site of a host name, with its number. `None`: 421 (RFC 9110 section 15.5.20).
    pub fn find(&self, name: Option<&[u8]>) -> Option<(usize, &Site)> {
        let number = if self.exact.is_empty() && self.wildcards.is_empty() {
            self.default
        } else {
            name.and_then(|name| self.match_host(name)).or(self.default)
        }?;
        Some((number, &self.sites[number]))
    }

    /// Returns a site by its number.
    pub fn site(&self, number: usize) -> &Site {
        &self.sites[number]
    }

    /// Starts the health checks of upstreams, where they are configured.
    pub fn watch_upstreams(&self) {
        for mount in self.sites.iter().flat_map(|site| &site.mounts) {
            if let Handler::Proxy(proxy) = &mount.handler {
                proxy.watch();
            }
        }
    }

    /// Mounts an application in the site with this number, at a path without a mount.
    pub fn mount(&mut self, number: usize, app: App) {
        let site = &mut self.sites[number];
        site.mounts.push(Mount::of_app(app, site.gate.clone()));
        site.mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        site.has_readers = true;
        site.answers_at_once = true;
    }

    fn match_host(&self, name: &[u8]) -> Option<usize> {
        let mut normal = Vec::with_capacity(name.len());
        host::normalize(name, &mut normal);
        if let Some(address) = ipv6(&normal) {
            // RFC 5952: an IPv6 address has many spellings; sites use the canonical one.
            normal = format!("[{address}]").into_bytes();
        }
        if let Some(number) = self.exact.get(&normal) {
            return Some(*number);
        }
        let matching = self
            .wildcards
            .iter()
            .find(|(suffix, _)| normal.len() > suffix.len() && normal.ends_with(suffix));
        matching.map(|(_, number)| *number)
    }
}

impl Site {
    fn new(
        config: &config::Site,
        demand: Demand,
        resources: (&Resources, &Slots),
        guard: &Guard,
    ) -> Site {
        let gate = |auth: &Auth| match auth {
            Auth::None => None,
            Auth::Basic(basic) => Some(Rc::new(guard.gate(basic))),
        };
        let own = config.auth.as_ref().and_then(gate);
        let mounted = |mount: &config::Mount| {
            let gate = mount.auth.as_ref().map_or_else(|| own.clone(), gate);
            Mount::new(mount, resources, gate)
        };
        let mut mounts: Vec<_> = config.mounts.iter().map(mounted).collect();
        // Longest first, so that the first match is the longest.
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        let restricts = |access: &Access| !access.allow.is_empty() || !access.deny.is_empty();
        let mut config = config.clone();
        config.headers.extend(config.tls.as_ref().and_then(hsts_rule));
        let guarded = restricts(&config.access) || mounts.iter().any(|m| restricts(&m.access));
        let gated = own.is_some() || mounts.iter().any(|m| m.gate.is_some());
        let has_authorizers = mounts.iter().any(|m| m.authorizer.is_some());
        let stores = mounts.iter().any(Mount::has_cache);
        Site {
            guarded,
            has_readers: mounts.iter().any(Mount::reads_bodies),
            answers_at_once: mounts.iter().any(Mount::is_proxy),
            has_files: mounts.iter().any(Mount::has_files),
            stores_for_all: stores && !guarded && !gated && !has_authorizers,
            gated,
            has_authorizers,
            gate: own,
            mounts,
            deployed: Deployed::default(),
            demand,
            config,
        }
    }

    /// Returns the value of Strict-Transport-Security (RFC 6797).
    pub fn hsts(&self) -> Option<&HeaderValue> {
        self.config.tls.as_ref()?.hsts.as_ref()
    }

    /// Returns whether the site answers requests on this channel.
    pub fn is_open_to(&self, channel: Channel) -> bool {
        self.demand.is_met(channel)
    }

    /// Returns the response to a request on the wrong channel. `target` has the path and the query
    /// as sent.
    pub fn elsewhere(
        &self,
        channel: Channel,
        name: Option<&[u8]>,
        target: Option<(&[u8], Option<&[u8]>)>,
    ) -> Answer {
        self.demand.answer(channel, name, target)
    }

    /// Returns whether a handler reads request bodies: applications, proxies, upload directories.
    pub fn has_readers(&self) -> bool {
        self.has_readers || !self.deployed.is_empty()
    }

    /// Returns whether a handler may respond, or forward, without a wait: applications, proxies.
    pub fn answers_at_once(&self) -> bool {
        self.answers_at_once || !self.deployed.is_empty()
    }

    /// Returns whether a mount serves files.
    pub fn has_files(&self) -> bool {
        self.has_files
    }

    /// Returns whether a mount has a response cache, and no route depends on the client.
    pub fn stores_for_all(&self) -> bool {
        self.stores_for_all && self.deployed.is_empty()
    }

    /// Returns whether access rules allow this client a file from the file cache.
    pub fn admits(&self, entry: &Entry, peer: Option<IpAddr>) -> bool {
        !self.guarded
            || (admits(&self.config.access, peer) && admits(&self.mounts[entry.mount].access, peer))
    }

    /// Returns whether this client was authenticated recently for a file from the file cache.
    pub fn knows(&self, entry: &Entry, credentials: Option<&[u8]>, now_ms: u64) -> bool {
        if self.has_authorizers && self.mounts[entry.mount].authorizer.is_some() {
            // The authorizer must decide about each request.
            return false;
        }
        let gate = if self.gated { self.mounts[entry.mount].gate.as_ref() } else { None };
        gate.is_none_or(|gate| gate.is_remembered(credentials, now_ms))
    }

    /// Answers a GET or HEAD with this route.
    pub async fn answer(
        &self,
        store: &Rc<Store>,
        ask: &HandlerRequest<'_>,
        (route, peer): (Route<'_>, Option<IpAddr>),
    ) -> Answer {
        match store.revalidated(ask.key).await {
            Ok(Some(entry)) if self.admits(&entry, peer) => {
                return files::answer(&entry, StatusCode::OK, &ask.file);
            }
            // The look-up below reports disk errors.
            _ => {}
        }
        let mut answer = self.dispatch(store, ask, route).await;
        if answer.status.is_client_error() || answer.status.is_server_error() {
            answer = self.with_page(store, ask, answer).await;
        }
        answer
    }

    async fn dispatch(
        &self,
        store: &Rc<Store>,
        ask: &HandlerRequest<'_>,
        route: Route<'_>,
    ) -> Answer {
        let (path, number) = match route {
            Route::Answer(answer, _) => return *answer,
            // Requests with this route were forwarded before this call.
            Route::Deployed { .. } => return Answer::error(StatusCode::SERVICE_UNAVAILABLE, None),
            Route::Mount { path, number, .. } => (path, number),
        };
        let mount = &self.mounts[number];
        let matched = self.place(&path, number);
        let mut answer = match &mount.beside {
            Some(beside) => beside.call(store, ask, &matched).await,
            None => mount.handler.call(store, ask, &matched).await,
        };
        if mount.takes_uploads() {
            // Uploaded files are untrusted, so browsers must not guess their type.
            let no_sniff = HeaderValue::from_static("nosniff");
            answer = answer.with(header::X_CONTENT_TYPE_OPTIONS, no_sniff);
        }
        // Like nginx's add_header: the rules do not apply to errors.
        if let Fields::Map(map) = &mut answer.fields
            && answer.status.as_u16() < 400
        {
            apply_header_rules(map, matched.rules());
        }
        answer
    }

    /// Returns the internal files that a mount's upstreams may name; `None`: none.
    pub fn internal(&self, number: usize) -> Option<&Internal> {
        self.mounts[number].internal.as_ref()
    }

    /// Returns a mount's path and handler by its number.
    pub fn mount(&self, number: usize) -> (&str, &Handler) {
        let mount = &self.mounts[number];
        let path = std::str::from_utf8(&mount.path).unwrap_or("");
        (if path.is_empty() { "/" } else { path }, &mount.handler)
    }

    /// Returns the clients that get early hints.
    pub fn early_hints(&self) -> EarlyHints {
        self.config.early_hints
    }

    /// Returns the header rules for a path.
    pub fn header_rules<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a HeaderRule> {
        self.config.headers.iter().filter(|rule| glob::matches(&rule.pattern.0, path))
    }

    /// Resolves a path in the mount with this number, which must contain it.
    pub fn place<'a>(&'a self, path: &'a [u8], number: usize) -> MatchedPath<'a> {
        let rest = &path[self.mounts[number].path.len().min(path.len())..];
        MatchedPath {
            path,
            rest: rest.strip_prefix(b"/").unwrap_or(rest),
            mount: number,
            headers: &self.config.headers,
            cacheable: true,
        }
    }

    /// Replaces a plain error response with the site's error page.
    pub async fn with_page(
        &self,
        store: &Rc<Store>,
        ask: &HandlerRequest<'_>,
        plain: Answer,
    ) -> Answer {
        // 412 and 416 with a file's fields describe that file, and keep them.
        if matches!(plain.fields, Fields::Ready(_) | Fields::Dated(_)) {
            return plain;
        }
        let Some(page) = self.config.error_pages.get(&plain.status) else { return plain };
        let path = page.as_bytes();
        let found = self.mounts.iter().position(|mount| mount.holds(path));
        let Some(number) = found else { return plain };
        let Handler::Directory(directory) = &self.mounts[number].handler else { return plain };
        let matched = self.place(path, number);
        let accept_encoding = ask.file.accept_encoding;
        let page = directory.error_page(store, &matched, plain.status, accept_encoding).await;
        page.unwrap_or(plain)
    }
}

fn ipv6(name: &[u8]) -> Option<std::net::Ipv6Addr> {
    let inside = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inside).ok()?.parse().ok()
}
