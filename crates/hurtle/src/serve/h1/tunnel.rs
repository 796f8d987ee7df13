//! Another protocol's bytes, between a client and an upstream or an application that agreed on it.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};

use http::StatusCode;

use super::{Connection, Next};
use crate::body::Body;
use crate::clock;
use crate::h1::request::Request;
use crate::handler::proxy::{Errand, Link};
use crate::rt;
use crate::transport::{Input, Output, Transport};

/// How long a tunnel may be silent, in milliseconds: what asks for less (a WebSocket's pings)
/// keeps it open, and what nobody uses any more is closed in the end.
const SILENCE_MS_MAX: u64 = 3_600_000;

/// What one direction passes on before the others have their turn.
const TURN_BYTES: usize = 256 << 10;

impl<T: Transport> Connection<T> {
    /// Sends the head that ends HTTP, and then whatever either side says, until both have said all
    /// or one of them is gone.
    pub(super) async fn tunnel(
        &mut self,
        request: &Request<'_>,
        mut errand: Errand,
        out: Output,
    ) -> Next {
        let Some(link) = errand.take_link() else { return Next::Drop };
        let Link { io: far, input, .. } = link;
        self.tunnel_to(request, &far, input, out).await
    }

    /// The same to whoever is there at the other end of `far`.
    pub(super) async fn tunnel_to(
        &mut self,
        request: &Request<'_>,
        far: &impl Transport,
        mut from_far: Input,
        mut out: Output,
    ) -> Next {
        let head_bytes = out.len() as u64;
        // It may have spoken right behind its head.
        out.vec().extend_from_slice(from_far.bytes());
        let spoken = from_far.bytes().len();
        from_far.consume(spoken);
        if let Err(next) = self.send(out, &Body::Empty).await {
            return next;
        }
        let Connection { io, input, watch, sent, .. } = self;
        let (there, back) = (Cell::new(0), &sent.moved);
        let both = rt::try_both(carry(io, input, far, &there), carry(far, &mut from_far, io, back));
        let (mut seen, mut by_ms) = (None, 0);
        let due = || {
            let moved = Some((there.get(), back.get()));
            if moved != seen {
                (seen, by_ms) = (moved, clock::now_ms() + SILENCE_MS_MAX);
            }
            by_ms
        };
        // However it ends, there is nobody left to tell but the log.
        let ended = watch.wait_until(both, due).await;
        self.log(Some(request), StatusCode::SWITCHING_PROTOCOLS, head_bytes);
        match ended {
            Ok(Ok(())) => Next::Close,
            Ok(Err(_)) | Err(_) => Next::Abort,
        }
    }
}

/// Carries bytes one way, up to the sender's end, of which the receiver is told.
async fn carry<F: Transport, T: Transport>(
    from: &F,
    input: &mut Input,
    to: &T,
    moved: &Cell<u64>,
) -> io::Result<()> {
    let mut turn_bytes = 0;
    loop {
        while !input.bytes().is_empty() {
            let bufs = [IoSlice::new(input.bytes())];
            let n = poll_fn(|cx| to.poll_write_shared(cx, &bufs)).await?;
            input.consume(n);
            moved.set(moved.get() + n as u64);
            turn_bytes += n;
        }
        if turn_bytes >= TURN_BYTES {
            turn_bytes = 0;
            rt::give_way().await;
        }
        if poll_fn(|cx| input.poll_fill_shared(from, cx)).await? == 0 {
            to.finish();
            return Ok(());
        }
    }
}
