//! The site and the route of a request. They are looked up once and passed along, so that a
//! deployment during the exchange does not affect it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::mem;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::{StatusCode, header};
use hurtle_http::h1::forward::edit_lines;
use hurtle_http::h1::response::Fields;
use hurtle_http::semantics::target::decoded;

use super::{Authenticator, MountRef, Route, Site, Sites};
use crate::answer::Answer;
use crate::auth::Gate;
use crate::config::Cors;
use crate::handler::apply_header_rules;
use crate::handler::gateway::Authorizer;
use crate::handler::request::MatchedPath;
use crate::limits::concurrency::ConcurrencyLimiter;
use crate::limits::rate::RateLimiter;
use crate::metrics::RouteMetrics;

/// A request's site, and its route, which is computed at first use: a cached file needs none.
#[derive(Debug)]
pub struct Resolved<'a> {
    /// The site's number.
    pub number: usize,
    /// The site.
    pub site: &'a Site,
    /// The path and the query as sent; `None`: the target has none.
    pub target: Option<(&'a [u8], Option<&'a [u8]>)>,
    client: Option<IpAddr>,
    route: OnceCell<Option<Route<'a>>>,
}

impl Sites {
    /// Looks up the site of a request. `None`: no site has this name (421, RFC 9110 section
    /// 15.5.20).
    pub fn resolve<'a>(
        &'a self,
        name: Option<&[u8]>,
        target: Option<(&'a [u8], Option<&'a [u8]>)>,
        client: Option<IpAddr>,
    ) -> Option<Resolved<'a>> {
        let (number, site) = self.find(name)?;
        Some(Resolved { number, site, target, client, route: OnceCell::new() })
    }
}

impl<'a> Resolved<'a> {
    /// Returns the route of the path; `None`: the target has no path.
    pub fn route(&self) -> Option<&Route<'a>> {
        let route = || self.target.map(|(path, query)| self.site.route(path, query, self.client));
        self.route.get_or_init(route).as_ref()
    }

    /// Applies the site's header rules to a response that no handler made, to errors those with
    /// `always`. Strict-Transport-Security is not sent in clear (RFC 6797 section 7.2).
    pub fn apply_header_rules(&self, answer: &mut Answer, is_secure: bool) {
        let rules = self.site.header_rules();
        if !rules.iter().any(|rule| rule.applies_to(answer.status)) {
            return;
        }
        let path = match (self.route(), self.target) {
            (Some(Route::Mount { path, .. }), _) => Cow::Borrowed(&**path),
            (_, Some((sent, _))) => decoded(sent).unwrap_or(Cow::Borrowed(sent)),
            (_, None) => Cow::Borrowed(b"".as_slice()),
        };
        let matched =
            MatchedPath { path: &path, rest: b"", mount: 0, headers: rules, cacheable: false };
        match &mut answer.fields {
            Fields::Map(map) => {
                apply_header_rules(map, answer.status, matched.rules());
                if !is_secure {
                    map.remove(header::STRICT_TRANSPORT_SECURITY);
                }
            }
            Fields::Ready(lines) => {
                let (removed, set) = matched.edits(answer.status);
                *lines = edit_lines(lines, b"", &removed, &set).into();
            }
            Fields::Dated(lines) => {
                let (removed, set) = matched.edits(answer.status);
                *lines = edit_lines(lines, b"", &removed, &set);
            }
        }
    }

    /// Returns whether the request needs neither authentication nor authorization, and no permit of a
    /// concurrency limit.
    pub fn is_open(&self) -> bool {
        self.gate().is_none()
            && self.authenticator().is_none()
            && self.authorizer().is_none()
            && self.concurrency().is_none()
    }

    /// Returns the rate limits of the request: the site's, then the mount's.
    pub fn rate_limits(&self) -> impl Iterator<Item = &Arc<RateLimiter>> {
        let mounted = match self.site.is_limited.then(|| self.route()).flatten() {
            Some(Route::Mount { mount, .. }) => &mount.limits.rates[..],
            Some(Route::Answer(..)) | None => &[],
        };
        self.site.limits.rates.iter().chain(mounted)
    }

    /// Returns the concurrency limit of the mount.
    pub fn concurrency(&self) -> Option<&Arc<ConcurrencyLimiter>> {
        if !self.site.is_limited {
            return None;
        }
        match self.route()? {
            Route::Answer(..) => None,
            Route::Mount { mount, .. } => mount.limits.concurrency.as_ref(),
        }
    }

    /// Returns the rules for scripts of other origins. `None`: browsers' own rule.
    pub fn cors(&self) -> Option<&Cors> {
        if !self.site.adds_fields {
            return None;
        }
        match self.route() {
            Some(Route::Mount { mount: MountRef::Configured(_, mount), .. }) => mount.cors.as_ref(),
            Some(Route::Mount { .. } | Route::Answer(..)) | None => self.site.config.cors.as_ref(),
        }
    }

    /// Returns whether responses get the security preset.
    pub fn has_security(&self) -> bool {
        self.site.config.security_headers
    }

    /// Returns whether the site or one of its mounts limits requests.
    pub fn is_limited(&self) -> bool {
        self.site.is_limited
    }

    /// Returns the mount of the path, and the path in it; `None`: the site itself responds.
    #[inline]
    pub fn mount(&self) -> Option<(&MountRef<'a>, MatchedPath<'_>)> {
        match self.route()? {
            Route::Answer(..) => None,
            Route::Mount { path, mount, .. } => Some((mount, self.site.matched_path(path, mount))),
        }
    }

    /// Returns the counters of the path's mount, or of the site if it responds itself.
    pub fn metrics(&self) -> &Arc<RouteMetrics> {
        match self.route() {
            Some(Route::Mount { mount, .. }) => mount.metrics(),
            _ => self.site.own_metrics(),
        }
    }

    /// Takes the site's own response; `None`: a mount holds the path, or the target has none.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.route();
        match self.route.get_mut()? {
            Some(Route::Answer(answer, _)) => {
                Some(mem::replace(answer, Answer::empty(StatusCode::NOT_FOUND)))
            }
            _ => None,
        }
    }

    /// Returns the authentication that the request must pass. `None`: none, or the route refuses
    /// the request.
    pub fn gate(&self) -> Option<&Rc<Gate>> {
        if !self.site.gated {
            return None;
        }
        match self.route()? {
            Route::Answer(answer, _) if answer.status == StatusCode::FORBIDDEN => None,
            Route::Answer(..) => self.site.gate.as_ref(),
            Route::Mount { mount, .. } => mount.gate.as_ref(),
        }
    }

    /// Returns the authentication that decides about the request by a server or a token. `None`: none,
    /// or the route refuses the request.
    pub fn authenticator(&self) -> Option<&Authenticator> {
        if !self.site.has_authorizers {
            return None;
        }
        match self.route()? {
            Route::Answer(answer, _) if answer.status == StatusCode::FORBIDDEN => None,
            Route::Answer(..) => self.site.authenticator.as_ref(),
            Route::Mount { mount: MountRef::Deployed(_), .. } => self.site.authenticator.as_ref(),
            Route::Mount { mount, .. } => mount.authenticator.as_ref(),
        }
    }

    /// Returns the application that authorizes the request before it is handled.
    pub fn authorizer(&self) -> Option<&Rc<Authorizer>> {
        if !self.site.has_authorizers {
            return None;
        }
        match self.route()? {
            Route::Answer(..) => None,
            Route::Mount { mount, .. } => mount.authorizer.as_ref(),
        }
    }
}
