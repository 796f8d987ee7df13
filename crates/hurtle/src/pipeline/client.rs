//! The client of an exchange, as a handler sees it.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, Version};
use hurtle_http::message::forwarded_headers::ForwardedHeaders;
use hurtle_http::request::fields::is_same;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{ParseError, RequestHead};

use super::arriving::ArrivingBody;
use super::beside::beside;
use super::body::discard_body;
use super::connection::Connection;
use super::duplex::Duplex;
use super::exchange::Exchange;
use super::send::send_interim;
use crate::body::RequestBody;
use crate::cache::CacheStatus;
use crate::deadline::DeadlineError;
use crate::handler::client::{Client, Continue, ExchangeError, InterimSender};
use crate::handler::wait::Waits;
use crate::observe::BufferedBytes;
use crate::protocol::{InterimFields, Protocol};
use crate::rt::{self, First};
use crate::site::Resolved;
use crate::tls::ClientCertificate;

/// The client of one request.
pub(super) struct ExchangeClient<'e, 's, T> {
    connection: &'e mut Connection<T>,
    exchange: &'e mut Exchange,
    request: &'e RequestHead<'e>,
    /// The site and the route; `None`: the request has reached no handler.
    resolved: Option<&'e Resolved<'s>>,
    pub(super) incoming: Incoming,
    /// `true` if the handler has waited while the client was watched.
    pub(super) has_waited: bool,
}

/// The state of a request's body.
pub(super) enum Incoming {
    /// The request has no body, or the body was read.
    Done,
    /// The body has not been read.
    Unread,
    /// A handler reads the body.
    Arriving(Box<ArrivingBody>),
}

impl Incoming {
    /// Creates the state before a handler is called.
    pub(super) fn of(request: &RequestHead<'_>) -> Incoming {
        match request.body {
            BodyLength::None => Incoming::Done,
            _ => Incoming::Unread,
        }
    }
}

impl<'e, 's, T: Protocol> ExchangeClient<'e, 's, T> {
    /// Creates the client of a request. `resolved` is there for a handler's request.
    pub(super) fn new(
        connection: &'e mut Connection<T>,
        exchange: &'e mut Exchange,
        request: &'e RequestHead<'e>,
        resolved: Option<&'e Resolved<'s>>,
    ) -> ExchangeClient<'e, 's, T> {
        let incoming = Incoming::of(request);
        ExchangeClient { connection, exchange, request, resolved, incoming, has_waited: false }
    }
}

/// Fields that proxies add to a request.
const OF_PROXIES: [&[u8]; 6] = [
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"x-real-ip",
    b"forwarded",
    b"via",
];

impl<T: Protocol> ExchangeClient<'_, '_, T> {
    /// Explains that no site has the request's host. Only a client on this machine is told the
    /// names of the sites, and none of a proxy that adds fields.
    pub(super) fn unknown_host(&self) -> String {
        let mut text = "no site has this host name".to_owned();
        let is_near = self.exchange.client.is_some_and(|client| client.is_loopback());
        let is_of_proxy = |name: &[u8]| OF_PROXIES.iter().any(|known| is_same(name, known));
        if is_near && !self.request.fields.iter().any(|(name, _)| is_of_proxy(name)) {
            let names = self.connection.worker.sites.names();
            text.push_str(&format!("; the sites are {}", names.join(", ")));
        }
        text
    }
}

impl<T: Protocol> Client for ExchangeClient<'_, '_, T> {
    fn certificate(&self) -> Option<ClientCertificate> {
        self.connection.io.client()
    }

    #[inline]
    fn body(&mut self, sends_continue: Continue) -> RequestBody {
        if self.request.body == BodyLength::None {
            return RequestBody::default();
        }
        let bytes_max = self.resolved.and_then(Resolved::body_bytes);
        let io = &self.connection.io;
        // Calls of gRPC need HTTP/2. Nothing else may pause, or one field would end every limit.
        let is_call = io.version() >= Version::HTTP_2
            && self.request.is_grpc()
            && self.resolved.is_some_and(Resolved::takes_calls);
        let arriving = ArrivingBody::new(io, self.request, sends_continue, bytes_max, is_call);
        let Some((arriving, body)) = arriving else { return RequestBody::default() };
        self.incoming = Incoming::Arriving(Box::new(arriving));
        body
    }

    fn withhold_continue(&mut self) {
        if let Incoming::Arriving(arriving) = &mut self.incoming {
            arriving.withhold_continue();
        }
    }

    async fn discard_body(&mut self, is_refused: bool) -> Result<(), ExchangeError> {
        // A refusal does not wait for the body (RFC 9110 section 10.1.1 for `Expect:
        // 100-continue`). Without a reader, a short rest is discarded after the response and keeps
        // the connection.
        if is_refused {
            drop(self.body(Continue::OnRead));
            return Ok(());
        }
        let ExchangeClient { connection, exchange, request, resolved, .. } = self;
        if request.body == BodyLength::None {
            return Ok(());
        }
        self.has_waited = true;
        // RFC 9110 section 10.1.1: 100 (Continue) only if the body will be accepted.
        let of_route = resolved.and_then(Resolved::body_bytes);
        let bytes_max = of_route.unwrap_or(connection.worker.limits.body_bytes);
        // Over HTTP/2 and HTTP/3 the length is not among what is read below.
        if matches!(request.body, BodyLength::Exactly(len) if len > bytes_max) {
            return Err(ExchangeError::ParseError(ParseError::BodyTooLarge));
        }
        if request.expect_continue && connection.input.bytes().is_empty() {
            let fields = InterimFields::Empty;
            send_interim(connection, exchange, StatusCode::CONTINUE, fields).await?;
        }
        // The body is read before the response, so that a malformed one gets an error.
        let mut reading = connection.io.reading(request.body);
        let discarded = discard_body(connection, exchange, &mut reading, bytes_max).await;
        discarded.map_err(|error| error.map_or(ExchangeError::Gone, ExchangeError::ParseError))?;
        self.incoming = Incoming::Done;
        Ok(())
    }

    async fn beside<R>(
        &mut self,
        waits: &Waits,
        work: impl AsyncFnOnce(&dyn InterimSender) -> R,
    ) -> Result<R, ExchangeError> {
        self.has_waited = true;
        let mut none;
        let arriving = match &mut self.incoming {
            Incoming::Arriving(arriving) => &mut **arriving,
            Incoming::Done | Incoming::Unread => {
                none = ArrivingBody::none();
                &mut none
            }
        };
        let work = async |duplex: &Duplex<'_, T>| work(duplex).await;
        beside(self.connection, self.exchange, arriving, waits, work).await
    }

    async fn until<R>(
        &mut self,
        due_ms: u64,
        work: impl Future<Output = R>,
    ) -> Result<R, ExchangeError> {
        self.has_waited = true;
        let Connection { watch, io, .. } = &*self.connection;
        watch.set(due_ms);
        match watch.wait(rt::race(work, io.reset())).await {
            Ok(First::A(done)) => Ok(done),
            Ok(First::B(())) => Err(ExchangeError::Gone),
            Err(DeadlineError) => Err(ExchangeError::UpstreamTimeout),
        }
    }

    fn hint(&self) -> Option<HeaderValue> {
        let resolved = self.resolved?;
        resolved.edits().hint(|| resolved.path())
    }

    fn forwarded_headers(&mut self) -> Option<&mut ForwardedHeaders> {
        let Connection { served, forwarded_headers, .. } = &mut *self.connection;
        (*served > 0).then_some(forwarded_headers)
    }

    fn cache_status(&mut self) -> &mut Option<CacheStatus> {
        &mut self.exchange.cache_status
    }

    fn buffered(&self) -> Option<Arc<BufferedBytes>> {
        self.exchange.details.as_ref()?.buffered.clone()
    }
}
