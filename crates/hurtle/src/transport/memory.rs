//! A channel in memory for tests: no sockets, its time is the simulation's, and a seed decides what
//! happens. Bytes arrive in any split and late, writes are short, and either way can stall or break
//! at any step. Both ends are a `Memory`.
//!
//! The server's end is an engine of one of two kinds, by the seed. One works on readiness, as `Plain`
//! does. The other owns buffers and pieces while they are under way, as io_uring requires (`ring`).
//! All seeds pass with both, which shows that the contract of `Transport` suffices for either.

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

pub use random::Random;
use ring::Ring;
pub use trace::{note, trace, traced};

use super::plain::SLICES_MAX;
use super::{Attempt, Fill, Input, SendQueue, Transport};

/// Steps of one end after which a simulation is taken to run in circles.
const STEPS_MAX: u64 = 200_000;

/// What may happen at one end, beside short reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// One step in so many waits for some milliseconds; 0: none does.
    pub delay_part: u64,
    /// The longest such wait, in milliseconds; 0: up to the others' turn.
    pub delay_ms_max: u64,
    /// The step at which the connection is reset; 0: none.
    pub reset_step: u64,
    /// The step at which it stalls for good; 0: none.
    pub stall_step: u64,
}

thread_local! {
    static DIAL: RefCell<Option<Dial>> = const { RefCell::new(None) };
}

/// Makes the connections to upstreams.
pub type Dial = Rc<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<Memory>>>>>;

/// Has `dial` make this thread's connections to upstreams; `None`: there are none.
pub fn dial_with(dial: Option<Dial>) {
    DIAL.set(dial);
}

/// Bytes on their way from one end to the other.
#[derive(Default)]
struct Flow {
    bytes: VecDeque<u8>,
    /// The writer has said all.
    is_finished: bool,
    /// The writer is gone, and not in good order.
    is_reset: bool,
    /// Nobody reads any more.
    is_deaf: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Who waits for a reset.
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

    /// What the reader has not taken is lost, or a part of it.
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

/// Both ways of a connection: `flows[n]` is what end `n` writes.
struct Wire {
    flows: [Flow; 2],
    /// Bytes that a way holds.
    room: usize,
    random: Random,
}

/// One end of a connection.
pub struct Memory {
    wire: Rc<RefCell<Wire>>,
    end: usize,
    name: String,
    step: RefCell<Step>,
    aborted: Cell<bool>,
    /// What is under way, in an engine that owns it; `None`: the engine works on readiness.
    ring: Option<RefCell<Ring>>,
}

/// What has happened at one end.
struct Step {
    trouble: Trouble,
    random: Random,
    count: u64,
    /// Reading and writing wait for these.
    waits: [Option<Pin<Box<Sleep>>>; 2],
    is_stalled: bool,
}

/// See `Memory::watch`.
pub struct Watched(Rc<RefCell<Wire>>, usize);

impl Watched {
    /// Whether the other end is closed.
    pub fn is_alone(&self) -> bool {
        self.0.borrow().flows[self.1].is_deaf
    }
}

/// The server's end of a pair.
const SERVER: usize = 0;

const READ: usize = 0;
const WRITE: usize = 1;

impl Memory {
    /// Both ends of a connection, the server's first, each with its troubles.
    pub fn pair(name: &str, random: &mut Random, troubles: [Trouble; 2]) -> (Memory, Memory) {
        let room = random.pick(&[512, 4 << 10, 64 << 10]);
        let wire = Wire { flows: Default::default(), room, random: Random::new(random.next(), 0) };
        let wire = Rc::new(RefCell::new(wire));
        let mut end = |end: usize| Memory {
            wire: Rc::clone(&wire),
            end,
            name: format!("{name}{}", ["<", ">"][end]),
            step: RefCell::new(Step {
                trouble: troubles[end],
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
    /// The simulation's.
    pub async fn connect(_address: SocketAddr) -> io::Result<Memory> {
        match DIAL.with_borrow(Clone::clone) {
            Some(dial) => dial().await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// There are none in memory.
    ///
    /// # Errors
    /// Always.
    pub async fn connect_unix(_path: &Path) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether the peer has neither said anything nor gone.
    pub fn is_quiet(&mut self) -> bool {
        !self.is_readable() && !self.has_arrived()
    }

    fn has_arrived(&self) -> bool {
        let flow = &self.wire.borrow().flows[1 - self.end];
        !flow.bytes.is_empty() || flow.is_finished || flow.is_reset
    }

    /// Tells whether the other end is closed, also when this one is.
    pub fn watch(&self) -> Watched {
        Watched(Rc::clone(&self.wire), self.end)
    }

    /// Whether the other end is closed.
    pub fn is_alone(&self) -> bool {
        self.watch().is_alone()
    }

    /// Reads once.
    ///
    /// # Errors
    /// A reset.
    pub async fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, into)).await
    }

    /// Reads once.
    pub fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.poll_step(READ, cx).is_pending() {
            return Poll::Pending;
        }
        let mut wire = self.wire.borrow_mut();
        let flow = &mut wire.flows[1 - self.end];
        if flow.bytes.is_empty() || into.is_empty() {
            if flow.is_reset {
                self.note("reads a reset", b"");
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if flow.is_finished {
                self.note("reads the end", b"");
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
        self.note("reads", &into[..n]);
        flow.wake_writer();
        Poll::Ready(Ok(n))
    }

    /// Has all of it on its way at once.
    pub fn put(&self, bytes: &[u8]) {
        self.note("puts", bytes);
        let flow = &mut self.wire.borrow_mut().flows[self.end];
        flow.bytes.extend(bytes);
        flow.wake_reader();
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// A reset, or that the peer is gone.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Whether the engine has taken bytes that are not on their way.
    fn is_sending(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.borrow().is_sending())
    }

    fn note(&self, what: &str, bytes: &[u8]) {
        note(what, &self.name, bytes);
    }

    /// Whether this step happens now.
    fn poll_step(&self, way: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut step = self.step.borrow_mut();
        let step = &mut *step;
        step.count += 1;
        assert!(step.count < STEPS_MAX, "{} goes in circles", self.name);
        if step.count == step.trouble.reset_step {
            self.note("is reset", b"");
            let Wire { flows, random, .. } = &mut *self.wire.borrow_mut();
            flows.iter_mut().for_each(|flow| flow.reset(random));
        }
        if step.count == step.trouble.stall_step {
            self.note("stalls", b"");
            step.is_stalled = true;
        }
        if step.is_stalled {
            return Poll::Pending;
        }
        if step.waits[way].is_none() && step.trouble.delay_part > 0 {
            let delays = step.trouble.delay_ms_max > 0;
            if delays && step.random.is_one_in(step.trouble.delay_part) {
                let ms = step.random.within(1, step.trouble.delay_ms_max);
                let sleep = tokio::time::sleep(Duration::from_millis(ms));
                step.waits[way] = Some(Box::pin(sleep));
            } else if step.random.is_one_in(step.trouble.delay_part) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if let Some(wait) = &mut step.waits[way] {
            if wait.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            step.waits[way] = None;
        }
        Poll::Ready(())
    }

    /// Writes once.
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.poll_step(WRITE, cx).is_pending() {
            return Poll::Pending;
        }
        let mut wire = self.wire.borrow_mut();
        let Wire { flows, room, random } = &mut *wire;
        if flows[self.end].is_reset || flows[1 - self.end].is_reset {
            self.note("writes to a reset", b"");
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let whole: usize = bufs.iter().map(|buf| buf.len()).sum();
        let flow = &mut flows[self.end];
        let room = room.saturating_sub(flow.bytes.len());
        if room == 0 && !flow.is_deaf {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if whole == 0 {
            return Poll::Ready(Ok(0));
        }
        assert!(!flow.is_finished, "{} writes behind its end", self.name);
        if flow.is_deaf {
            // The peer's kernel answers with a reset.
            self.note("writes to nobody", b"");
            flows[1 - self.end].reset(random);
            return Poll::Ready(Ok(whole));
        }
        let n = self.step.borrow_mut().random.piece(whole.min(room));
        let (begin, mut left) = (flow.bytes.len(), n);
        for buf in bufs {
            let (piece, _) = buf.split_at(left.min(buf.len()));
            flow.bytes.extend(piece);
            left -= piece.len();
        }
        self.note("writes", &flow.bytes.make_contiguous()[begin..]);
        flow.wake_reader();
        Poll::Ready(Ok(n))
    }

    /// Writes once from the front of a queue.
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

    /// The engine of `ring` reads files itself; readiness has them copied, as with TLS.
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
        self.note("ends", b"");
        assert!(!self.is_sending(), "{} ends with bytes under way", self.name);
        let flow = &mut self.wire.borrow_mut().flows[self.end];
        flow.is_finished = true;
        flow.wake_reader();
    }

    fn abort(&self) {
        self.note("aborts", b"");
        self.aborted.set(true);
    }
}

impl Drop for Memory {
    /// Closes as a socket does: with bytes unread, by a reset.
    fn drop(&mut self) {
        self.note("closes", b"");
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
        flow.is_deaf = true;
        flow.wake_writer();
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}
