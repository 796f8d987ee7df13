//! The check over HTTP/3, with the libraries h3 and quinn: the generator's own frame reader is not
//! used.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::{Request, Version};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use tokio::time::timeout;

use super::decoded::{Comparison, check_head};
use super::{Fault, Verified, VerifyError, requests, time_max};
use crate::tls::{Protocol, Trust};

/// Requests a path so many times on one connection over QUIC with this certificate, and compares
/// the responses with the file.
///
/// # Errors
/// The first wrong response, or missing HTTP/3.
pub fn verify_http3(
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
    let (endpoint, mut client) = connect(addr, trust).await.map_err(|e| (1, http3_fault(e)))?;
    let mut seen = None;
    for answer in 1..=requests(expected) {
        let asked = one(&mut client, trust.authority(), path, expected).await;
        seen.get_or_insert(asked.map_err(|fault| (answer, fault))?);
    }
    drop(client);
    endpoint.close(0x100_u32.into(), b"");
    endpoint.wait_idle().await;
    // There was at least one response.
    seen.ok_or((1, Fault::NotKept))
}

async fn connect(
    addr: SocketAddr,
    trust: &Trust,
) -> Result<(Endpoint, SendRequest<OpenStreams, Bytes>), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let tls = trust.checking(&[Protocol::Http3.id()]).map_err(|e| text(&e))?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|e| text(&e))?;
    let any = match addr {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let mut endpoint = Endpoint::client(any).map_err(|e| text(&e))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
    let connecting = endpoint.connect(addr, &trust.name().to_str()).map_err(|e| text(&e))?;
    let connection = connecting.await.map_err(|e| text(&e))?;
    let connection = h3_quinn::Connection::new(connection);
    let (mut driver, client) = h3::client::new(connection).await.map_err(|e| text(&e))?;
    // Ends with the runtime; its errors appear in every response, too.
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    Ok((endpoint, client))
}

async fn one(
    client: &mut SendRequest<OpenStreams, Bytes>,
    authority: &str,
    path: &str,
    expected: &[u8],
) -> Result<Verified, Fault> {
    let request =
        Request::get(format!("https://{authority}{path}")).version(Version::HTTP_3).body(());
    let request = request.map_err(|e| Fault::Head(e.to_string()))?;
    let mut stream = client.send_request(request).await.map_err(http3_fault)?;
    stream.finish().await.map_err(http3_fault)?;
    let (head, ()) = stream.recv_response().await.map_err(http3_fault)?.into_parts();
    let verified = check_head(&head, path, expected.len())?;
    let mut compared = Comparison::new(expected);
    while let Some(mut piece) = stream.recv_data().await.map_err(http3_fault)? {
        while piece.has_remaining() {
            let count = piece.chunk().len();
            compared.add(piece.chunk())?;
            piece.advance(count);
        }
    }
    compared.finish()?;
    Ok(verified)
}

fn http3_fault(e: impl std::fmt::Display) -> Fault {
    Fault::Io(io::Error::other(format!("HTTP/3: {e}")))
}
