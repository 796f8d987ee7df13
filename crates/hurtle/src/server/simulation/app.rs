//! An application that answers as the path asks it to.

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

use super::Mood;
use super::message::{Wanted, pattern};
use crate::body::{BoxError, RequestBody};
use crate::handler::app::App;
use crate::transport::memory::Random;

/// Modes in which it does what it should.
pub(super) const SOUND: &[&str] = &["whole", "sized", "unsized", "echo", "gather"];

/// And others: its body breaks off, or its length is wrong; it fails.
pub(super) const UNSOUND: &[&str] = &["breaks", "sized-breaks", "fails"];

type Answer = Result<Response<BoxBody<Bytes, BoxError>>, BoxError>;

/// The application, at `/app`.
pub(super) fn app(seed: u64, mood: Mood) -> App {
    let service =
        tower::service_fn(move |request: Request<RequestBody>| answer(seed, mood, request));
    App::new("*", "/app", service)
}

async fn answer(seed: u64, mood: Mood, request: Request<RequestBody>) -> Answer {
    let wanted = Wanted::of(request.uri().path()).ok_or("no such path")?;
    let mut random = Random::new(seed, wanted.id);
    if mood != Mood::Swift && random.is_one_in(2) {
        tokio::time::sleep(Duration::from_millis(random.within(1, 100))).await;
    }
    let content = Bytes::from(pattern(wanted.id, wanted.len));
    let body = match wanted.mode.as_str() {
        "whole" => http_body_util::Full::from(content).map_err(never).boxed(),
        "echo" => request.into_body().map_err(Into::into).boxed(),
        "gather" => {
            let gathered = request.into_body().collect().await?.to_bytes();
            http_body_util::Full::from(gathered).map_err(never).boxed()
        }
        "fails" => return Err("it fails".into()),
        mode => Pieces {
            is_sized: mode.starts_with("sized"),
            breaks: mode.ends_with("breaks").then(|| random.within(0, wanted.len as u64) as usize),
            left: content,
            random,
            mood,
            pause: None,
        }
        .boxed(),
    };
    Ok(Response::builder().header("x-id", wanted.id).body(body)?)
}

fn never(never: Infallible) -> BoxError {
    match never {}
}

/// A body in pieces of any size, with pauses.
struct Pieces {
    left: Bytes,
    is_sized: bool,
    /// How many bytes are left when it fails.
    breaks: Option<usize>,
    random: Random,
    mood: Mood,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.mood == Mood::Swift && self.random.is_one_in(2) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.mood != Mood::Swift && self.pause.is_none() && self.random.is_one_in(2) {
            let ms = self.random.within(1, 100);
            self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(ms))));
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        if self.breaks.is_some_and(|left| left >= self.left.len()) {
            return Poll::Ready(Some(Err("it breaks off".into())));
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
