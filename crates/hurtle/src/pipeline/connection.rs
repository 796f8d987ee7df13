//! A connection (HTTP/1.1) or a stream (HTTP/2, HTTP/3): what outlives a single request of it.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use hurtle_http::message::forwarded_headers::ForwardedHeaders;
use hurtle_http::message::response::{Delimiter, Fields, Persistence};
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::forwarded::Family;

use super::worker::{ConnectionSlot, Worker};
use crate::clock;
use crate::deadline::{DeadlineError, Watch};
use crate::handler::client::is_private;
use crate::metrics::{RouteMetrics, WorkerMetrics};
use crate::protocol::reading::Reading;
use crate::protocol::{Head, Protocol};
use crate::site::Channel;
use crate::transport::{Input, Meter, Output};

/// A connection (HTTP/1.1) or a stream (HTTP/2, HTTP/3).
pub(crate) struct Connection<T> {
    pub(crate) io: T,
    pub(crate) input: Input,
    pub(crate) worker: Rc<Worker>,
    pub(crate) watch: Watch,
    pub(crate) peer: Option<IpAddr>,
    /// The channel is private; see [`is_private`].
    pub(super) is_private: bool,
    /// The rate limit shared by all connections of the peer's address.
    pub(super) share: Option<Arc<Meter>>,
    /// The forwarding fields (Forwarded and similar) that upstreams get.
    pub(super) forwarded_headers: ForwardedHeaders,
    /// Requests answered on this connection.
    pub(crate) served: u64,
    /// The counters of the worker.
    pub(super) metrics: Arc<WorkerMetrics>,
    /// The counters of the mount that was requested last.
    pub(super) route: Arc<RouteMetrics>,
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
    /// Close after the peer had time to read the response, since it may still be sending; the usual
    /// end of a stream, too.
    Linger,
    /// Drop: the response was truncated.
    Drop,
    /// Reset: the peer does not read.
    Abort,
}

/// An unsuccessful wait for bytes.
pub(crate) enum Ended {
    Late,
    Failed,
}

impl<T: Protocol> Connection<T> {
    /// Creates a connection. `input` holds the bytes that were already read.
    pub(crate) fn new(
        io: T,
        input: Input,
        peer: Option<IpAddr>,
        slot: Rc<ConnectionSlot>,
    ) -> Connection<T> {
        let worker = slot.worker();
        let watch = worker.deadlines.watch();
        let share = worker.share(peer);
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
            share,
            forwarded_headers: ForwardedHeaders::default(),
            served: 0,
            metrics,
            route,
            ended: false,
            slot,
        }
    }

    /// Returns the security properties of the channel.
    pub(super) fn channel(&self) -> Channel {
        let policy = self.io.policy();
        let has_certificate = policy != 0 && self.io.client().is_some();
        Channel { secure: self.io.is_secure(), policy, has_certificate }
    }

    /// Returns the forwarding fields that are used, if the peer is a trusted proxy.
    #[inline]
    pub(super) fn trusted(&self) -> Option<Family> {
        let trusted = &self.worker.trusted_proxies;
        let is_trusted = !trusted.is_empty()
            && self.peer.is_some_and(|peer| trusted.iter().any(|network| network.contains(&peer)));
        is_trusted.then_some(self.worker.forwarded_family)
    }

    /// Counts the current request under a mount.
    #[inline]
    pub(super) fn count_for(&mut self, route: &Arc<RouteMetrics>) {
        // Requests of a connection are usually for the same mount.
        if !Arc::ptr_eq(&self.route, route) {
            self.change_route(route);
        }
    }

    #[cold]
    fn change_route(&mut self, route: &Arc<RouteMetrics>) {
        self.route = Arc::clone(route);
    }

    /// Counts a request. Returns whether another one may follow on the connection.
    pub(super) fn count_request(&mut self, request: &RequestHead<'_>) -> bool {
        self.served += 1;
        let more = self.slot.may_follow(self.served, &self.worker.limits);
        request.keep_alive && more && self.io.carries_more() && !self.worker.deadlines.is_draining()
    }

    /// Encodes a finished head.
    pub(super) fn encode_head(
        &self,
        status: StatusCode,
        fields: &Fields,
        delimiter: Delimiter,
        persistence: Persistence,
        now_ms: u64,
    ) -> Output {
        let mut out = Output::new();
        let date = &clock::date(now_ms);
        let head = Head { status, fields, delimiter, persistence, date };
        self.io.encode_head(out.vec(), &head);
        out
    }

    /// Returns the next step after a response that was sent completely.
    pub(super) fn after(&self, is_reusable: bool, unread: bool) -> Next {
        match (is_reusable, unread || !self.input.bytes().is_empty()) {
            (true, _) => Next::Request,
            (false, false) if !self.worker.deadlines.is_draining() => Next::Close,
            (false, _) => Next::Linger,
        }
    }

    /// Waits for more bytes of a body. Sets `ended` if the peer closes its sending side.
    ///
    /// # Errors
    /// The deadline has passed, or the socket has failed.
    pub(crate) async fn fill_body(&mut self, reading: &mut Reading) -> Result<(), Ended> {
        let (input, io) = (&mut self.input, &self.io);
        let filled = std::future::poll_fn(|cx| io.poll_fill(cx, input, reading));
        let filled = self.watch.wait(filled).await;
        self.note(&filled)
    }

    /// Counts the bytes that a wait has brought, unless those of the connection are counted
    /// (HTTP/2, HTTP/3). Sets `ended` if there are none.
    ///
    /// # Errors
    /// As for `fill_body`.
    pub(crate) fn note(
        &mut self,
        filled: &Result<io::Result<usize>, DeadlineError>,
    ) -> Result<(), Ended> {
        match filled {
            Ok(Ok(n)) => {
                self.ended |= *n == 0;
                if self.io.raw().is_some() {
                    self.metrics.received.add(*n as u64);
                }
                Ok(())
            }
            Ok(Err(_)) => Err(Ended::Failed),
            Err(DeadlineError) => Err(Ended::Late),
        }
    }
}
