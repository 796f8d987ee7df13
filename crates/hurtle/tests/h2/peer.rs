//! A client of the library `h2`, with helpers for tests.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request};

use crate::support::Response;
use crate::support::client::PATIENCE;

/// Runs `conversation` on a new connection.
#[track_caller]
pub(crate) fn talk<T>(
    address: SocketAddr,
    conversation: impl AsyncFnOnce(SendRequest<Bytes>) -> T,
) -> T {
    // The connection's window exceeds a stream's, so one unread stream does not block the others.
    talk_within(1 << 24, address, conversation)
}

/// Like `talk`, with a connection window of `window_bytes`.
#[track_caller]
pub(crate) fn talk_within<T>(
    window_bytes: u32,
    address: SocketAddr,
    conversation: impl AsyncFnOnce(SendRequest<Bytes>) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let mut client = h2::client::Builder::new();
        client.initial_connection_window_size(window_bytes);
        let (client, connection) = client.handshake(socket).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        tokio::time::timeout(PATIENCE, conversation(client)).await
    });
    said.expect("it takes too long")
}

/// A request; `target` may be followed by field lines, each after a line break.
pub(crate) fn request(method: &str, target: &str) -> Request<()> {
    let (target, fields) = target.split_once('\n').unwrap_or((target, ""));
    let uri = format!("http://test.example{target}");
    let mut request = Request::builder().method(method).uri(uri);
    for line in fields.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    request.body(()).unwrap()
}

/// Sends a request without a body.
pub(crate) async fn ask(
    client: &mut SendRequest<Bytes>,
    method: &str,
    target: &str,
) -> ResponseFuture {
    let mut ready = client.clone().ready().await.unwrap();
    ready.send_request(request(method, target), true).unwrap().0
}

/// Sends a request with this body.
pub(crate) async fn send(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: impl Into<Bytes>,
) -> Response {
    let mut ready = client.clone().ready().await.unwrap();
    let (response, mut stream) = ready.send_request(request, false).unwrap();
    stream.send_data(body.into(), true).unwrap();
    answer(response).await
}

pub(crate) async fn answer(response: ResponseFuture) -> Response {
    let (head, mut frames) = response.await.unwrap().into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let fields = fields.collect();
    let body = body(&mut frames).await.unwrap().0;
    Response { status: head.status.as_u16(), fields, body }
}

/// Reads a body and its trailers.
pub(crate) async fn body(frames: &mut RecvStream) -> Result<(Vec<u8>, HeaderMap), h2::Error> {
    let mut body = Vec::new();
    while let Some(data) = frames.data().await {
        let data = data?;
        frames.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok((body, frames.trailers().await?.unwrap_or_default()))
}
