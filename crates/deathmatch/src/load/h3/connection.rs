//! One HTTP/3 connection of the generator, with a socket of its own: between quinn-proto and the
//! responses.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes, BytesMut};
use quinn_proto::{
    ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, StreamEvent, StreamId, VarInt, WriteError,
};

use super::frame;
use super::peer::{Answer, Unidirectional};
use super::quic::Datagrams;
use crate::load::link::{ConnectionLost, End, EndedRequest, Link, PeerError, Received};
use crate::load::tally::Failure;
use crate::load::{Expected, Tls};

/// Error codes (RFC 9114, 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(0x10c);

/// The control stream's type, and SETTINGS without settings.
const PREFACE: [u8; 3] = [0, 4, 0];

/// Interval at which a handshake outside the generator's loop is driven.
const REACH_EVERY: Duration = Duration::from_millis(1);

/// A place for a connection.
#[derive(Default)]
pub(in crate::load) struct Connection {
    quic: Option<Box<Quic>>,
    /// Distinguishes events of the present connection from those of earlier ones.
    generation: u32,
}

struct Quic {
    datagrams: Datagrams,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: quinn_proto::Connection,
    target: SocketAddr,
    /// Time of the next timer.
    due: Option<Instant>,
    is_established: bool,
    /// The connection ended, or its handshake failed.
    lost: Option<ConnectionError>,
    /// Responses by their streams.
    open: HashMap<StreamId, Answer>,
    /// Requests that wait for the server's permission to open a stream.
    waiting: VecDeque<(usize, Vec<u8>, Bytes)>,
    /// The rest of heads and bodies that are not wholly sent.
    uploads: HashMap<StreamId, Chain<Bytes, Bytes>>,
    /// Number of requests made.
    asked: usize,
    unidirectional: HashMap<StreamId, Unidirectional>,
    /// Streams from this one on are not processed: the server goes away.
    leaving: Option<u64>,
    out: Vec<u8>,
}

impl Quic {
    fn new(target: SocketAddr, tls: &Tls) -> io::Result<Quic> {
        let datagrams = Datagrams::open(target)?;
        let config = tls.quic().map_err(io::Error::other)?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, connection) = endpoint
            .connect(Instant::now(), config, target, &tls.server_name())
            .map_err(io::Error::other)?;
        Ok(Quic {
            datagrams,
            endpoint,
            handle,
            connection,
            target,
            due: None,
            is_established: false,
            lost: None,
            open: HashMap::new(),
            waiting: VecDeque::new(),
            uploads: HashMap::new(),
            asked: 0,
            unidirectional: HashMap::new(),
            leaving: None,
            out: Vec::new(),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let datagrams = self.datagrams.sent_max();
        loop {
            self.out.clear();
            let Some(transmit) = self.connection.poll_transmit(now, datagrams, &mut self.out)
            else {
                break;
            };
            self.datagrams.send(&transmit, &self.out)?;
        }
        self.due = self.connection.poll_timeout();
        Ok(())
    }

    /// Receives once; `false`: there was nothing.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let now = Instant::now();
        let Quic { datagrams, endpoint, connection, target, out, .. } = self;
        datagrams.receive(buffer, |datagram, ecn| {
            let bytes = BytesMut::from(datagram);
            out.clear();
            // A client's endpoint has no other event that needs an answer.
            if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                endpoint.handle(now, *target, None, ecn, bytes, out)
            {
                connection.handle_event(event);
            }
        })
    }

    /// Handles what quinn-proto has to tell.
    fn pump(
        &mut self,
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.begin()?,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, expected, ended)?,
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Uni) {
                        self.unidirectional.insert(id, Unidirectional::default());
                        self.read(id, expected, ended)?;
                    }
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.send_waiting(),
                Event::Stream(StreamEvent::Writable { id }) => self.send_rest(id),
                // The server does not want the rest of a body.
                Event::Stream(StreamEvent::Stopped { id, .. }) => drop(self.uploads.remove(&id)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the control stream.
    fn begin(&mut self) -> Result<(), PeerError> {
        self.is_established = true;
        let id = self.connection.streams().open(Dir::Uni).ok_or(PeerError)?;
        match self.connection.send_stream(id).write(&PREFACE) {
            Ok(sent) if sent == PREFACE.len() => Ok(()),
            _ => Err(PeerError),
        }
    }

    /// Reads all that has arrived of a stream.
    fn read(
        &mut self,
        id: StreamId,
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        let mut goaway = None;
        let finished = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Some(answer) = self.open.get_mut(&id) {
                        answer.feed(&chunk.bytes, expected)?;
                    } else if let Some(stream) = self.unidirectional.get_mut(&id) {
                        goaway = stream.feed(&chunk.bytes)?.or(goaway);
                    }
                }
                Ok(None) => break Some(true),
                Err(ReadError::Reset(_)) => break Some(false),
                Err(ReadError::Blocked) => break None,
            }
        };
        // The windows' updates leave with the next flush.
        let _ = chunks.finalize();
        if let Some(whole) = finished {
            if self.unidirectional.remove(&id).is_some_and(|stream| stream.is_critical()) {
                return Err(PeerError);
            }
            if self.uploads.remove(&id).is_some() {
                // A response before the end of its request (RFC 9114, 4.1).
                let _ = self.connection.send_stream(id).reset(REQUEST_CANCELLED);
            }
            if let Some(answer) = self.open.remove(&id) {
                ended.push(if whole { answer.end(expected)? } else { answer.ended(End::Reset) });
            }
        }
        match goaway {
            Some(from) => self.leave(from, expected, ended),
            None => Ok(()),
        }
    }

    /// Handles a GOAWAY (RFC 9114, 5.2).
    fn leave(
        &mut self,
        from: u64,
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Result<(), PeerError> {
        if !expected.takes_going_away() {
            return Err(PeerError);
        }
        self.leaving = Some(from);
        let is_later = |id: &StreamId| u64::from(VarInt::from(*id)) >= from;
        self.uploads.retain(|id, _| !is_later(id));
        let unprocessed = self.open.extract_if(|id, _| is_later(id));
        ended.extend(unprocessed.map(|(_, answer)| answer.ended(End::Unprocessed)));
        for (slot, ..) in self.waiting.drain(..) {
            ended.push(Answer::new(slot).ended(End::Unprocessed));
        }
        Ok(())
    }

    /// Makes a request. `false`: it waits until the server allows a stream.
    fn ask(&mut self, slot: usize, request: &[u8], body: Bytes) -> bool {
        let Some(id) = self.connection.streams().open(Dir::Bi) else { return false };
        let mut head = request.to_vec();
        if !body.is_empty() {
            frame::put_integer(&mut head, frame::DATA);
            frame::put_integer(&mut head, body.len() as u64);
        }
        self.asked += 1;
        self.open.insert(id, Answer::new(slot));
        // Bodies of earlier requests may have filled the connection's window (RFC 9000, 4.1), so
        // that the head waits as well.
        self.uploads.insert(id, Bytes::from(head).chain(body));
        self.send_rest(id);
        true
    }

    /// Sends what the windows allow of a request, and its end.
    fn send_rest(&mut self, id: StreamId) {
        let Some(mut rest) = self.uploads.remove(&id) else { return };
        let mut stream = self.connection.send_stream(id);
        while rest.has_remaining() {
            match stream.write(rest.chunk()) {
                Ok(count) => rest.advance(count),
                Err(WriteError::Blocked) => {
                    self.uploads.insert(id, rest);
                    return;
                }
                // The server does not want it, and its response tells why.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return,
            }
        }
        // It may have been stopped meanwhile.
        let _ = stream.finish();
    }

    fn send_waiting(&mut self) {
        while let Some((slot, request, body)) = self.waiting.pop_front() {
            if !self.ask(slot, &request, body.clone()) {
                self.waiting.push_front((slot, request, body));
                break;
            }
        }
    }

    /// The failure of a lost connection's requests.
    fn failure(&self) -> Option<Failure> {
        match self.lost.as_ref()? {
            _ if !self.is_established => Some(Failure::Tls),
            _ => Some(Failure::Reset),
        }
    }
}

impl Link for Connection {
    const HAS_TIMERS: bool = true;
    const IS_MULTIPLEXED: bool = true;

    fn begin(&mut self, target: SocketAddr, tls: Option<&Tls>) -> io::Result<bool> {
        let missing = "HTTP/3 is only spoken encrypted";
        let tls = tls.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, missing))?;
        self.generation = self.generation.wrapping_add(1);
        let mut quic = Box::new(Quic::new(target, tls)?);
        let is_sent = quic.flush().is_ok();
        self.quic = Some(quic);
        Ok(is_sent)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.quic.as_ref().map(|quic| quic.datagrams.socket.as_fd())
    }

    fn token(&self, at: usize) -> u64 {
        (u64::from(self.generation) << 32) | at as u64
    }

    fn connected(&mut self, _: Option<&Tls>) -> io::Result<bool> {
        Ok(self.quic.is_some())
    }

    fn is_ready(&self) -> bool {
        let is_ready =
            |quic: &Quic| quic.is_established && quic.leaving.is_none() && quic.lost.is_none();
        self.quic.as_ref().is_some_and(|quic| is_ready(quic))
    }

    /// A server's limit shows only in the requests that have to wait.
    fn streams_max(&self) -> u32 {
        u32::MAX
    }

    fn resumed(&self) -> bool {
        false
    }

    fn ask(&mut self, slot: usize, head: &[u8], body: Bytes) -> Result<u64, PeerError> {
        let quic = self.quic.as_mut().ok_or(PeerError)?;
        if !quic.ask(slot, head, body.clone()) {
            // Fewer streams than wanted, though none has ended.
            if quic.open.len() == quic.asked {
                return Err(PeerError);
            }
            quic.waiting.push_back((slot, head.to_vec(), body));
        }
        Ok(slot as u64)
    }

    fn cancel(&mut self, ticket: u64) {
        let Some(quic) = &mut self.quic else { return };
        quic.waiting.retain(|(slot, ..)| *slot as u64 != ticket);
        let cancelled: Vec<StreamId> = quic
            .open
            .extract_if(|_, answer| answer.slot as u64 == ticket)
            .map(|(id, _)| id)
            .collect();
        for id in cancelled {
            quic.uploads.remove(&id);
            // It may have ended meanwhile.
            let _ = quic.connection.recv_stream(id).stop(REQUEST_CANCELLED);
            let _ = quic.connection.send_stream(id).reset(REQUEST_CANCELLED);
        }
    }

    fn flush(&mut self) -> Result<(), ConnectionLost> {
        match &mut self.quic {
            Some(quic) => quic.flush().map_err(|_| ConnectionLost),
            None => Ok(()),
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received {
        let Some(quic) = &mut self.quic else { return Received::Nothing };
        match quic.receive(buffer) {
            Ok(true) => {}
            Ok(false) => return Received::Nothing,
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused && !quic.is_established => {
                return Received::Lost(Failure::Refused);
            }
            Err(_) => return Received::Lost(Failure::Reset),
        }
        match (quic.pump(expected, ended), quic.failure()) {
            (Err(PeerError), _) => Received::Lost(Failure::Protocol),
            (Ok(()), Some(failure)) => Received::Lost(failure),
            (Ok(()), None) => Received::Some { drained: false },
        }
    }

    fn expire(&mut self, now: Instant) -> bool {
        let Some(quic) = &mut self.quic else { return true };
        if quic.due.is_none_or(|due| due > now) {
            return true;
        }
        quic.connection.handle_timeout(now);
        while let Some(event) = quic.connection.poll_endpoint_events() {
            if let Some(event) = quic.endpoint.handle_event(quic.handle, event) {
                quic.connection.handle_event(event);
            }
        }
        if quic.connection.is_closed() {
            return false;
        }
        quic.flush().is_ok()
    }

    fn is_leaving(&self) -> bool {
        self.quic.as_ref().is_some_and(|quic| quic.leaving.is_some())
    }

    fn is_drained(&self) -> bool {
        self.quic.as_ref().is_some_and(|quic| quic.leaving.is_some() && quic.open.is_empty())
    }

    fn is_shut(&self) -> bool {
        self.quic.is_none()
    }

    fn shut(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if let Some(mut quic) = self.quic.take() {
            quic.connection.close(Instant::now(), NO_ERROR, Bytes::new());
            // The server also notices a client that is gone.
            let _ = quic.flush();
        }
    }
}

/// Completes a handshake with a server and ends the connection; sends no request.
///
/// # Errors
/// The reason, in words.
pub fn reach(target: SocketAddr, tls: &Tls, within: Duration) -> io::Result<()> {
    let until = Instant::now() + within;
    let mut connection = Connection::default();
    connection.begin(target, Some(tls))?;
    let expected = Expected { status: 0, body_bytes: u64::MAX, body: None };
    let (mut buffer, mut ended) = (vec![0; crate::load::wire::RECEIVE_BYTES], Vec::new());
    loop {
        let received = connection.receive(&mut buffer, &expected, &mut ended);
        if connection.is_ready() {
            connection.shut();
            return Ok(());
        }
        let lost = connection.quic.as_ref().and_then(|quic| quic.lost.clone());
        match (lost, received) {
            (Some(why), _) => return Err(io::Error::other(why.to_string())),
            (None, Received::Lost(_)) => return Err(io::ErrorKind::ConnectionRefused.into()),
            _ => {}
        }
        let now = Instant::now();
        if now >= until || !connection.expire(now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if connection.flush().is_err() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        thread::sleep(REACH_EVERY);
    }
}
