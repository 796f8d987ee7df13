//! The check over HTTP/2, with the library h2: the generator's own frame reader is not used.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Request, Version};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::decoded::{Comparison, check_head};
use super::{Fault, Verified, VerifyError, requests, time_max};
use crate::tls::Trust;

/// Flow-control window of a connection; each of its streams has a smaller one.
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Requests a path so many times at once on one connection, over TLS with this certificate, and
/// compares the responses with the file.
///
/// # Errors
/// The first wrong response, or missing HTTP/2.
pub fn verify_http2(
    addr: SocketAddr,
    trust: &Trust,
    path: &str,
    expected: &[u8],
) -> Result<Verified, VerifyError> {
    let wrong = |(answer, fault)| VerifyError { path: path.to_owned(), answer, fault };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| wrong((1, Fault::Io(e))))?;
    let asking = async { timeout(time_max(expected), ask(addr, trust, path, expected)).await };
    let result = runtime.block_on(asking);
    result.unwrap_or_else(|_| Err((1, Fault::Io(io::ErrorKind::TimedOut.into())))).map_err(wrong)
}

async fn ask(
    addr: SocketAddr,
    trust: &Trust,
    path: &str,
    expected: &[u8],
) -> Result<Verified, (u32, Fault)> {
    let mut client = connect(addr, trust).await.map_err(|e| (1, Fault::Io(e)))?;
    let mut answers = Vec::new();
    for answer in 1..=requests(expected) {
        client = client.ready().await.map_err(|e| (answer, http2_fault(e)))?;
        let uri = format!("https://{}{path}", trust.authority());
        let request = Request::get(uri).version(Version::HTTP_2).body(());
        let request = request.map_err(|e| (answer, Fault::Head(e.to_string())))?;
        let (coming, _) =
            client.send_request(request, true).map_err(|e| (answer, http2_fault(e)))?;
        answers.push(coming);
    }
    let mut seen = None;
    for (answer, coming) in (1..).zip(answers) {
        let verified = check(coming, path, expected).await.map_err(|fault| (answer, fault))?;
        seen.get_or_insert(verified);
    }
    // There was at least one response.
    seen.ok_or((1, Fault::NotKept))
}

async fn connect(addr: SocketAddr, trust: &Trust) -> io::Result<SendRequest<Bytes>> {
    let config = trust.checking(&[b"h2"]).map_err(io::Error::other)?;
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(config).connect(trust.name(), stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(io::Error::other("it does not agree to HTTP/2 (ALPN)"));
    }
    // Also for streams that are not read yet, so that they do not block the one that is.
    let builder = Builder::new().initial_connection_window_size(CONNECTION_WINDOW_BYTES).clone();
    let (client, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
    // Ends with the runtime; its errors appear in every response, too.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

async fn check(coming: ResponseFuture, path: &str, expected: &[u8]) -> Result<Verified, Fault> {
    let (head, mut body) = coming.await.map_err(http2_fault)?.into_parts();
    let verified = check_head(&head, path, expected.len())?;
    let mut compared = Comparison::new(expected);
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(http2_fault)?;
        compared.add(&piece)?;
        body.flow_control().release_capacity(piece.len()).map_err(http2_fault)?;
    }
    compared.finish()?;
    Ok(verified)
}

fn http2_fault(e: impl Into<h2::Error>) -> Fault {
    let e = e.into();
    Fault::Io(io::Error::other(format!("HTTP/2: {e}")))
}
