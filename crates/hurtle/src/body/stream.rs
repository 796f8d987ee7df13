//! A response body that comes frame by frame. The protocols decide how frames are written.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

/// The error of a body made outside of the server.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a body that an upstream did not send whole.
#[derive(Debug)]
pub(crate) struct TruncatedError {
    why: Cow<'static, str>,
    /// Status of the response if none of it was sent (RFC 9110 sections 15.6.3 and 15.6.5).
    pub(crate) status: StatusCode,
}

impl TruncatedError {
    pub(crate) fn new(why: impl Into<Cow<'static, str>>, status: StatusCode) -> TruncatedError {
        TruncatedError { why: why.into(), status }
    }
}

impl Default for TruncatedError {
    fn default() -> TruncatedError {
        TruncatedError::new("the upstream's response is truncated", StatusCode::BAD_GATEWAY)
    }
}

impl fmt::Display for TruncatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for TruncatedError {}

/// The next frame of a body; `None` at its end.
pub(crate) type Next = Option<Result<Frame<Bytes>, BoxError>>;

/// A body of one frame up to this size is sent as bytes; a longer one in turns.
const WHOLE_BYTES_MAX: usize = 256 << 10;

/// Frames of data, then perhaps trailers.
pub(crate) struct Stream {
    frames: Pin<Box<dyn Frames + Send>>,
    /// The first frame, if `whole` polled it, and the length the body had stated before.
    seen: Option<Box<(Next, Option<u64>)>>,
}

/// An `http_body::Body` whose type is erased and whose data is `Bytes`.
trait Frames {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next>;
    fn exact_len(&self) -> Option<u64>;
    fn is_end(&self) -> bool;
}

impl<B> Frames for B
where
    B: Body,
    B::Error: Into<BoxError>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        // If the data is `Bytes` already, this copies nothing.
        let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        let polled = self.poll_frame(cx);
        polled.map(|next| Some(next?.map(|frame| frame.map_data(bytes)).map_err(Into::into)))
    }

    fn exact_len(&self) -> Option<u64> {
        self.size_hint().exact()
    }

    fn is_end(&self) -> bool {
        self.is_end_stream()
    }
}

impl Stream {
    /// Wraps a body of any type.
    pub(crate) fn new<B>(body: B) -> Stream
    where
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Stream { frames: Box::pin(body), seen: None }
    }

    /// Polls the first frame. Returns its data if it is the whole body and as long as the body
    /// stated, or as was `declared` where it stated nothing; or the body's error. `None`: the body
    /// comes in frames, and `frame` returns this one first.
    pub(crate) fn whole(
        &mut self,
        cx: &mut Context<'_>,
        declared: impl FnOnce() -> Option<u64>,
    ) -> Option<Result<Bytes, BoxError>> {
        if self.seen.is_some() {
            return None;
        }
        let len = self.exact_len();
        let Poll::Ready(next) = self.poll(cx) else { return None };
        let next = match next {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if self.is_whole(&data, len.or_else(declared)) => return Some(Ok(data)),
                Ok(data) => Some(Ok(Frame::data(data))),
                Err(frame) => Some(Ok(frame)),
            },
            Some(Err(error)) => return Some(Err(error)),
            None => None,
        };
        self.seen = Some(Box::new((next, len)));
        None
    }

    fn is_whole(&self, data: &Bytes, said: Option<u64>) -> bool {
        let len = data.len();
        len <= WHOLE_BYTES_MAX && self.is_end() && said.is_none_or(|said| said == len as u64)
    }

    /// Length of the data in bytes, if the body states it.
    pub(crate) fn exact_len(&self) -> Option<u64> {
        self.seen.as_ref().map_or_else(|| self.frames.exact_len(), |seen| seen.1)
    }

    /// Returns true if the body states that no frame follows.
    pub(crate) fn is_end(&self) -> bool {
        match &self.seen {
            Some(seen) => seen.0.is_none(),
            None => self.frames.is_end(),
        }
    }

    /// Waits for the next frame. A panic of the body is returned as an error. After an error the
    /// stream must not be polled again.
    pub(crate) async fn frame(&mut self) -> Next {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Returns the next frame if it is ready; else `None`, and wakes the task when it is.
    pub(crate) async fn frame_at_once(&mut self) -> Option<Next> {
        poll_fn(|cx| match self.poll(cx) {
            Poll::Ready(next) => Poll::Ready(Some(next)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Some(seen) = self.seen.take() {
            return Poll::Ready(seen.0);
        }
        let body = self.frames.as_mut();
        catch_unwind(AssertUnwindSafe(|| body.poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Some(Err("the response body panicked".into()))))
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        self.get_mut().poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.exact_len().map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.exact_len()).finish()
    }
}
