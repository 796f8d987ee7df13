//! An HTTP/2 client of the simulation: the `h2` crate on an in-memory connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::Conditions;
use super::client::check_time;
use super::request::TestRequest;
use crate::clock;
use crate::transport::Transport as _;
use crate::transport::memory::Memory;

/// The client's budget for small DATA frames, in bytes.
const SMALL_FRAMES_BYTES_MAX: usize = 64 << 20;

/// Most bytes that a slow client reads at once.
const SLOW_READ_BYTES_MAX: usize = 16 << 10;

/// Windows of a slow client, in bytes.
const WINDOW_BYTES: u32 = 1 << 20;

/// The client's end, and the pause before its next read.
struct Io(Memory, Option<Pin<Box<Sleep>>>);

/// Pause of a slow client before each read.
const PAUSE: Duration = Duration::from_millis(1_500);

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Io(memory, pause) = &mut *self;
        let mut len_max = into.remaining();
        if let Some(pause) = pause {
            ready!(pause.as_mut().poll(cx));
            len_max = len_max.min(SLOW_READ_BYTES_MAX);
        }
        let read = memory.poll_read(cx, into.initialize_unfilled_to(len_max));
        if let (Poll::Ready(_), Some(pause)) = (&read, pause) {
            pause.as_mut().reset(Instant::now() + PAUSE);
        }
        read.map_ok(|n| into.advance(n))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.finish();
        Poll::Ready(Ok(()))
    }
}

/// Sends the requests at the same time on one connection, and checks the responses.
pub(super) async fn send_requests(
    io: Memory,
    requests: Vec<TestRequest>,
    conditions: Conditions,
) -> Result<(), String> {
    let begun_ms = clock::now_ms();
    let mut client = h2::client::Builder::new();
    // The server forwards small pieces as small frames. With the default budget the client would
    // close the connection.
    client.data_frame_budget(SMALL_FRAMES_BYTES_MAX);
    let (sender, connection) = match client.handshake(Io(io, None)).await {
        Ok(connected) => connected,
        Err(e) if conditions.is_reliable() => return Err(format!("no connection: {e}")),
        Err(_) => return Ok(()),
    };
    let connection_task = tokio::task::spawn_local(connection);
    let mut tasks = Vec::new();
    for request in requests {
        let sender = sender.clone();
        tasks.push(tokio::task::spawn_local(async move {
            match exchange(sender, &request).await {
                Ok(result) => result,
                Err(e) => request.check_failure(&format!("over HTTP/2: {e}")),
            }
        }));
    }
    drop(sender);
    let mut result = Ok(());
    for task in tasks {
        result = result.and(task.await.unwrap_or_else(|e| Err(e.to_string())));
    }
    result = result.and(check_time(conditions, begun_ms));
    let _ = connection_task.await;
    result
}

/// Sends one request and reads its response slowly, with windows larger than the response.
/// `again`: repeats the request after this time.
pub(super) async fn read_slowly(
    io: Memory,
    request: &TestRequest,
    again: Option<Duration>,
) -> Result<(), String> {
    let mut client = h2::client::Builder::new();
    client.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
    let io = Io(io, Some(Box::pin(sleep(PAUSE))));
    let (sender, connection) = client.handshake(io).await.map_err(|e| e.to_string())?;
    let connection_task = tokio::task::spawn_local(connection);
    let mut result = exchange(sender.clone(), request).await.map_err(|e| e.to_string())?;
    if let Some(pause) = again {
        sleep(pause).await;
        let repeated = exchange(sender.clone(), request).await;
        result = result.and(repeated.map_err(|e| format!("repeated: {e}"))?);
    }
    drop(sender);
    let _ = connection_task.await;
    result
}

async fn exchange(
    sender: SendRequest<Bytes>,
    test_request: &TestRequest,
) -> Result<Result<(), String>, h2::Error> {
    let mut sender = sender.ready().await?;
    let request = Request::builder()
        .method(test_request.method)
        .uri(format!("http://a{}", test_request.path));
    let request = request.body(()).expect("a valid request");
    let is_upload = test_request.method == "POST";
    let (response, mut upload) = sender.send_request(request, !is_upload)?;
    drop(sender);
    if is_upload {
        // The body fits in the stream's window. The server need not read it.
        let _ = upload.send_data(Bytes::from(test_request.upload.clone()), true);
    }
    let (head, mut body) = response.await?.into_parts();
    let mut content = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        content.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
    let id = head.headers.get("x-id").and_then(|id| id.to_str().ok());
    Ok(test_request.check(head.status.as_u16(), id, &content))
}
