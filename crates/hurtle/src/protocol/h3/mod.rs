//! HTTP/3 on a QUIC connection (RFC 9114): moves bytes between the streams and the codec in
//! `hurtle_http::h3`, and wakes requests on events. `serve` enforces deadlines.

mod frames;
mod outbox;
mod shared;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hurtle_http::h3::{self, Code, Event, Limits, Outlet};

use super::multiplexed::{self, Arrived, is_head_or_unknown};
use crate::clock;
use crate::transport::quic::{self, Connection, Dir, Negotiated, StreamEvent, StreamId};

use self::frames::Frames;
pub(crate) use self::shared::Shared;

/// A request and its response.
pub(crate) type Stream = multiplexed::Stream<Frames>;

/// Events of QUIC that one connection handles before other connections run.
const EVENTS_MAX: usize = 256;

/// The state of a connection that its streams share.
pub(crate) struct Session {
    shared: Rc<Shared>,
    control: OutletStream,
    decoder: OutletStream,
}

/// A unidirectional stream of the server.
struct OutletStream {
    outlet: Outlet,
    /// `None`: not opened yet.
    id: Option<StreamId>,
    /// Bytes that flow control has not admitted.
    unsent: Vec<Bytes>,
}

impl Session {
    /// Begins after the handshake. `head_bytes` limits a request's fields.
    pub(crate) fn new(
        connection: Rc<Connection>,
        negotiated: Negotiated,
        head_bytes: usize,
    ) -> Session {
        let limits = Limits {
            header_list_bytes_max: head_bytes,
            connect_protocol: true,
            ..Limits::default()
        };
        let codec = h3::Connection::new(&limits, clock::now_ms());
        let shared = Rc::new(Shared::new(connection, codec, negotiated));
        let [control, decoder] = [Outlet::Control, Outlet::Decoder].map(|outlet| OutletStream {
            outlet,
            id: None,
            unsent: Vec::new(),
        });
        Session { shared, control, decoder }
    }

    /// Returns the state that deadlines depend on.
    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    /// Sends the final GOAWAY. The connection ends when its requests are answered.
    pub(crate) fn leave_finally(&self) {
        self.shared.codec.borrow_mut().finish_shutdown();
        self.shared.connection.wake();
    }

    /// Closes the connection with this code.
    pub(crate) fn close(&self, code: Code, reason: &'static str) {
        self.shared.connection.close(code.0, reason);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Arrived, Stream)>> {
        for _ in 0..EVENTS_MAX {
            if let Some(arrived) = self.next_request() {
                return Poll::Ready(Some(arrived));
            }
            self.control.send(&self.shared);
            self.decoder.send(&self.shared);
            if self.shared.is_finished() {
                self.close(Code::NO_ERROR, "");
                return Poll::Ready(None);
            }
            match self.shared.connection.poll_event(cx) {
                Poll::Ready(Some(quic::Event::Stream(event))) => self.handle(&event),
                Poll::Ready(Some(quic::Event::ConnectionLost { .. }) | None) => {
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(_)) => {}
                Poll::Pending if self.shared.wake_writers() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Handles events of the codec until a request arrives.
    fn next_request(&mut self) -> Option<(Arrived, Stream)> {
        let shared = &self.shared;
        loop {
            let resumed = shared.codec.borrow_mut().take_resumed();
            // Nothing behind their sections was read, such as the end of a request.
            resumed.into_iter().for_each(|id| shared.receive(id));
            let event = shared.codec.borrow_mut().next_event()?;
            match event {
                Event::Request { id, head, end_stream } => {
                    let is_head = head.method() == b"HEAD";
                    let stream = Stream::new(Frames::new(shared, id), is_head);
                    return Some((Arrived::Head(head, end_stream), stream));
                }
                Event::HeadTooLarge { id, head } => {
                    let is_head = is_head_or_unknown(&head);
                    let stream = Stream::new(Frames::new(shared, id), is_head);
                    return Some((Arrived::TooLarge(head), stream));
                }
                Event::Readable(id) => shared.waiting.wake(id),
                Event::Priority(id, priority) => {
                    let rank = h3::send_rank(priority, id);
                    shared.connection.set_priority(stream_id(id), rank);
                }
                Event::Reset(id, code) => {
                    shared.abandon(id, code);
                    shared.connection.stop(stream_id(id), code.0);
                    shared.waiting.wake(id);
                }
                Event::Stop(id, code) => shared.connection.stop(stream_id(id), code.0),
                Event::GoAway => {}
                Event::Closed(error) => {
                    shared.connection.close(error.code.0, error.reason);
                    shared.waiting.wake_all();
                }
            }
        }
    }

    fn handle(&mut self, event: &StreamEvent) {
        let shared = &self.shared;
        let now_ms = clock::now_ms();
        match *event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = shared.connection.accept(dir) {
                    shared.codec.borrow_mut().open(number(id), now_ms);
                    shared.receive(number(id));
                }
            }
            StreamEvent::Readable { id } => shared.receive(number(id)),
            StreamEvent::Writable { id } => shared.note_writable(number(id)),
            StreamEvent::Finished { id } => shared.acknowledged(number(id)),
            StreamEvent::Stopped { id, .. } => {
                shared.codec.borrow_mut().stopped(number(id), now_ms);
                shared.abandon(number(id), Code::REQUEST_CANCELLED);
            }
            // Sent again with the next turn.
            StreamEvent::Available { dir: Dir::Uni | Dir::Bi } => {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close(Code::NO_ERROR, "");
        // Exchanges that wait find out by the codec that there is no connection any more.
        self.shared.codec.borrow_mut().fail(h3::Error {
            code: Code::NO_ERROR,
            scope: h3::Scope::Connection,
            reason: "the connection has ended",
        });
        self.shared.waiting.wake_all();
        Rc::clone(&self.shared.connection).linger();
    }
}

impl multiplexed::Session for Session {
    type Frames = Frames;

    async fn next(&mut self) -> Option<(Arrived, Stream)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn aside(&self, task: impl FnOnce()) {
        self.shared.connection.aside(task);
    }

    /// Sends the first GOAWAY; `leave_finally` follows.
    fn leave(&mut self) {
        self.shared.codec.borrow_mut().graceful_shutdown();
        self.shared.connection.wake();
    }
}

impl OutletStream {
    /// Sends the codec's bytes as far as flow control admits them. The codec has those that are not
    /// sent, because it limits them.
    fn send(&mut self, shared: &Shared) {
        let connection = &shared.connection;
        loop {
            if self.unsent.is_empty() {
                self.unsent.extend(shared.codec.borrow_mut().take_output(self.outlet));
            }
            if self.unsent.is_empty() {
                return;
            }
            self.id = self.id.or_else(|| {
                let id = connection.open_unidirectional()?;
                // Before all responses.
                connection.set_priority(id, i32::MAX);
                Some(id)
            });
            let Some(id) = self.id else { return };
            // The client must not stop the stream, which is noticed elsewhere.
            let _ = connection.write(id, &mut self.unsent);
            self.unsent.retain(|piece| !piece.is_empty());
            if !self.unsent.is_empty() {
                return;
            }
        }
    }
}

/// Returns the number of a stream.
fn number(id: StreamId) -> u64 {
    quic::VarInt::from(id).into_inner()
}

/// Returns the stream of a number that was a stream's.
fn stream_id(number: u64) -> StreamId {
    StreamId::from(quic::VarInt::from_u64(number).unwrap_or(quic::VarInt::MAX))
}
