//! Asks the operator's server whether a name gets a certificate on demand.

use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::rt::host_names::{self, HostNames};
use crate::rt::{self, Permits};
use crate::tls;

/// Time limit of one request.
const RESPONSE_MAX: Duration = Duration::from_secs(5);

/// Requests at a time; others wait.
const REQUESTS_MAX: usize = 16;

/// An HTTP client for the operator's server.
#[derive(Debug)]
pub(super) struct Asker {
    client: Client<HttpsConnector<HttpConnector<HostNames>>, Empty<Bytes>>,
    requests: Permits,
}

/// Decision about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Refused,
    /// The server does not respond, or with an error of its own (5xx).
    Undecided(String),
}

impl Asker {
    /// Makes a client that trusts the system's authorities.
    ///
    /// # Errors
    /// None in practice: the versions of TLS suit the provider.
    pub(super) fn new() -> Result<Asker, String> {
        // `http` needs no authorities.
        let config = tls::outgoing(None).or_else(|_| tls::trusting_nobody())?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        let mut plain = host_names::connector();
        plain.enforce_http(false);
        let connector = connector.enable_http1().wrap_connector(plain);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Asker { client, requests: Permits::new(REQUESTS_MAX) })
    }

    /// Asks a URL about a name, which has letters, digits, `-` and `.` only. The status decides.
    pub(super) async fn ask(&self, url: &str, name: &str) -> Verdict {
        let _permit = self.requests.take().await;
        let Ok(uri) = with_name(url, name).parse::<Uri>() else {
            return Verdict::Undecided("it is not a URL".to_owned());
        };
        match rt::timeout(RESPONSE_MAX, self.client.get(uri)).await {
            Some(Ok(response)) => verdict(response.status()),
            Some(Err(e)) => Verdict::Undecided(cause(&e)),
            None => Verdict::Undecided("it did not respond within 5 seconds".to_owned()),
        }
    }
}

fn with_name(url: &str, name: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}domain={name}")
}

fn verdict(status: StatusCode) -> Verdict {
    match status {
        status if status.is_success() => Verdict::Allowed,
        status if status.is_server_error() => Verdict::Undecided(format!("it answers {status}")),
        _ => Verdict::Refused,
    }
}

/// Describes the innermost cause of an error.
fn cause(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_added_to_the_query() {
        let table = [
            ("http://a", "http://a?domain=b.test"),
            ("http://a/ask", "http://a/ask?domain=b.test"),
            ("http://a/ask?key=1", "http://a/ask?key=1&domain=b.test"),
        ];
        for (url, expected) in table {
            assert_eq!(with_name(url, "b.test"), expected);
            let uri = expected.parse::<Uri>().unwrap();
            assert!(uri.query().unwrap().ends_with("domain=b.test"));
        }
    }

    #[test]
    fn only_a_success_allows_a_name() {
        for (status, expected) in [
            (200, Some(Verdict::Allowed)),
            (204, Some(Verdict::Allowed)),
            (302, Some(Verdict::Refused)),
            (403, Some(Verdict::Refused)),
            (404, Some(Verdict::Refused)),
            (500, None),
            (503, None),
        ] {
            let found = verdict(StatusCode::from_u16(status).unwrap());
            let is_undecided = matches!(found, Verdict::Undecided(_));
            assert_eq!((!is_undecided).then_some(found), expected, "{status}");
        }
    }
}
