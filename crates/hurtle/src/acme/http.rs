//! The HTTP client for authorities: HTTPS only, with limits on time and size, and with
//! `Retry-After` and the causes of errors, which instant-acme's own client does not report.

use std::error::Error as StdError;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Limited};
use hurtle_http::semantics::date;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::rt::host_names::{self, HostNames};
use crate::{rt, tls};

/// Time limit from a request to the end of its response.
const RESPONSE_MAX: Duration = Duration::from_secs(30);

/// Size limit of a response body. A certificate chain has a few thousand bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The client for one authority.
#[derive(Clone)]
pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector<HostNames>>, BodyWrapper<Bytes>>,
    retry_after: RetryAfter,
}

/// `Retry-After` of the last refused request (RFC 8555 section 6.6), in seconds since 1970; 0
/// without one.
#[derive(Clone, Debug, Default)]
pub(super) struct RetryAfter(Arc<AtomicU64>);

impl RetryAfter {
    /// Takes the time and resets it.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Http {
    /// Makes a client that trusts the system's authorities and those in the file `root`.
    ///
    /// # Errors
    /// The system has no certificate authorities, or their file is unusable.
    pub(super) fn new(root: Option<&Path>) -> Result<(Http, RetryAfter), String> {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls::outgoing(root)?);
        // RFC 8555 section 6.1.
        let connector =
            connector.https_only().enable_http1().wrap_connector(host_names::connector());
        let retry_after = RetryAfter::default();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok((Http { client, retry_after: retry_after.clone() }, retry_after))
    }

    /// A copy that shares connections, with a `Retry-After` of its own.
    pub(super) fn copy(&self) -> (Http, RetryAfter) {
        let retry_after = RetryAfter::default();
        (Http { client: self.client.clone(), retry_after: retry_after.clone() }, retry_after)
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let to = request.uri().host().unwrap_or_default().to_owned();
        let (response, retry_after) = (self.client.request(request), self.retry_after.clone());
        let whole = async move {
            let response = response.await.map_err(|e| Error::Other(Box::new(e)))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
            let body = body.map_err(Error::Other)?.to_bytes();
            if parts.status.is_client_error() || parts.status.is_server_error() {
                retry_after.0.store(retry_time(&parts.headers), Ordering::Relaxed);
                // A proxy in front of the authority sends no problem document.
                if serde_json::from_slice::<serde_json::Value>(&body).is_err() {
                    return Err(Error::Other(format!("it answers {}", parts.status).into()));
                }
            }
            Ok(BytesResponse { parts, body: Box::new(body) })
        };
        Box::pin(async move {
            let late = || Error::Other(format!("{to} did not respond within 30 seconds").into());
            rt::timeout(RESPONSE_MAX, whole).await.unwrap_or_else(|| Err(late()))
        })
    }
}

/// Parses `Retry-After`, seconds or a date (RFC 9110 section 10.2.3), into seconds since 1970.
fn retry_time(headers: &HeaderMap) -> u64 {
    let Some(value) = headers.get(header::RETRY_AFTER) else { return 0 };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
    let at = seconds.map(|seconds| super::now().saturating_add(seconds));
    at.or_else(|| date::parse(value.as_bytes())).unwrap_or_default()
}

/// Describes an error and its causes.
pub(super) fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = match error {
        Error::Other(inner) => inner.source(),
        error => error.source(),
    };
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
