//! HTTP/2 on a byte stream (RFC 9113): moves bytes between the channel and the codec in
//! `hurtle_http::h2`, and wakes streams on events. `serve` enforces deadlines. `client` is the side
//! of a proxy towards its upstreams.

mod client;
mod frames;
mod pulse;
mod shared;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hurtle_http::h2::{Connection, Event, Limits, Reason};

use super::is_of_connection;
use super::multiplexed::{self, Arrived, is_head_or_unknown};
use crate::clock;
use crate::transport::{Fill, Input, SendQueue, Transport};

pub(crate) use self::client::{RequestStream, ResponseFields, StreamError};
use self::frames::Frames;
pub(crate) use self::shared::Shared;

/// A request and its response.
pub(crate) type Stream = multiplexed::Stream<Frames>;

/// Maximum number of pieces in one write.
const PIECES_MAX: usize = 16;

/// Work of one connection before other connections run: a request is one, a read as much as eight.
const WORK_MAX: usize = 128;
const READ_WORK: usize = 8;

/// The state of a connection that its streams share.
pub(crate) struct Session<T: Transport> {
    io: T,
    shared: Rc<Shared>,
    /// Bytes that the codec has not received: at first those that were read before.
    input: Input,
    /// Frames that the codec has given out.
    queue: SendQueue,
    /// The work since other connections ran, up to `WORK_MAX`.
    done: usize,
}

impl<T: Transport> Session<T> {
    /// Begins a connection. `early` holds the bytes that were already read; `head_bytes` limits a
    /// request's fields.
    pub(crate) fn new(io: T, early: Input, head_bytes: usize) -> Session<T> {
        let limits = Limits {
            header_list_bytes_max: head_bytes,
            connect_protocol: true,
            ..Limits::default()
        };
        Session::of(io, early, |now_ms| Connection::new(&limits, now_ms))
    }

    fn of(io: T, early: Input, codec: impl FnOnce(u64) -> Connection) -> Session<T> {
        let shared = Rc::new(Shared::new(codec(clock::now_ms()), &io));
        Session { io, shared, input: early, queue: SendQueue::default(), done: 0 }
    }

    /// Returns the state that deadlines depend on.
    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    /// Closes the connection with ENHANCE_YOUR_CALM.
    pub(crate) fn give_up(&self) {
        self.shared.codec.borrow_mut().abrupt(Reason::ENHANCE_YOUR_CALM);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Arrived, Stream)>> {
        self.shared.set_driver(cx);
        while self.may_go_on(cx) {
            if let Some(arrived) = self.next_request(cx) {
                self.done += 1;
                return Poll::Ready(Some(arrived));
            }
            let moved = match self.poll_out(cx) {
                Poll::Ready(Ok(_)) if self.shared.codec.borrow().is_finished() => {
                    return self.poll_end(cx).map(|()| None);
                }
                Poll::Ready(Ok(moved)) => moved,
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => false,
            };
            match self.poll_in(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(_)) => {}
                // The write may have opened room for a waiting stream.
                Poll::Pending if moved => {}
                Poll::Pending => {
                    self.done = 0;
                    return Poll::Pending;
                }
            }
            self.done += READ_WORK;
        }
        Poll::Pending
    }

    /// Returns whether the connection may go on before others run. Otherwise it is woken after
    /// these. A peer whose bytes never end would never let it wait.
    fn may_go_on(&mut self, cx: &Context<'_>) -> bool {
        if self.done < WORK_MAX {
            return true;
        }
        self.done = 0;
        cx.waker().wake_by_ref();
        false
    }

    /// Wakes streams on their events until a request arrives.
    fn next_request(&mut self, cx: &Context<'_>) -> Option<(Arrived, Stream)> {
        let mut has_woken_writer = false;
        loop {
            let event = self.shared.codec.borrow_mut().next_event();
            match event {
                Some(Event::Request { id, head, end_stream }) => {
                    let is_head = head.method() == b"HEAD";
                    let stream = Stream::new(Frames::new(&self.shared, id), is_head);
                    return Some((Arrived::Head(head, end_stream), stream));
                }
                Some(Event::HeadTooLarge { id, head }) => {
                    let is_head = is_head_or_unknown(&head);
                    let stream = Stream::new(Frames::new(&self.shared, id), is_head);
                    return Some((Arrived::TooLarge(head), stream));
                }
                Some(Event::Readable(id) | Event::Reset(id, _)) => self.shared.waiting.wake(id),
                Some(Event::Writable(id)) => {
                    has_woken_writer = true;
                    self.shared.waiting.wake(id);
                }
                Some(Event::GoAway(_)) => {}
                Some(Event::Closed(_)) => self.shared.waiting.wake_all(),
                None => break,
            }
        }
        if has_woken_writer {
            // Polls again, in case the woken stream does not use the room.
            cx.waker().wake_by_ref();
        }
        None
    }

    /// Sends queued frames, then waits until the kernel has them. Returns whether any byte moved.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Session { io, shared, queue, .. } = self;
        let pulse = &shared.pulse;
        let mut moved = false;
        loop {
            let mut codec = shared.codec.borrow_mut();
            for _ in queue.pieces()..PIECES_MAX {
                match codec.take_output() {
                    Some(piece) => queue.push(piece),
                    None => break,
                }
            }
            if queue.is_empty() {
                break;
            }
            let sent = io.poll_send(cx, queue, pulse.attempt());
            pulse.wrote(&sent, io.flushed_bytes());
            match ready!(sent)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => codec.consume(n),
            }
            moved = true;
        }
        let flushed = io.poll_flush(cx, pulse.attempt());
        match &flushed {
            Poll::Pending => pulse.wrote(&Poll::Pending, io.flushed_bytes()),
            // Bytes that TLS had kept are sent: nothing is blocked.
            Poll::Ready(Ok(())) => pulse.wrote(&Poll::Ready(Ok(0)), io.flushed_bytes()),
            Poll::Ready(Err(_)) => {}
        }
        flushed.map_ok(|()| moved)
    }

    /// Reads once; 0 is the end of the peer's data.
    fn poll_in(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (now_ms, mut received) = (clock::now_ms(), 0);
        if self.input.bytes().is_empty() {
            // Checked first, so that no buffer is lent while nothing can be read.
            if !self.io.is_readable() {
                ready!(self.io.poll_readable(cx))?;
            }
            received = ready!(self.io.poll_fill(cx, &mut self.input, Fill::Body))?;
        }
        let n = self.input.bytes().len();
        self.shared.pulse.heard(received, now_ms);
        self.shared.codec.borrow_mut().receive(self.input.bytes(), now_ms);
        self.input.consume(n);
        Poll::Ready(Ok(n))
    }

    /// Closes the sending side, then reads until the peer closes. Closing with unread bytes would
    /// reset the connection and lose the last response.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.shared.pulse.finish() {
            self.io.finish();
        }
        while self.may_go_on(cx) {
            match ready!(self.io.poll_fill(cx, &mut self.input, Fill::Body)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(n) => {
                    self.shared.pulse.heard(n, clock::now_ms());
                    self.input.consume(n);
                    self.done += READ_WORK;
                }
            }
        }
        Poll::Pending
    }
}

impl<T: Transport> multiplexed::Session for Session<T> {
    type Frames = Frames;

    async fn next(&mut self) -> Option<(Arrived, Stream)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn aside(&self, task: impl FnOnce()) {
        self.shared.is_busy.set(true);
        task();
        self.shared.is_busy.set(false);
    }

    /// The connection ends when the requests in progress are answered.
    fn leave(&mut self) {
        self.shared.codec.borrow_mut().graceful_shutdown();
    }
}

impl<T: Transport> Drop for Session<T> {
    fn drop(&mut self) {
        self.shared.codec.borrow_mut().abrupt(Reason::NO_ERROR);
        self.shared.waiting.wake_all();
        if self.shared.pulse.abort.get() {
            self.io.abort();
        }
    }
}
