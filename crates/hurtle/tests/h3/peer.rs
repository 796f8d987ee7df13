//! A client of the libraries `quinn` and `h3`, with helpers for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3_quinn::{BidiStream, OpenStreams};
use http::{HeaderMap, Request};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};

use crate::support::Response;
use crate::support::client::PATIENCE;

pub(crate) type Client = SendRequest<OpenStreams, Bytes>;
pub(crate) type Exchange = RequestStream<BidiStream<Bytes>, Bytes>;

/// The name that clients ask for.
pub(crate) const NAME: &str = "test.example";

/// A TLS configuration that trusts these roots and offers these protocols.
pub(crate) fn trusting(roots: RootCertStore, alpn: &[&str]) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// An endpoint of QUIC that connects with this TLS configuration.
pub(crate) fn endpoint(config: ClientConfig) -> quinn::Endpoint {
    endpoint_with(config, quinn::TransportConfig::default())
}

/// As `endpoint`, with this configuration of QUIC.
pub(crate) fn endpoint_with(
    config: ClientConfig,
    mut transport: quinn::TransportConfig,
) -> quinn::Endpoint {
    let config = QuicClientConfig::try_from(config).unwrap();
    let mut endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let mut client = quinn::ClientConfig::new(Arc::new(config));
    transport.max_idle_timeout(Some(PATIENCE.try_into().unwrap()));
    transport.keep_alive_interval(Some(Duration::from_secs(5)));
    client.transport_config(Arc::new(transport));
    endpoint.set_default_client_config(client);
    endpoint
}

/// Runs `task` on an event loop, at most for `PATIENCE`.
#[track_caller]
pub(crate) fn within_patience<T>(task: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await });
    done.expect("it takes too long")
}

/// Runs `conversation` on a new connection of QUIC.
#[track_caller]
pub(crate) fn converse<T>(
    address: SocketAddr,
    roots: RootCertStore,
    conversation: impl AsyncFnOnce(quinn::Connection, quinn::Endpoint) -> T,
) -> T {
    within_patience(async {
        let endpoint = endpoint(trusting(roots, &["h3"]));
        let connection = endpoint.connect(address, NAME).unwrap().await.unwrap();
        let said = conversation(connection.clone(), endpoint.clone()).await;
        connection.close(0x100_u32.into(), b"");
        endpoint.wait_idle().await;
        said
    })
}

/// Begins HTTP/3 on a connection.
pub(crate) async fn begin(connection: quinn::Connection) -> Client {
    let (mut driver, client) =
        h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    client
}

/// Runs `conversation` on a new connection of HTTP/3.
#[track_caller]
pub(crate) fn talk<T>(
    address: SocketAddr,
    roots: RootCertStore,
    conversation: impl AsyncFnOnce(Client) -> T,
) -> T {
    converse(address, roots, async |connection, _| {
        let client = begin(connection).await;
        conversation(client).await
    })
}

/// A request; `target` may be followed by field lines, each after a line break.
pub(crate) fn request(method: &str, target: &str) -> Request<()> {
    let (target, fields) = target.split_once('\n').unwrap_or((target, ""));
    let uri = format!("https://{NAME}{target}");
    let mut request = Request::builder().method(method).uri(uri);
    for line in fields.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    request.body(()).unwrap()
}

/// Sends a request with this body.
pub(crate) async fn ask(
    client: &mut Client,
    method: &str,
    target: &str,
    body: impl Into<Bytes>,
) -> Exchange {
    let mut exchange = client.send_request(request(method, target)).await.unwrap();
    let body = body.into();
    if !body.is_empty() {
        // The server may answer before the end of the body.
        let _ = exchange.send_data(body).await;
    }
    let _ = exchange.finish().await;
    exchange
}

/// Sends a GET, and reads the response.
pub(crate) async fn get(client: &mut Client, target: &str) -> Response {
    let mut exchange = ask(client, "GET", target, Bytes::new()).await;
    answer(&mut exchange).await.1
}

/// Reads the interim responses and the response.
pub(crate) async fn answer(exchange: &mut Exchange) -> (Vec<Response>, Response, HeaderMap) {
    let mut interim = Vec::new();
    loop {
        let (head, ()) = exchange.recv_response().await.unwrap().into_parts();
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let fields = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        let (status, fields) = (head.status.as_u16(), fields.collect());
        if status < 200 {
            interim.push(Response { status, fields, body: vec![] });
            continue;
        }
        let (body, trailers) = body(exchange).await.unwrap();
        return (interim, Response { status, fields, body }, trailers);
    }
}

/// Reads a body and its trailers.
pub(crate) async fn body(
    exchange: &mut Exchange,
) -> Result<(Vec<u8>, HeaderMap), h3::error::StreamError> {
    let mut body = Vec::new();
    while let Some(mut data) = exchange.recv_data().await? {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok((body, exchange.recv_trailers().await?.unwrap_or_default()))
}
