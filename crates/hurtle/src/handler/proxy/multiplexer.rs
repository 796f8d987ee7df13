//! The HTTP/2 connections to one upstream: one for each worker, and more while it allows fewer
//! streams than there are requests.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::link::{Channel, Link};
use super::peer::{Peer, UpstreamError};
use super::queue::Waiting;
use crate::clock::{self, NEVER};
use crate::protocol::h2::{Session, Shared};
use crate::rt::{self, Alarm, Bell, First};
use crate::transport::UpstreamSocket;

/// Maximum number of connections to one upstream in each worker.
const CONNECTIONS_MAX: usize = 8;

/// Maximum number of requests that wait for a stream of one upstream in each worker.
const WAITING_MAX: usize = 10_000;

/// Time without requests after which a connection is closed, in milliseconds. It may be longer than
/// in HTTP/1.1: the upstream says which requests it has not processed when it closes.
const IDLE_MS_MAX: u64 = 60_000;

/// Time for the upstream to close, in milliseconds.
const CLOSE_MS_MAX: u64 = 2_000;

/// Interval at which a connection is checked.
const STEP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Multiplexer {
    connections: RefCell<Vec<Connection>>,
    /// `true` while a request connects; others wait for it.
    is_connecting: Cell<bool>,
    /// Rings when a stream may have become free.
    changed: Bell,
}

#[derive(Debug)]
struct Connection {
    shared: Rc<Shared>,
    /// The generation of the upstream's addresses when it was opened.
    generation: u32,
}

/// The request that connects; the next one may after it is dropped.
struct Connecting<'a>(&'a Multiplexer);

impl<'a> Connecting<'a> {
    fn begin(multiplexer: &'a Multiplexer) -> Connecting<'a> {
        multiplexer.is_connecting.set(true);
        Connecting(multiplexer)
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.is_connecting.set(false);
        self.0.changed.ring_all();
    }
}

impl Multiplexer {
    /// Records that a request has ended, so that its stream is free.
    pub(super) fn freed(&self) {
        self.changed.ring();
    }

    /// Number of connections without requests.
    pub(super) fn idle(&self) -> usize {
        let connections = self.connections.borrow();
        connections.iter().filter(|one| one.shared.pulse().streams() == 0).count()
    }

    /// Begins no more requests on the present connections.
    pub(super) fn retire(&self) {
        self.connections.borrow().iter().for_each(|one| one.shared.leave());
    }

    /// Returns a connection with room for a request.
    pub(super) fn now(&self, generation: u32) -> Option<Rc<Shared>> {
        let connections = self.connections.borrow();
        // The upstream's addresses have changed since others were opened.
        connections.iter().filter(|one| one.generation != generation).for_each(|one| {
            if one.shared.is_accepting() {
                one.shared.leave();
            }
        });
        connections.iter().find(|one| one.shared.can_open()).map(|one| Rc::clone(&one.shared))
    }

    fn may_connect(&self) -> bool {
        let connections = self.connections.borrow();
        let accepting = connections.iter().filter(|one| one.shared.is_accepting()).count();
        accepting < CONNECTIONS_MAX && !self.is_connecting.get()
    }
}

impl Peer {
    /// Waits for a connection with room for a request; opens one if all are full. The caller has
    /// the deadline, which is in `within_ms`.
    ///
    /// # Errors
    /// There is no connection, or too many requests wait.
    pub(super) async fn shared_connection(
        self: &Rc<Peer>,
        within_ms: u64,
    ) -> Result<Rc<Shared>, UpstreamError> {
        let _waiting = Waiting::new(self);
        if self.waiting.get() > WAITING_MAX {
            return Err(UpstreamError::Busy);
        }
        loop {
            if let Some(shared) = self.multiplexer.now(self.addresses.generation()) {
                return Ok(shared);
            }
            if self.multiplexer.may_connect() {
                self.open_shared(within_ms).await?;
            } else {
                self.multiplexer.changed.wait(None).await;
            }
        }
    }

    /// Returns a connection with room for a health check. It has one of its own if requests use
    /// all streams: it must not wait for them.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) async fn connection_for_check(
        self: &Rc<Peer>,
        within_ms: u64,
    ) -> Result<Rc<Shared>, UpstreamError> {
        let now = || self.multiplexer.now(self.addresses.generation());
        while self.multiplexer.is_connecting.get() && now().is_none() {
            self.multiplexer.changed.wait(None).await;
        }
        if let Some(shared) = now() {
            return Ok(shared);
        }
        if self.multiplexer.may_connect() {
            self.open_shared(within_ms).await?;
            if let Some(shared) = now() {
                return Ok(shared);
            }
        }
        let (session, _) = self.open(within_ms).await?;
        let shared = Rc::clone(session.shared());
        // A connection of nobody is closed after its request.
        rt::spawn(drive(Weak::new(), session));
        Ok(shared)
    }

    /// Opens a connection for requests.
    async fn open_shared(self: &Rc<Peer>, within_ms: u64) -> Result<(), UpstreamError> {
        let connecting = Connecting::begin(&self.multiplexer);
        let (session, generation) = self.open(within_ms).await?;
        let shared = Rc::clone(session.shared());
        self.multiplexer.connections.borrow_mut().push(Connection { shared, generation });
        rt::spawn(drive(Rc::downgrade(self), session));
        drop(connecting);
        Ok(())
    }

    /// Opens a connection and waits for the upstream's settings; returns its addresses' generation.
    async fn open(
        self: &Rc<Peer>,
        within_ms: u64,
    ) -> Result<(Session<UpstreamSocket>, u32), UpstreamError> {
        let Link { channel, generation, .. } = self.connect(None, within_ms).await?;
        let Channel::Socket(io) = channel else { return Err(UpstreamError::Gone(None)) };
        let mut session = Session::connect(io);
        let established = session.establish().await;
        established.map_err(|error| UpstreamError::Handshake(format!("no HTTP/2: {error}")))?;
        Ok((session, generation))
    }
}

/// Moves the bytes of a connection until it has ended.
async fn drive(peer: Weak<Peer>, mut session: Session<UpstreamSocket>) {
    let shared = Rc::clone(session.shared());
    let mut alarm = Alarm::unset();
    let mut left_ms = NEVER;
    while let First::B(()) = rt::race(session.run(), alarm.wait(STEP)).await {
        // A GOAWAY admits another connection, and new settings may admit more streams.
        let admits = !shared.is_accepting() || shared.can_open();
        if let Some(peer) = peer.upgrade().filter(|peer| admits && peer.waiting.get() > 0) {
            peer.multiplexer.changed.ring_all();
        }
        let now_ms = clock::now_ms();
        let has_requests = shared.pulse().streams() > 0;
        let idle_ms = now_ms.saturating_sub(shared.pulse().ended_ms());
        if shared.is_accepting() {
            if peer.strong_count() == 0 || !has_requests && idle_ms >= IDLE_MS_MAX {
                shared.leave();
            }
        } else if has_requests {
            left_ms = NEVER;
        } else if left_ms == NEVER {
            left_ms = now_ms;
        } else if now_ms.saturating_sub(left_ms) >= CLOSE_MS_MAX {
            break;
        }
    }
    // Wakes the requests that remain.
    drop(session);
    if let Some(peer) = peer.upgrade() {
        let connections = &peer.multiplexer.connections;
        connections.borrow_mut().retain(|one| !Rc::ptr_eq(&one.shared, &shared));
        peer.multiplexer.changed.ring_all();
    }
}
