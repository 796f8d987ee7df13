//! From a host name and a path to the handler that answers: sites, rules, mounts, access.

mod access;
mod deployed;
mod https;

use std::net::IpAddr;
use std::rc::Rc;

use hashbrown::HashMap;
use http::{HeaderValue, StatusCode, header};

use crate::answer::Answer;
use crate::auth::{Gate, Guard};
use crate::config::{self, Access, Auth, EarlyHints, HeaderRule, HostName};
use crate::files::{self, Entry, Store};
use crate::h1::response::Fields;
use crate::handler::app::App;
use crate::handler::directory::Means;
use crate::handler::gateway::{Authorizer, Slots};
use crate::handler::{Ask, Handler, Place, dress};
use crate::semantics::glob;
use crate::semantics::host;
use crate::tls;
use access::admits;
use deployed::{Deployed, NamesLane};
use https::{Demand, hsts_rule};

pub use deployed::Deployment;
pub use https::Channel;
pub use route::Route;

mod internal;
mod mount;
mod route;
mod slashes;

use internal::Internal;
use mount::Mount;

/// All sites of one worker.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Site>,
    exact: HashMap<Vec<u8>, usize>,
    /// Suffixes with their leading dot, longest first.
    wildcards: Vec<(Vec<u8>, usize)>,
    default: Option<usize>,
    names_lane: NamesLane,
}

/// What is served under a set of names.
#[derive(Debug)]
pub struct Site {
    config: config::Site,
    mounts: Vec<Mount>,
    /// What is mounted beside them for now.
    deployed: Deployed,
    /// Whether any address is refused anywhere, so that the usual site need not ask.
    guarded: bool,
    demand: Demand,
    /// Whether a request's body may be anybody's business.
    has_readers: bool,
    /// Whether a request may be answered, or handed on, at once.
    answers_at_once: bool,
    /// Whether files are served anywhere.
    has_files: bool,
    /// Whether answers are stored anywhere, and nothing about a client decides who answers.
    stores_for_all: bool,
    /// What all of it asks of clients, but for mounts that say otherwise.
    gate: Option<Rc<Gate>>,
    /// Whether anything is asked anywhere.
    gated: bool,
    /// Whether anybody is asked before anything is answered.
    has_authorizers: bool,
}

impl Sites {
    /// Makes the sites; each files mount gets a lane of its own in the pool. `guard` knows the users,
    /// `slots` how many programs may run.
    pub fn new(config: &config::Config, means: &Means, guard: &Guard, slots: &Slots) -> Sites {
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
        let mut made: Vec<_> = (sites.iter().zip(tls::policies(sites)))
            .map(|(site, policy)| {
                Site::new(site, Demand::new(site, policy, https_port), (means, slots), guard)
            })
            .collect();
        // What is kept of internal files is kept apart: nobody can ask for it.
        let internals = made.iter_mut().flat_map(|site| &mut site.mounts);
        for (n, internal) in internals.filter_map(|m| m.internal.as_mut()).enumerate() {
            internal.key = sites.len() + n;
        }
        let default = sites.iter().position(|site| site.default);
        Sites { default, sites: made, exact, wildcards, names_lane: NamesLane::default() }
    }

    /// The site that answers to this name, by number; `None`: 421 (RFC 9110 15.5.20).
    pub fn find(&self, name: Option<&[u8]>) -> Option<(usize, &Site)> {
        let number = if self.exact.is_empty() && self.wildcards.is_empty() {
            self.default
        } else {
            name.and_then(|name| self.named(name)).or(self.default)
        }?;
        Some((number, &self.sites[number]))
    }

    /// A site by its number.
    pub fn site(&self, number: usize) -> &Site {
        &self.sites[number]
    }

    /// Begins to ask upstreams how they are, where that is configured.
    pub fn watch_upstreams(&self) {
        for mount in self.sites.iter().flat_map(|site| &site.mounts) {
            if let Handler::Proxy(proxy) = &mount.handler {
                proxy.watch();
            }
        }
    }

    /// Mounts an application in the site of that number, where nothing else is mounted.
    pub fn mount(&mut self, number: usize, app: App) {
        let site = &mut self.sites[number];
        site.mounts.push(Mount::of_app(app, site.gate.clone()));
        site.mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        site.has_readers = true;
        site.answers_at_once = true;
    }

    fn named(&self, name: &[u8]) -> Option<usize> {
        let mut normal = Vec::with_capacity(name.len());
        host::normalize(name, &mut normal);
        if let Some(address) = ipv6(&normal) {
            // RFC 5952: one address has many spellings; sites know the shortest.
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
    fn new(config: &config::Site, demand: Demand, means: (&Means, &Slots), guard: &Guard) -> Site {
        let gate = |auth: &Auth| match auth {
            Auth::None => None,
            Auth::Basic(basic) => Some(Rc::new(guard.gate(basic))),
        };
        let own = config.auth.as_ref().and_then(gate);
        let mounted = |mount: &config::Mount| {
            let gate = mount.auth.as_ref().map_or_else(|| own.clone(), gate);
            Mount::new(mount, means, gate)
        };
        let mut mounts: Vec<_> = config.mounts.iter().map(mounted).collect();
        // The first that matches is then the longest.
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

    /// What browsers are told of coming by TLS only (RFC 6797).
    pub fn hsts(&self) -> Option<&HeaderValue> {
        self.config.tls.as_ref()?.hsts.as_ref()
    }

    /// Whether requests that come by this channel are answered here.
    pub fn is_open_to(&self, channel: Channel) -> bool {
        self.demand.is_met(channel)
    }

    /// The answer where they are not; `target`: the path and the query asked for, as sent.
    pub fn elsewhere(
        &self,
        channel: Channel,
        name: Option<&[u8]>,
        target: Option<(&[u8], Option<&[u8]>)>,
    ) -> Answer {
        self.demand.answer(channel, name, target)
    }

    /// Whether somebody reads requests' bodies: applications, proxies, directories that
    /// take uploads.
    pub fn has_readers(&self) -> bool {
        self.has_readers || !self.deployed.is_empty()
    }

    /// Whether somebody is in it who answers, or to whom a request is handed on, at once:
    /// applications, proxies.
    pub fn answers_at_once(&self) -> bool {
        self.answers_at_once || !self.deployed.is_empty()
    }

    /// Whether files are served anywhere in it.
    pub fn has_files(&self) -> bool {
        self.has_files
    }

    /// Whether answers are stored anywhere in it, and nothing about a client decides who answers.
    pub fn stores_for_all(&self) -> bool {
        self.stores_for_all && self.deployed.is_empty()
    }

    /// Whether this client may have a file that was found before.
    pub fn admits(&self, entry: &Entry, peer: Option<IpAddr>) -> bool {
        !self.guarded
            || (admits(&self.config.access, peer) && admits(&self.mounts[entry.mount].access, peer))
    }

    /// Whether this client has lately shown what it must for a file that was found before.
    pub fn knows(&self, entry: &Entry, credentials: Option<&[u8]>, now_ms: u64) -> bool {
        if self.has_authorizers && self.mounts[entry.mount].authorizer.is_some() {
            // Only it knows.
            return false;
        }
        let gate = if self.gated { self.mounts[entry.mount].gate.as_ref() } else { None };
        gate.is_none_or(|gate| gate.knows(credentials, now_ms))
    }

    /// What a client must show for a path as it was sent, whatever it does there; `None`: nothing,
    /// or it is not admitted all the same.
    pub fn gate(
        &self,
        raw: &[u8],
        query: Option<&[u8]>,
        peer: Option<IpAddr>,
    ) -> Option<&Rc<Gate>> {
        if !self.gated {
            return None;
        }
        match self.route(raw, query, peer) {
            Route::Answer(answer, _) if answer.status == StatusCode::FORBIDDEN => None,
            Route::Answer(..) | Route::Deployed { .. } => self.gate.as_ref(),
            Route::Mount { number, .. } => self.mounts[number].gate.as_ref(),
        }
    }

    /// Who is asked before a path is answered, as it was sent.
    pub fn authorizer(
        &self,
        raw: &[u8],
        query: Option<&[u8]>,
        peer: Option<IpAddr>,
    ) -> Option<&Rc<Authorizer>> {
        if !self.has_authorizers {
            return None;
        }
        match self.route(raw, query, peer) {
            Route::Answer(..) | Route::Deployed { .. } => None,
            Route::Mount { number, .. } => self.mounts[number].authorizer.as_ref(),
        }
    }

    /// Answers a GET or HEAD from scratch.
    pub async fn answer(&self, store: &Rc<Store>, ask: &Ask<'_>, peer: Option<IpAddr>) -> Answer {
        match store.revalidated(ask.key).await {
            Ok(Some(entry)) if self.admits(&entry, peer) => {
                return files::answer(&entry, StatusCode::OK, &ask.file);
            }
            // What troubles the disk now will be said by the look-up below.
            _ => {}
        }
        let mut answer = self.dispatch(store, ask, peer).await;
        if answer.status.is_client_error() || answer.status.is_server_error() {
            answer = self.with_page(store, ask, answer).await;
        }
        answer
    }

    async fn dispatch(&self, store: &Rc<Store>, ask: &Ask<'_>, peer: Option<IpAddr>) -> Answer {
        let (path, number) = match self.route(ask.key.path, ask.query, peer) {
            Route::Answer(answer, _) => return *answer,
            // It came while this request was read; the next one reaches it.
            Route::Deployed { .. } => return Answer::error(StatusCode::SERVICE_UNAVAILABLE, None),
            Route::Mount { path, number, .. } => (path, number),
        };
        let mount = &self.mounts[number];
        let place = self.place(&path, number);
        let mut answer = match &mount.beside {
            Some(beside) => beside.call(store, ask, &place).await,
            None => mount.handler.call(store, ask, &place).await,
        };
        if mount.takes_uploads() {
            // What strangers have put there, and what is said of it, is what it says it is.
            let no_sniff = HeaderValue::from_static("nosniff");
            answer = answer.with(header::X_CONTENT_TYPE_OPTIONS, no_sniff);
        }
        // As nginx's add_header: an error is not dressed as what was asked for.
        if let Fields::Map(map) = &mut answer.fields
            && answer.status.as_u16() < 400
        {
            dress(map, place.rules());
        }
        answer
    }

    /// The files that the upstreams of a mount may name, if they may any.
    pub fn internal(&self, number: usize) -> Option<&Internal> {
        self.mounts[number].internal.as_ref()
    }

    /// A mount by its number, and its path.
    pub fn mount(&self, number: usize) -> (&str, &Handler) {
        let mount = &self.mounts[number];
        let path = std::str::from_utf8(&mount.path).unwrap_or("");
        (if path.is_empty() { "/" } else { path }, &mount.handler)
    }

    /// Who is told what an answer will need.
    pub fn early_hints(&self) -> EarlyHints {
        self.config.early_hints
    }

    /// The rules for the fields of what is answered for a path.
    pub fn header_rules<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a HeaderRule> {
        self.config.headers.iter().filter(|rule| glob::matches(&rule.pattern.0, path))
    }

    /// What a path means to the mount of that number, which must hold it.
    pub fn place<'a>(&'a self, path: &'a [u8], number: usize) -> Place<'a> {
        let rest = &path[self.mounts[number].path.len().min(path.len())..];
        Place {
            path,
            rest: rest.strip_prefix(b"/").unwrap_or(rest),
            mount: number,
            headers: &self.config.headers,
            cacheable: true,
        }
    }

    /// Puts the site's own page in the place of a plain error.
    pub async fn with_page(&self, store: &Rc<Store>, ask: &Ask<'_>, plain: Answer) -> Answer {
        // 412 and 416 come from a file that is there, and their fields say something of it.
        if matches!(plain.fields, Fields::Ready(_) | Fields::Dated(_)) {
            return plain;
        }
        let Some(page) = self.config.error_pages.get(&plain.status) else { return plain };
        let path = page.as_bytes();
        let found = self.mounts.iter().position(|mount| mount.holds(path));
        let Some(number) = found else { return plain };
        let Handler::Directory(directory) = &self.mounts[number].handler else { return plain };
        let place = self.place(path, number);
        let accept_encoding = ask.file.accept_encoding;
        let page = directory.error_page(store, &place, plain.status, accept_encoding).await;
        page.unwrap_or(plain)
    }
}

fn ipv6(name: &[u8]) -> Option<std::net::Ipv6Addr> {
    let inside = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inside).ok()?.parse().ok()
}
