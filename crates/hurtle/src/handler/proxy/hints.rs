//! 103 (Early Hints, RFC 8297) before a request is forwarded: the links of the site's header rules.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use hurtle_http::request::Method;
use memchr::memmem;

use super::super::client::{Client, ExchangeError, InterimSender};
use super::super::request::{MatchedPath, RequestContext};
use super::super::wait::Waits;
use crate::protocol::InterimFields;

/// Sends the early hints.
pub(super) async fn send<C: Client>(
    request: &RequestContext<'_>,
    client: &mut C,
) -> Result<(), ExchangeError> {
    if request.head.method != Method::Get {
        return Ok(());
    }
    let Some(link) = link(&request.matched) else { return Ok(()) };
    let fields = HeaderMap::from_iter([(header::LINK, link)]);
    let sending = async |interim: &dyn InterimSender| {
        interim.send(StatusCode::EARLY_HINTS, InterimFields::Made(&fields)).await
    };
    client.beside(&Waits::default(), sending).await?
}

/// Returns the Link value of the path's header rules, if it has a preload or preconnect.
fn link(matched: &MatchedPath<'_>) -> Option<HeaderValue> {
    let mut link = None;
    for rule in matched.rules() {
        let set = rule.set.iter().find(|(name, _)| *name == header::LINK);
        if set.is_some() || rule.remove.contains(&header::LINK) {
            link = set.map(|(_, value)| value);
        }
    }
    let is_useful = |rel: &[u8]| link.is_some_and(|l| memmem::find(l.as_bytes(), rel).is_some());
    link.filter(|_| is_useful(b"preload") || is_useful(b"preconnect")).cloned()
}
