//! The service of an application: adds to a request what the component cannot know from it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use hurtle_wasm::{Application, Failed, ResponseBody};
use tower_service::Service;

use crate::answer::OwnError;
use crate::body::RequestBody;
use crate::files::Arrival;

/// The client's address, as for upstreams of a proxy.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The authority of a request without Host, which HTTP/1.0 allows.
const NO_AUTHORITY: Authority = Authority::from_static("localhost");

/// The service of an application.
#[derive(Clone, Debug)]
pub(crate) struct WasmService(pub(super) Application);

impl Service<Request<RequestBody>> for WasmService {
    type Response = Response<ResponseBody>;
    type Error = OwnError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, OwnError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OwnError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        if let Some(arrival) = request.extensions_mut().remove::<Arrival>() {
            let scheme = if arrival.is_https { Scheme::HTTPS } else { Scheme::HTTP };
            if let Some(uri) = absolute(&request, scheme.clone()) {
                *request.uri_mut() = uri;
            }
            set_client(request.headers_mut(), &arrival, &scheme);
        }
        let responding = self.0.call(request);
        Box::pin(async move { responding.await.map_err(|Failed(status)| OwnError(status)) })
    }
}

/// The target with its scheme and authority.
fn absolute(request: &Request<RequestBody>, scheme: Scheme) -> Option<Uri> {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let root = || PathAndQuery::from_static("/");
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(host.unwrap_or(NO_AUTHORITY));
    parts.path_and_query = Some(request.uri().path_and_query().cloned().unwrap_or_else(root));
    Uri::from_parts(parts).ok()
}

/// Replaces what the client says about itself.
fn set_client(fields: &mut HeaderMap, arrival: &Arrival, scheme: &Scheme) {
    fields.remove(header::FORWARDED);
    fields.remove(FORWARDED_FOR);
    let address = arrival.client.and_then(|client| HeaderValue::try_from(client.to_string()).ok());
    if let Some(address) = address {
        fields.insert(FORWARDED_FOR, address);
    }
    let scheme = if *scheme == Scheme::HTTPS { "https" } else { "http" };
    fields.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
}
