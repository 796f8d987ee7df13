//! A body whose bytes come frame by frame, from whoever makes them. How frames leave is the
//! protocols' matter.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};

/// What can go wrong in a body that somebody else makes.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a body has next; `None` is its end.
pub type Next = Option<Result<Frame<Bytes>, BoxError>>;

/// Frames of data, and perhaps trailers behind them.
pub struct Stream {
    frames: Pin<Box<dyn Frames + Send>>,
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
        Stream { frames: Box::pin(body) }
    }

    /// Bytes of data it will give, if it knows.
    pub fn exact_len(&self) -> Option<u64> {
        self.frames.exact_len()
    }

    /// Whether it knows that nothing more will come.
    pub fn is_end(&self) -> bool {
        self.frames.is_end()
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
        let body = self.frames.as_mut();
        catch_unwind(AssertUnwindSafe(|| body.poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Some(Err("the body's maker panicked".into()))))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.exact_len()).finish()
    }
}
