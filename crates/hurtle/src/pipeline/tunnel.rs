//! Forwards the bytes of another protocol between a client and an upstream or application.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;

use http::StatusCode;
use hurtle_http::h1::response::{Delimiter, Persistence};
use hurtle_http::request::RequestHead;

use super::send::next_after;
use super::{Exchange, Next};
use crate::body::Body;
use crate::clock;
use crate::handler::Tunnel;
use crate::handler::client::ExchangeError;
use crate::handler::proxy::{Link, UpstreamTunnel};
use crate::protocol::{Head, HeadFields, Protocol};
use crate::rt;
use crate::transport::{Attempt, Fill, Input, Output, SendQueue, Transport};

/// Maximum silence of a tunnel, in milliseconds. Protocols with shorter pings (WebSocket) keep it
/// open; abandoned tunnels are closed.
const SILENCE_MS_MAX: u64 = 3_600_000;

/// Bytes that one direction forwards before other tasks run.
const TURN_BYTES: usize = 256 << 10;

impl<T: Protocol> Exchange<T> {
    /// Sends the 101 head, then forwards bytes until both sides have ended or one of them fails.
    pub(super) async fn tunnel(&mut self, request: &RequestHead<'_>, tunnel: Tunnel) -> Next {
        match tunnel {
            Tunnel::Upstream(tunnel) => {
                let UpstreamTunnel { head, mut upstream } = *tunnel;
                let Some(link) = upstream.take_link() else { return Next::Drop };
                let Link { io: remote, input, .. } = link;
                self.tunnel_to(request, &remote, input, head).await
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
                self.tunnel_to(request, &pipe, Input::default(), out).await
            }
        }
    }

    /// Runs a tunnel to the transport `remote`.
    async fn tunnel_to(
        &mut self,
        request: &RequestHead<'_>,
        remote: &impl Transport,
        mut received: Input,
        mut out: Output,
    ) -> Next {
        let head_bytes = out.len() as u64;
        // A tunnel is no slow request.
        self.in_flight.set(None);
        // Bytes of the new protocol may have arrived behind the upstream's head.
        out.vec().extend_from_slice(received.bytes());
        let early_bytes = received.bytes().len();
        received.consume(early_bytes);
        if let Err(error) = self.send(out, &Body::Empty).await {
            return next_after(error);
        }
        let Exchange { io, input, watch, sent, .. } = self;
        let Some(io) = io.raw() else { return Next::Drop };
        let (to_remote, to_client) = (Cell::new(0), &sent.moved);
        let both = rt::try_both(
            carry(io, input, remote, &to_remote),
            carry(remote, &mut received, io, to_client),
        );
        let (mut last_moved, mut by_ms) = (None, 0);
        let due = || {
            let moved = Some((to_remote.get(), to_client.get()));
            if moved != last_moved {
                (last_moved, by_ms) = (moved, clock::now_ms() + SILENCE_MS_MAX);
            }
            by_ms
        };
        // HTTP has ended, so an error can only be logged.
        let ended = watch.wait_until(both, due).await;
        let (completed, next) = match ended {
            Ok(Ok(())) => (Ok(()), Next::Close),
            Ok(Err(_)) => (Err(ExchangeError::Gone), Next::Abort),
            Err(_) => (Err(ExchangeError::Stalled), Next::Abort),
        };
        self.request_bytes.set(to_remote.get());
        self.observe(Some(request), StatusCode::SWITCHING_PROTOCOLS, head_bytes, completed);
        next
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
