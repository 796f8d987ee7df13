//! One request to an upstream: the choice of upstreams, its progress, and whether it may be
//! retried. `relay` moves the bytes of its response.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hurtle_http::message::forward::ForwardParams;
use hurtle_http::message::response_head::{Length, ResponseHead};
use hurtle_http::message::upstream_head::UpstreamHead;
use hurtle_http::request::RequestHead;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::grpc_web::WebFormat;

use super::super::body_buffer::OutgoingBody;
use super::framing::is_reusable;
use super::link::{Channel, Link, RawHead, Source};
use super::peer::{Peer, UpstreamError};
use super::phase::Phase;
use super::place::Place;
use super::queue::{Admitted, BusyError};
use super::request_sender::{OutgoingHead, RequestSender, SendError};
use super::retry::Hold;
use super::tunnel_end::TunnelEnd;
use super::wait::Waits;
use super::{Key, Proxy};
use crate::body::RequestBody;
use crate::clock;
use crate::observe::{BufferedBytes, UpstreamLog};
use crate::protocol::h1::encode_request;
use crate::rt::{self, First};
use crate::transport::{Input, Output};

/// Time after which a request's body is sent without 100 Continue (RFC 9110 section 10.1.1),
/// because some servers ignore `Expect`.
const EXPECT_TIME: Duration = Duration::from_secs(1);

/// A request to an upstream.
pub(crate) struct UpstreamRequest {
    pub(super) proxy: Rc<Proxy>,
    pub(super) sender: RequestSender,
    pub(super) link: Option<Link>,
    /// Number of the upstream that has the request, or had it last.
    number: Option<usize>,
    /// Its place there; `None`: none has it, or the request has ended.
    place: Option<Place>,
    pub(super) tried: Vec<usize>,
    pub(super) tries: usize,
    /// The wait for an upstream that accepts connections.
    pub(super) hold: Option<Hold>,
    /// `true`: an upstream may have got the request and has failed.
    pub(super) is_delivered: bool,
    /// Idempotent method (RFC 9110 section 9.2.2).
    pub(super) idempotent: bool,
    phase: Cell<Phase>,
    /// Time at which the upstream was chosen.
    pub(super) chosen: Option<Instant>,
    /// Time from the choice until the connection was there.
    connected: Option<Duration>,
    pub(super) answered: Cell<Duration>,
    /// The client, for the PROXY protocol.
    pub(super) client: Option<IpAddr>,
    /// The protocol to switch to, if the upstream accepts it.
    pub(super) protocol: Option<String>,
    /// The form of a gRPC-Web call that is translated to gRPC.
    pub(super) web: Option<WebFormat>,
    /// `true` if the client was sent 100 (Continue).
    pub(super) has_continued: bool,
    /// The bytes of both bodies that were kept in files.
    pub(super) buffered: Option<Arc<BufferedBytes>>,
}

pub(crate) enum ListenOutcome {
    Head(RawHead),
    /// The upstream sent no 100 (Continue) in time; the client may send its body without it.
    ExpectTimeout,
    /// The client sends its body without waiting for 100 (Continue).
    BodyBegun,
}

impl UpstreamRequest {
    /// Builds the forwarded request; fills in a missing authority.
    pub(crate) fn new(
        proxy: &Rc<Proxy>,
        request: &RequestHead<'_>,
        body: RequestBody,
        onward: ForwardParams<'_>,
    ) -> UpstreamRequest {
        let onward = ForwardParams { authority: proxy.authority(), ..onward };
        let mut head = OutgoingHead::default();
        // A request for another protocol may need a connection of its own.
        if proxy.has_http1 || onward.upgrade.is_some() {
            head.text = Output::new();
            encode_request(head.text.vec(), request, &onward);
        }
        if proxy.has_http2 {
            head.parts = Some(Box::new(UpstreamHead::new(request, &onward)));
        }
        proxy.credit_request();
        let method = request.method.as_bytes();
        let mut sender = RequestSender::new(head, OutgoingBody::live(body), request);
        if let Some(edits) = onward.edits {
            sender.edit(edits);
        }
        UpstreamRequest {
            proxy: Rc::clone(proxy),
            sender,
            link: None,
            number: None,
            place: None,
            tried: Vec::new(),
            tries: 0,
            hold: None,
            is_delivered: false,
            idempotent: onward.upgrade.is_none()
                && matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE"),
            phase: Cell::new(Phase::Connecting),
            chosen: None,
            connected: None,
            answered: Cell::new(Duration::ZERO),
            client: onward.client,
            protocol: None,
            web: None,
            has_continued: false,
            buffered: None,
        }
    }

    /// Takes the body that has not been read; `None`: there is none.
    pub(super) fn unread_body(&mut self) -> Option<RequestBody> {
        self.sender.unread_body()
    }

    /// Sends this body, without waiting for 100 (Continue).
    pub(super) fn put_body(&mut self, body: OutgoingBody) {
        self.sender.put_body(body);
    }

    /// Translates a call of gRPC-Web, whose body may be base64.
    pub(super) fn translate(&mut self, format: WebFormat) {
        if format == WebFormat::Text {
            self.sender.decode();
        }
        self.web = Some(format);
    }

    /// The last operation of the upstream that was awaited.
    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Name of the last upstream, for the log.
    pub(crate) fn upstream_name(&self) -> String {
        self.peer().map_or_else(|| "(any)".to_owned(), ToString::to_string)
    }

    /// Chooses an upstream; `false`: none is left.
    pub(crate) fn choose(&mut self, key: Key, now_ms: u64) -> bool {
        let picked = self.proxy.pick(key, &self.tried, now_ms);
        self.assign(picked.map(|number| (number, None)))
    }

    /// `true` if an upstream has a limit: use `choose_free`.
    pub(crate) fn is_limited(&self) -> bool {
        self.proxy.is_limited
    }

    /// Chooses an upstream that has room; waits for one if there is none. `false`: none is left.
    ///
    /// # Errors
    /// The upstreams are busy.
    pub(crate) async fn choose_free(&mut self, key: Key) -> Result<bool, BusyError> {
        self.vacate();
        let admitted = self.proxy.admit(key, &self.tried).await?;
        Ok(self.assign(admitted))
    }

    fn assign(&mut self, admitted: Option<Admitted>) -> bool {
        self.link = None;
        self.sender.begin();
        (self.number, self.place) = match admitted {
            Some((number, permit)) => {
                (Some(number), Some(Place::new(&self.proxy.peers[number], permit)))
            }
            None => (None, None),
        };
        self.tries += 1;
        self.chosen = Some(Instant::now());
        self.connected = None;
        self.place.is_some()
    }

    /// Gives up the place at an upstream, which is free for others while this request waits.
    pub(super) fn vacate(&mut self) {
        (self.link, self.number, self.place) = (None, None, None);
    }

    pub(super) fn peer(&self) -> Option<&Rc<Peer>> {
        self.proxy.peer(self.number)
    }

    /// Sends a request without a body on an idle connection if the socket accepts it immediately.
    /// `false`: use `connect` and `listen`.
    pub(crate) fn send_at_once(&mut self, now_ms: u64) -> bool {
        if self.sender.has_body() {
            return false;
        }
        let Some(peer) = self.proxy.peer(self.number) else { return false };
        self.link = match peer.is_http2() {
            false => peer.idle(now_ms),
            true if self.sender.switches_protocol() => None,
            true => {
                let connection = peer.multiplexer.now(peer.addresses.generation());
                let open = |connection| self.sender.open(&connection, peer.is_tls());
                connection.and_then(open).map(Link::of_stream)
            }
        };
        let Some(link) = &self.link else { return false };
        self.sender.send_at_once(&link.channel);
        self.phase.set(Phase::Waiting);
        self.sender.is_done()
    }

    /// Time limit of the response's head, in milliseconds.
    pub(crate) fn first_byte_ms(&self) -> u64 {
        ms(self.proxy.config.timeouts.first_byte)
    }

    /// Maximum time between two reads of the response's body, in milliseconds.
    pub(crate) fn read_timeout_ms(&self) -> u64 {
        ms(self.proxy.config.timeouts.read)
    }

    /// Waits for the response's head after `send_at_once`.
    ///
    /// # Errors
    /// There will be no response.
    pub(crate) async fn receive_head(&mut self) -> Result<RawHead, UpstreamError> {
        let Some(Link { channel, input, .. }) = &mut self.link else {
            return Err(UpstreamError::Gone(None));
        };
        channel.head(input).await
    }

    /// Puts a head back, for `listen` to read.
    pub(crate) fn put_back(&mut self, head: RawHead) {
        if let Some(link) = &mut self.link {
            link.head = Some(head);
        }
    }

    /// Connects to the chosen upstream, on an idle connection if possible.
    ///
    /// # Errors
    /// A connection failed; the request was not sent.
    pub(crate) async fn connect(&mut self, waits: &Waits) -> Result<(), UpstreamError> {
        if self.link.is_some() {
            return Ok(());
        }
        self.phase.set(Phase::Connecting);
        let Some(peer) = self.proxy.peer(self.number) else {
            return Err(UpstreamError::Gone(None));
        };
        let within_ms = ms(self.proxy.config.connecting.timeout);
        if peer.is_http2() {
            let _wait = waits.read(within_ms);
            let connection = match peer.multiplexer.now(peer.addresses.generation()) {
                Some(connection) => connection,
                None => {
                    let waited = Box::pin(peer.shared_connection(within_ms)).await?;
                    self.connected = self.chosen.map(|chosen| chosen.elapsed());
                    waited
                }
            };
            if !self.sender.switches_protocol() || connection.allows_connect() {
                let stream = self.sender.open(&connection, peer.is_tls());
                self.link = Some(Link::of_stream(stream.ok_or(UpstreamError::Unprocessed)?));
                return Ok(());
            }
        }
        self.link = peer.idle(clock::now_ms());
        if self.link.is_none() {
            let _wait = waits.read(within_ms);
            let connected = match peer.is_http2() {
                false => Box::pin(peer.connect(self.client, within_ms)).await,
                true => Box::pin(peer.connect_http1(within_ms)).await,
            };
            self.link = Some(connected?);
            self.connected = self.chosen.map(|chosen| chosen.elapsed());
        }
        Ok(())
    }

    /// Sends the rest of the request and waits for a response's head.
    ///
    /// # Errors
    /// There will be no response.
    pub(crate) async fn listen(&mut self, waits: &Waits) -> Result<ListenOutcome, UpstreamError> {
        let Some(Link { channel, input, head, .. }) = &mut self.link else {
            return Err(UpstreamError::Gone(None));
        };
        if let Some(head) = head.take() {
            return Ok(ListenOutcome::Head(head));
        }
        let channel = &*channel;
        let config = &self.proxy.config;
        let stall_ms = ms(config.timeouts.send);
        let mut sent = Ok(());
        if !self.sender.is_done() {
            self.phase.set(Phase::Sending);
            if self.sender.has_body() {
                let head = channel.head(input);
                // Boxed because it is rare: every future is as large as its largest state.
                match Box::pin(rt::race(head, self.sender.run(channel, waits, stall_ms))).await {
                    First::A(head) => return head.map(ListenOutcome::Head),
                    First::B(done) => sent = done,
                }
            } else {
                sent = self.sender.run(channel, waits, stall_ms).await;
            }
        }
        let send_error = match sent {
            Ok(()) => None,
            Err(SendError::Channel(error)) => Some(error),
            Err(SendError::Malformed) => return Err(UpstreamError::BadRequest),
            Err(SendError::Lost(why)) => return Err(UpstreamError::LostBody(why)),
        };
        self.phase.set(Phase::Waiting);
        let _wait = waits.read(ms(config.timeouts.first_byte));
        // An upstream that stopped reading may have sent a response.
        let head = channel.head(input);
        if self.sender.is_held() && send_error.is_none() {
            let held = rt::race(rt::sleep(EXPECT_TIME), self.sender.begin_body(channel));
            return match Box::pin(rt::race(head, held)).await {
                First::A(head) => head.map(ListenOutcome::Head),
                First::B(First::A(())) => Ok(ListenOutcome::ExpectTimeout),
                First::B(First::B(Err(SendError::Malformed))) => Err(UpstreamError::BadRequest),
                First::B(First::B(Err(SendError::Lost(why)))) => Err(UpstreamError::LostBody(why)),
                First::B(First::B(Err(SendError::Channel(e)))) => Err(UpstreamError::NotRead(e)),
                First::B(First::B(Ok(()))) => Ok(ListenOutcome::BodyBegun),
            };
        }
        match (head.await, send_error) {
            (Err(UpstreamError::Gone(_)), Some(e)) => Err(UpstreamError::NotRead(e)),
            (head, _) => head.map(ListenOutcome::Head),
        }
    }

    /// Allows the body to be sent.
    pub(crate) fn release(&mut self) {
        self.sender.release();
    }

    /// `true` if every upstream has failed this request.
    pub(super) fn has_tried_all(&self) -> bool {
        self.tried.len() >= self.proxy.peers.len()
    }

    /// `true` if the request was sent on a connection that had been idle.
    pub(super) fn is_on_idle_connection(&self) -> bool {
        self.link.as_ref().is_some_and(Link::was_idle)
    }

    /// Returns the upstream with its times, for the log.
    pub(crate) fn times(&self) -> UpstreamLog {
        UpstreamLog {
            name: self.upstream_name(),
            chosen: self.chosen,
            connected: self.connected,
            answered: self.answered.get(),
        }
    }

    /// Number of the upstream that has the request, or had it last.
    pub(super) fn number(&self) -> Option<usize> {
        self.number
    }

    /// The connection, while the response is read from it.
    pub(crate) fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// `true` if the whole request is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.sender.is_done()
    }

    /// Runs `work`, which reads the response, while the rest of the request is sent. If the
    /// upstream does not read the rest, its response goes on; if the rest is malformed, reading
    /// fails with `MalformedBody`.
    pub(crate) async fn beside<T>(
        &mut self,
        waits: &Waits,
        work: impl AsyncFnOnce(Source<'_>, &mut Input) -> T,
    ) -> Option<T> {
        self.phase.set(Phase::Reading);
        self.sender.settle();
        let Link { channel, input, .. } = self.link.as_mut()?;
        let channel = &*channel;
        if self.sender.is_done() || self.sender.is_held() {
            return Some(work(Source::new(channel), input).await);
        }
        let stall_ms = ms(self.proxy.config.timeouts.send);
        let sender = &mut self.sender;
        let is_malformed = Cell::new(false);
        let sending = async {
            if let Err(SendError::Malformed) = sender.run(channel, waits, stall_ms).await {
                is_malformed.set(true);
            }
            // The reader decides when the exchange is over.
            std::future::pending::<T>().await
        };
        let source = Source { channel, is_malformed: Some(&is_malformed) };
        // The sender is polled first, so that the reader sees the flag at once.
        match rt::race(sending, work(source, input)).await {
            First::A(done) | First::B(done) => Some(done),
        }
    }

    /// Returns the connection to the idle ones after a response was read to its end.
    pub(crate) fn finish(&mut self) {
        let (Some(link), Some(peer)) = (self.link.take(), self.peer()) else { return };
        // Bytes after the response belong to no request (RFC 9112 section 11.1).
        if self.sender.is_done() && link.input.bytes().is_empty() {
            peer.keep(link);
        }
    }

    /// Ends the request after its response was taken; `keeps`: its connection may be reused.
    pub(super) fn leave(&mut self, keeps: bool) {
        if keeps {
            self.finish();
        }
        (self.link, self.place) = (None, None);
    }

    /// Discards a response's body. The connection is reused if the upstream keeps it, and if the
    /// body has arrived already.
    pub(crate) fn discard(&mut self, reply: &ResponseHead<'_>) {
        let Some(link) = self.link.as_mut().filter(|_| is_reusable(reply)) else { return };
        let buffered = link.input.bytes().len();
        match reply.length {
            Length::Framed(BodyLength::None) => {}
            Length::Framed(BodyLength::Exactly(len)) if len <= buffered as u64 => {
                link.input.consume(len as usize);
            }
            _ => return,
        }
        self.finish();
    }

    /// Ends a request on a stream that has asked for another protocol in vain.
    pub(super) fn end_stream(&self) {
        if let Some(Link { channel: Channel::Stream(stream), .. }) = &self.link {
            // The upstream may have ended it.
            let _ = stream.end(None);
        }
    }

    /// Takes the connection for another protocol, and the bytes of that protocol that have arrived.
    pub(super) fn into_tunnel(mut self) -> Option<(TunnelEnd, Input)> {
        let Link { channel, input, .. } = self.link.take()?;
        Some((TunnelEnd::new(channel, self.place.take()), input))
    }
}

impl fmt::Debug for UpstreamRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamRequest").field("phase", &self.phase).finish_non_exhaustive()
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
