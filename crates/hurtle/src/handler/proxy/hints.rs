//! 103 (Early Hints, RFC 8297) before a request is forwarded: the links that its site adds.

use http::{HeaderMap, StatusCode, header};
use hurtle_http::request::Method;

use super::super::client::{Client, ExchangeError, InterimSender};
use super::super::request::RequestContext;
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
    let Some(link) = client.hint() else { return Ok(()) };
    let fields = HeaderMap::from_iter([(header::LINK, link)]);
    let sending = async |interim: &dyn InterimSender| {
        interim.send(StatusCode::EARLY_HINTS, InterimFields::Made(&fields)).await
    };
    client.beside(&Waits::default(), sending).await?
}
