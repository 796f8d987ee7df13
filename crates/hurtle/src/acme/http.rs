//! HTTP to an authority: over TLS only, within bounds, and with the reasons of what fails.

use std::error::Error as StdError;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use crate::rt;
use crate::semantics::date;

/// From a request to the end of its answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A chain of certificates has a few thousand.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A client for one authority.
#[derive(Clone)]
pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    advice: Advice,
}

/// When an authority that refused wants to be asked again (RFC 8555 6.6), in seconds since 1970;
/// 0: it did not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Advice(Arc<AtomicU64>);

impl Advice {
    /// What was advised since this was last asked.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Http {
    /// Trusts the system's authorities, and those in a file.
    ///
    /// # Errors
    /// When none can be found, or the file cannot be used.
    pub(super) fn new(root: Option<&Path>) -> Result<(Http, Advice), String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in root.map_or(Ok(Vec::new()), certificates)? {
            let told = |e| format!("{}: {e}", root.unwrap_or(Path::new("")).display());
            roots.add(certificate).map_err(told)?;
        }
        if roots.is_empty() {
            return Err("the system has no authorities to trust; install ca-certificates, or \
                        name the authority's root"
                .to_owned());
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(config);
        // RFC 8555 6.1.
        let connector = connector.https_only().enable_http1().build();
        let advice = Advice::default();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok((Http { client, advice: advice.clone() }, advice))
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let to = request.uri().host().unwrap_or_default().to_owned();
        let (answer, advice) = (self.client.request(request), self.advice.clone());
        let whole = async move {
            let answer = answer.await.map_err(|e| Error::Other(Box::new(e)))?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
            let body = body.map_err(Error::Other)?.to_bytes();
            if parts.status.is_client_error() || parts.status.is_server_error() {
                advice.0.store(retry_after(&parts.headers), Ordering::Relaxed);
                // Whatever stands before an authority may answer in its place.
                if serde_json::from_slice::<serde_json::Value>(&body).is_err() {
                    return Err(Error::Other(refusal(parts.status).into()));
                }
            }
            Ok(BytesResponse { parts, body: Box::new(body) })
        };
        Box::pin(async move {
            let late = || Error::Other(format!("{to} does not answer").into());
            rt::timeout(ANSWER_MAX, whole).await.unwrap_or_else(|| Err(late()))
        })
    }
}

fn refusal(status: StatusCode) -> String {
    format!("it answers {status}")
}

/// RFC 9110 10.2.3: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> u64 {
    let Some(value) = headers.get(header::RETRY_AFTER) else { return 0 };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
    let at = seconds.map(|seconds| super::now().saturating_add(seconds));
    at.or_else(|| date::parse(value.as_bytes())).unwrap_or_default()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |e: &dyn std::fmt::Debug| format!("{}: {e:?}", path.display());
    let found = CertificateDer::pem_file_iter(path).map_err(|e| told(&e))?;
    found.collect::<Result<Vec<_>, _>>().map_err(|e| told(&e))
}

/// What went wrong, with its reasons.
pub(super) fn why(error: &Error) -> String {
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
