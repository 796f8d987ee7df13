//! Connection upgrades for applications that use hyper's `OnUpgrade` (axum and others), which only
//! hyper can create. A request for an upgrade goes to a hyper server through an in-memory pipe. The
//! application gets that request's `OnUpgrade`; after a 101, its bytes come out of the pipe.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use http::{HeaderValue, Response, StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::plain::SLICES_MAX;
use super::{Attempt, Fill, Input, SendQueue, Transport};
use crate::rt::{self, oneshot};

/// Capacity of the pipe in each direction, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// The request that hyper gets. The application reads the client's real request.
const ASKING: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: any\r\n\r\n";

/// An upgrade that an application may accept.
pub(crate) struct Offer {
    pipe: DuplexStream,
    agree: oneshot::Sender<()>,
}

/// The server's end of the pipe to an application that was upgraded.
pub(crate) struct Pipe(RefCell<DuplexStream>);

impl Offer {
    /// Creates an offer, and the application's `OnUpgrade`. `None`: hyper created none.
    pub(crate) async fn make() -> Option<(Offer, OnUpgrade)> {
        let (mut pipe, far) = tokio::io::duplex(PIPE_BYTES);
        let ((give, given), (agree, agreed)) = (oneshot::channel(), oneshot::channel());
        let ends = Cell::new(Some((give, agreed)));
        let service = service_fn(move |request| answer(request, ends.take()));
        let hyper = http1::Builder::new().serve_connection(TokioIo::new(far), service);
        // The pipe reports the end of this task, so its result is unused.
        rt::spawn(async move { drop(hyper.with_upgrades().await) });
        pipe.write_all(ASKING).await.ok()?;
        Some((Offer { pipe, agree }, given.recv().await?))
    }

    /// Completes the upgrade after the application has accepted it.
    ///
    /// # Errors
    /// The application has dropped its end.
    pub(crate) async fn take(mut self) -> io::Result<Pipe> {
        self.agree.send(());
        // Skips hyper's response head; application data may follow it.
        let mut last = [0; 4];
        while last != *b"\r\n\r\n" {
            last.rotate_left(1);
            last[3] = self.pipe.read_u8().await?;
        }
        Ok(Pipe(RefCell::new(self.pipe)))
    }
}

/// The hyper service: stores the `OnUpgrade` and responds when the application accepts.
async fn answer<B>(
    mut request: http::Request<B>,
    ends: Option<(oneshot::Sender<OnUpgrade>, oneshot::Receiver<()>)>,
) -> Result<Response<String>, Infallible> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let Some((give, agreed)) = ends else { return Ok(response) };
    give.send(hyper::upgrade::on(&mut request));
    if agreed.recv().await.is_some() {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("any"));
    }
    Ok(response)
}

impl Transport for Pipe {
    fn is_secure(&self) -> bool {
        true
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        fill: Fill,
    ) -> Poll<io::Result<usize>> {
        input.poll_fill_by(fill, |into| {
            let mut into = ReadBuf::new(into);
            let read = Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, &mut into);
            read.map_ok(|()| into.filled().len())
        })
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        _attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let mut slots = [IoSlice::new(&[]); SLICES_MAX];
        let count = queue.slices(&mut slots, usize::MAX);
        let mut pipe = self.0.borrow_mut();
        let sent = ready!(Pin::new(&mut *pipe).poll_write_vectored(cx, &slots[..count]))?;
        queue.consume(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(&self, _cx: &mut Context<'_>, _attempt: Attempt) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The application's end closes, and is never reset.
    async fn reset(&self) {
        std::future::pending::<()>().await;
    }

    fn finish(&self) {
        // A pipe in memory closes without waiting.
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx);
    }

    fn abort(&self) {}
}
