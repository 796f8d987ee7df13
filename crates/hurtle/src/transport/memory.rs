//! An in-memory connection for tests, in simulated time. A seed determines its behaviour: bytes
//! arrive late and in pieces, writes are partial, and an end can stall or be reset at any step.
//! Both ends are a `Memory`.
//!
//! The seed selects one of two engines for the server's end. One works on readiness, like `Plain`.
//! The other owns buffers and pieces until an operation completes, as io_uring requires (`ring`).
//! The tests pass with both, which shows that the contract of `Transport` suffices for both.

mod random;
mod ring;
mod trace;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::Sleep;

pub(crate) use random::Random;
use ring::Ring;
pub(crate) use trace::{begin_trace, record, trace_hash};

use super::plain::SLICES_MAX;
use super::{Attempt, Fill, Input, SendQueue, Transport};

/// Maximum number of steps of one end; more indicate an endless loop.
const STEPS_MAX: u64 = 200_000;

/// Faults of one end, in addition to partial reads and writes. A step is one attempt to read or
/// write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// One in this many steps is delayed; 0: none.
    pub delay_part: u64,
    /// Maximum delay, in milliseconds; 0: a delayed step only yields to other tasks.
    pub delay_ms_max: u64,
    /// Number of the step that resets the connection; 0: none.
    pub reset_step: u64,
    /// Number of the step from which this end makes no progress; 0: none.
    pub stall_step: u64,
}

thread_local! {
    static DIAL: RefCell<Option<Dial>> = const { RefCell::new(None) };
}

/// Connects to a simulated upstream.
pub(crate) type Dial = Rc<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<Memory>>>>>;

/// Sets the function that connects to this thread's upstreams; `None`: connections are refused.
pub(crate) fn set_dial(dial: Option<Dial>) {
    DIAL.set(dial);
}

/// One direction of a connection, with the bytes in transit.
#[derive(Default)]
struct Flow {
    bytes: VecDeque<u8>,
    /// The writer has closed its sending side.
    is_finished: bool,
    /// The connection was reset, so the reader may lose bytes.
    is_reset: bool,
    /// The reader is closed.
    is_reader_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Tasks that wait for a reset.
    watchers: Vec<Waker>,
}

impl Flow {
    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    /// Resets this direction; loses a random part of the unread bytes.
    fn reset(&mut self, random: &mut Random) {
        if self.is_reset {
            return;
        }
        self.is_reset = true;
        self.bytes.truncate(random.within(0, self.bytes.len() as u64) as usize);
        self.wake_reader();
        self.wake_writer();
        self.watchers.drain(..).for_each(Waker::wake);
    }
}

/// Both directions of a connection: end `n` writes to `flows[n]`.
struct Wire {
    flows: [Flow; 2],
    /// Maximum number of bytes in transit in each direction.
    capacity: usize,
    random: Random,
}

/// One end of a connection.
pub(crate) struct Memory {
    wire: Rc<RefCell<Wire>>,
    end: usize,
    name: String,
    step: RefCell<Step>,
    aborted: Cell<bool>,
    /// State of the engine that owns data during an operation; `None`: the engine works on
    /// readiness.
    ring: Option<RefCell<Ring>>,
}

/// The progress of one end.
struct Step {
    faults: Faults,
    random: Random,
    count: u64,
    /// Delays of reading and writing (`READ`, `WRITE`).
    waits: [Option<Pin<Box<Sleep>>>; 2],
    is_stalled: bool,
}

/// A handle on a connection that stays valid after `Memory` was dropped.
pub(crate) struct ConnectionWatch(Rc<RefCell<Wire>>, usize);

impl ConnectionWatch {
    /// Returns whether the peer is closed.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.0.borrow().flows[self.1].is_reader_closed
    }
}

/// The server's end of a pair.
const SERVER: usize = 0;

const READ: usize = 0;
const WRITE: usize = 1;

impl Memory {
    /// Creates both ends of a connection, the server's first, each with its faults.
    pub(crate) fn pair(name: &str, random: &mut Random, faults: [Faults; 2]) -> (Memory, Memory) {
        let capacity = random.pick(&[512, 4 << 10, 64 << 10]);
        let wire =
            Wire { flows: Default::default(), capacity, random: Random::new(random.next(), 0) };
        let wire = Rc::new(RefCell::new(wire));
        let mut end = |end: usize| Memory {
            wire: Rc::clone(&wire),
            end,
            name: format!("{name}{}", ["<", ">"][end]),
            step: RefCell::new(Step {
                faults: faults[end],
                random: Random::new(random.next(), 1),
                count: 0,
                waits: [None, None],
                is_stalled: false,
            }),
            aborted: Cell::new(false),
            ring: match end == SERVER && random.is_one_in(2) {
                true => Some(RefCell::new(Ring::new(Random::new(random.next(), 2)))),
                false => None,
            },
        };
        (end(0), end(1))
    }

    /// Connects to an upstream of the simulation.
    ///
    /// # Errors
    /// Errors of the simulated upstream; `ConnectionRefused` if there is none.
    pub(crate) async fn connect(_address: SocketAddr) -> io::Result<Memory> {
        match DIAL.with_borrow(Clone::clone) {
            Some(dial) => dial().await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// Fails: the simulation has no unix sockets.
    ///
    /// # Errors
    /// Always.
    pub(crate) async fn connect_unix(_path: &Path) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether the peer has neither sent data nor closed.
    pub(crate) fn is_quiet(&mut self) -> bool {
        !self.is_readable() && !self.has_arrived()
    }

    fn has_arrived(&self) -> bool {
        let flow = &self.wire.borrow().flows[1 - self.end];
        !flow.bytes.is_empty() || flow.is_finished || flow.is_reset
    }

    /// Returns a handle that tells whether the peer is closed, even after this end is dropped.
    pub(crate) fn watch(&self) -> ConnectionWatch {
        ConnectionWatch(Rc::clone(&self.wire), self.end)
    }

    /// Returns whether the peer is closed.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.watch().is_peer_closed()
    }

    /// Reads once.
    ///
    /// # Errors
    /// `ConnectionReset`.
    pub(crate) async fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, into)).await
    }

    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.poll_step(READ, cx).is_pending() {
            return Poll::Pending;
        }
        let mut wire = self.wire.borrow_mut();
        let flow = &mut wire.flows[1 - self.end];
        if flow.bytes.is_empty() || into.is_empty() {
            if flow.is_reset {
                self.record("reads a reset", b"");
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if flow.is_finished {
                self.record("reads the end", b"");
                return Poll::Ready(Ok(0));
            }
            flow.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = self.step.borrow_mut().random.piece(flow.bytes.len().min(into.len()));
        let (front, back) = flow.bytes.as_slices();
        let first = n.min(front.len());
        into[..first].copy_from_slice(&front[..first]);
        into[first..n].copy_from_slice(&back[..n - first]);
        flow.bytes.drain(..n);
        self.record("reads", &into[..n]);
        flow.wake_writer();
        Poll::Ready(Ok(n))
    }

    /// Writes all bytes in one step, beyond the capacity if necessary.
    pub(crate) fn write_at_once(&self, bytes: &[u8]) {
        self.record("writes at once", bytes);
        let flow = &mut self.wire.borrow_mut().flows[self.end];
        flow.bytes.extend(bytes);
        flow.wake_reader();
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// `ConnectionReset`.
    pub(crate) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Returns whether the engine has accepted bytes that it has not written.
    fn is_sending(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.borrow().is_sending())
    }

    fn record(&self, event: &str, bytes: &[u8]) {
        record(event, &self.name, bytes);
    }

    /// Counts a step and applies its faults. `Pending`: the step is delayed, or this end is
    /// stalled.
    fn poll_step(&self, direction: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut step = self.step.borrow_mut();
        let step = &mut *step;
        step.count += 1;
        assert!(step.count < STEPS_MAX, "{} makes no progress", self.name);
        if step.count == step.faults.reset_step {
            self.record("is reset", b"");
            let Wire { flows, random, .. } = &mut *self.wire.borrow_mut();
            flows.iter_mut().for_each(|flow| flow.reset(random));
        }
        if step.count == step.faults.stall_step {
            self.record("stalls", b"");
            step.is_stalled = true;
        }
        if step.is_stalled {
            return Poll::Pending;
        }
        if step.waits[direction].is_none() && step.faults.delay_part > 0 {
            let delays = step.faults.delay_ms_max > 0;
            if delays && step.random.is_one_in(step.faults.delay_part) {
                let ms = step.random.within(1, step.faults.delay_ms_max);
                let sleep = tokio::time::sleep(Duration::from_millis(ms));
                step.waits[direction] = Some(Box::pin(sleep));
            } else if step.random.is_one_in(step.faults.delay_part) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if let Some(wait) = &mut step.waits[direction] {
            if wait.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            step.waits[direction] = None;
        }
        Poll::Ready(())
    }

    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.poll_step(WRITE, cx).is_pending() {
            return Poll::Pending;
        }
        let mut wire = self.wire.borrow_mut();
        let Wire { flows, capacity, random } = &mut *wire;
        if flows[self.end].is_reset || flows[1 - self.end].is_reset {
            self.record("writes to a reset", b"");
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let flow = &mut flows[self.end];
        let room = capacity.saturating_sub(flow.bytes.len());
        if room == 0 && !flow.is_reader_closed {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if total == 0 {
            return Poll::Ready(Ok(0));
        }
        assert!(!flow.is_finished, "{} writes after closing its sending side", self.name);
        if flow.is_reader_closed {
            // A kernel answers data for a closed socket with a reset.
            self.record("writes to a closed reader", b"");
            flows[1 - self.end].reset(random);
            return Poll::Ready(Ok(total));
        }
        let n = self.step.borrow_mut().random.piece(total.min(room));
        let (begin, mut left) = (flow.bytes.len(), n);
        for buf in bufs {
            let (piece, _) = buf.split_at(left.min(buf.len()));
            flow.bytes.extend(piece);
            left -= piece.len();
        }
        self.record("writes", &flow.bytes.make_contiguous()[begin..]);
        flow.wake_reader();
        Poll::Ready(Ok(n))
    }

    /// Writes once from the front of the queue.
    fn poll_write_queue(&self, cx: &mut Context<'_>, queue: &SendQueue) -> Poll<io::Result<usize>> {
        let mut slots = [IoSlice::new(&[]); SLICES_MAX];
        let count = queue.slices(&mut slots, usize::MAX);
        self.poll_write(cx, &slots[..count])
    }
}

impl Transport for Memory {
    fn is_secure(&self) -> bool {
        false
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(ring) = &self.ring {
            return ring.borrow_mut().poll_filled(self, cx);
        }
        if self.poll_step(READ, cx).is_pending() {
            return Poll::Pending;
        }
        if self.is_readable() {
            return Poll::Ready(Ok(()));
        }
        self.wire.borrow_mut().flows[1 - self.end].reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_readable(&self) -> bool {
        match &self.ring {
            Some(ring) => ring.borrow().is_filled(),
            None => self.has_arrived(),
        }
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        fill: Fill,
    ) -> Poll<io::Result<usize>> {
        if let Some(ring) = &self.ring {
            return ring.borrow_mut().poll_fill(self, cx, input);
        }
        if fill == Fill::Head && input.holds_no_buffer() && !self.is_readable() {
            ready!(self.poll_readable(cx))?;
        }
        input.poll_fill_by(fill, |into| self.poll_read(cx, into))
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        _attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        match &self.ring {
            Some(ring) => ring.borrow_mut().poll_send(self, cx, queue),
            None => {
                let sent = ready!(self.poll_write_queue(cx, queue))?;
                queue.consume(sent);
                Poll::Ready(Ok(sent))
            }
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, _attempt: Attempt) -> Poll<io::Result<()>> {
        match &self.ring {
            Some(ring) => ring.borrow_mut().poll_flush(self, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// `true` for the engine of `ring`, which reads files itself. With readiness, the sender copies
    /// them, as with TLS.
    fn sends_files(&self, _len: u64) -> bool {
        self.ring.is_some()
    }

    fn flushed_bytes(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.borrow().flushed_bytes())
    }

    async fn reset(&self) {
        poll_fn(|cx| {
            let flow = &mut self.wire.borrow_mut().flows[1 - self.end];
            if flow.is_reset {
                return Poll::Ready(());
            }
            flow.watchers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn finish(&self) {
        self.record("closes sending side", b"");
        assert!(!self.is_sending(), "{} closes its sending side with unflushed bytes", self.name);
        let flow = &mut self.wire.borrow_mut().flows[self.end];
        flow.is_finished = true;
        flow.wake_reader();
    }

    fn abort(&self) {
        self.record("aborts", b"");
        self.aborted.set(true);
    }
}

impl Drop for Memory {
    /// Closes like a socket: unread or unwritten bytes cause a reset.
    fn drop(&mut self) {
        self.record("closes", b"");
        let is_sending = self.is_sending();
        let Wire { flows, random, .. } = &mut *self.wire.borrow_mut();
        let unread = !flows[1 - self.end].bytes.is_empty();
        let flow = &mut flows[self.end];
        if self.aborted.get() || unread || is_sending {
            flow.reset(random);
        }
        flow.is_finished = true;
        flow.wake_reader();
        let flow = &mut flows[1 - self.end];
        flow.is_reader_closed = true;
        flow.wake_writer();
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}
