//! Exchanges (request and response), independent of the protocol. `Connection::run_exchange` runs the
//! steps of one: `resolve`, `gates`, `handle`, `finish` and `write`, `observe`. An HTTP/1.1 connection has many
//! exchanges in sequence; an HTTP/2 stream has one.

mod body;
mod body_writer;
mod client;
mod duplex;
mod errors;
mod exchange;
pub(crate) mod finish;
mod gates;
mod handle;
mod identify;
pub mod limit_log;
pub mod log_filter;
mod observe;
mod relay;
mod resolve;
mod respond;
mod send;
mod stream;
mod tunnel;
mod upload;
mod write;

pub mod balancers;
pub mod worker;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hurtle_http::h1::forwarded_headers::ForwardedHeaders;
use hurtle_http::request::{RequestFields, RequestHead};

pub(crate) use self::body::Ended;

use self::client::{ExchangeClient, Incoming};
use self::exchange::Exchange;
use self::gates::{Granted, Passage};
use self::identify::Identity;
use self::tunnel::OpenTunnel;
use self::worker::{ConnectionSlot, Worker};
use crate::clock;
use crate::deadline::Watch;
use crate::handler::Outcome;
use crate::handler::client::is_private;
use crate::handler::request::RequestContext;
use crate::metrics::{LimitKind, RouteMetrics, WorkerMetrics};
use crate::protocol::Protocol;
use crate::site::{Gate, Resolved};
use crate::transport::{Input, Progress};

/// A connection (HTTP/1.1) or a stream (HTTP/2, HTTP/3), with the exchange that it carries.
pub struct Connection<T> {
    pub(crate) io: T,
    pub(crate) input: Input,
    pub(crate) worker: Rc<Worker>,
    pub(crate) watch: Watch,
    pub(crate) peer: Option<IpAddr>,
    /// The channel is private; see [`is_private`].
    is_private: bool,
    /// Bytes of the current response that the kernel has taken.
    pub(crate) sent: Progress,
    /// The forwarding fields (Forwarded and similar) that upstreams get.
    pub(crate) forwarded_headers: ForwardedHeaders,
    /// Requests answered on this connection.
    pub(crate) served: u64,
    pub(crate) exchange: Exchange,
    /// The counters of the worker.
    pub(crate) metrics: Arc<WorkerMetrics>,
    /// The counters of the mount that was requested last.
    pub(crate) route: Arc<RouteMetrics>,
    /// The peer has closed its sending side; requests already received are still answered.
    pub(crate) ended: bool,
    /// Declared last, so that the slot is released after the connection is closed.
    pub(crate) slot: Rc<ConnectionSlot>,
}

/// The next step of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read the next request.
    Request,
    /// Close; all received bytes were read.
    Close,
    /// Close after the peer had time to read the response, since it may still be sending.
    Linger,
    /// Drop: the response was truncated.
    Drop,
    /// Reset: the peer does not read.
    Abort,
}

/// The end of the last step of an exchange.
enum Last {
    Next(Next),
    /// The client has the head that opens a tunnel, which is to be run.
    Tunnel(Box<OpenTunnel>),
}

impl From<Next> for Last {
    fn from(next: Next) -> Last {
        Last::Next(next)
    }
}

impl<T: Protocol> Connection<T> {
    /// Creates a connection. `input` holds the bytes that were already read.
    pub fn new(
        io: T,
        input: Input,
        peer: Option<IpAddr>,
        slot: Rc<ConnectionSlot>,
    ) -> Connection<T> {
        let worker = slot.worker();
        let watch = worker.deadlines.watch();
        let sent = Progress { share: worker.share(peer), ..Progress::default() };
        let metrics = Arc::clone(&worker.metrics);
        let route = Arc::clone(&metrics.unrouted);
        let is_private = is_private(io.is_secure(), peer);
        Connection {
            io,
            is_private,
            input,
            worker,
            watch,
            peer,
            sent,
            forwarded_headers: ForwardedHeaders::default(),
            served: 0,
            exchange: Exchange::of(peer),
            metrics,
            route,
            ended: false,
            slot,
        }
    }
}

impl<T: Protocol> Connection<T> {
    /// Begins an exchange, before its head is read.
    pub(crate) fn begin_exchange(&mut self) {
        if self.exchange.client != self.peer {
            self.sent.share = self.worker.share(self.peer);
        }
        self.exchange = Exchange::of(self.peer);
    }

    /// Handles one request and sends its response. What is rare is boxed, because a connection is as
    /// large as its largest wait.
    pub(crate) async fn run_exchange(&mut self, request: &RequestHead<'_>) -> Next {
        let now_ms = clock::now_ms();
        self.slot.update(&mut self.worker);
        let worker = Rc::clone(&self.worker);

        // Resolve.
        let Some(resolved) = self.resolve(&worker, request) else {
            self.count_for(&worker.metrics.unrouted);
            self.exchange.begun.get_or_insert_with(Instant::now);
            return Box::pin(self.misdirected(request)).await;
        };
        // Most responses are known files or stored responses, which need no route.
        if let Some(mut answer) = self.known_answer(request, &resolved, now_ms) {
            self.time_known(request, &answer);
            return self.respond(request, Some(&resolved), &mut answer, now_ms, false).await;
        }

        self.count_for(resolved.metrics());
        self.time_by(resolved.timeouts());
        self.exchange.begun.get_or_insert_with(Instant::now);
        self.record_in_flight(request);
        let last = match worker.tracing.is_on() {
            true => Box::pin(self.identified_exchange(request, &worker, resolved, now_ms)).await,
            false => self.routed_exchange(request, &worker, resolved, now_ms).await,
        };
        match last {
            Last::Next(next) => next,
            Last::Tunnel(tunnel) => {
                // A tunnel may outlive the configuration.
                drop(worker);
                Box::pin(self.run_tunnel(request, *tunnel)).await
            }
        }
    }

    /// Gives the request its IDs as fields, then runs the exchange.
    async fn identified_exchange(
        &mut self,
        request: &RequestHead<'_>,
        worker: &Worker,
        resolved: Resolved<'_>,
        now_ms: u64,
    ) -> Last {
        let identity = Identity::of(request, worker.tracing, self.trusted().is_some());
        let (lines, field_count) = identity.lines(request);
        self.exchange.details.get_or_insert_default().identity = Some(identity);
        let fields = RequestFields::Lines(&lines);
        let request = RequestHead { fields, field_count, section: None, ..request.clone() };
        self.routed_exchange(&request, worker, resolved, now_ms).await
    }

    /// Runs the exchange of a request that no cache answers.
    async fn routed_exchange(
        &mut self,
        request: &RequestHead<'_>,
        worker: &Worker,
        resolved: Resolved<'_>,
        mut now_ms: u64,
    ) -> Last {
        match self.pass_at_once(request, &resolved) {
            Ok(Passage::Open) => {}
            Ok(Passage::Waits(from)) => {
                return Box::pin(self.gated_exchange(request, worker, resolved, from)).await;
            }
            Err(refusal) => {
                return Box::pin(self.refuse_at_gate(request, (worker, &resolved), refusal)).await;
            }
        }

        // Handle.
        let Some((mount, matched)) = resolved.mount() else {
            return Box::pin(self.answer_for_site(request, worker, resolved)).await;
        };
        let at = (worker, &resolved);
        let (mut handled, incoming);
        {
            let context = self.context(request, at, (mount, matched), &[], now_ms);
            let mut client = ExchangeClient::new(self, request, Some(&resolved));
            handled = mount.handler().call(&context, &mut client).await;
            if client.has_waited {
                now_ms = clock::now_ms();
            }
            incoming = client.incoming;
        }

        self.note_own_stream(mount.handler(), &handled);
        if mount.intercepts_errors() {
            handled = self.intercept(request, &resolved, handled);
        }
        // Write, and observe. `write` writes every outcome; the common ones are not boxed.
        if let (Ok(Outcome::Answer(answer)), Incoming::Done) = (&mut handled, &incoming) {
            self.count_limit(answer);
            return self.respond(request, Some(&resolved), answer, now_ms, false).await.into();
        }
        match handled {
            Ok(Outcome::Stream(response)) => {
                self.relay(request, at, response, incoming).await.into()
            }
            Ok(Outcome::Otherwise) => {
                let granted = Granted::default();
                Box::pin(self.otherwise(request, worker, resolved, granted)).await
            }
            handled => Box::pin(self.write(request, at, handled, incoming)).await,
        }
    }

    /// Runs an exchange whose gates from this number on may have to wait.
    async fn gated_exchange(
        &mut self,
        request: &RequestHead<'_>,
        worker: &Worker,
        resolved: Resolved<'_>,
        from: usize,
    ) -> Last {
        let (at, gates) = ((worker, &resolved), &resolved.gates()[from..]);
        match self.pass(request, at, gates, Granted::default()).await {
            Ok(granted) => self.granted_exchange(request, worker, resolved, granted).await,
            Err(refusal) => self.refuse_at_gate(request, at, refusal).await,
        }
    }

    /// Runs the exchange of a request for which a mount of files has no file: in the mount that such
    /// requests are for, through the gates of that mount which the request has not passed.
    async fn otherwise(
        &mut self,
        request: &RequestHead<'_>,
        worker: &Worker,
        resolved: Resolved<'_>,
        granted: Granted,
    ) -> Last {
        let passed = resolved.gates().to_vec();
        let Some(next) = resolved.handed_on() else { return Next::Drop.into() };
        self.count_for(next.metrics());
        self.time_by(next.timeouts());
        self.record_in_flight(request);
        let is_new = |gate: &&Gate| !passed.iter().any(|passed| passed.is(gate));
        let gates: Vec<Gate> = next.gates().iter().filter(is_new).cloned().collect();
        match self.pass(request, (worker, &next), &gates, granted).await {
            Ok(granted) => Box::pin(self.granted_exchange(request, worker, next, granted)).await,
            Err(refusal) => self.refuse_at_gate(request, (worker, &next), refusal).await,
        }
    }

    /// Runs an exchange whose gates are passed.
    async fn granted_exchange(
        &mut self,
        request: &RequestHead<'_>,
        worker: &Worker,
        resolved: Resolved<'_>,
        granted: Granted,
    ) -> Last {
        let at = (worker, &resolved);
        let head = &granted.head(request);
        let Some((mount, matched)) = resolved.mount() else {
            return self.answer_for_site(head, worker, resolved).await;
        };
        let now_ms = clock::now_ms();
        let variables = &granted.variables;
        let context = self.context(head, at, (mount, matched), variables, now_ms);
        let context = RequestContext { place: granted.place.as_ref(), ..context };
        let mut client = ExchangeClient::new(self, head, Some(&resolved));
        let mut handled = mount.handler().call(&context, &mut client).await;
        let incoming = client.incoming;
        if granted.place.as_ref().is_some_and(|place| place.is_refused()) {
            self.hit(LimitKind::Concurrency, Some(head));
        }
        if let Ok(Outcome::Otherwise) = handled {
            return Box::pin(self.otherwise(request, worker, resolved, granted)).await;
        }
        self.note_own_stream(mount.handler(), &handled);
        if mount.intercepts_errors() {
            handled = self.intercept(head, &resolved, handled);
        }
        let mut last = self.write(head, at, handled, incoming).await;
        if let Last::Tunnel(tunnel) = &mut last {
            tunnel.place = granted.place;
        }
        last
    }
}
