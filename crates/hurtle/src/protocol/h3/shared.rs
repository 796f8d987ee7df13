//! The state that requests share with the task of their connection.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use hurtle_http::h3::{self, Code};

use super::super::multiplexed::Security;
use super::super::waiters::Waiters;
use super::outbox::Outbox;
use super::stream_id;
use crate::clock::{self, NEVER};
use crate::transport::quic::{Connection, Negotiated, ReadError};

/// Most bytes of one read of a QUIC stream.
const READ_BYTES_MAX: usize = 64 << 10;

/// The shared state of one connection.
pub(crate) struct Shared {
    pub(super) connection: Rc<Connection>,
    pub(super) codec: RefCell<h3::Connection>,
    pub(super) security: Security,
    /// Requests that wait for an event.
    pub(super) waiting: Waiters<u64>,
    /// Bytes that wait for flow control, by stream.
    outboxes: RefCell<HashMap<u64, Outbox>>,
    /// Streams that flow control admits bytes of again.
    writable: RefCell<Vec<u64>>,
    /// Responses that the client has not acknowledged to their end, by stream.
    unacknowledged: RefCell<HashSet<u64>>,
    /// Bytes of streams that the client has sent.
    received: Cell<u64>,
    /// Bytes that QUIC has taken.
    written: Cell<u64>,
    /// Requests in progress.
    streams: Cell<usize>,
    /// Time at which the last response ended, in milliseconds.
    ended_ms: Cell<u64>,
    /// Time of the last progress of bytes to the client, in milliseconds.
    moved_ms: Cell<u64>,
}

impl Shared {
    pub(super) fn new(
        connection: Rc<Connection>,
        codec: h3::Connection,
        negotiated: Negotiated,
    ) -> Shared {
        Shared {
            connection,
            codec: RefCell::new(codec),
            security: Security {
                is_secure: true,
                policy: negotiated.policy,
                server_name: negotiated.server_name,
                cipher: negotiated.cipher,
                client: negotiated.client,
            },
            waiting: Waiters::default(),
            outboxes: RefCell::default(),
            writable: RefCell::default(),
            unacknowledged: RefCell::default(),
            received: Cell::new(0),
            written: Cell::new(0),
            streams: Cell::new(0),
            ended_ms: Cell::new(clock::now_ms()),
            moved_ms: Cell::new(clock::now_ms()),
        }
    }

    /// Returns the bytes of streams that the client has sent.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.get()
    }

    /// Returns the number of requests in progress.
    pub(crate) fn streams(&self) -> usize {
        self.streams.get()
    }

    /// Returns the time at which the last response ended or the connection began.
    pub(crate) fn ended_ms(&self) -> u64 {
        self.ended_ms.get()
    }

    /// Returns the time since which the client owes acknowledgements of responses that are over, or
    /// room for their last bytes; `NEVER`: it owes none.
    pub(crate) fn owing_ms(&self) -> u64 {
        let owes_room = self.streams.get() == 0 && !self.outboxes.borrow().is_empty();
        let is_even = self.unacknowledged.borrow().is_empty() && !owes_room;
        if is_even { NEVER } else { self.moved_ms.get() }
    }

    /// Returns the time at which the client opened the first request that has no complete head.
    pub(crate) fn begun_ms(&self) -> Option<u64> {
        self.codec.borrow().begun().map(|(_, begun_ms)| begun_ms)
    }

    /// Ends the first request that has no complete head.
    pub(crate) fn give_up_begun(&self) {
        let begun = self.codec.borrow().begun();
        let Some((id, _)) = begun else { return };
        self.codec.borrow_mut().close(id);
        self.connection.stop(stream_id(id), Code::REQUEST_INCOMPLETE.0);
        self.connection.reset(stream_id(id), Code::REQUEST_INCOMPLETE.0);
    }

    /// Returns whether the client has sent its settings.
    pub(crate) fn is_established(&self) -> bool {
        self.codec.borrow().is_established()
    }

    /// Returns whether too many frames failed the connection.
    pub(crate) fn is_flooded(&self) -> bool {
        self.codec.borrow().failure().is_some_and(|error| error.code == Code::EXCESSIVE_LOAD)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns whether all responses are sent and acknowledged after the final GOAWAY.
    pub(super) fn is_finished(&self) -> bool {
        let is_over = self.streams.get() == 0 && self.unacknowledged.borrow().is_empty();
        is_over && self.outboxes.borrow().is_empty() && self.codec.borrow().is_finished()
    }

    pub(super) fn stream_begins(&self) {
        self.streams.set(self.streams.get() + 1);
    }

    pub(super) fn stream_ends(&self) {
        self.streams.set(self.streams.get() - 1);
        self.ended_ms.set(clock::now_ms());
    }

    /// Passes received bytes of a stream to the codec, as far as it wants them.
    pub(super) fn receive(&self, id: u64) {
        let mut codec = self.codec.borrow_mut();
        let now_ms = clock::now_ms();
        while codec.wants(id) {
            match self.connection.read(stream_id(id), READ_BYTES_MAX) {
                Ok(Some(bytes)) => {
                    self.received.set(self.received.get() + bytes.len() as u64);
                    codec.receive(id, bytes, false, now_ms);
                }
                Ok(None) => return codec.receive(id, Bytes::new(), true, now_ms),
                Err(ReadError::Blocked | ReadError::Gone) => return,
                Err(ReadError::Reset(_)) => return codec.reset(id, now_ms),
            }
        }
    }

    /// Sends bytes of a response. Flow control may hold back some, which leave later.
    pub(super) fn write(&self, id: u64, pieces: &mut [Bytes], is_last: bool) -> io::Result<()> {
        if let Some(outbox) = self.outboxes.borrow_mut().get_mut(&id) {
            outbox.add(pieces, is_last);
            return Ok(());
        }
        if self.send(id, pieces)? {
            self.wrote_all(id, is_last);
        } else {
            let outbox = Outbox::new(pieces, is_last, self.written.get());
            self.outboxes.borrow_mut().insert(id, outbox);
        }
        Ok(())
    }

    /// Sends pieces, which keep the rest; returns whether QUIC has taken all.
    fn send(&self, id: u64, pieces: &mut [Bytes]) -> io::Result<bool> {
        let first = pieces.iter().position(|piece| !piece.is_empty());
        let Some(first) = first else { return Ok(true) };
        let written = self.connection.write(stream_id(id), &mut pieces[first..]);
        let written = written.map_err(|_| io::Error::from(io::ErrorKind::ConnectionReset))?;
        if written > 0 {
            self.written.set(self.written.get() + written as u64);
            self.moved_ms.set(clock::now_ms());
        }
        Ok(pieces.iter().all(Bytes::is_empty))
    }

    fn wrote_all(&self, id: u64, is_last: bool) {
        // Nobody acknowledges a response that was cancelled before.
        if is_last && self.connection.finish(stream_id(id)).is_ok() {
            self.unacknowledged.borrow_mut().insert(id);
            self.moved_ms.set(clock::now_ms());
        }
    }

    /// Returns whether bytes of a response wait for flow control.
    pub(super) fn is_held(&self, id: u64) -> bool {
        self.outboxes.borrow().contains_key(&id)
    }

    /// Returns a number that grows when QUIC takes bytes of a response, or of others while it waits
    /// only for them: until the connection has room, or behind held ones that go first, so that
    /// the client has not got this one's bytes yet.
    pub(super) fn admitted(&self, id: u64) -> u64 {
        let (outboxes, codec) = (self.outboxes.borrow(), self.codec.borrow());
        let rank = |id: u64| h3::send_rank(codec.priority(id), id);
        match outboxes.get(&id) {
            Some(outbox) if outboxes.keys().all(|other| rank(*other) <= rank(id)) => {
                outbox.admitted
            }
            _ => self.written.get(),
        }
    }

    /// Notes that flow control admits more bytes of a stream.
    pub(super) fn note_writable(&self, id: u64) {
        self.writable.borrow_mut().push(id);
    }

    /// Sends held bytes and wakes requests, the most urgent first. Returns whether there were any.
    pub(super) fn wake_writers(&self) -> bool {
        let mut writable = self.writable.take();
        if writable.is_empty() {
            return false;
        }
        let codec = self.codec.borrow();
        writable.sort_by_cached_key(|id| -i64::from(h3::send_rank(codec.priority(*id), *id)));
        drop(codec);
        for id in writable {
            let held = self.outboxes.borrow_mut().remove(&id);
            if let Some(mut outbox) = held {
                match self.send(id, &mut outbox.pieces) {
                    // The client wants no more, which another event tells.
                    Err(_) => {}
                    Ok(true) => self.wrote_all(id, outbox.is_last),
                    Ok(false) => {
                        outbox.pieces.retain(|piece| !piece.is_empty());
                        outbox.admitted = self.written.get();
                        self.outboxes.borrow_mut().insert(id, outbox);
                        continue;
                    }
                }
            }
            self.waiting.wake(id);
        }
        true
    }

    /// Notes that the client has acknowledged a whole response.
    pub(super) fn acknowledged(&self, id: u64) {
        self.unacknowledged.borrow_mut().remove(&id);
        self.moved_ms.set(clock::now_ms());
    }

    /// Ends sending on a stream with this code, unless it was complete.
    pub(super) fn abandon(&self, id: u64, code: Code) {
        self.outboxes.borrow_mut().remove(&id);
        self.unacknowledged.borrow_mut().remove(&id);
        self.connection.reset(stream_id(id), code.0);
    }
}
