//! Dispatches a request to the handler of its route. A handler that reads the body starts here;
//! other handlers respond after the body was discarded.

use std::rc::Rc;

use http::StatusCode;
use hurtle_http::request::{Method, RequestHead};

use super::Exchange;
use super::app::AtWork;
use super::upload::Upload;
use super::upstream_exchange::UpstreamRoute;
use crate::answer::Answer;
use crate::handler::directory::Directory;
use crate::handler::gateway::{AuthorizerVariables, Gateway};
use crate::handler::{Handler, MatchedPath};
use crate::protocol::Protocol;
use crate::site::{Resolved, Route};
use crate::uploads;

/// The result of dispatching a request, before its body is read.
pub(super) enum Outcome<'a> {
    /// The response is ready; the body is not read.
    Answer(Answer),
    /// The handler is running and reads the body.
    Working(AtWork),
    /// The request is forwarded to an upstream.
    Proxy(UpstreamRoute<'a>),
    /// The handler ignores the body and responds after it.
    AfterBody,
    /// The route itself is the response, for every method.
    Route,
}

impl<T: Protocol> Exchange<T> {
    /// Dispatches a request to the handler of its route.
    pub(super) async fn handle<'a>(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'a>,
        granted: &AuthorizerVariables,
    ) -> Outcome<'a> {
        let site = resolved.site;
        // The route is looked up once, before the body is read, because a deployment in between
        // could change it.
        let route = resolved.route();
        if !site.has_readers() {
            return Outcome::AfterBody;
        }
        let to = |proxy: &Rc<_>, mount, path: &std::borrow::Cow<'a, [u8]>| {
            let (proxy, path) = (Rc::clone(proxy), path.clone());
            Outcome::Proxy(UpstreamRoute { proxy, site: resolved.number, mount, path })
        };
        let (path, number) = match route {
            None => return Outcome::AfterBody,
            Some(Route::Answer(..)) => {
                // For built-in handlers, `after_body` sends the same response.
                let is_other = matches!(request.method, Method::Other(_));
                return if is_other { Outcome::Route } else { Outcome::AfterBody };
            }
            Some(Route::Deployed { path, proxy }) => return to(proxy, None, path),
            Some(Route::Mount { path, number, .. }) => (path, *number),
        };
        let place = site.place(path, number);
        match site.mount(number).1 {
            Handler::App(app) => {
                let at_work = self.call_app(request, app, (site, &place)).await;
                at_work.map_or_else(bad_target, Outcome::Working)
            }
            Handler::Proxy(proxy) => to(proxy, Some(number), path),
            Handler::Gateway(gateway) => {
                let at = (resolved, number, &place);
                Box::pin(self.call_gateway(request, gateway, at, granted)).await
            }
            Handler::Directory(directory) => {
                self.call_directory(request, directory, resolved, &place)
            }
            Handler::Fixed(_) | Handler::Redirect(_) => Outcome::AfterBody,
        }
    }

    async fn call_gateway<'a>(
        &self,
        request: &RequestHead<'_>,
        gateway: &Rc<Gateway>,
        (resolved, number, place): (&Resolved<'a>, usize, &MatchedPath<'_>),
        granted: &AuthorizerVariables,
    ) -> Outcome<'a> {
        let names_files = resolved.site.internal(number).is_some();
        let names_files = names_files.then(|| (resolved.number, number, place.path.to_vec()));
        match self.gateway_call(request, gateway, (resolved, place), granted).await {
            // The files beside the scripts answer.
            None => Outcome::AfterBody,
            Some(Err(answer)) => Outcome::Answer(answer),
            Some(Ok((answering, upload))) => {
                Outcome::Working(AtWork::reading(upload, answering, names_files))
            }
        }
    }

    /// Starts an upload, if the directory accepts uploads.
    fn call_directory<'a>(
        &self,
        request: &RequestHead<'_>,
        directory: &Directory,
        resolved: &Resolved<'_>,
        place: &MatchedPath<'_>,
    ) -> Outcome<'a> {
        let reads = matches!(request.method, Method::Get | Method::Head);
        if !directory.takes_uploads() || reads && !uploads::is_upload(place.rest) {
            return Outcome::AfterBody;
        }
        let (upload, body) = Upload::new(&self.io, request);
        let Some(made) = self.made(request, body, place.rest, |_, _| {}) else {
            return bad_target();
        };
        let user = resolved.gate().and_then(|gate| gate.user(request.authorization));
        match directory.change(made, place, user) {
            None => Outcome::AfterBody,
            Some(answering) => Outcome::Working(AtWork::reading(upload, answering, None)),
        }
    }
}

/// Returns 400 for a target that is not a valid `Uri`.
fn bad_target<'a>() -> Outcome<'a> {
    Outcome::Answer(Answer::error(StatusCode::BAD_REQUEST, None))
}
