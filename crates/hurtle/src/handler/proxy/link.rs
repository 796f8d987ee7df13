//! A connection to an upstream, and reading from it.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use super::peer::Fault;
use super::wait::Waits;
use crate::h1::reply::Scan;
use crate::transport::{Input, Plain, Taken, Transport};

/// A connection to an upstream.
pub struct Link {
    /// The socket.
    pub io: Plain,
    /// What came and is not yet consumed.
    pub input: Input,
    /// It has served a request before.
    pub reused: bool,
}

/// A socket that is read, alone or while something else writes to it.
pub enum Source<'a> {
    /// Nobody else uses it: cheaper, since the runtime learns from a short read that it is drained.
    Own(&'a mut Plain),
    /// Somebody writes.
    Shared(&'a Plain),
}

impl Link {
    pub(super) fn new(io: Plain, reused: bool) -> Link {
        Link { io, input: Input::default(), reused }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("reused", &self.reused).finish_non_exhaustive()
    }
}

impl Source<'_> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Source::Own(io) => io.poll_readable(cx),
            Source::Shared(io) => io.poll_readable(cx),
        }
    }

    fn poll_fill(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            Source::Own(io) => input.poll_fill_body(&mut **io, cx),
            Source::Shared(io) => input.poll_fill_shared(*io, cx),
        }
    }

    /// Reads once of a body, which must come within this time (`None`: whenever it comes); 0 is the
    /// upstream's end.
    ///
    /// # Errors
    /// The socket's.
    pub async fn fill(
        &mut self,
        input: &mut Input,
        waits: &Waits,
        within_ms: Option<u64>,
    ) -> io::Result<usize> {
        let _wait = within_ms.map(|ms| waits.read(ms));
        poll_fn(|cx| self.poll_fill(input, cx)).await
    }

    /// Reads a response's head. It may be given up and begun again: what came stays in `input`.
    pub(super) async fn head(&mut self, input: &mut Input) -> Result<Taken, Fault> {
        let mut scan = Scan::default();
        loop {
            if !input.bytes().is_empty()
                && let Some(end) = scan.advance(input.bytes()).map_err(Fault::Flaw)?
            {
                return Ok(input.take(end));
            }
            let mut waited = false;
            let filled = poll_fn(|cx| {
                // Before a buffer is lent: mostly nothing is there when it is first asked for, and
                // something when it is asked for again. A head is read as a body is: with it comes,
                // often, all of one.
                if !std::mem::replace(&mut waited, true) {
                    ready!(self.poll_readable(cx))?;
                }
                input.leave_headroom();
                match self {
                    Source::Own(io) => input.poll_fill_likely(&mut **io, cx),
                    Source::Shared(io) => input.poll_fill_shared(*io, cx),
                }
            });
            match filled.await {
                Ok(n) if n > 0 => {}
                Ok(_) if input.bytes().is_empty() => return Err(Fault::Gone(None)),
                Err(e) if input.bytes().is_empty() => return Err(Fault::Gone(Some(e))),
                _ => return Err(Fault::Cut),
            }
        }
    }
}
