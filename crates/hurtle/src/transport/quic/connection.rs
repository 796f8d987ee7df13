//! A QUIC connection of an endpoint. One task drives it by `poll_event`: timers, events, and
//! datagrams to be sent.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ConnectionHandle, EndpointEvent, Event, Transmit, VarInt};
use tokio::time::Sleep;

use super::crypto::Negotiated;
use super::endpoint::Endpoint;
use super::keys::SEND_WINDOW_BYTES_MIN;
use crate::rt;

/// Sends of one connection before other connections run; each may carry 60 KiB.
const SENDS_MAX: usize = 4;

/// Bytes that a connection buffers until they are acknowledged, as a multiple of the congestion
/// window: one window is in flight, and one follows at once.
const WINDOWS_BUFFERED: u64 = 2;

/// Most bytes that a connection buffers until they are acknowledged.
const SEND_WINDOW_BYTES_MAX: u64 = 16 << 20;

pub(crate) struct Connection {
    pub(super) proto: RefCell<quinn_proto::Connection>,
    /// The client's address in the first datagram.
    peer: SocketAddr,
    endpoint: Rc<Endpoint>,
    handle: ConnectionHandle,
    /// The task that drives the connection.
    driver: RefCell<Waker>,
    timer: RefCell<Timer>,
    /// Datagrams that the kernel had no room for.
    unsent: RefCell<Option<(Transmit, Vec<u8>)>>,
    /// `true` if the driver runs and need not be woken.
    is_busy: Cell<bool>,
    /// `true` if the connection is in the endpoint's list of this turn.
    pub(super) is_touched: Cell<bool>,
    send_window: Cell<u64>,
    is_drained: Cell<bool>,
    /// Dropped when the handshake has ended.
    handshake: RefCell<Option<Box<dyn Any>>>,
}

/// A timer of the runtime, which is moved only to an earlier time.
#[derive(Debug, Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// `None`: not set.
    at: Option<Instant>,
}

/// The outcome of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    All,
    /// The kernel has no room; the task is woken later.
    Blocked,
    /// There is more, but other connections run first.
    More,
}

impl Connection {
    pub(super) fn new(
        endpoint: Rc<Endpoint>,
        handle: ConnectionHandle,
        proto: quinn_proto::Connection,
    ) -> Rc<Connection> {
        Rc::new(Connection {
            peer: proto.remote_address(),
            proto: RefCell::new(proto),
            endpoint,
            handle,
            driver: RefCell::new(Waker::noop().clone()),
            timer: RefCell::default(),
            unsent: RefCell::default(),
            is_busy: Cell::new(false),
            is_touched: Cell::new(false),
            send_window: Cell::new(SEND_WINDOW_BYTES_MIN),
            is_drained: Cell::new(false),
            handshake: RefCell::new(None),
        })
    }

    /// Waits for an event. Sends datagrams and handles timers meanwhile. `None`: the connection has
    /// ended, and the endpoint has forgotten it.
    pub(crate) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut driver = self.driver.borrow_mut();
        if !driver.will_wake(cx.waker()) {
            driver.clone_from(cx.waker());
        }
        drop(driver);
        loop {
            if self.is_drained.get() {
                return Poll::Ready(None);
            }
            let now = Instant::now();
            let mut proto = self.proto.borrow_mut();
            if proto.poll_timeout().is_some_and(|at| at <= now) {
                proto.handle_timeout(now);
            }
            if let Some(event) = proto.poll() {
                drop(proto);
                if matches!(event, Event::Connected | Event::ConnectionLost { .. }) {
                    self.handshake.take();
                }
                return Poll::Ready(Some(event));
            }
            drop(proto);
            let sent = self.send(cx, now);
            self.pass_events();
            if self.is_drained.get() {
                continue;
            }
            if sent == Sent::More {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let at = self.proto.borrow_mut().poll_timeout();
            if self.timer.borrow_mut().poll(cx, at).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Passes events to the endpoint and its answers back.
    fn pass_events(&self) {
        loop {
            let event = self.proto.borrow_mut().poll_endpoint_events();
            let Some(event) = event else { break };
            if event.is_drained() {
                self.is_drained.set(true);
                self.handshake.take();
            }
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.proto.borrow_mut().handle_event(answer);
            }
        }
    }

    /// Sends the datagrams that are due.
    fn send(&self, cx: &Context<'_>, now: Instant) -> Sent {
        if let Some((transmit, bytes)) = self.unsent.take()
            && !self.endpoint.send(cx, &transmit, &bytes)
        {
            self.unsent.replace(Some((transmit, bytes)));
            return Sent::Blocked;
        }
        let mut room = self.endpoint.room.take();
        let sent = self.send_new(cx, now, &mut room);
        self.endpoint.room.replace(room);
        self.adjust_window();
        sent
    }

    fn send_new(&self, cx: &Context<'_>, now: Instant, room: &mut Vec<u8>) -> Sent {
        let mut proto = self.proto.borrow_mut();
        for _ in 0..SENDS_MAX {
            room.clear();
            let segments = self.endpoint.segments_max(proto.current_mtu());
            let Some(transmit) = proto.poll_transmit(now, segments, room) else {
                return Sent::All;
            };
            if !self.endpoint.send(cx, &transmit, room) {
                self.unsent.replace(Some((transmit, room.clone())));
                return Sent::Blocked;
            }
        }
        Sent::More
    }

    /// Bounds the buffered bytes by the congestion window, so that a slow path holds little memory.
    fn adjust_window(&self) {
        let mut proto = self.proto.borrow_mut();
        let wanted = proto.congestion_state().window().saturating_mul(WINDOWS_BUFFERED);
        let wanted = wanted.clamp(SEND_WINDOW_BYTES_MIN, SEND_WINDOW_BYTES_MAX);
        if wanted != self.send_window.replace(wanted) {
            proto.set_send_window(wanted);
        }
    }

    /// Wakes the task that drives the connection.
    pub(crate) fn wake(&self) {
        if !self.is_busy.get() {
            self.driver.borrow().wake_by_ref();
        }
    }

    /// Runs `task`, which may use streams without waking the driver. The caller must poll the
    /// connection right after it.
    pub(crate) fn aside(&self, task: impl FnOnce()) {
        self.is_busy.set(true);
        task();
        self.is_busy.set(false);
    }

    /// Returns the address of the client at the begin: only its receiver can complete the
    /// handshake. A later packet from another address proves nothing until the client has answered
    /// from there (RFC 9000 section 8.2), and requests come with the packet.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the result of the handshake; `None`: it is not complete.
    pub(crate) fn negotiated(&self) -> Option<Negotiated> {
        let data = self.proto.borrow().crypto_session().handshake_data()?;
        data.downcast().ok().map(|negotiated| *negotiated)
    }

    /// Returns the estimated round-trip time.
    pub(crate) fn rtt(&self) -> Duration {
        self.proto.borrow().rtt()
    }

    /// Returns the number of acknowledgements that have come (RFC 9000 section 19.3).
    pub(crate) fn acks(&self) -> u64 {
        self.proto.borrow().stats().frame_rx.acks
    }

    /// Has the client show that it is alive (PING).
    pub(crate) fn ping(&self) {
        self.proto.borrow_mut().ping();
        self.wake();
    }

    /// Closes the connection with an error code of HTTP/3. Streams end at once.
    pub(crate) fn close(&self, code: u64, reason: &'static str) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let mut proto = self.proto.borrow_mut();
        if !proto.is_closed() {
            proto.close(Instant::now(), code, Bytes::from_static(reason.as_bytes()));
            drop(proto);
            self.wake();
        }
    }

    /// Keeps `entry` until the client has completed the handshake, or the connection is lost.
    pub(crate) fn hold_while_handshaking(&self, entry: impl Any) {
        self.handshake.replace(Some(Box::new(entry)));
    }

    /// Forgets the connection without a packet to the peer. `poll_event` returns `None`.
    pub(crate) fn discard(&self) {
        self.is_drained.set(true);
        self.handshake.take();
        self.endpoint.handle_event(self.handle, EndpointEvent::drained());
        self.wake();
    }

    /// Answers late packets of a closed connection until the client knows (RFC 9000 section 10.2),
    /// in a task of its own.
    pub(crate) fn linger(self: Rc<Connection>) {
        // Sends CONNECTION_CLOSE now, since a stopping server may not run the task again.
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(_)) = self.poll_event(&mut cx) {}
        if !self.is_drained.get() {
            rt::spawn(async move {
                while std::future::poll_fn(|cx| self.poll_event(cx)).await.is_some() {}
            });
        }
    }
}

impl Timer {
    /// Waits until `at`, and perhaps not so long. `None`: forever.
    fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        if self.at.is_none_or(|set| at < set) {
            let deadline = tokio::time::Instant::from_std(at);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(deadline),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
            }
            self.at = Some(at);
        }
        let Some(sleep) = &mut self.sleep else { return Poll::Pending };
        let passed = sleep.as_mut().poll(cx);
        if passed.is_ready() {
            self.at = None;
        }
        passed
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection {} of {:?}", self.handle.0, self.endpoint)
    }
}
