//! One request: from a free instance to the head of the response.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body;
use tokio::sync::oneshot;
use tokio::time::sleep;
use wasmtime::{Error, PoolConcurrencyLimitError};
use wasmtime_wasi::I32Exit;

use crate::BoxError;
use crate::application::Compiled;
use crate::body::ResponseBody;
use crate::guest::{Given, Guest};
use crate::progress::Progress;

/// Characters of a failure in the log: its cause, and the functions of the component that were
/// running.
const REASON_MAX: usize = 1_000;

/// The application and its request, for log lines.
#[derive(Debug)]
pub(crate) struct Label {
    name: Arc<str>,
    pub(crate) method: Method,
    /// Without the query, which may be confidential.
    path: String,
}

impl Label {
    pub(crate) fn error(&self, what: &str) {
        let Label { name, method, path } = self;
        tracing::error!("wasm {name}: {what} ({method} {path})");
    }
}

/// The reason why there is no response.
enum Failure {
    /// 503: too many requests.
    Busy,
    /// 504, for this reason.
    Late(String),
    /// 500, for this reason.
    Broken(String),
    /// 502, for this reason.
    BadResponse(String),
}

pub(crate) async fn respond<B>(
    compiled: Arc<Compiled>,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Failed>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let label = Arc::new(Label {
        name: Arc::clone(&compiled.name),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
    });
    run(&compiled, &label, request).await.map_err(|failure| {
        let (status, what) = match failure {
            Failure::Busy => (StatusCode::SERVICE_UNAVAILABLE, "all instances are busy".into()),
            Failure::Late(what) => (StatusCode::GATEWAY_TIMEOUT, what),
            Failure::Broken(what) => (StatusCode::INTERNAL_SERVER_ERROR, what),
            Failure::BadResponse(what) => (StatusCode::BAD_GATEWAY, what),
        };
        label.error(&what);
        Failed(status)
    })
}

/// A request without a response of the component, for a reason that is logged. The status says
/// which kind: 500, 502, 503 (all instances are busy) or 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed(pub StatusCode);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the component has not responded: {}", self.0)
    }
}

impl std::error::Error for Failed {}

async fn run<B>(
    compiled: &Compiled,
    label: &Arc<Label>,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Failure>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let slot = compiled.slots.acquire().await.ok_or(Failure::Busy)?;
    let prepared = Guest::new(compiled, slot, request);
    let (guest, receiver) = prepared.map_err(|e| Failure::Broken(e.to_string()))?;
    let progress = Arc::clone(guest.progress());
    let mut pending = Pending { guest: Some(guest), ended: None, receiver, progress };
    let mut timer = pin!(None);
    poll_fn(|cx| {
        if let Poll::Ready(given) = pending.poll(cx) {
            return Poll::Ready(pending.response(given?, compiled, label, cx));
        }
        loop {
            let Some(rest) = pending.progress.until_head(&compiled.settings) else {
                return Poll::Ready(Err(Failure::Late("it has not responded in time".to_owned())));
            };
            if timer.is_none() {
                timer.set(Some(sleep(rest)));
            }
            let Some(running) = timer.as_mut().as_pin_mut() else { return Poll::Pending };
            if running.poll(cx).is_pending() {
                return Poll::Pending;
            }
            timer.set(None);
        }
    })
    .await
}

/// A component that has not responded yet.
struct Pending {
    /// `None`: it has ended.
    guest: Option<Guest>,
    /// The outcome of a component that has ended.
    ended: Option<Result<(), Error>>,
    receiver: oneshot::Receiver<Given>,
    progress: Arc<Progress>,
}

impl Pending {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Given, Failure>> {
        if let Some(guest) = &mut self.guest
            && let Poll::Ready(result) = Pin::new(guest).poll(cx)
        {
            self.guest = None;
            self.ended = Some(result);
        }
        match Pin::new(&mut self.receiver).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(given)) => Poll::Ready(Ok(given)),
            // The component has dropped the means to respond, or has ended.
            Poll::Ready(Err(_)) => Poll::Ready(Err(match self.ended.take() {
                Some(Err(error)) => self.failure(&error),
                _ => Failure::BadResponse("it has ended without a response".to_owned()),
            })),
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        if error.is::<PoolConcurrencyLimitError>() {
            return Failure::Busy;
        }
        let what = reason(error, &self.progress);
        if self.progress.is_over() { Failure::Late(what) } else { Failure::Broken(what) }
    }

    fn response(
        &mut self,
        given: Given,
        compiled: &Compiled,
        label: &Arc<Label>,
        cx: &mut Context<'_>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let given = given.map_err(|code| {
            Failure::BadResponse(format!("it gives an error in place of a response: {code:?}"))
        })?;
        if given.status().is_informational() {
            let status = given.status().as_u16();
            return Err(Failure::BadResponse(format!("its response has status {status}")));
        }
        let (parts, stream) = given.into_parts();
        let guest = match (self.guest.take(), self.ended.take()) {
            (Some(guest), _) => Ok(guest),
            (None, Some(Err(error))) => Err(Some(reason(&error, &self.progress))),
            (None, _) => Err(None),
        };
        let read_timeout = compiled.settings.read_timeout;
        let declared = parts.headers.get(header::CONTENT_LENGTH);
        let declared = match parts.status {
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Some(0),
            _ => declared.and_then(|length| length.to_str().ok()?.parse().ok()),
        };
        let progress = &self.progress;
        let body = ResponseBody::new(stream, declared, guest, progress, label, read_timeout, cx);
        Ok(Response::from_parts(parts, body))
    }
}

/// Describes the failure of a component.
pub(crate) fn reason(error: &Error, progress: &Progress) -> String {
    if progress.is_over() {
        return "its processor time is used up".to_owned();
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return format!("it has exited with code {}", exit.0);
    }
    let memory = if progress.wants_memory() { "it reached its memory limit; " } else { "" };
    let text = format!("{memory}{error:#}").replace('\n', "; ");
    text.chars().take(REASON_MAX).collect()
}
