//! The application of the simulation. The request path selects the response and its faults.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use tokio::time::Sleep;

use super::Conditions;
use super::message::{ResponseSpec, pattern};
use crate::body::{BoxError, RequestBody};
use crate::handler::app::App;
use crate::transport::memory::Random;

/// Modes with a correct response.
pub(super) const RELIABLE_MODES: &[&str] = &["whole", "sized", "unsized", "echo", "gather"];

/// Modes with a fault: the body ends with an error, or the service returns one.
pub(super) const FAULTY_MODES: &[&str] = &["breaks", "sized-breaks", "fails"];

type AppResult = Result<Response<BoxBody<Bytes, BoxError>>, BoxError>;

/// Creates the application, mounted at `/app`.
pub(super) fn app(seed: u64, conditions: Conditions) -> App {
    let service =
        tower::service_fn(move |request: Request<RequestBody>| respond(seed, conditions, request));
    App::new("*", "/app", service)
}

async fn respond(seed: u64, conditions: Conditions, request: Request<RequestBody>) -> AppResult {
    let spec = ResponseSpec::parse(request.uri().path()).ok_or("no such path")?;
    let mut random = Random::new(seed, spec.id);
    if conditions != Conditions::Instant && random.is_one_in(2) {
        tokio::time::sleep(Duration::from_millis(random.within(1, 100))).await;
    }
    let content = Bytes::from(pattern(spec.id, spec.len));
    let body = match spec.mode.as_str() {
        "whole" => http_body_util::Full::from(content).map_err(never).boxed(),
        "echo" => request.into_body().map_err(Into::into).boxed(),
        "gather" => {
            let gathered = request.into_body().collect().await?.to_bytes();
            http_body_util::Full::from(gathered).map_err(never).boxed()
        }
        "fails" => return Err("the service failed".into()),
        mode => Pieces {
            is_sized: mode.starts_with("sized"),
            fail_at: mode.ends_with("breaks").then(|| random.within(0, spec.len as u64) as usize),
            left: content,
            random,
            conditions,
            pause: None,
        }
        .boxed(),
    };
    Ok(Response::builder().header("x-id", spec.id).body(body)?)
}

fn never(never: Infallible) -> BoxError {
    match never {}
}

/// A body in frames of random sizes, with pauses.
struct Pieces {
    left: Bytes,
    is_sized: bool,
    /// Number of unsent bytes at which the body fails; `None`: never.
    fail_at: Option<usize>,
    random: Random,
    conditions: Conditions,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.conditions == Conditions::Instant && self.random.is_one_in(2) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.conditions != Conditions::Instant
            && self.pause.is_none()
            && self.random.is_one_in(2)
        {
            let ms = self.random.within(1, 100);
            self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(ms))));
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        if self.fail_at.is_some_and(|left| left >= self.left.len()) {
            return Poll::Ready(Some(Err("the body failed".into())));
        }
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.left.len() as u64;
        let piece = self.random.within(1, len) as usize;
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(piece)))))
    }

    fn size_hint(&self) -> SizeHint {
        match self.is_sized {
            true => SizeHint::with_exact(self.left.len() as u64),
            false => SizeHint::default(),
        }
    }
}
