//! The client of an explained request: it is not connected.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use hurtle_http::message::forwarded_headers::ForwardedHeaders;

use crate::body::RequestBody;
use crate::cache::CacheStatus;
use crate::handler::client::{Client, Continue, ExchangeError, InterimSender, Sending};
use crate::handler::wait::Waits;
use crate::observe::BufferedBytes;
use crate::protocol::InterimFields;
use crate::tls::ClientCertificate;

/// The client of an explained request, which is not connected and sends no body.
#[derive(Default)]
pub(super) struct NoClient(Option<CacheStatus>);

impl Client for NoClient {
    fn certificate(&self) -> Option<ClientCertificate> {
        None
    }

    fn body(&mut self, _sends_continue: Continue) -> RequestBody {
        RequestBody::default()
    }

    fn withhold_continue(&mut self) {}

    async fn discard_body(&mut self, _is_refused: bool) -> Result<(), ExchangeError> {
        Ok(())
    }

    async fn beside<R>(
        &mut self,
        _waits: &Waits,
        work: impl AsyncFnOnce(&dyn InterimSender) -> R,
    ) -> Result<R, ExchangeError> {
        Ok(work(&NoInterim).await)
    }

    async fn until<R>(
        &mut self,
        _due_ms: u64,
        work: impl Future<Output = R>,
    ) -> Result<R, ExchangeError> {
        Ok(work.await)
    }

    fn hint(&self) -> Option<HeaderValue> {
        None
    }

    fn forwarded_headers(&mut self) -> Option<&mut ForwardedHeaders> {
        None
    }

    fn buffered(&self) -> Option<Arc<BufferedBytes>> {
        None
    }

    fn cache_status(&mut self) -> &mut Option<CacheStatus> {
        &mut self.0
    }
}

struct NoInterim;

impl InterimSender for NoInterim {
    fn send<'a>(&'a self, _status: StatusCode, _fields: InterimFields<'a>) -> Sending<'a> {
        Box::pin(async { Ok(()) })
    }
}
