//! Forwards the bytes of another protocol between a client and an upstream or application.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll};

use http::StatusCode;
use hurtle_http::message::response::{Delimiter, Persistence};
use hurtle_http::request::RequestHead;

use super::connection::{Connection, Next};
use super::exchange::Exchange;
use super::finish::{append_cookie, finish};
use super::observe::{note_upstream, observe, observe_unanswered};
use super::pace::SILENCE_MS_MAX;
use super::send::{next_after, send};
use crate::answer::Answer;
use crate::body::Body;
use crate::clock;
use crate::edits::edit_fields;
use crate::handler::Tunnel;
use crate::handler::client::ExchangeError;
use crate::handler::{TunnelEnd, UpstreamTunnel};
use crate::limits::concurrency::Place;
use crate::metrics::Counter;
use crate::protocol::Protocol;
use crate::protocol::reading::Reading;
use crate::rt::{self, First};
use crate::site::Resolved;
use crate::transport::meter::Hold;
use crate::transport::{Attempt, Fill, Input, Output, Pipe, SendQueue, Transport};

/// Time without a byte of a client whose remote end has left, in milliseconds.
const LAST_SILENCE_MS_MAX: u64 = 5_000;

/// Bytes that one direction forwards before other tasks run.
const TURN_BYTES: usize = 256 << 10;

/// A tunnel whose 101 (over HTTP/2 and HTTP/3: 200) is sent. It keeps nothing of the configuration,
/// so that it can outlive many.
#[derive(Debug)]
pub(super) struct OpenTunnel {
    remote: Remote,
    /// Bytes of the remote end that have arrived.
    received: Input,
    /// Bytes of the head that were sent to the client.
    head_bytes: u64,
    /// Held until the tunnel ends.
    pub(super) place: Option<Rc<Place>>,
}

/// The end of a tunnel that is not the client.
enum Remote {
    Upstream(Box<TunnelEnd>),
    App(Pipe),
}

/// Sends the head and returns the tunnel, for which `run_tunnel` forwards bytes.
///
/// # Errors
/// The next step of the connection: the application or the client is gone.
pub(super) async fn open_tunnel<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    tunnel: Tunnel,
) -> Result<Box<OpenTunnel>, Next> {
    let mut own_cookie = None;
    let (remote, received, mut head, persistence) = match tunnel {
        Tunnel::Upstream(tunnel) => {
            let UpstreamTunnel { head, cookie, received, end, upstream } = *tunnel;
            note_upstream(connection, exchange, || upstream);
            own_cookie = cookie;
            // Its lines have the option of the connection.
            (Remote::Upstream(Box::new(end)), received, head, Persistence::Implied)
        }
        Tunnel::App(accepted) => {
            let (answer, offer) = *accepted;
            let Ok(pipe) = offer.take().await else {
                let failed = Err(ExchangeError::ResponseBody);
                observe_unanswered(connection, exchange, request, failed);
                return Err(Next::Drop);
            };
            (Remote::App(pipe), Input::default(), answer, Persistence::Upgrade)
        }
    };
    finish(&mut head, request, Some(resolved), connection.io.is_secure());
    edit_fields(&mut head.fields, |fields| append_cookie(fields, own_cookie));
    let Answer { status, fields, .. } = &head;
    let (delimiter, now_ms) = (Delimiter::Given, clock::now_ms());
    let mut out = connection.encode_head(*status, fields, delimiter, persistence, now_ms);
    let head_bytes = out.len() as u64;
    // A tunnel is no slow request.
    exchange.in_flight.set(None);
    let sent = match connection.io.raw() {
        Some(_) => send(connection, exchange, out, &Body::Empty).await,
        // The stream stays open for the tunnel's bytes.
        None => {
            exchange.sent.moved.set(head_bytes);
            connection.io.begin(&mut out).map_err(|_| ExchangeError::Gone)
        }
    };
    if let Err(error) = sent {
        let status = tunnel_status(connection);
        observe(connection, exchange, Some(request), status, head_bytes, sent);
        return Err(next_after(error));
    }
    Ok(Box::new(OpenTunnel { remote, received, head_bytes, place: None }))
}

/// Forwards bytes until both sides have ended or one of them fails.
pub(super) async fn run_tunnel<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    request: &RequestHead<'_>,
    tunnel: OpenTunnel,
) -> Next {
    let OpenTunnel { remote, received, head_bytes, place: _place } = tunnel;
    // HTTP has ended, so an error can only be logged.
    let (completed, next) = match remote {
        Remote::Upstream(remote) => forward_both(connection, exchange, *remote, received).await,
        Remote::App(remote) => {
            forward_both(connection, exchange, RemoteEnd(&remote), received).await
        }
    };
    let status = tunnel_status(connection);
    observe(connection, exchange, Some(request), status, head_bytes, completed);
    next
}

/// Returns the status of the head that opens a tunnel.
fn tunnel_status<T: Protocol>(connection: &Connection<T>) -> StatusCode {
    match connection.io.raw() {
        Some(_) => StatusCode::SWITCHING_PROTOCOLS,
        None => StatusCode::OK,
    }
}

/// Forwards bytes in both directions while they move. Returns how the tunnel has ended, for the
/// log, and the next step of the connection.
async fn forward_both<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    remote: impl End,
    mut received: Input,
) -> (Result<(), ExchangeError>, Next) {
    let Connection { io, input, watch, worker, slot, metrics, .. } = connection;
    let (to_remote, to_client) = (Cell::new(0), &exchange.sent.moved);
    let (client, hold) = (ClientEnd::of(&*io, &metrics.received), Hold::new(0, &exchange.sent));
    let (has_left, was_reset) = (Cell::new(false), Cell::new(false));
    let sending = async {
        match carry(&client, input, &remote, &to_remote, None).await {
            // It reads no more, but its last bytes may be on their way. A reset before its end is
            // reported once, here or to `receiving`.
            Err(CarryError::NotTaken(why)) => {
                was_reset.set(why == ErrorKind::ConnectionReset && !has_left.get());
                Ok(())
            }
            ended => ended.map_err(|_| ExchangeError::Gone),
        }
    };
    let receiving = async {
        let ended = carry(&remote, &mut received, &client, to_client, hold.as_deref()).await;
        has_left.set(true);
        ended.map_err(|error| match error {
            CarryError::NotGiven => ExchangeError::ResponseBody,
            CarryError::NotTaken(_) => ExchangeError::Gone,
        })
    };
    let both = rt::try_both(sending, receiving);
    // Nothing else would notice the reset of a client that has ended its direction, or whose bytes
    // the remote end does not take.
    let both = rt::race(both, io.reset());
    let (mut last_moved, mut by_ms) = (None, 0);
    let due = || {
        slot.update(worker);
        let moved = Some((to_remote.get(), to_client.get(), has_left.get()));
        if moved != last_moved {
            let silence_ms = if has_left.get() { LAST_SILENCE_MS_MAX } else { SILENCE_MS_MAX };
            (last_moved, by_ms) = (moved, clock::now_ms() + silence_ms);
        }
        by_ms
    };
    let ended = watch.wait_until(both, due).await.map(|first| match first {
        First::A(ended) => ended,
        First::B(()) => Err(ExchangeError::Gone),
    });
    exchange.request_bytes.set(to_remote.get());
    match ended {
        Ok(Err(error)) => (Err(error), Next::Abort),
        Err(_) if !has_left.get() => (Err(ExchangeError::Stalled), Next::Abort),
        // The client may still be sending to a remote end that has left. A silent client is awaited
        // no longer, as behind any response.
        Ok(Ok(())) | Err(_) if was_reset.get() => (Err(ExchangeError::ResponseBody), Next::Linger),
        Ok(Ok(())) | Err(_) => (Ok(()), Next::Linger),
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

/// One end of a tunnel.
trait End {
    /// As `Transport::poll_fill`.
    fn poll_fill(&self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>>;

    /// As `Transport::poll_send`.
    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<usize>>;

    /// As `Transport::poll_flush`.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the sending side; receiving goes on.
    fn finish(&self);
}

impl End for TunnelEnd {
    fn poll_fill(&self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>> {
        self.poll_fill(cx, input)
    }

    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<usize>> {
        self.poll_send(cx, queue)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    fn finish(&self) {
        self.finish();
    }
}

/// The connection to an application or a client.
struct RemoteEnd<'a, R>(&'a R);

impl<R: Transport> End for RemoteEnd<'_, R> {
    fn poll_fill(&self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>> {
        self.0.poll_fill(cx, input, Fill::Body)
    }

    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, queue, Attempt::Ready)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx, Attempt::Ready)
    }

    fn finish(&self) {
        self.0.finish();
    }
}

enum ClientEnd<'a, T: Protocol> {
    /// The whole connection, and the count of its received bytes.
    Connection(RemoteEnd<'a, T::Raw>, &'a Counter),
    /// A stream, whose body in each direction is the tunnel's bytes.
    Stream(&'a T, RefCell<Reading>),
}

impl<'a, T: Protocol> ClientEnd<'a, T> {
    fn of(io: &'a T, received: &'a Counter) -> ClientEnd<'a, T> {
        match io.raw() {
            Some(raw) => ClientEnd::Connection(RemoteEnd(raw), received),
            None => ClientEnd::Stream(io, RefCell::new(Reading::Frames)),
        }
    }
}

impl<T: Protocol> End for ClientEnd<'_, T> {
    fn poll_fill(&self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>> {
        match self {
            ClientEnd::Connection(raw, received) => {
                let filled = raw.poll_fill(cx, input);
                filled.map_ok(|bytes| {
                    received.add(bytes as u64);
                    bytes
                })
            }
            ClientEnd::Stream(io, reading) => {
                let mut reading = reading.borrow_mut();
                match *reading {
                    Reading::Frames => io.poll_fill(cx, input, &mut reading),
                    _ => Poll::Ready(Ok(0)),
                }
            }
        }
    }

    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<usize>> {
        match self {
            ClientEnd::Connection(raw, _) => raw.poll_send(cx, queue),
            ClientEnd::Stream(io, _) => io.poll_send(cx, queue, Attempt::Ready),
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            ClientEnd::Connection(raw, _) => raw.poll_flush(cx),
            ClientEnd::Stream(io, _) => io.poll_flush(cx, Attempt::Ready),
        }
    }

    fn finish(&self) {
        match self {
            ClientEnd::Connection(raw, _) => raw.finish(),
            // The client may be gone.
            ClientEnd::Stream(io, _) => drop(io.end(&mut Output::new(), Delimiter::Given, None)),
        }
    }
}

/// Why one direction of a tunnel has failed.
enum CarryError {
    /// The sender failed before its end.
    NotGiven,
    /// The receiver takes no more.
    NotTaken(ErrorKind),
}

/// Copies bytes one way until the sender's end, then closes that direction of the receiver. `hold`:
/// the rate limit of the receiver.
async fn carry(
    from: &impl End,
    input: &mut Input,
    to: &impl End,
    moved: &Cell<u64>,
    hold: Option<&Hold<'_>>,
) -> Result<(), CarryError> {
    let (mut queue, mut turn_bytes) = (SendQueue::default(), 0);
    loop {
        let mut len = input.bytes().len();
        if let Some(hold) = hold.filter(|_| len > 0) {
            let allowed = hold.pass(len as u64).await.max(1);
            len = usize::try_from(allowed).map_or(len, |allowed| allowed.min(len));
        }
        queue.push(input.take(len));
        while !queue.is_empty() {
            let sent = poll_fn(|cx| to.poll_send(cx, &mut queue)).await;
            let n = match sent {
                Ok(0) => return Err(CarryError::NotTaken(ErrorKind::WriteZero)),
                sent => sent.map_err(|error| CarryError::NotTaken(error.kind()))?,
            };
            moved.set(moved.get() + n as u64);
            turn_bytes += n;
        }
        let flushed = poll_fn(|cx| to.poll_flush(cx)).await;
        flushed.map_err(|error| CarryError::NotTaken(error.kind()))?;
        if turn_bytes >= TURN_BYTES {
            turn_bytes = 0;
            rt::give_way().await;
        }
        if input.bytes().is_empty() {
            let filled = poll_fn(|cx| from.poll_fill(cx, input)).await;
            if filled.map_err(|_| CarryError::NotGiven)? == 0 {
                to.finish();
                return Ok(());
            }
        }
    }
}
