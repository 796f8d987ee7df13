//! A client and an upstream of the library `h2`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, client};
use http::{HeaderMap, Request, Response};

/// Time limit of a conversation, after which the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A response with its body and trailers.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

impl Whole {
    /// The status of a call, from the trailers or from the head.
    pub(crate) fn grpc_status(&self) -> Option<&str> {
        let status = self.trailers.get("grpc-status").or(self.head.headers.get("grpc-status"))?;
        status.to_str().ok()
    }
}

/// Runs `conversation` on a new connection to the proxy.
#[track_caller]
pub(crate) fn talk<T>(
    address: SocketAddr,
    conversation: impl AsyncFnOnce(client::SendRequest<Bytes>) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = client::handshake(socket).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        tokio::time::timeout(PATIENCE, conversation(client)).await
    });
    said.expect("it takes too long")
}

/// The head of a call.
pub(crate) fn call_head(path: &str) -> Request<()> {
    Request::post(format!("http://a{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

/// Makes a call with one message.
#[track_caller]
pub(crate) fn call(address: SocketAddr, path: &str, message: &[u8]) -> Whole {
    talk(address, async |client| {
        let mut client = client.ready().await.unwrap();
        let (response, mut body) = client.send_request(call_head(path), false).unwrap();
        body.send_data(framed(message), true).unwrap();
        whole(response.await.unwrap()).await.unwrap()
    })
}

/// Reads a whole response.
pub(crate) async fn whole(response: Response<RecvStream>) -> Result<Whole, h2::Error> {
    let (head, mut stream) = response.into_parts();
    let body = read(&mut stream).await?;
    let trailers = stream.trailers().await?.unwrap_or_default();
    Ok(Whole { head, body, trailers })
}

pub(crate) async fn read(stream: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(body)
}

/// A message of gRPC with its prefix.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat().into()
}

/// An upstream, which lives until the test ends.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    /// Connections that were accepted.
    pub(crate) connections: Arc<AtomicUsize>,
    /// Most requests that were open on one connection.
    pub(crate) most: Arc<AtomicUsize>,
}

impl Upstream {
    /// Serves every request with `handler`; each connection has at most `streams_max` requests.
    pub(crate) fn start<H>(streams_max: u32, handler: H) -> Upstream
    where
        H: AsyncFn(Request<RecvStream>, SendResponse<Bytes>) + Copy + Send + 'static,
    {
        Upstream::configured(
            h2::server::Builder::new().max_concurrent_streams(streams_max),
            handler,
        )
    }

    /// Serves every request with `handler` on connections with these settings.
    pub(crate) fn configured<H>(server: &h2::server::Builder, handler: H) -> Upstream
    where
        H: AsyncFn(Request<RecvStream>, SendResponse<Bytes>) + Copy + Send + 'static,
    {
        let server = server.clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (connections, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let upstream =
            Upstream { address, connections: Arc::clone(&connections), most: Arc::clone(&most) };
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((socket, _)) = listener.accept().await {
                    connections.fetch_add(1, SeqCst);
                    let (most, server) = (Arc::clone(&most), server.clone());
                    tokio::task::spawn_local(async move {
                        let Ok(mut connection) = server.handshake(socket).await else { return };
                        let open = Arc::<AtomicUsize>::default();
                        while let Some(Ok((request, respond))) = connection.accept().await {
                            most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
                            let open = Arc::clone(&open);
                            tokio::task::spawn_local(async move {
                                handler(request, respond).await;
                                open.fetch_sub(1, SeqCst);
                            });
                        }
                    });
                }
            });
        });
        upstream
    }
}
