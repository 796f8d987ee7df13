//! HTTP/2 (RFC 9113) on a channel: the library's connection, with bounds on what a peer can cost,
//! and its streams as channels of their own (`stream`). Deadlines are left to `serve`.

mod backlog;
mod carrier;
mod heads;
mod incoming;
mod nudge;
mod outlet;
mod stream;
mod toll;
mod turns;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, Connection};
use http::{HeaderName, Method};

use super::{Input, Output, Transport};
use crate::h1::{fields, restate};
use crate::rt;
use crate::semantics::priority::Priority;
use crate::tls::ClientCertificate;
use backlog::Backlog;
use carrier::{Carrier, Conduit};
use nudge::Nudge;
use turns::Turns;

pub use carrier::Pulse;
pub use stream::Stream;

/// Requests at once on one connection; browsers send no more than 100 or so.
const STREAMS_MAX: u32 = 128;

/// What may have come of one stream's body, and of all of a connection's, that nobody has read.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const WINDOW_BYTES: u32 = 1 << 20;

/// What of one stream's answer waits for the peer to take it: the size of a piece.
const SEND_BYTES_MAX: usize = 64 << 10;

/// Streams that are reset here are remembered, since frames for them are on their way.
const RESET_STREAMS_MAX: usize = 32;

/// Streams the peer resets before anybody has looked at them.
const UNSEEN_RESETS_MAX: usize = 32;

/// Streams that end in the peer's breach of the protocol.
const BREACHES_MAX: usize = 64;

/// RFC 9218 5.
const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// A connection.
pub struct Session<T: Transport> {
    connection: Connection<Carrier<T>, Bytes>,
    conduit: Rc<RefCell<Conduit<T>>>,
    channel: Rc<Channel>,
    nudge: Nudge,
    /// The peer was told what it is given up for.
    given_up: bool,
}

/// What all streams of a connection have come by.
#[derive(Debug)]
struct Channel {
    secure: bool,
    policy: u32,
    client: Option<ClientCertificate>,
    server_name: Option<String>,
    pulse: Rc<Pulse>,
    turns: Rc<Turns>,
    backlog: Backlog,
}

/// Why there is no request yet.
enum Pause {
    /// There will be none.
    Over,
    /// All that was sent has left, and somebody waits for a turn that another may not use.
    Unused,
}

impl<T: Transport + Unpin> Session<T> {
    /// Begins one; `early`: what was read of it already; `head_bytes`: bound on a request's head.
    ///
    /// # Errors
    /// The channel's, or the peer does not speak it.
    pub async fn begin(io: T, early: Input, head_bytes: usize) -> io::Result<Session<T>> {
        let (secure, policy, client) = (io.is_secure(), io.policy(), io.client());
        let server_name = io.server_name();
        let (pulse, turns) = (Pulse::new(), Rc::<Turns>::default());
        let conduit = Conduit::new(io, Rc::clone(&pulse));
        let carrier =
            Carrier::new(Rc::clone(&conduit), early, Rc::clone(&pulse), Rc::clone(&turns));
        let backlog = Backlog::default();
        let channel = Channel { secure, policy, client, server_name, pulse, turns, backlog };
        let connection = Builder::new()
            .max_concurrent_streams(STREAMS_MAX)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
            .max_send_buffer_size(SEND_BYTES_MAX)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX)
            .max_pending_accept_reset_streams(UNSEEN_RESETS_MAX)
            .max_local_error_reset_streams(Some(BREACHES_MAX))
            .handshake(carrier)
            .await
            .map_err(io::Error::other)?;
        conduit.borrow_mut().gather();
        let (channel, nudge) = (Rc::new(channel), Nudge::default());
        Ok(Session { connection, conduit, channel, nudge, given_up: false })
    }

    /// What is to be watched.
    pub fn pulse(&self) -> &Rc<Pulse> {
        &self.channel.pulse
    }

    /// The next request: its head, in HTTP/1.1's words, and its stream. `None`: there will be none.
    /// The connection does nothing unless this is awaited.
    pub async fn next(&mut self) -> Option<(Input, Stream)> {
        loop {
            let moved = self.channel.turns.moved();
            match poll_fn(|cx| self.poll_next(cx)).await {
                Ok(next) => return Some(next),
                Err(Pause::Over) => return None,
                Err(Pause::Unused) => {
                    // First those who have room again.
                    rt::give_way().await;
                    if self.channel.turns.pass_on(moved) {
                        // The next one looks for room before there is more for those before it.
                        rt::give_way().await;
                    }
                }
            }
        }
    }

    fn stream(&self, (request, respond): stream::Arrived) -> (Input, Stream) {
        let (head, body) = request.into_parts();
        let mut bytes = Output::new();
        let has_body = !body.is_end_stream();
        restate::request(bytes.vec(), &head, has_body);
        let chunked = has_body && !head.headers.contains_key(http::header::CONTENT_LENGTH);
        let bodiless = head.method == Method::HEAD;
        let priority = fields::joined(&head.headers, PRIORITY).map(|said| Priority::read(&said));
        if priority.is_some() {
            self.channel.turns.heed();
        }
        let priority = priority.unwrap_or(Priority::UNSAID);
        let channel = Rc::clone(&self.channel);
        let stream = Stream::new(respond, body, chunked, bodiless, priority, channel);
        (Input::copy_of(&bytes), stream)
    }

    /// Does what may leave frames to be sent. The task is not woken for these: `next` is to be awaited
    /// right after it, in the same turn.
    pub fn aside(&self, task: impl FnOnce()) {
        self.nudge.set_busy(true);
        task();
        self.nudge.set_busy(false);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Input, Stream), Pause>> {
        let cx = &mut Context::from_waker(self.nudge.of(cx));
        loop {
            let mut next = self.connection.poll_accept(cx);
            if let (Poll::Pending, Some(fault), false) =
                (&next, self.channel.pulse.fault(), self.given_up)
            {
                self.given_up = true;
                self.connection.abrupt_shutdown(fault);
                next = self.connection.poll_accept(cx);
            }
            if let Poll::Ready(next) = next {
                // An error ends the connection, and the peer was told.
                return Poll::Ready(match next {
                    Some(Ok(arrived)) => Ok(self.stream(arrived)),
                    _ => Err(Pause::Over),
                });
            }
            let mut conduit = self.conduit.borrow_mut();
            let was_full = conduit.is_full();
            match conduit.poll_out(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Pause::Over)),
                Poll::Pending => return Poll::Pending,
            }
            // The library may have waited for room.
            if !was_full {
                self.channel.backlog.clear();
                return match self.channel.turns.poll_doubt(cx) {
                    true => Poll::Ready(Err(Pause::Unused)),
                    false => Poll::Pending,
                };
            }
        }
    }

    /// Takes no more requests than are on their way, and ends when they are answered.
    pub fn leave(&mut self) {
        self.connection.graceful_shutdown();
    }

    /// Ends it: the peer is a burden.
    pub fn give_up(&self) {
        self.channel.pulse.find_fault(Reason::ENHANCE_YOUR_CALM);
    }
}
