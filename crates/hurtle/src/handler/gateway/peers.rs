//! The addresses of an application: requests go to them in turn, and past one that accepts
//! no connection.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::exchange::{GatewayError, Sink};
use super::peer::{ApplicationRequest, Asked, Peer, Protocol};
use crate::clock;
use crate::config::{Connecting, Upstream, UpstreamTimeouts};
use crate::rt;

/// Time for which an address gets no requests after it has accepted no connection, unless no other
/// does.
const LEFT_OUT_MS: u64 = 10_000;

/// Time between two rounds of attempts while a request waits.
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// The addresses of an application, as seen by one worker.
#[derive(Debug)]
pub(super) struct Peers {
    peers: Vec<Member>,
    next: Cell<usize>,
    /// Time for which a request waits while no address accepts connections.
    retry_for: Duration,
}

#[derive(Debug)]
struct Member {
    peer: Rc<Peer>,
    /// Time until which it gets no requests.
    left_out_ms: Cell<u64>,
}

impl Peers {
    /// Creates the addresses of an application.
    pub(super) fn new(
        upstreams: &[Upstream],
        protocol: Protocol,
        connecting: Connecting,
        timeouts: UpstreamTimeouts,
    ) -> Peers {
        let member = |upstream: &Upstream| {
            let peer = Peer::new(upstream.clone(), protocol, connecting.timeout, timeouts);
            Member { peer: Rc::new(peer), left_out_ms: Cell::new(0) }
        };
        let peers = upstreams.iter().map(member).collect();
        Peers { peers, next: Cell::new(0), retry_for: connecting.retry_for }
    }

    /// Returns the addresses, separated by commas.
    pub(super) fn name(&self) -> String {
        let names: Vec<String> = self.peers.iter().map(|member| member.peer.name()).collect();
        names.join(", ")
    }

    /// Sends a request to an address that accepts a connection, and passes the response to `sink`
    /// as it arrives.
    ///
    /// # Errors
    /// Every address refuses connections, or the one that accepted the request failed.
    pub(super) async fn request(
        &self,
        mut call: ApplicationRequest,
        sink: &mut Sink,
    ) -> Result<(), GatewayError> {
        let retry_for_ms = u64::try_from(self.retry_for.as_millis()).unwrap_or(u64::MAX);
        let until_ms = clock::now_ms().saturating_add(retry_for_ms);
        loop {
            let error = match self.ask_each(&mut call, sink).await {
                Asked::Done(done) => return done,
                Asked::NoConnection(error) => error,
            };
            if clock::now_ms() >= until_ms {
                return Err(error);
            }
            rt::sleep(RETRY_EVERY).await;
        }
    }

    /// Asks one address after the other until one accepts a connection: first those that are not
    /// left out.
    async fn ask_each(&self, call: &mut ApplicationRequest, sink: &mut Sink) -> Asked {
        let count = self.peers.len();
        let first = self.next.get();
        self.next.set((first + 1) % count.max(1));
        let now_ms = clock::now_ms();
        let in_turn = (0..count).filter_map(|at| self.peers.get((first + at) % count));
        let (left_out, usual): (Vec<_>, Vec<_>) =
            in_turn.partition(|member| member.left_out_ms.get() > now_ms);
        let mut last = GatewayError::Full;
        for member in usual.into_iter().chain(left_out) {
            match member.peer.ask(call, sink).await {
                Asked::Done(done) => {
                    member.left_out_ms.set(0);
                    return Asked::Done(done);
                }
                Asked::NoConnection(error) => {
                    if count > 1 && member.left_out_ms.get() <= now_ms {
                        let name = member.peer.name();
                        tracing::warn!("{name}: {error}; it gets no requests for 10 s");
                    }
                    member.left_out_ms.set(clock::now_ms() + LEFT_OUT_MS);
                    last = error;
                }
            }
        }
        Asked::NoConnection(last)
    }
}
