//! A response's body. The component runs when the body is read and has nothing ready: it never gets
//! ahead of the client by more than the buffer of its stream.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::runtime::Handle;
use tokio::time::error::Elapsed;
use tokio::time::{Sleep, sleep, timeout};
use wasmtime_wasi_http::Error;

use crate::BoxError;
use crate::call::{Label, reason};
use crate::guest::Guest;
use crate::progress::Progress;

/// Time for the work of a component after the end of its response.
const AFTER_MAX: Duration = Duration::from_secs(10);

/// Bytes of a response to HEAD that are read so that the component can go on.
const DISCARDED_MAX: usize = 1 << 20;

type Next = Option<Result<Frame<Bytes>, BoxError>>;

/// The body of a component's response.
pub struct ResponseBody {
    /// Frames that were read ahead.
    queued: VecDeque<Frame<Bytes>>,
    /// The rest; `None`: it has ended.
    rest: Option<Box<Rest>>,
    /// Bytes that are left of the declared length; `None`: none was declared.
    left: Option<u64>,
}

struct Rest {
    stream: UnsyncBoxBody<Bytes, Error>,
    /// `None`: the component has ended.
    guest: Option<Guest>,
    /// The component's failure.
    failure: Option<String>,
    progress: Arc<Progress>,
    label: Arc<Label>,
    read_timeout: Duration,
    /// Runs out when the component pauses too long.
    pause: Option<Pin<Box<Sleep>>>,
}

impl ResponseBody {
    /// The body of a response with this declared length. Frames that are ready are read ahead, as
    /// many as the component's stream holds.
    pub(crate) fn new(
        stream: UnsyncBoxBody<Bytes, Error>,
        declared: Option<u64>,
        guest: Result<Guest, Option<String>>,
        progress: &Arc<Progress>,
        label: &Arc<Label>,
        read_timeout: Duration,
        cx: &mut Context<'_>,
    ) -> ResponseBody {
        let (guest, failure) = match guest {
            Ok(guest) => (Some(guest), None),
            Err(failure) => (None, failure),
        };
        let (progress, label) = (Arc::clone(progress), Arc::clone(label));
        let mut rest = Rest { stream, guest, failure, progress, label, read_timeout, pause: None };
        if declared == Some(0) {
            // Nobody reads a body without bytes.
            rest.end();
        }
        let mut queued = VecDeque::new();
        while let Poll::Ready(next) = Pin::new(&mut rest.stream).poll_frame(cx) {
            match next {
                Some(Ok(frame)) => queued.push_back(frame),
                None if rest.failure.is_none() => {
                    rest.end();
                    return ResponseBody { queued, rest: None, left: declared };
                }
                // The stream returns its error, or its end, again.
                None => break,
                // A length without a body is right for HEAD (RFC 9110 section 9.3.2).
                Some(Err(_)) if rest.label.method == Method::HEAD => break,
                Some(Err(error)) => {
                    rest.failure.get_or_insert_with(|| error.to_string());
                    break;
                }
            }
        }
        ResponseBody { queued, rest: Some(Box::new(rest)), left: declared }
    }
}

impl ResponseBody {
    /// Counts a frame; `true`: the declared length is reached, or these are the trailers.
    fn is_last(&mut self, frame: &Frame<Bytes>) -> bool {
        let Some(data) = frame.data_ref() else { return true };
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        self.left == Some(0)
    }
}

impl Rest {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            match Pin::new(&mut self.stream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.pause = None;
                    return Poll::Ready(Some(Ok(frame)));
                }
                Poll::Ready(Some(Err(error))) => {
                    return self.fail(format!("its response is not as announced: {error}"));
                }
                Poll::Ready(None) => {
                    // A component that fails has not ended its stream.
                    return match self.failure.take() {
                        Some(failure) => self.fail(failure),
                        None => Poll::Ready(None),
                    };
                }
                Poll::Pending => {}
            }
            let Some(guest) = &mut self.guest else { break };
            match Pin::new(guest).poll(cx) {
                Poll::Ready(result) => {
                    self.guest = None;
                    self.failure = result.err().map(|error| reason(&error, &self.progress));
                }
                Poll::Pending => break,
            }
        }
        let read_timeout = self.read_timeout;
        loop {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(read_timeout)));
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if !self.progress.waits_for_client() {
                return self.fail("its response paused for too long".to_owned());
            }
            self.pause = None;
        }
    }

    fn fail(&mut self, what: String) -> Poll<Next> {
        self.label.error(&what);
        self.guest = None;
        Poll::Ready(Some(Err(what.into())))
    }

    /// Reads the rest for a component whose response nobody reads, and lets it finish. One that
    /// writes more than `DISCARDED_MAX` is ended.
    async fn discard(self) {
        let Rest { mut stream, guest, label, progress, .. } = self;
        let Some(mut guest) = guest else { return };
        let work = async {
            let mut bytes = 0;
            loop {
                let next = poll_fn(|cx| match Pin::new(&mut stream).poll_frame(cx) {
                    Poll::Ready(next) => Poll::Ready(Ok(next)),
                    Poll::Pending => Pin::new(&mut guest).poll(cx).map(Err),
                });
                match next.await {
                    Ok(Some(Ok(frame))) => bytes += frame.data_ref().map_or(0, Bytes::len),
                    // The end, or a length without a body, which is right here.
                    Ok(_) => return guest.await,
                    Err(ended) => return ended,
                }
                if bytes > DISCARDED_MAX {
                    return Ok(());
                }
            }
        };
        log_work(timeout(AFTER_MAX, work).await, &label, &progress);
    }

    /// Lets a component finish that has ended its response.
    fn end(&mut self) {
        if let Some(failure) = self.failure.take() {
            self.label.error(&failure);
        }
        let Some(guest) = self.guest.take() else { return };
        let (label, progress) = (Arc::clone(&self.label), Arc::clone(&self.progress));
        tokio::spawn(async move {
            log_work(timeout(AFTER_MAX, guest).await, &label, &progress);
        });
    }
}

/// Logs work after a response that has failed.
fn log_work(ended: Result<wasmtime::Result<()>, Elapsed>, label: &Label, progress: &Progress) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => label.error(&reason(&error, progress)),
        Err(_) => label.error("it worked for too long after its response"),
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        let polled = match self.queued.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => match &mut self.rest {
                Some(rest) => rest.poll_frame(cx),
                None => Poll::Ready(None),
            },
        };
        match &polled {
            Poll::Pending => {}
            // The reader may ask for nothing more, not even the end.
            Poll::Ready(Some(Ok(frame))) if self.is_last(frame) => {
                self.rest.iter_mut().for_each(|rest| rest.end());
            }
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(None) => {
                self.rest.iter_mut().for_each(|rest| rest.end());
                self.rest = None;
            }
            Poll::Ready(Some(Err(_))) => self.rest = None,
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.queued.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let queued = self.queued.iter().filter_map(Frame::data_ref);
        let queued: u64 = queued.map(|data| data.len() as u64).sum();
        let mut hint = SizeHint::new();
        hint.set_lower(queued);
        if self.rest.is_none() {
            hint.set_upper(queued);
        }
        hint
    }
}

/// The server does not read the response to HEAD. A component writes it as for GET, and may have
/// work to do behind it that must not be lost.
impl Drop for ResponseBody {
    fn drop(&mut self) {
        let Some(mut rest) = self.rest.take().filter(|rest| rest.label.method == Method::HEAD)
        else {
            return;
        };
        match Handle::try_current() {
            _ if rest.guest.is_none() => rest.end(),
            Ok(runtime) => drop(runtime.spawn(rest.discard())),
            Err(_) => {}
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("queued", &self.queued).finish_non_exhaustive()
    }
}
