//! The state of one request that outlives a step.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use super::body::BodyPace;
use super::identify::Identity;
use crate::cache::CacheStatus;
use crate::config::{ClientTimeouts, Limits};
use crate::metrics::InFlight;
use crate::observe::UpstreamLog;

/// One request and its response. It is made before the head of the request is read, because a head
/// that is refused is logged, too; so nothing of the request before is left in it.
pub(crate) struct Exchange {
    /// The client: the peer, or the address that a trusted proxy names.
    pub(crate) client: Option<IpAddr>,
    /// The cache's handling of the request.
    pub(crate) cache_status: Option<CacheStatus>,
    /// Time at which the request was read; `None`: its duration is not measured.
    pub(crate) begun: Option<Instant>,
    pub(super) details: Option<Box<RequestDetails>>,
    /// The record among those in flight; small responses from caches have none.
    pub(super) in_flight: Cell<Option<InFlight>>,
    /// Bytes of the request's body that were received, without framing.
    pub(super) request_bytes: Cell<u64>,
    /// `true`: a mount has responded to an error of it.
    pub(super) has_replacement: bool,
}

/// Details of a request that few requests have.
#[derive(Debug, Default)]
pub(super) struct RequestDetails {
    /// The IDs that were given to the request.
    pub(super) identity: Option<Identity>,
    /// The upstream of the response.
    pub(super) upstream: Option<UpstreamLog>,
    /// The response lasts as long as a viewer of the status page stays, which is no response time.
    pub(super) is_untimed: bool,
    /// Timeouts of the client, where the request's place has its own.
    pub(super) timeouts: Option<Rc<ClientTimeouts>>,
    /// The line of a request that was refused.
    pub(super) refused: Option<RefusedLine>,
}

/// The request line of a refused request, as far as it was read.
#[derive(Debug)]
pub(super) struct RefusedLine {
    pub(super) method: Box<[u8]>,
    pub(super) target: Box<[u8]>,
    pub(super) is_http11: bool,
}

impl Exchange {
    /// An exchange of which nothing is known yet but the peer.
    pub(super) fn of(peer: Option<IpAddr>) -> Exchange {
        Exchange {
            client: peer,
            cache_status: None,
            begun: None,
            details: None,
            in_flight: Cell::new(None),
            request_bytes: Cell::new(0),
            has_replacement: false,
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
}
