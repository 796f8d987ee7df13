//! Runs applications and upload directories. The request body is fed to the handler while the
//! response is computed and while it is sent.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use http::{StatusCode, header};
use hurtle_http::h1::forward::upgrades;
use hurtle_http::h1::response::{Delimiter, Fields, Persistence};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::fields::has_token;

use super::duplex::{Duplex, ExchangeError};
use super::hints::telling;
use super::internal::At;
use super::request_info::described;
use super::stream::StreamSender;
use super::upload::{UNREAD_BYTES_MAX, Upload};
use super::{Exchange, Next, delimiter};
use crate::answer::{Answer, declared_len, is_bodiless};
use crate::body::{Body, EarlyHints, RequestBody};
use crate::clock;
use crate::handler::app::App;
use crate::handler::proxy::Waits;
use crate::handler::{Answering, MatchedPath};
use crate::protocol::{Head, HeadFields, Protocol};
use crate::site::Site;
use crate::transport::{Input, Offer, Output};

/// A running handler that reads the request body.
pub(super) struct AtWork {
    answering: Answering,
    upload: Upload,
    /// The pending protocol switch that the client asked for; the application may accept it.
    offer: Option<Offer>,
    /// The application's early hints, if the client gets them.
    hints: Option<EarlyHints>,
    /// The site, mount and path, if the response may name a file that is sent instead.
    names_files: Option<(usize, usize, Vec<u8>)>,
}

impl AtWork {
    /// Wraps the handler that reads this upload.
    pub(super) fn reading(
        upload: Upload,
        answering: Answering,
        names_files: Option<(usize, usize, Vec<u8>)>,
    ) -> AtWork {
        AtWork { upload, names_files, ..answering.into() }
    }
}

impl From<Answering> for AtWork {
    /// Wraps the handler of a request without a body.
    fn from(answering: Answering) -> AtWork {
        let upload = Upload::none();
        AtWork { answering, upload, offer: None, hints: None, names_files: None }
    }
}

impl<T: Protocol> Exchange<T> {
    /// Builds the `http::Request` for an application. `None`: the target is not a valid URI.
    pub(super) fn arriving(
        &self,
        request: &RequestHead<'_>,
        app: &App,
        body: RequestBody,
        place: &MatchedPath<'_>,
    ) -> Option<http::Request<RequestBody>> {
        self.made(request, body, place.rest, |original, extensions| {
            extensions.insert(app.arrival(self.client, self.io.is_secure(), original));
            if let Some(certificate) = self.io.client() {
                extensions.insert(certificate);
            }
        })
    }

    /// Calls an application. `None`: the target is not a valid URI.
    pub(super) async fn call_app(
        &self,
        request: &RequestHead<'_>,
        app: &App,
        (site, place): (&Site, &MatchedPath<'_>),
    ) -> Option<AtWork> {
        let (upload, body) = Upload::new(&self.io, request);
        let mut made = self.arriving(request, app, body, place)?;
        let (mut offer, mut hints) = (None, None);
        if upgrades(request).is_some()
            && let Some((made_offer, taking)) = Box::pin(Offer::make()).await
        {
            made.extensions_mut().insert(taking);
            offer = Some(made_offer);
        }
        if self.is_told_early(request, site) {
            made.extensions_mut().insert(hints.insert(EarlyHints::default()).clone());
        }
        let answering = app.call(made, place.rules().cloned().collect()).wait(described(request));
        Some(AtWork { upload, offer, hints, ..answering.into() })
    }

    /// Waits for the application's response and sends it.
    pub(super) async fn app_exchange(&mut self, request: &RequestHead<'_>, called: AtWork) -> Next {
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
            Err(ExchangeError::ParseError(error)) => Box::pin(self.refuse(error)).await,
            Err(ExchangeError::Stalled) => Next::Abort,
            Err(ExchangeError::Gone | ExchangeError::Answer | ExchangeError::Late) => Next::Drop,
        }
    }

    /// Sends 101 and forwards the bytes of the protocol that the application accepted.
    async fn switch(&mut self, request: &RequestHead<'_>, answer: &Answer, offer: Offer) -> Next {
        let Ok(pipe) = offer.take().await else { return Next::Drop };
        let mut out = Output::new();
        let head = Head {
            status: answer.status,
            fields: HeadFields::Made(&answer.fields),
            delimiter: Delimiter::Given,
            persistence: Persistence::Upgrade,
            date: &clock::date(clock::now_ms()),
        };
        self.io.encode_head(out.vec(), &head);
        self.tunnel_to(request, &pipe, Input::default(), out).await
    }

    /// Sends a response while the request body may still be arriving.
    pub(super) async fn answer(
        &mut self,
        request: &RequestHead<'_>,
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
            // The response to HEAD may have a Content-Length without a body (RFC 9110 section
            // 9.3.2).
            Body::Empty if request.method == Method::Head => {
                declared.map_or(Delimiter::Given, Delimiter::Length)
            }
            _ => delimiter(&answer),
        };
        let mut interim = Vec::new();
        upload.precede(&self.io, &mut interim);
        let goes_on = self.goes_on(request)
            && upload.may_go_on()
            && delimiter != Delimiter::Close
            && !says_close(&answer.fields);
        let now_ms = clock::now_ms();
        let mut out = self.encode_head(request, &mut answer, delimiter, goes_on, now_ms);
        if !interim.is_empty() {
            out.vec().splice(..0, interim);
        }
        let head_bytes = out.len() as u64;
        let sent = match mem::take(&mut answer.body) {
            Body::Stream(stream) if !silent => {
                self.sent.moved.set(0);
                let trailers = request.te_trailers;
                let streaming = async |duplex: &Duplex<'_, T>| {
                    let sending = StreamSender { duplex, out, delimiter, trailers };
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

    /// Discards the unread rest of the request body, then returns the next step of the connection.
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

/// Polls the first frame of a response body that will be sent (see `Answer::begin_body`).
pub(super) async fn begin_body(answer: &mut Answer, sends_body: bool) {
    if sends_body && let Body::Stream(_) = answer.body {
        poll_fn(|cx| {
            answer.begin_body(cx);
            Poll::Ready(())
        })
        .await;
    }
}

/// Returns the next step of the connection after a response broke off. A body that ends with the
/// connection needs a reset, because an orderly close would make it look complete.
pub(super) fn ended_by(broken: ExchangeError, delimiter: Delimiter) -> Next {
    match broken {
        ExchangeError::Stalled => Next::Abort,
        _ if delimiter == Delimiter::Close => Next::Abort,
        _ => Next::Drop,
    }
}

/// Returns whether the application's response has `Connection: close`.
pub(super) fn says_close(fields: &Fields) -> bool {
    let Fields::Map(map) = fields else { return false };
    map.keys().any(|name| name == header::CONNECTION)
        && map.get_all(header::CONNECTION).iter().any(|value| has_token(value.as_bytes(), b"close"))
}
