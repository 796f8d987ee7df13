//! An exchange with an application or a directory that takes uploads, and answers whose bodies come
//! frame by frame: the request's body flows while the answer is made, and on while it is sent.

use std::future::poll_fn;
use std::mem;
use std::rc::Rc;
use std::task::Poll;

use http::{StatusCode, header};

use super::asked::{described, path_of};
use super::duplex::{Broken, Duplex};
use super::exchange::Asked;
use super::hints::telling;
use super::internal::At;
use super::stream::Sending;
use super::upload::{UNREAD_BYTES_MAX, Upload};
use super::{Connection, Next, delimiter};
use crate::answer::{Answer, declared_len, is_bodiless};
use crate::body::{Body, EarlyHints, RequestBody};
use crate::clock;
use crate::h1::forward::upgrades;
use crate::h1::request::{Method, Request};
use crate::h1::response::{self, Delimiter, Fields, Persistence};
use crate::handler::app::App;
use crate::handler::gateway::Granted;
use crate::handler::proxy::Waits;
use crate::handler::{Answering, Handler, Place};
use crate::semantics::fields::has_token;
use crate::site::Route;
use crate::transport::{Input, Offer, Output, Transport};
use crate::uploads;

/// Who answers a request in the handlers' place.
pub(super) enum Called {
    /// An application, or a directory that takes uploads, at work.
    App(AtWork),
    /// Somebody else's server.
    Proxy(Asked<'static>),
}

/// Whoever reads the request's body, at work.
pub(super) struct AtWork {
    answering: Answering,
    upload: Upload,
    /// The client asks for another protocol, and the application may agree.
    offer: Option<Offer>,
    /// What it says before it answers, where that is told.
    hints: Option<EarlyHints>,
    /// Where its answer may name a file to be sent in its place: its site, its mount, and the path.
    names_files: Option<(usize, usize, Vec<u8>)>,
}

impl From<Answering> for AtWork {
    /// Upon a request without a body.
    fn from(answering: Answering) -> AtWork {
        let upload = Upload::none();
        AtWork { answering, upload, offer: None, hints: None, names_files: None }
    }
}

impl<T: Transport> Connection<T> {
    /// A request as its application gets it; `None`: it is none the application could use.
    pub(super) fn arriving(
        &self,
        request: &Request<'_>,
        app: &App,
        body: RequestBody,
        place: &Place<'_>,
    ) -> Option<http::Request<RequestBody>> {
        self.made(request, body, place.rest, |original, extensions| {
            extensions.insert(app.arrival(self.client, self.io.is_secure(), original));
            if let Some(certificate) = self.io.client() {
                extensions.insert(certificate);
            }
        })
    }

    /// Calls who answers this request and reads its body, if somebody does; `Err`: what is answered
    /// in his place. `granted`: what an authorizer has to say.
    pub(super) async fn call_reader(
        &self,
        request: &Request<'_>,
        granted: &Granted,
    ) -> Option<Result<Called, Answer>> {
        let (site_number, site) = self.worker.sites.find(request.host.as_ref().map(|h| h.name))?;
        if !site.has_readers() {
            return None;
        }
        let (raw, query) = path_of(&request.target)?;
        let (path, number) = match site.route(raw, query, self.client) {
            Route::Mount { path, number, .. } => (path, number),
            Route::Deployed { path, proxy } => {
                let asked =
                    Asked { proxy, site: site_number, mount: None, path: path.into_owned().into() };
                return Some(Ok(Called::Proxy(asked)));
            }
            // Among those, refusals and redirects are for every method. Those the built-in
            // handlers know come to the same further on.
            Route::Answer(answer, _) => {
                return matches!(request.method, Method::Other(_)).then_some(Err(*answer));
            }
        };
        let handler = site.mount(number).1;
        let place = site.place(&path, number);
        match handler {
            Handler::App(_) => {}
            Handler::Directory(directory) if directory.takes_uploads() => {
                let reads = matches!(request.method, Method::Get | Method::Head);
                if reads && !uploads::is_upload(place.rest) {
                    return None;
                }
            }
            Handler::Proxy(proxy) => {
                let proxy = Rc::clone(proxy);
                let asked = Asked {
                    proxy,
                    site: site_number,
                    mount: Some(number),
                    path: path.into_owned().into(),
                };
                return Some(Ok(Called::Proxy(asked)));
            }
            Handler::Gateway(gateway) => {
                let at = (site, &place);
                let called = Box::pin(self.gateway_call(request, gateway, at, granted)).await?;
                let names_files = site.internal(number).is_some();
                let names_files = names_files.then(|| (site_number, number, path.to_vec()));
                return Some(called.map(|(answering, upload)| {
                    Called::App(AtWork { upload, names_files, ..answering.into() })
                }));
            }
            _ => return None,
        }
        let (upload, body) = Upload::new(request);
        let made = match handler {
            Handler::App(app) => self.arriving(request, app, body, &place),
            _ => self.made(request, body, place.rest, |_, _| {}),
        };
        let Some(mut made) = made else {
            // A target that no `Uri` takes is none the application could use.
            return Some(Err(Answer::error(StatusCode::BAD_REQUEST, None)));
        };
        let (mut offer, mut hints) = (None, None);
        let answering = match handler {
            Handler::App(app) => {
                if upgrades(request).is_some()
                    && let Some((made_offer, taking)) = Box::pin(Offer::make()).await
                {
                    made.extensions_mut().insert(taking);
                    offer = Some(made_offer);
                }
                if self.is_told_early(request, site) {
                    made.extensions_mut().insert(hints.insert(EarlyHints::default()).clone());
                }
                app.call(made, place.rules().cloned().collect()).wait(described(request))
            }
            Handler::Directory(directory) => {
                let gate = site.gate(raw, query, self.client);
                let user = gate.and_then(|gate| gate.user(request.authorization));
                directory.change(made, &place, user)?
            }
            _ => return None,
        };
        Some(Ok(Called::App(AtWork { upload, offer, hints, ..answering.into() })))
    }

    /// Waits for the application's answer and sends it.
    pub(super) async fn app_exchange(&mut self, request: &Request<'_>, called: AtWork) -> Next {
        let AtWork { answering, mut upload, offer, hints, names_files } = called;
        let working = async |duplex: &Duplex<'_, T>| match hints {
            Some(hints) => telling(duplex, &hints, answering).await,
            None => Ok(answering.await),
        };
        let answer = self.beside(&mut upload, &Waits::default(), working).await;
        match answer.flatten() {
            Ok(mut answer) => {
                if let Some((site, mount, path)) = names_files {
                    let at = At { site, mount, path: &path };
                    answer = Box::pin(self.or_named_file(request, &at, answer)).await;
                }
                match offer.filter(|_| answer.status == StatusCode::SWITCHING_PROTOCOLS) {
                    Some(offer) => Box::pin(self.switch(request, &answer, offer)).await,
                    None => {
                        let silent = request.method == Method::Head || is_bodiless(answer.status);
                        begin_body(&mut answer, !silent).await;
                        self.answer(request, answer, upload).await
                    }
                }
            }
            Err(Broken::Sin(sin)) => Box::pin(self.refuse(sin)).await,
            Err(Broken::Stalled) => Next::Abort,
            Err(Broken::Gone | Broken::Answer | Broken::Late) => Next::Drop,
        }
    }

    /// Changes to the protocol that the application has agreed to.
    async fn switch(&mut self, request: &Request<'_>, answer: &Answer, offer: Offer) -> Next {
        let Ok(pipe) = offer.take().await else { return Next::Drop };
        let mut out = Output::new();
        let date = clock::date(clock::now_ms());
        let (given, upgrade) = (Delimiter::Given, Persistence::Upgrade);
        response::encode(out.vec(), answer.status, &date, &answer.fields, given, upgrade);
        self.tunnel_to(request, &pipe, Input::default(), out).await
    }

    /// Sends an answer whose request may still be coming.
    pub(super) async fn answer(
        &mut self,
        request: &Request<'_>,
        mut answer: Answer,
        mut upload: Upload,
    ) -> Next {
        let silent = request.method == Method::Head || is_bodiless(answer.status);
        let declared = declared_len(&answer.fields);
        if !silent {
            self.warm(request, &mut answer, clock::now_ms()).await;
        }
        let delimiter = match &answer.body {
            Body::Stream(stream) if !is_bodiless(answer.status) => {
                match stream.exact_len().or(declared) {
                    Some(len) => Delimiter::Length(len),
                    None if request.http10 => Delimiter::Close,
                    None => Delimiter::Chunked,
                }
            }
            // An application's answer to HEAD may tell a length without having the body.
            Body::Empty if request.method == Method::Head => {
                declared.map_or(Delimiter::Given, Delimiter::Length)
            }
            _ => delimiter(&answer),
        };
        let mut out = Output::new();
        upload.precede(out.vec());
        let goes_on = self.goes_on(request)
            && upload.may_go_on()
            && delimiter != Delimiter::Close
            && !says_close(&answer.fields);
        let now_ms = clock::now_ms();
        self.encode_head(&mut out, request, &mut answer, delimiter, goes_on, now_ms);
        let head_bytes = out.len() as u64;
        let sent = match mem::take(&mut answer.body) {
            Body::Stream(stream) if !silent => {
                self.sent.moved.set(0);
                let trailers = request.te_trailers;
                let streaming = async |duplex: &Duplex<'_, T>| {
                    let sending = Sending { duplex, out, delimiter, trailers };
                    sending.run(stream).await
                };
                let waits = Waits::default();
                Box::pin(self.beside(&mut upload, &waits, streaming))
                    .await
                    .flatten()
                    .map_err(|broken| ended_by(broken, delimiter))
            }
            body => self.send(out, if silent { &Body::Empty } else { &body }).await,
        };
        self.log(Some(request), answer.status, head_bytes);
        match sent {
            Ok(()) => self.pass_over(upload, goes_on).await,
            Err(next) => next,
        }
    }

    /// Goes on to the next request, over what nobody read of this one's body.
    pub(super) async fn pass_over(&mut self, mut upload: Upload, goes_on: bool) -> Next {
        let whole = upload.reading.is_done();
        if !goes_on || !upload.may_go_on() {
            return self.after(false, !whole);
        }
        upload.cut();
        match self.discard_body(&mut upload.reading, UNREAD_BYTES_MAX).await {
            Ok(()) => self.after(true, false),
            Err(Some(_)) => Next::Linger,
            Err(None) => Next::Drop,
        }
    }
}

/// Looks at the first of an answer's body, if it is there and will be sent (`Answer::begin_body`).
pub(super) async fn begin_body(answer: &mut Answer, sends_body: bool) {
    if sends_body && let Body::Stream(_) = answer.body {
        poll_fn(|cx| {
            answer.begin_body(cx);
            Poll::Ready(())
        })
        .await;
    }
}

/// How the connection ends when an answer breaks off: where only the connection's end delimits the
/// body, an orderly one would make the part look whole.
pub(super) fn ended_by(broken: Broken, delimiter: Delimiter) -> Next {
    match broken {
        Broken::Stalled => Next::Abort,
        _ if delimiter == Delimiter::Close => Next::Abort,
        _ => Next::Drop,
    }
}

/// Whether an application wants no more requests on this connection.
pub(super) fn says_close(fields: &Fields) -> bool {
    let Fields::Map(map) = fields else { return false };
    map.keys().any(|name| name == header::CONNECTION)
        && map.get_all(header::CONNECTION).iter().any(|value| has_token(value.as_bytes(), b"close"))
}
