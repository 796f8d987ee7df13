//! Both directions of a connection at once, for an application that reads its request while it
//! answers; and the one deadline that both share.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};

use super::Connection;
use super::upload::Upload;
use crate::clock;
use crate::h1::Sin;
use crate::handler::proxy::Waits;
use crate::rt::{self, First};
use crate::serve::deadline::NEVER;
use crate::transport::{Input, Meter, Transport};

/// A connection's socket during one exchange.
pub(super) struct Duplex<'a, T> {
    pub(super) io: &'a T,
    /// Bytes the kernel has taken.
    sent: &'a Cell<u64>,
    /// What all that goes to the peer is held to.
    share: Option<&'a Meter>,
    /// Whether bytes wait for the peer to take those before them.
    queued: Cell<bool>,
    /// Until when the peer must have sent more, where that is waited for.
    more_by_ms: Cell<u64>,
}

/// How an exchange ends before it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The peer is gone.
    Gone,
    /// The peer takes nothing.
    Stalled,
    /// The peer broke the rules in its request's body.
    Sin(Sin),
    /// The answer's maker failed, or made more or less than it had said.
    Answer,
    /// The upstream was waited for too long.
    Late,
}

impl<T: Transport> Connection<T> {
    /// Does `work` while the request's body is fed to its reader, and until the peer is gone;
    /// `waits`: until when an upstream is waited for.
    pub(super) async fn beside<R>(
        &mut self,
        upload: &mut Upload,
        waits: &Waits,
        work: impl AsyncFnOnce(&Duplex<'_, T>) -> R,
    ) -> Result<R, Broken> {
        let Connection { io, input, ended, worker, watch, sent, .. } = self;
        let stall_ms = worker.limits.write_stall.as_millis() as u64;
        let (share, sent) = (sent.share.as_deref(), &sent.moved);
        let (queued, more_by_ms) = (Cell::new(false), Cell::new(NEVER));
        let duplex = Duplex { io, sent, share, queued, more_by_ms };
        let both = rt::race(work(&duplex), upload.run(&duplex, input, ended, worker));
        let mut seen = None;
        let (mut taken_by_ms, mut upstream_by_ms) = (NEVER, NEVER);
        let due = || {
            // An application that thinks has all the time it wants: only bytes that wait to be
            // taken, and bytes that are waited for, are the peer's business.
            let moved = duplex.queued.get().then(|| sent.get() + io.taken_of_waiting());
            if moved != seen {
                seen = moved;
                taken_by_ms = moved.map_or(NEVER, |_| clock::now_ms() + stall_ms);
            }
            upstream_by_ms = waits.due_ms();
            taken_by_ms.min(duplex.more_by_ms.get()).min(upstream_by_ms)
        };
        match watch.wait_until(both, due).await {
            Ok(First::A(done)) => Ok(done),
            Ok(First::B(broken)) => Err(broken),
            Err(_) if duplex.more_by_ms.get() <= clock::now_ms() => {
                Err(Broken::Sin(Sin::BodyTooSlow))
            }
            Err(_) if upstream_by_ms <= clock::now_ms() => Err(Broken::Late),
            Err(_) => Err(Broken::Stalled),
        }
    }
}

impl<T: Transport> Duplex<'_, T> {
    /// Reads more, which must come by `by_ms`; 0 is the peer's end.
    pub(super) async fn fill(&self, input: &mut Input, by_ms: u64) -> io::Result<usize> {
        self.more_by_ms.set(by_ms);
        let filled = poll_fn(|cx| input.poll_fill_shared(self.io, cx)).await;
        self.more_by_ms.set(NEVER);
        filled
    }

    /// Writes some bytes.
    pub(super) async fn write_some(&self, bufs: &[IoSlice<'_>]) -> Result<usize, Broken> {
        self.queued.set(true);
        let written = poll_fn(|cx| self.io.poll_write_shared(cx, bufs)).await;
        self.queued.set(false);
        match written {
            Ok(0) | Err(_) => Err(Broken::Gone),
            Ok(n) => {
                self.sent.set(self.sent.get() + n as u64);
                Ok(n)
            }
        }
    }

    /// Bytes that may well be written together, `most` at most.
    pub(super) fn piece_bytes(&self, most: usize) -> usize {
        let piece = self.share.map_or(u64::MAX, Meter::piece_bytes);
        usize::try_from(piece).map_or(most, |piece| piece.min(most))
    }

    /// Writes all bytes, once they may leave.
    pub(super) async fn write(&self, mut bufs: &mut [IoSlice<'_>]) -> Result<(), Broken> {
        // Empty ones at the front go; a write of nothing would look like the peer's end.
        IoSlice::advance_slices(&mut bufs, 0);
        if let Some(share) = self.share {
            share.pass(bufs.iter().map(|buf| buf.len() as u64).sum()).await;
        }
        while !bufs.is_empty() {
            let n = self.write_some(bufs).await?;
            IoSlice::advance_slices(&mut bufs, n);
        }
        Ok(())
    }
}
