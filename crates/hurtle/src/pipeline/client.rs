//! The client of an exchange, as a handler sees it.

use std::mem;

use http::{HeaderValue, StatusCode};
use hurtle_http::h1::forward::{self, HeaderEdits};
use hurtle_http::h1::forwarded_headers::ForwardedHeaders;
use hurtle_http::h1::response::Delimiter;
use hurtle_http::h1::response_head::ResponseHead;
use hurtle_http::request::RequestHead;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::semantics::accept::Coding;

use super::Connection;
use super::duplex::Duplex;
use super::finish::{encode_upstream, finish_upstream};
use super::respond::persistence;
use super::upload::Upload;
use crate::body::RequestBody;
use crate::cache::CacheStatus;
use crate::clock;
use crate::deadline::DeadlineError;
use crate::edits::{FieldEdits, LineEdits};
use crate::handler::client::{
    BodyFraming, Client, Continue, EncodedHead, ExchangeError, InterimSender,
};
use crate::handler::wait::Waits;
use crate::protocol::{HeadFields, InterimFields, Protocol};
use crate::rt::{self, First};
use crate::site::Resolved;
use crate::tls::ClientCertificate;
use crate::transport::Output;

/// The client of one request.
pub(super) struct ExchangeClient<'e, 's, T> {
    connection: &'e mut Connection<T>,
    request: &'e RequestHead<'e>,
    /// The site and the route; `None`: the request has reached no handler.
    resolved: Option<&'e Resolved<'s>>,
    /// `true` if the response may get a content-coding by the mount's policy.
    pub(super) may_encode: bool,
    /// The request's body.
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
    Upload(Box<Upload>),
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
        request: &'e RequestHead<'e>,
        resolved: Option<&'e Resolved<'s>>,
    ) -> ExchangeClient<'e, 's, T> {
        let incoming = Incoming::of(request);
        let (may_encode, has_waited) = (true, false);
        ExchangeClient { connection, request, resolved, may_encode, incoming, has_waited }
    }

    /// Finishes the fields of an upstream's response.
    fn finished<'r>(
        &self,
        reply: &'r ResponseHead<'r>,
        cache_status: Option<CacheStatus>,
    ) -> LineEdits<'r> {
        match self.resolved {
            None => LineEdits::of_upstream(reply),
            Some(resolved) => {
                let is_secure = self.connection.io.is_secure();
                finish_upstream(reply, cache_status, self.request, resolved, is_secure)
            }
        }
    }

    /// Encodes the finished head of an upstream's response.
    fn encode(
        &mut self,
        reply: &ResponseHead<'_>,
        mut fields: LineEdits<'_>,
        delimiter: Delimiter,
    ) -> EncodedHead {
        let ExchangeClient { connection, request, incoming, .. } = self;
        let body_allows_reuse = match incoming {
            Incoming::Upload(upload) => upload.allows_reuse(),
            Incoming::Done | Incoming::Unread => true,
        };
        let is_reusable =
            connection.count_request(request) && body_allows_reuse && delimiter != Delimiter::Close;
        let added = mem::take(&mut fields.added);
        let removes = |name: &[u8]| fields.removes(name);
        let edits = HeaderEdits { removes: &removes, set: added };
        let (status, persistence) = (reply.status, persistence(request, is_reusable));
        let fields = HeadFields::Forwarded(reply, &edits);
        let bytes = connection.encode_head(status, fields, delimiter, persistence, clock::now_ms());
        EncodedHead { bytes, is_reusable }
    }
}

impl<T: Protocol> ExchangeClient<'_, '_, T> {
    /// Explains that no site has the request's host. Only a client on this machine is told the names
    /// of the sites.
    pub(super) fn unknown_host(&self) -> String {
        let mut text = "no site has this host name".to_owned();
        if self.connection.peer.is_none_or(|peer| peer.is_loopback()) {
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
        let upload = Upload::new(&self.connection.io, self.request, sends_continue);
        let Some((upload, body)) = upload else { return RequestBody::default() };
        self.incoming = Incoming::Upload(Box::new(upload));
        body
    }

    fn withhold_continue(&mut self) {
        if let Incoming::Upload(upload) = &mut self.incoming {
            upload.withhold_continue();
        }
    }

    async fn discard_body(&mut self, is_refused: bool) -> Result<(), ExchangeError> {
        // A refusal does not wait for the body (RFC 9110 section 10.1.1 for `Expect: 100-continue`).
        // Without a reader, a short rest is discarded after the response and keeps the connection.
        if is_refused {
            drop(self.body(Continue::OnRead));
            return Ok(());
        }
        let ExchangeClient { connection, request, .. } = self;
        if request.body == BodyLength::None {
            return Ok(());
        }
        self.has_waited = true;
        // RFC 9110 section 10.1.1: 100 (Continue) only if the body will be accepted.
        if request.expect_continue
            && connection.input.bytes().is_empty()
            && !connection.is_too_large(request.body)
        {
            connection.send_interim(StatusCode::CONTINUE, InterimFields::Empty).await?;
        }
        // The body is read before the response, so that a malformed one gets an error.
        let bytes_max = connection.worker.limits.body_bytes;
        let mut reading = connection.io.reading(request.body);
        let discarded = connection.discard_body(&mut reading, bytes_max).await;
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
        let upload = match &mut self.incoming {
            Incoming::Upload(upload) => &mut **upload,
            Incoming::Done | Incoming::Unread => {
                none = Upload::none();
                &mut none
            }
        };
        let work = async |duplex: &Duplex<'_, T>| work(duplex).await;
        self.connection.beside(upload, waits, work).await
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

    fn finish_head(
        &mut self,
        reply: &ResponseHead<'_>,
        body: BodyFraming,
        own: impl FnOnce(&mut dyn FieldEdits),
    ) -> (EncodedHead, Option<Coding>) {
        let mut fields = self.finished(reply, self.connection.exchange.cache_status);
        own(&mut fields);
        let encoded = body.encoded.filter(|_| self.may_encode).zip(self.resolved);
        let coding = encoded.and_then(|(delimiter, resolved)| {
            let described = (reply.status, body.len);
            let coding = encode_upstream(&mut fields, described, self.request, resolved)?;
            Some((coding, delimiter))
        });
        let delimiter = coding.map_or(body.delimiter, |(_, delimiter)| delimiter);
        (self.encode(reply, fields, delimiter), coding.map(|(coding, _)| coding))
    }

    fn finish_switch(&mut self, reply: &ResponseHead<'_>, switch: (&str, Option<&str>)) -> Output {
        let mut fields = self.finished(reply, None);
        if self.request.protocol.is_some() {
            return self.encode(reply, fields, Delimiter::Given).bytes;
        }
        let added = mem::take(&mut fields.added);
        let removes = |name: &[u8]| fields.removes(name);
        let edits = HeaderEdits { removes: &removes, set: added };
        let mut head = Output::new();
        forward::switching(head.vec(), reply, switch, &clock::date(clock::now_ms()), &edits);
        head
    }

    fn hint(&self) -> Option<HeaderValue> {
        let resolved = self.resolved?;
        resolved.site.edits().hint(|| resolved.path())
    }

    fn forwarded_headers(&mut self) -> Option<&mut ForwardedHeaders> {
        let Connection { served, forwarded_headers, .. } = &mut *self.connection;
        (*served > 0).then_some(forwarded_headers)
    }

    fn cache_status(&mut self) -> &mut Option<CacheStatus> {
        &mut self.connection.exchange.cache_status
    }
}
