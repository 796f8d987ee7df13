//! Another protocol, for an application that was told of it by hyper: only hyper makes the
//! `OnUpgrade` that axum and others take the connection from. So a request is put to hyper on a
//! pipe in memory, which asks for nothing but an upgrade; the application gets that one's
//! `OnUpgrade`, and if it agrees, what it writes comes out of the pipe.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::{HeaderValue, Response, StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::Transport;
use crate::rt::{self, Teller, Told};

/// What either side may have written and the other not yet read, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// The request that hyper sees. What is asked for, the application reads in the real one.
const ASKING: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: any\r\n\r\n";

/// An upgrade that an application may agree to.
pub struct Offer {
    pipe: DuplexStream,
    agree: Teller<()>,
}

/// The end of a pipe at whose other end an application speaks its protocol.
pub struct Pipe(RefCell<DuplexStream>);

impl Offer {
    /// An offer, and what the application takes the connection from; `None`: hyper made none.
    pub async fn make() -> Option<(Offer, OnUpgrade)> {
        let (mut pipe, far) = tokio::io::duplex(PIPE_BYTES);
        let ((give, given), (agree, agreed)) = (rt::once(), rt::once());
        let ends = Cell::new(Some((give, agreed)));
        let service = service_fn(move |request| answer(request, ends.take()));
        let hyper = http1::Builder::new().serve_connection(TokioIo::new(far), service);
        // However it ends, the pipe's end tells.
        rt::spawn(async move { drop(hyper.with_upgrades().await) });
        pipe.write_all(ASKING).await.ok()?;
        Some((Offer { pipe, agree }, given.wait().await?))
    }

    /// The application has agreed.
    ///
    /// # Errors
    /// It has lost its end meanwhile.
    pub async fn take(mut self) -> io::Result<Pipe> {
        self.agree.tell(());
        // hyper's answer, which is nobody's business; behind it the application may speak already.
        let mut last = [0; 4];
        while last != *b"\r\n\r\n" {
            last.rotate_left(1);
            last[3] = self.pipe.read_u8().await?;
        }
        Ok(Pipe(RefCell::new(self.pipe)))
    }
}

/// hyper's service: hands out what it is asked for, and agrees when the application does.
async fn answer<B>(
    mut request: http::Request<B>,
    ends: Option<(Teller<OnUpgrade>, Told<()>)>,
) -> Result<Response<String>, Infallible> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let Some((give, agreed)) = ends else { return Ok(response) };
    give.tell(hyper::upgrade::on(&mut request));
    if agreed.wait().await.is_some() {
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

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_read_shared(cx, into)
    }

    fn poll_read_shared(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(into);
        let read = Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, &mut into);
        read.map_ok(|()| into.filled().len())
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, bufs)
    }

    fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write_vectored(cx, bufs)
    }

    fn write_anyway(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, bufs)
    }

    /// The application's end closes, and is never reset.
    async fn reset(&self) {
        std::future::pending::<()>().await;
    }

    fn finish(&self) {
        // A pipe in memory has nothing to wait for.
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx);
    }

    fn abort(&self) {}
}
