//! The site and the route of a request. They are looked up once and passed along, so that a
//! deployment during the exchange does not affect it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::target::{decoded, read_leniently};

use super::route::Routing;
use super::slashes::passes_path_on;
use super::{Gate, MountRef, Route, Site, Sites, Visitor};
use crate::answer::Answer;
use crate::auth::PasswordGate;
use crate::config::{ClientTimeouts, Cors, ErrorPage, ErrorTarget, Listen, MatchedRequest};
use crate::edits::ResponseEdits;
use crate::files::Key;
use crate::handler::request::MatchedPath;
use crate::metrics::RouteMetrics;

/// A request's site, and its route. Where the path alone decides, the route is computed at first
/// use: a cached file needs none. Elsewhere it is computed at once, so that a waiting request does
/// not keep the addresses of its client and peer.
#[derive(Debug)]
pub(crate) struct Resolved<'a> {
    /// Number of the site among those of the configuration.
    pub number: usize,
    /// The site that has the request.
    pub site: &'a Site,
    head: &'a RequestHead<'a>,
    /// `true`: the connection is TLS, which redirects of rules may name.
    is_tls: bool,
    route: OnceCell<Option<Route<'a>>>,
    /// `true`: the route is that of an error's page, which is not what the target names.
    is_error: bool,
    /// The passwords of the mount before, one of which the request has.
    passed: Option<Rc<PasswordGate>>,
}

impl Sites {
    /// Looks up the site of a request on a listener with this configured address. `None`: no site
    /// has this name (421, RFC 9110 section 15.5.20).
    pub(crate) fn resolve<'a>(
        &'a self,
        listen: Option<&Listen>,
        name: Option<&[u8]>,
        request: MatchedRequest<'a>,
    ) -> Option<Resolved<'a>> {
        let (number, site) = self.at(listen).find(name)?;
        let MatchedRequest { head, is_tls, .. } = request;
        let route = OnceCell::new();
        let resolved =
            Resolved { number, site, head, is_tls, route, is_error: false, passed: None };
        if site.routing != Routing::ByPath {
            resolved.route_by(&request);
        }
        Some(resolved)
    }
}

fn passwords(gates: &[Gate]) -> Option<&Rc<PasswordGate>> {
    gates.iter().find_map(|gate| match gate {
        Gate::Basic(passwords) => Some(passwords),
        _ => None,
    })
}

impl<'a> Resolved<'a> {
    /// Returns the path and the query as sent; `None`: the target has none.
    #[inline]
    pub(crate) fn target(&self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        self.head.target.path_and_query()
    }

    /// Returns the route of the path; `None`: the target has no path.
    pub(crate) fn route(&self) -> Option<&Route<'a>> {
        let (head, is_tls) = (self.head, self.is_tls);
        self.route_by(&MatchedRequest { head, client: None, peer: None, is_tls })
    }

    /// Returns the route, computed by these conditions if it is not known yet.
    fn route_by(&self, request: &MatchedRequest<'_>) -> Option<&Route<'a>> {
        let route = || self.target().map(|(path, _)| self.site.route(path, request));
        self.route.get_or_init(route).as_ref()
    }

    /// Returns the key of the path's file in the file cache. `None`: the target has no path.
    #[inline]
    pub(crate) fn file_key(&self) -> Option<Key<'a>> {
        let (path, _) = self.target()?;
        let number = match self.site.routing {
            Routing::ByPath | Routing::RewrittenByRequest => self.site.key,
            Routing::ByRequest => match self.route()? {
                Route::Mount { mount, .. } => mount.key.unwrap_or(self.site.key),
                Route::Answer(..) => self.site.key,
            },
        };
        Some(Key { site: number, path })
    }

    /// Returns the decoded path after the site's rules; that of the request, if a rule responds.
    pub(crate) fn path(&self) -> Cow<'_, [u8]> {
        match (self.route(), self.target()) {
            (Some(Route::Mount { path, .. }), _) => Cow::Borrowed(&**path),
            (_, Some((sent, _))) => decoded(sent).unwrap_or(Cow::Borrowed(sent)),
            (_, None) => Cow::Borrowed(b"".as_slice()),
        }
    }

    /// Returns the gates before the route, in the order in which a request passes them.
    pub(crate) fn gates(&self) -> &[Gate] {
        let of_site = &self.site.gates[..];
        match self.route() {
            Some(Route::Mount { mount: MountRef::Configured(_, mount), .. }) => &mount.gates,
            Some(Route::Mount { .. } | Route::Answer(..)) => of_site,
            None => {
                let for_path = of_site.iter().position(|gate| !gate.is_for_server());
                &of_site[..for_path.unwrap_or(of_site.len())]
            }
        }
    }

    /// Returns whether each gate lets a request for something known pass. `false` decides nothing.
    pub(crate) fn allows_known(&self, visitor: &Visitor<'_>) -> bool {
        self.gates().iter().all(|gate| gate.allows_known(self.site, visitor))
    }

    /// Returns the rules for scripts of other origins. `None`: browsers' own rule.
    pub(crate) fn cors(&self) -> Option<&Cors> {
        self.gates().iter().find_map(|gate| match gate {
            Gate::Cors(cors) => Some(&**cors),
            _ => None,
        })
    }

    /// Returns whether the handler may take calls of gRPC.
    pub(crate) fn takes_calls(&self) -> bool {
        self.mount().is_some_and(|(mount, _)| mount.handler().takes_calls())
    }

    /// Returns the largest body of a request to any handler; `None`: unlimited.
    pub(crate) fn body_bytes(&self) -> Option<u64> {
        self.gates().iter().find_map(|gate| match gate {
            Gate::BodySize(bytes_max) => Some(*bytes_max),
            _ => None,
        })
    }

    /// Returns the timeouts of its client; `None`: those of the server.
    pub(crate) fn timeouts(&self) -> Option<&Rc<ClientTimeouts>> {
        match self.route() {
            Some(Route::Mount { mount: MountRef::Configured(_, mount), .. }) => {
                mount.timeouts.as_ref()
            }
            _ => self.site.timeouts.as_ref(),
        }
    }

    /// Returns the passwords that the request must have one of.
    pub(crate) fn passwords(&self) -> Option<&Rc<PasswordGate>> {
        passwords(self.gates()).or(self.passed.as_ref())
    }

    /// Returns the mount of the path, and the path in it; `None`: the site itself responds.
    #[inline]
    pub(crate) fn mount(&self) -> Option<(&MountRef<'a>, MatchedPath<'_>)> {
        match self.route()? {
            Route::Answer(..) => None,
            Route::Mount { path, query, mount, .. } => {
                let query = match query.as_deref() {
                    None => self.target().and_then(|(_, query)| query),
                    Some(query) => Some(query).filter(|query| !query.is_empty()),
                };
                let matched = self.site.matched_path(path, mount);
                let cacheable = matched.cacheable && !self.is_error;
                Some((mount, MatchedPath { query, cacheable, ..matched }))
            }
        }
    }

    /// Returns the request with the mount that has it because there is no file; `None`: there is no
    /// such mount.
    pub(crate) fn handed_on(&self) -> Option<Resolved<'a>> {
        let Some(Route::Mount { path, query, mount, rules }) = self.route() else { return None };
        let mount = self.site.mount_with_name(mount.otherwise.as_deref()?)?;
        let (path, query, rules) = (path.clone(), query.clone(), rules.clone());
        let route = Route::Mount { path, query, mount, rules };
        let (route, passed) = (OnceCell::from(Some(route)), self.passwords().cloned());
        Some(Resolved { route, passed, ..*self })
    }

    /// Returns the request with the mount that responds to an error: one with a name, or that of a
    /// page's path; `None`: there is no such mount, or it is the named one that has the error, or
    /// it could take the path for another one. `passed`: the gates that the request has passed.
    pub(crate) fn after_error(&self, page: &ErrorPage, passed: &[Gate]) -> Option<Resolved<'a>> {
        let (mount, path, query) = match &page.to {
            ErrorTarget::Page(page) => {
                let (number, mount) = self.site.mount_of(page.as_bytes(), None)?;
                let mount = MountRef::Configured(number, mount);
                (mount, page.clone().into_bytes(), Some(Vec::new()))
            }
            ErrorTarget::Mount(name) => {
                let mount = self.site.mount_with_name(&format!("@{name}"))?;
                let is_same = self.mount().is_some_and(|(failed, _)| failed.is(&mount));
                if is_same || passes_path_on(&mount) && !self.is_read_alike() {
                    return None;
                }
                let query = match self.route() {
                    Some(Route::Mount { query, .. }) => query.clone(),
                    _ => None,
                };
                (mount, self.path().into_owned(), query)
            }
        };
        let route = Route::Mount { path: path.into(), query, mount, rules: Vec::new() };
        let passed = passwords(passed).or(self.passed.as_ref()).cloned();
        Some(Resolved { route: OnceCell::from(Some(route)), is_error: true, passed, ..*self })
    }

    /// Returns whether all servers read the path alike, so that none takes it for that of a mount
    /// whose gates were not passed.
    fn is_read_alike(&self) -> bool {
        let (head, is_tls) = (self.head, self.is_tls);
        let request = MatchedRequest { head, client: None, peer: None, is_tls };
        let is_plain = |path: &[u8]| matches!(read_leniently(path), Ok(None));
        match (self.route(), self.site.routing) {
            (Some(route @ Route::Mount { .. }), Routing::ByPath) => {
                self.site.check_readings(route, &request).is_ok()
            }
            // The client, which is not known here, may decide about the mount of another reading.
            (Some(Route::Mount { path, .. }), _) => is_plain(path),
            _ => self
                .target()
                .is_some_and(|(sent, _)| decoded(sent).is_ok_and(|path| is_plain(&path))),
        }
    }

    /// Returns the edits of the response: those of the path's mount, or of the site if it responds
    /// itself.
    pub(crate) fn edits(&self) -> &ResponseEdits {
        match self.route() {
            Some(Route::Mount { mount, .. }) => mount.edits().unwrap_or(self.site.edits()),
            _ => self.site.edits(),
        }
    }

    /// Returns the counters of the path's mount, or of the site if it responds itself.
    pub(crate) fn metrics(&self) -> &Arc<RouteMetrics> {
        match self.route() {
            Some(Route::Mount { mount, .. }) => mount.metrics(),
            _ => self.site.own_metrics(),
        }
    }

    /// Takes the site's own response; `None`: a mount holds the path, or the target has none.
    pub(crate) fn take_answer(&self) -> Option<Answer> {
        match self.route()? {
            Route::Answer(answer, _) => Some(answer.replace(Answer::empty(StatusCode::NOT_FOUND))),
            Route::Mount { .. } => None,
        }
    }
}
