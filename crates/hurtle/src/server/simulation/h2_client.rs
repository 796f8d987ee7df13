//! A client of HTTP/2: the `h2` crate's, on a channel in memory.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Mood;
use super::client::check_time;
use super::request::Asked;
use crate::clock;
use crate::transport::Transport as _;
use crate::transport::memory::Memory;

/// What the client bears of frames that are smaller than it likes.
const SMALL_FRAMES_BYTES_MAX: usize = 64 << 20;

struct Io(Memory);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.0.poll_read(cx, into.initialize_unfilled());
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

/// Asks for all of these at once on one connection.
pub(super) async fn ask(io: Memory, asked: Vec<Asked>, mood: Mood) -> Result<(), String> {
    let begun_ms = clock::now_ms();
    let mut client = h2::client::Builder::new();
    // Pieces as small as these make it go away: a body is passed on as it comes.
    client.data_frame_budget(SMALL_FRAMES_BYTES_MAX);
    let (sender, connection) = match client.handshake(Io(io)).await {
        Ok(begun) => begun,
        Err(e) if mood.is_calm() => return Err(format!("no connection: {e}")),
        Err(_) => return Ok(()),
    };
    let driving = tokio::task::spawn_local(connection);
    let mut asking = Vec::new();
    for request in asked {
        let sender = sender.clone();
        asking.push(tokio::task::spawn_local(async move {
            match exchange(sender, &request).await {
                Ok(seen) => seen,
                Err(e) => request.broken(&format!("over HTTP/2: {e}")),
            }
        }));
    }
    drop(sender);
    let mut seen = Ok(());
    for one in asking {
        seen = seen.and(one.await.unwrap_or_else(|e| Err(e.to_string())));
    }
    seen = seen.and(check_time(mood, begun_ms));
    let _ = driving.await;
    seen
}

async fn exchange(
    sender: SendRequest<Bytes>,
    asked: &Asked,
) -> Result<Result<(), String>, h2::Error> {
    let mut sender = sender.ready().await?;
    let request = Request::builder().method(asked.method).uri(format!("http://a{}", asked.path));
    let request = request.body(()).expect("a sound request");
    let is_upload = asked.method == "POST";
    let (answer, mut upload) = sender.send_request(request, !is_upload)?;
    drop(sender);
    if is_upload {
        // The stream's window holds it. Whether it is read is the server's affair.
        let _ = upload.send_data(Bytes::from(asked.upload.clone()), true);
    }
    let (head, mut body) = answer.await?.into_parts();
    let mut content = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        content.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
    let id = head.headers.get("x-id").and_then(|id| id.to_str().ok());
    Ok(asked.check(head.status.as_u16(), id, &content))
}
