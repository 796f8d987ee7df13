//! One request and its response, from the end of its head to its log record.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::connection::Connection;
use super::identify::Identity;
use super::pace::BodyPace;
use super::worker::ConnectionSlot;
use crate::answer::Answer;
use crate::body::Body;
use crate::cache::CacheStatus;
use crate::config::{ClientTimeouts, Limits};
use crate::handler::{Handled, Handler, Outcome};
use crate::metrics::InFlight;
use crate::observe::{BufferedBytes, UpstreamLog};
use crate::protocol::Protocol;
use crate::site::Gate;
use crate::transport::Progress;

/// One request and its response. Each request has one of its own, even if its head is refused;
/// so nothing of the request before is left in it.
pub(crate) struct Exchange {
    /// The client: the peer, or the address that a trusted proxy names.
    pub(super) client: Option<IpAddr>,
    /// The progress of the response that is being sent, interim or final.
    pub(super) sent: Progress,
    /// The cache's handling of the request.
    pub(super) cache_status: Option<CacheStatus>,
    /// Time at which the request was read; `None`: its duration is not measured.
    pub(super) begun: Option<Instant>,
    pub(super) details: Option<Box<RequestDetails>>,
    /// The record among those in flight; small responses from caches have none.
    pub(super) in_flight: Cell<Option<InFlight>>,
    /// Bytes of the request's body that were received, without framing.
    pub(super) request_bytes: Cell<u64>,
    /// `true`: a mount has responded to an error of it.
    pub(super) has_replacement: bool,
    /// `true`: the error of it is that of an upstream, which has limits of its own.
    pub(super) is_upstream_error: bool,
    /// The number of the gate of its route that has refused it.
    pub(super) refused_at: Option<u16>,
}

/// Details of a request that few requests have.
#[derive(Debug, Default)]
pub(super) struct RequestDetails {
    /// The IDs that were given to the request.
    pub(super) identity: Option<Identity>,
    /// The upstream of the response.
    pub(super) upstream: Option<UpstreamLog>,
    /// The bytes of its bodies that were kept in files.
    pub(super) buffered: Option<Arc<BufferedBytes>>,
    /// The response lasts as long as a viewer of the status page stays, which is no response time.
    pub(super) is_untimed: bool,
    /// Timeouts of the client, where the request's place has its own.
    timeouts: Option<Rc<ClientTimeouts>>,
    /// The line of a request that was refused.
    pub(super) refused: Option<RefusedLine>,
    /// The rates that have counted it in the mounts of files before its own.
    pub(super) rates: Vec<Gate>,
}

/// The request line of a refused request, as far as it was read.
#[derive(Debug)]
pub(super) struct RefusedLine {
    pub(super) method: Box<[u8]>,
    pub(super) target: Box<[u8]>,
    pub(super) is_http11: bool,
}

impl Exchange {
    /// Begins an exchange of a connection whose client has sent a head, or as much of one as it
    /// will. The time is taken if there is an access log.
    #[inline]
    pub(crate) fn begin<T: Protocol>(connection: &Connection<T>) -> Exchange {
        Exchange {
            client: connection.peer,
            sent: Progress { share: connection.share.clone(), ..Progress::default() },
            cache_status: None,
            begun: connection.worker.log.as_ref().map(|_| Instant::now()),
            details: None,
            in_flight: Cell::new(None),
            request_bytes: Cell::new(0),
            has_replacement: false,
            is_upstream_error: false,
            refused_at: None,
        }
    }

    /// Begins to measure the time of the request, unless that has begun.
    #[cold]
    pub(super) fn begin_time(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    /// Returns the details, which are made if there are none yet.
    pub(super) fn details(&mut self) -> &mut RequestDetails {
        self.details.get_or_insert_default()
    }

    /// Gives the client these timeouts; `None`: those of the server.
    #[inline]
    pub(super) fn time_by(&mut self, timeouts: Option<&Rc<ClientTimeouts>>, slot: &ConnectionSlot) {
        if let Some(timeouts) = timeouts {
            timeouts.write_stall.into_iter().for_each(|stall| slot.extend_write_stall(stall));
            self.details().timeouts = Some(Rc::clone(timeouts));
        } else if let Some(details) = &mut self.details {
            details.timeouts = None;
        }
    }

    fn timeouts(&self) -> Option<&ClientTimeouts> {
        self.details.as_ref()?.timeouts.as_deref()
    }

    /// Returns the lowest rate of the request's body.
    pub(super) fn body_pace(&self, limits: &Limits) -> BodyPace {
        let own = self.timeouts();
        let rate = own.and_then(|own| own.body_rate).unwrap_or(limits.body_rate);
        let grace = own.and_then(|own| own.body_grace).unwrap_or(limits.body_grace);
        BodyPace { rate, grace_ms: grace.as_millis() as u64 }
    }

    /// Returns the time for which the response may make no progress, in milliseconds.
    pub(super) fn write_stall_ms(&self, limits: &Limits) -> u64 {
        let own = self.timeouts().and_then(|own| own.write_stall);
        own.unwrap_or(limits.write_stall).as_millis() as u64
    }

    /// Records that the response begins.
    #[inline]
    pub(super) fn begin_response(&self) {
        let in_flight = self.in_flight.take();
        if let Some(in_flight) = &in_flight {
            in_flight.begin_response();
        }
        self.in_flight.set(in_flight);
    }

    /// Counts bytes of the request's body that were received.
    pub(super) fn count_body(&self, bytes: usize) {
        self.request_bytes.set(self.request_bytes.get() + bytes as u64);
    }

    /// Notes the stream of events of the status page, whose duration is not a response time.
    #[inline]
    pub(super) fn note_own_stream(&mut self, handler: &Handler, handled: &Handled) {
        if matches!(handler, Handler::Status(_))
            && let Ok(Outcome::Answer(Answer { body: Body::Stream(_), .. })) = handled
        {
            self.details().is_untimed = true;
        }
    }
}
