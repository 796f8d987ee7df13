//! Fetches a key set over HTTP, with limits on time and size. Redirects are not followed.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hurtle_http::semantics::cache_control::Directives;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::config::{KeySet, SET_BYTES_MAX};
use crate::rt::host_names::{self, HostNames};
use crate::{rt, tls};

/// Time limit from a request to the end of its response.
const RESPONSE_MAX: Duration = Duration::from_secs(10);

/// Shortest and longest time for which keys are used without another fetch, and the time without
/// Cache-Control, in seconds.
const LIFETIME_SECS: (u64, u64) = (60, 24 * 60 * 60);
const LIFETIME_SECS_DEFAULT: u64 = 60 * 60;

/// The client for one URL.
pub(super) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector<HostNames>>, Empty<Bytes>>,
    url: Uri,
}

impl Fetcher {
    /// # Errors
    /// The URL is invalid, or the system has no certificate authorities.
    pub(super) fn new(url: &str) -> Result<Fetcher, String> {
        let url: Uri = url.parse().map_err(|_| "not a URL")?;
        let is_https = url.scheme_str() == Some("https");
        let config = if is_https { tls::outgoing(None)? } else { tls::trusting_nobody()? };
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        let builder = if is_https { builder.https_only() } else { builder.https_or_http() };
        let connector = builder.enable_http1().wrap_connector(host_names::connector());
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Fetcher { client, url })
    }

    /// Fetches the keys, and the time for which they may be used.
    ///
    /// # Errors
    /// The reason, for the log.
    pub(super) async fn fetch(&self) -> Result<(KeySet, Duration), String> {
        let late = || Err(format!("no response within {} seconds", RESPONSE_MAX.as_secs()));
        rt::timeout(RESPONSE_MAX, self.respond()).await.unwrap_or_else(late)
    }

    async fn respond(&self) -> Result<(KeySet, Duration), String> {
        let request = Request::get(&self.url).header(header::ACCEPT, "application/json");
        let request = request.body(Empty::new()).map_err(|e| e.to_string())?;
        let response = self.client.request(request).await.map_err(|e| reason(&e))?;
        if response.status() != StatusCode::OK {
            return Err(format!("the response is {}", response.status()));
        }
        let lifetime = lifetime(response.headers());
        let body = Limited::new(response.into_body(), SET_BYTES_MAX).collect().await;
        let body = body.map_err(|e| reason(&*e))?.to_bytes();
        Ok((KeySet::parse(&body, false)?, lifetime))
    }
}

/// Returns the time for which a response may be used (RFC 9111 section 4.2.1), within bounds.
fn lifetime(headers: &HeaderMap) -> Duration {
    let mut directives = Directives::default();
    for line in headers.get_all(header::CACHE_CONTROL) {
        directives.read(line.as_bytes());
    }
    let secs = match directives.max_age {
        _ if directives.no_cache || directives.no_store => 0,
        Some(secs) => secs,
        None => LIFETIME_SECS_DEFAULT,
    };
    let (least, most) = LIFETIME_SECS;
    Duration::from_secs(secs.clamp(least, most))
}

/// Describes an error and its causes.
fn reason(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lifetime_is_bounded() {
        for (sentence, value, secs) in [
            ("nothing said", None, 3_600),
            ("a time", Some("public, max-age=7200"), 7_200),
            ("a short time", Some("max-age=1"), 60),
            ("no storing", Some("no-store, max-age=7200"), 60),
            ("a year", Some("max-age=31536000"), 86_400),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(value.map(|v| (header::CACHE_CONTROL, v.parse().unwrap())));
            assert_eq!(lifetime(&headers).as_secs(), secs, "{sentence}");
        }
    }
}
