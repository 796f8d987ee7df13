//! Who answers a request, found before anything is waited for: a known file, an application, a cache
//! that has the answer, an upstream. All of it for requests without a body; what it does not know is
//! left to the longer way.

use std::rc::Rc;

use http::StatusCode;

use super::Connection;
use super::asked::{file_query, path_of};
use super::cached::Sought;
use super::exchange::Asked;
use crate::answer::Answer;
use crate::body::{Body, RequestBody};
use crate::files::{self, Key};
use crate::h1::forward::upgrades;
use crate::h1::framing::BodyLength;
use crate::h1::request::{Method, Request};
use crate::handler::app::{App, Calling};
use crate::handler::{Handler, Place};
use crate::site::{Route, Site};
use crate::transport::Transport;

/// What is there at once.
pub(super) enum Quick<'a> {
    /// The answer.
    Answer(Answer),
    /// Somebody who may have it at once.
    App(Calling),
    /// Who is to be asked for it.
    Proxy(Asked<'a>),
}

impl<T: Transport> Connection<T> {
    /// Asks those who need nothing but memory.
    pub(super) fn quick<'a>(&mut self, request: &Request<'a>, now_ms: u64) -> Option<Quick<'a>> {
        if request.body != BodyLength::None {
            return None;
        }
        let worker = Rc::clone(&self.worker);
        let (number, site) = worker.sites.find(request.host.as_ref().map(|h| h.name))?;
        if !site.is_open_to(self.channel()) {
            return None;
        }
        if site.has_files()
            && let Some(answer) = self.known_file(request, (number, site), now_ms)
        {
            return Some(Quick::Answer(answer));
        }
        self.quick_call(request, (number, site))
    }

    /// A file that is known.
    fn known_file(
        &self,
        request: &Request<'_>,
        (number, site): (usize, &Site),
        now_ms: u64,
    ) -> Option<Answer> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        let (path, _) = path_of(&request.target)?;
        let entry = self.worker.store.fresh(Key { site: number, path }, now_ms)?;
        let credentials = request.authorization;
        if !site.admits(&entry, self.client) || !site.knows(&entry, credentials, now_ms) {
            return None;
        }
        let answer = files::answer(&entry, StatusCode::OK, &file_query(request));
        match &answer.body {
            // Edited in place: its head is another file's, and it has to be found anew.
            Body::File(slice) if !slice.file.is_unchanged_lately(now_ms) => None,
            _ => Some(answer),
        }
    }

    /// Finds who answers this request, where nothing has to be waited for before: neither somebody's
    /// leave nor another protocol. An application is called, and a cache asked.
    fn quick_call<'a>(
        &mut self,
        request: &Request<'a>,
        (number, site): (usize, &Site),
    ) -> Option<Quick<'a>> {
        if !site.answers_at_once()
            || upgrades(request).is_some()
            || self.challenge(request).is_some()
        {
            return None;
        }
        if let Some(answer) = self.answer_again(request, (number, site)) {
            return Some(Quick::Answer(answer));
        }
        let (raw, query) = path_of(&request.target)?;
        let (proxy, mount, path) = match site.open_route(raw, query, self.client)? {
            Route::Answer(..) => return None,
            Route::Deployed { path, proxy } => (proxy, None, path),
            Route::Mount { path, number, .. } => match site.mount(number).1 {
                Handler::App(app) => {
                    let place = site.place(&path, number);
                    return self.called(request, app, site, &place).map(Quick::App);
                }
                Handler::Proxy(proxy) => (Rc::clone(proxy), Some(number), path),
                _ => return None,
            },
        };
        let sought = Sought { proxy: &proxy, site: number, path: &path };
        if proxy.cache().is_some()
            && let Some(answer) = self.stored_answer(request, sought)
        {
            return Some(Quick::Answer(answer));
        }
        let asked = Asked { proxy, site: number, mount, path };
        (!self.is_told_early(request, site)).then_some(Quick::Proxy(asked))
    }

    fn called(
        &self,
        request: &Request<'_>,
        app: &App,
        site: &Site,
        place: &Place<'_>,
    ) -> Option<Calling> {
        // Whoever is told early is told while the application works.
        if request.method == Method::Head || self.is_told_early(request, site) {
            return None;
        }
        let made = self.arriving(request, app, RequestBody::default(), place)?;
        Some(app.call(made, place.rules().cloned().collect()))
    }
}
