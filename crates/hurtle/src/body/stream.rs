//! A body whose bytes come frame by frame, from whoever makes them. How frames leave is the
//! protocols' matter.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

/// What can go wrong in a body that somebody else makes.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a body has next; `None` is its end.
pub type Next = Option<Result<Frame<Bytes>, BoxError>>;

/// A body up to this many bytes that is all there leaves as bytes; a longer one in turns.
const WHOLE_BYTES_MAX: usize = 256 << 10;

/// Frames of data, and perhaps trailers behind them.
pub struct Stream {
    frames: Pin<Box<dyn Frames + Send>>,
    /// The next frame, if it was looked at before it was asked for, and the length with it.
    seen: Option<Box<(Next, Option<u64>)>>,
}

/// A body whose types are forgotten.
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
        // Where the data are `Bytes` already, this copies nothing.
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
    /// Takes any body.
    pub fn new<B>(body: B) -> Stream
    where
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Stream { frames: Box::pin(body), seen: None }
    }

    /// Makes the first frame, if it is there: what comes back is the whole body, if that frame is all
    /// of it and as long as the body said, or else as was `declared` for it; or why there is nothing.
    /// `None`: the body comes by frames, this one among them.
    pub fn whole(
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

    /// Bytes of data it will give, if it knows.
    pub fn exact_len(&self) -> Option<u64> {
        self.seen.as_ref().map_or_else(|| self.frames.exact_len(), |seen| seen.1)
    }

    /// Whether it knows that nothing more will come.
    pub fn is_end(&self) -> bool {
        match &self.seen {
            Some(seen) => seen.0.is_none(),
            None => self.frames.is_end(),
        }
    }

    /// Waits for the next frame. A panic of its maker is an error like others; after any, the
    /// stream must not be asked again.
    pub async fn frame(&mut self) -> Next {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The next frame if it is there; else `None`, and the task is woken when it comes.
    pub async fn frame_at_once(&mut self) -> Option<Next> {
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
            .unwrap_or_else(|_| Poll::Ready(Some(Err("the body's maker panicked".into()))))
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
