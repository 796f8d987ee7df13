//! The fast path for requests without a body: finds a response, application or upstream without
//! waiting. Other requests take the general path.

use std::rc::Rc;

use http::StatusCode;
use hurtle_http::h1::forward::upgrades;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};

use super::Exchange;
use super::cached::CacheRoute;
use super::request_info::file_query;
use super::upstream_exchange::UpstreamRoute;
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::files::{self, Key};
use crate::handler::app::{App, Calling};
use crate::handler::{Handler, MatchedPath};
use crate::protocol::Protocol;
use crate::site::{Resolved, Route, Site};

/// The result of the fast path.
pub(super) enum Quick<'a> {
    /// The response is ready.
    Answer(Answer),
    /// The application was called and may respond on its first poll.
    App(Calling),
    /// The request is forwarded to an upstream.
    Proxy(UpstreamRoute<'a>),
}

impl<T: Protocol> Exchange<T> {
    /// Tries the sources that need no wait.
    pub(super) fn quick<'a>(
        &mut self,
        request: &RequestHead<'a>,
        resolved: &Resolved<'a>,
        now_ms: u64,
    ) -> Option<Quick<'a>> {
        if request.body != BodyLength::None || !resolved.site.is_open_to(self.channel()) {
            return None;
        }
        if resolved.site.has_files()
            && let Some(answer) = self.known_file(request, resolved, now_ms)
        {
            return Some(Quick::Answer(answer));
        }
        self.quick_call(request, resolved)
    }

    /// Returns the response for a file that is in the file cache.
    fn known_file(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
        now_ms: u64,
    ) -> Option<Answer> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        let (path, _) = resolved.target?;
        let (number, site) = (resolved.number, resolved.site);
        let entry = self.worker.store.fresh(Key { site: number, path }, now_ms)?;
        let credentials = request.authorization;
        if !site.admits(&entry, self.client) || !site.knows(&entry, credentials, now_ms) {
            return None;
        }
        let answer = files::answer(&entry, StatusCode::OK, &file_query(request));
        // A file that was edited or has grown has a stale head, and must be opened again.
        answer.body.is_unchanged_lately(now_ms).then_some(answer)
    }

    /// Routes the request if neither an access check nor an upgrade comes first. Calls an
    /// application, or looks up the cache.
    fn quick_call<'a>(
        &mut self,
        request: &RequestHead<'a>,
        resolved: &Resolved<'a>,
    ) -> Option<Quick<'a>> {
        let (number, site) = (resolved.number, resolved.site);
        if !site.answers_at_once()
            || upgrades(request).is_some()
            || self.challenge(request).is_some()
        {
            return None;
        }
        if let Some(answer) = self.answer_again(request, (number, site)) {
            return Some(Quick::Answer(answer));
        }
        let (proxy, mount, path) = match resolved.open_route()? {
            Route::Answer(..) => return None,
            Route::Deployed { path, proxy } => (Rc::clone(proxy), None, path.clone()),
            Route::Mount { path, number, .. } => match site.mount(*number).1 {
                Handler::App(app) => {
                    let place = site.place(path, *number);
                    return self.called(request, app, site, &place).map(Quick::App);
                }
                Handler::Proxy(proxy) => (Rc::clone(proxy), Some(*number), path.clone()),
                _ => return None,
            },
        };
        let route = CacheRoute { proxy: &proxy, site: number, path: &path };
        if proxy.cache().is_some()
            && let Some(answer) = self.stored_answer(request, route)
        {
            return Some(Quick::Answer(answer));
        }
        let asked = UpstreamRoute { proxy, site: number, mount, path };
        (!self.is_told_early(request, site)).then_some(Quick::Proxy(asked))
    }

    fn called(
        &self,
        request: &RequestHead<'_>,
        app: &App,
        site: &Site,
        place: &MatchedPath<'_>,
    ) -> Option<Calling> {
        // `call_app` sends early hints while the application runs.
        if request.method == Method::Head || self.is_told_early(request, site) {
            return None;
        }
        let made = self.arriving(request, app, RequestBody::default(), place)?;
        Some(app.call(made, place.rules().cloned().collect()))
    }
}
