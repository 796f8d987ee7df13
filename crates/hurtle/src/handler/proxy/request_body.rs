//! Takes the body of a request whole before an upstream is asked (`buffer`).

use hurtle_http::request::{Method, RequestHead};

use super::super::HandlerError;
use super::super::body_buffer::{Taken, note_passed_on};
use super::super::client::{Client, InterimSender};
use super::super::request::RequestContext;
use super::super::wait::Waits;
use super::forward::failed;
use super::web_call::WebCall;
use super::{Proxy, UpstreamRequest};
use crate::body::RequestBody;

impl Proxy {
    /// Returns whether the body of a request is taken whole before an upstream is asked. Calls of
    /// gRPC to HTTP/2 upstreams share a connection, and answer before they end.
    pub(crate) fn takes_body(&self, request: &RequestHead<'_>) -> bool {
        let is_call = || request.is_grpc() || WebCall::of(request).is_some();
        self.config().buffer.kind.of_requests()
            && !self.may_switch(request)
            && !(self.has_http2 && is_call())
    }

    /// Returns whether an upstream speaks HTTP/2.
    pub(crate) fn has_http2(&self) -> bool {
        self.has_http2
    }

    /// Returns whether the response to a request may be stored, or be a stored one.
    pub(crate) fn may_store(&self, request: &RequestHead<'_>) -> bool {
        self.cache().is_some() && matches!(request.method, Method::Get | Method::Head)
    }

    /// Takes the body of a request whole, so that a slow client holds no upstream and no place of
    /// `concurrency`.
    ///
    /// # Errors
    /// The client is gone, its body is malformed or too slow, the disk has lost a part of it, or
    /// the limit refuses the request.
    pub(super) async fn take_body<C: Client>(
        &self,
        body: RequestBody,
        request: &RequestContext<'_>,
        client: &mut C,
        upstream: &mut UpstreamRequest,
    ) -> Result<(), HandlerError> {
        let bodies = self.bodies.counting(client.buffered());
        let taking = async |_: &dyn InterimSender| {
            let taken = bodies.take(body, None).await;
            match request.place {
                Some(place) => (taken, place.take().await),
                None => (taken, Ok(())),
            }
        };
        let (taken, place) = client.beside(&Waits::default(), taking).await?;
        place.map_err(|error| HandlerError::unavailable(&error.to_string()))?;
        let describe = || request.describe();
        let Taken { body, stopped, .. } = taken.map_err(|error| {
            let status = error.status();
            tracing::error!("a request's body: {error} ({}: {})", describe(), status.as_u16());
            failed(status)
        })?;
        if let Some(error) = stopped {
            note_passed_on(&error, || format!("the body of the request {}", describe()));
        }
        upstream.put_body(body);
        upstream.has_continued = true;
        Ok(())
    }
}
