//! The client of an explained request: it is not connected.

use http::{HeaderValue, StatusCode};
use hurtle_http::h1::forwarded_headers::ForwardedHeaders;
use hurtle_http::h1::response_head::ResponseHead;
use hurtle_http::semantics::accept::Coding;

use crate::body::RequestBody;
use crate::cache::CacheStatus;
use crate::edits::FieldEdits;
use crate::handler::client::{
    BodyFraming, Client, Continue, EncodedHead, ExchangeError, InterimSender, Sending,
};
use crate::handler::wait::Waits;
use crate::protocol::InterimFields;
use crate::tls::ClientCertificate;
use crate::transport::Output;

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

    fn finish_head(
        &mut self,
        _reply: &ResponseHead<'_>,
        _body: BodyFraming,
        _own: impl FnOnce(&mut dyn FieldEdits),
    ) -> (EncodedHead, Option<Coding>) {
        (EncodedHead { bytes: Output::default(), is_reusable: false }, None)
    }

    fn finish_switch(
        &mut self,
        _reply: &ResponseHead<'_>,
        _switch: (&str, Option<&str>),
    ) -> Output {
        Output::default()
    }

    fn hint(&self) -> Option<HeaderValue> {
        None
    }

    fn forwarded_headers(&mut self) -> Option<&mut ForwardedHeaders> {
        None
    }

    fn cache_status(&mut self) -> &mut Option<CacheStatus> {
        &mut self.0
    }
}

/// Drops interim responses.
struct NoInterim;

impl InterimSender for NoInterim {
    fn send<'a>(&'a self, _status: StatusCode, _fields: InterimFields<'a>) -> Sending<'a> {
        Box::pin(async { Ok(()) })
    }
}
