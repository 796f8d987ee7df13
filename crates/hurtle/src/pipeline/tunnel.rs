//! Forwards the bytes of another protocol between a client and an upstream or application.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;

use http::StatusCode;
use hurtle_http::h1::response::{Delimiter, Persistence};
use hurtle_http::request::RequestHead;

use super::send::next_after;
use super::{Exchange, Next};
use crate::body::Body;
use crate::clock;
use crate::deadline::DeadlineError;
use crate::handler::Tunnel;
use crate::handler::client::ExchangeError;
use crate::handler::proxy::{AssignedPeer, Link, UpstreamTunnel};
use crate::protocol::{Head, HeadFields, Protocol};
use crate::rt::{self, Permit};
use crate::transport::{Attempt, Fill, Input, Output, Pipe, SendQueue, Transport, UpstreamSocket};

/// Maximum silence of a tunnel, in milliseconds. Protocols with shorter pings (WebSocket) keep it
/// open; abandoned tunnels are closed.
const SILENCE_MS_MAX: u64 = 3_600_000;

/// Bytes that one direction forwards before other tasks run.
const TURN_BYTES: usize = 256 << 10;

/// A tunnel whose 101 is sent. It keeps nothing of the configuration, so that it can outlive many.
#[derive(Debug)]
pub(super) struct OpenTunnel {
    remote: Remote,
    /// Bytes of the head that were sent to the client.
    head_bytes: u64,
    /// Held until the tunnel ends.
    pub(super) permit: Option<Permit>,
}

/// The end of a tunnel that is not the client.
enum Remote {
    /// The upstream counts the tunnel until this is dropped.
    Upstream(Box<(UpstreamSocket, Option<AssignedPeer>)>),
    App(Pipe),
}

impl<T: Protocol> Exchange<T> {
    /// Sends the 101 head and returns `Next::Tunnel`, after which `run_tunnel` forwards bytes.
    pub(super) async fn open_tunnel(&mut self, tunnel: Tunnel) -> Next {
        let (remote, (out, head_bytes)) = match tunnel {
            Tunnel::Upstream(tunnel) => {
                let UpstreamTunnel { mut head, upstream } = *tunnel;
                let Some((link, assigned)) = upstream.into_tunnel() else { return Next::Drop };
                let Link { io, input, .. } = link;
                let head_bytes = head.len() as u64;
                // Bytes of the new protocol may have arrived behind the upstream's head.
                head.vec().extend_from_slice(input.bytes());
                (Remote::Upstream(Box::new((io, assigned))), (head, head_bytes))
            }
            Tunnel::App(accepted) => {
                let (answer, offer) = *accepted;
                let Ok(pipe) = offer.take().await else { return Next::Drop };
                let mut out = Output::new();
                let head = Head {
                    status: answer.status,
                    fields: HeadFields::Made(&answer.fields),
                    delimiter: Delimiter::Given,
                    persistence: Persistence::Upgrade,
                    date: &clock::date(clock::now_ms()),
                };
                self.io.encode_head(out.vec(), &head);
                let head_bytes = out.len() as u64;
                (Remote::App(pipe), (out, head_bytes))
            }
        };
        // A tunnel is no slow request.
        self.in_flight.set(None);
        if let Err(error) = self.send(out, &Body::Empty).await {
            return next_after(error);
        }
        let tunnel = OpenTunnel { remote, head_bytes, permit: None };
        self.details.get_or_insert_default().tunnel = Some(tunnel);
        Next::Tunnel
    }

    /// Forwards bytes until both sides have ended or one of them fails.
    pub(super) async fn run_tunnel(&mut self, request: &RequestHead<'_>) -> Next {
        let tunnel = self.details.as_mut().and_then(|details| details.tunnel.take());
        let Some(OpenTunnel { remote, head_bytes, permit: _permit }) = tunnel else {
            return Next::Drop;
        };
        let ended = match remote {
            Remote::Upstream(remote) => self.forward_both(&remote.0).await,
            Remote::App(remote) => self.forward_both(&remote).await,
        };
        // HTTP has ended, so an error can only be logged.
        let (completed, next) = match ended {
            Ok(Ok(())) => (Ok(()), Next::Close),
            Ok(Err(_)) => (Err(ExchangeError::Gone), Next::Abort),
            Err(_) => (Err(ExchangeError::Stalled), Next::Abort),
        };
        self.observe(Some(request), StatusCode::SWITCHING_PROTOCOLS, head_bytes, completed);
        next
    }

    /// Forwards bytes in both directions while they move.
    async fn forward_both(
        &mut self,
        remote: &impl Transport,
    ) -> Result<io::Result<()>, DeadlineError> {
        let mut received = Input::default();
        let Exchange { io, input, watch, sent, worker, slot, request_bytes, .. } = self;
        let Some(io) = io.raw() else { return Ok(Err(io::ErrorKind::Unsupported.into())) };
        let (to_remote, to_client) = (Cell::new(0), &sent.moved);
        let both = rt::try_both(
            carry(io, input, remote, &to_remote),
            carry(remote, &mut received, io, to_client),
        );
        let (mut last_moved, mut by_ms) = (None, 0);
        let due = || {
            slot.update(worker);
            let moved = Some((to_remote.get(), to_client.get()));
            if moved != last_moved {
                (last_moved, by_ms) = (moved, clock::now_ms() + SILENCE_MS_MAX);
            }
            by_ms
        };
        let ended = watch.wait_until(both, due).await;
        request_bytes.set(to_remote.get());
        ended
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remote::Upstream(_) => "Upstream",
            Remote::App(_) => "App",
        })
    }
}

/// Copies bytes one way until the sender's end, then closes that direction of the receiver.
async fn carry<F: Transport, T: Transport>(
    from: &F,
    input: &mut Input,
    to: &T,
    moved: &Cell<u64>,
) -> io::Result<()> {
    let (mut queue, mut turn_bytes) = (SendQueue::default(), 0);
    loop {
        queue.push(input.take(input.bytes().len()));
        while !queue.is_empty() {
            let n = poll_fn(|cx| to.poll_send(cx, &mut queue, Attempt::Ready)).await?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            moved.set(moved.get() + n as u64);
            turn_bytes += n;
        }
        poll_fn(|cx| to.poll_flush(cx, Attempt::Ready)).await?;
        if turn_bytes >= TURN_BYTES {
            turn_bytes = 0;
            rt::give_way().await;
        }
        if poll_fn(|cx| from.poll_fill(cx, input, Fill::Body)).await? == 0 {
            to.finish();
            return Ok(());
        }
    }
}
