//! Runs an application's service for one request, up to the response and the start of its body.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hurtle_http::message::response::Fields;
use hyper::upgrade::OnUpgrade;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::answer::{Answer, OwnError, is_bodiless};
use crate::body::{Body, BoxError, FileSlice, RequestBody, Stream};
use crate::rt;

pin_project! {
    /// A future of the service's response, or of its failure.
    /// It is a named type because an async function would hold the request three times.
    pub(super) struct Work<S>
    where
        S: Service<Request<RequestBody>>,
    {
        service: S,
        #[pin]
        stage: Stage<S::Future>,
        is_head: bool,
        may_switch: bool,
    }
}

pin_project! {
    #[project = StageMut]
    enum Stage<F> {
        // Waits until the service is ready.
        Waiting { request: Option<Request<RequestBody>> },
        Answering { #[pin] answering: F },
    }
}

/// The result of a call.
pub(super) type ServiceResult = Result<Answer, CallFailure>;

/// A call without a response of the application.
pub(super) enum CallFailure {
    /// The service decides the status, and has logged the reason.
    Status(StatusCode),
    /// The reason, such as "panicked: ...": 500.
    Broken(String),
}

impl<S: Service<Request<RequestBody>>> Work<S> {
    pub(super) fn new(service: S, request: Request<RequestBody>) -> Work<S> {
        let is_head = request.method() == Method::HEAD;
        let may_switch = request.extensions().get::<OnUpgrade>().is_some();
        let stage = Stage::Waiting { request: Some(request) };
        Work { service, stage, is_head, may_switch }
    }

    fn poll_service(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        let mut this = self.project();
        loop {
            match this.stage.as_mut().project() {
                StageMut::Answering { answering } => return answering.poll(cx),
                StageMut::Waiting { request } => {
                    if let Err(error) = ready!(this.service.poll_ready(cx)) {
                        return Poll::Ready(Err(error));
                    }
                    // The future is not polled after its completion.
                    let Some(request) = request.take() else { return Poll::Pending };
                    let answering = this.service.call(request);
                    this.stage.set(Stage::Answering { answering });
                }
            }
        }
    }
}

impl<S, B> Future for Work<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = ServiceResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ServiceResult> {
        let polled = rt::catch(|| self.as_mut().poll_service(cx));
        let this = self.project();
        let response = match polled {
            Ok(polled) => ready!(polled),
            Err(panic) => {
                let what = format!("panicked: {panic}");
                return Poll::Ready(Err(CallFailure::Broken(what)));
            }
        };
        Poll::Ready(match response {
            Ok(response) if is_final(response.status(), *this.may_switch) => {
                let mut answer = convert_response(response);
                if !*this.is_head && !is_bodiless(answer.status) {
                    answer.begin_body(cx);
                }
                Ok(answer)
            }
            // An interim response is not a final one (RFC 9110 section 15.2).
            Ok(response) => {
                Err(CallFailure::Broken(format!("answered with {}", response.status())))
            }
            Err(error) => Err(failure_of(&error.into())),
        })
    }
}

fn failure_of(error: &BoxError) -> CallFailure {
    match error.downcast_ref::<OwnError>() {
        Some(OwnError(status)) => CallFailure::Status(*status),
        None => CallFailure::Broken(format!("failed: {error}")),
    }
}

/// `true` for a final status; `may_switch`: 101 counts as final.
fn is_final(status: StatusCode, may_switch: bool) -> bool {
    !status.is_informational() || (may_switch && status == StatusCode::SWITCHING_PROTOCOLS)
}

fn convert_response<B>(response: Response<B>) -> Answer
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = response.into_parts();
    let slice = parts.extensions.remove::<FileSlice>();
    let body = match slice.filter(|slice| is_unchanged(slice, &parts.headers, &body)) {
        _ if body.is_end_stream() => Body::Empty,
        Some(slice) => Body::File(slice),
        None => Body::Stream(Stream::new(body)),
    };
    Answer::new(parts.status, Fields::Map(parts.headers), body)
}

/// `true` if the response still carries the file unchanged: same length and not encoded.
fn is_unchanged(slice: &FileSlice, fields: &HeaderMap, body: &impl http_body::Body) -> bool {
    body.size_hint().exact() == Some(slice.len) && !fields.contains_key(header::CONTENT_ENCODING)
}
