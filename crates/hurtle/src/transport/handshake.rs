//! The server's side of a TLS handshake: reads the ClientHello, by which the caller chooses a
//! configuration, and completes the handshake with it. Deadlines belong to `serve`.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustls::server::{Accepted, AcceptedAlert, Acceptor, ClientHello};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};

use super::ktls::{self, Sending};
use super::tls::{flush, take_in};
use super::{Attempt, Fill, Input, Plain, Tls, Transport};
use crate::tls::ClientCertificate;

/// Record type of a handshake (RFC 8446 section 5.1): the first byte of every TLS connection.
const HANDSHAKE: u8 = 22;

/// The decision after a ClientHello.
#[derive(Debug)]
pub(crate) enum Choice {
    /// Serve the client with this configuration and the number of the site's client policy.
    Serve(Arc<ServerConfig>, u32),
    /// Complete the handshake with this configuration, then close (RFC 8737 section 3).
    Validate(Arc<ServerConfig>),
    /// Refuse: no site with a certificate has the name.
    UnknownName,
    /// Refuse: the site's certificate has not been issued yet.
    NotIssued,
}

/// The error of a failed handshake.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The client sent plain HTTP; the caller can answer on the socket.
    PlainHttp(Plain),
    /// The handshake failed, or the connection broke.
    Failed(io::Error),
}

impl From<io::Error> for HandshakeError {
    fn from(e: io::Error) -> HandshakeError {
        HandshakeError::Failed(e)
    }
}

/// A handshake after its ClientHello.
#[derive(Debug)]
pub(crate) struct Handshake {
    socket: Plain,
    input: Input,
    accepted: Accepted,
}

/// Begins a handshake. `input` has the bytes read so far; `begun` is called once the client has
/// sent some.
///
/// # Errors
/// See `HandshakeError`. A client that spoke TLS has received an alert.
pub(crate) async fn begin(
    mut socket: Plain,
    mut input: Input,
    begun: impl FnOnce(),
) -> Result<Handshake, HandshakeError> {
    if input.bytes().is_empty() {
        fill(&mut socket, &mut input).await?;
    }
    begun();
    match input.bytes() {
        [HANDSHAKE, ..] => {}
        // The first letter of a method (RFC 9110 section 9.1).
        [b'A'..=b'Z', ..] => return Err(HandshakeError::PlainHttp(socket)),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    }
    let accepted = read_hello(&mut socket, &mut input).await?;
    Ok(Handshake { socket, input, accepted })
}

impl Handshake {
    /// The ClientHello, above all its server name (RFC 6066 section 3).
    pub(crate) fn client_hello(&self) -> ClientHello<'_> {
        self.accepted.client_hello()
    }
}

/// Completes a handshake.
///
/// # Errors
/// See `HandshakeError`. The client has received an alert.
pub(crate) async fn complete(handshake: Handshake, choice: Choice) -> Result<Tls, HandshakeError> {
    let Handshake { mut socket, mut input, accepted } = handshake;
    let ((config, overheard), policy) = match choice {
        Choice::Serve(config, policy) => (ktls::overhear(config), Some(policy)),
        Choice::Validate(config) => ((config, None), None),
        Choice::UnknownName => {
            // RFC 6066 section 3: fatal, since clients would reject another site's certificate.
            send_alert(&socket, UNRECOGNIZED_NAME);
            let what = "no site with a certificate has this name";
            return Err(io::Error::new(io::ErrorKind::NotFound, what).into());
        }
        Choice::NotIssued => {
            send_alert(&socket, INTERNAL_ERROR);
            return Err(io::Error::other("the site's certificate has not been issued yet").into());
        }
    };
    let connection =
        accepted.into_connection(config).map_err(|refused| refuse(&socket, refused))?;
    let mut session = Box::new(connection);
    // `Tls` limits how much it writes at once.
    session.set_buffer_limit(None);
    while !input.bytes().is_empty() {
        let n = session.read_tls(&mut input.bytes()).map_err(HandshakeError::Failed)?;
        input.consume(n);
        process(&socket, &mut session)?;
    }
    exchange(&mut socket, &mut session).await?;
    let client = session.peer_certificates().map(ClientCertificate::new);
    if client.is_some_and(|client| client.is_expired()) {
        // Nothing is sent, because new tickets would be part of it.
        return Err(io::Error::new(io::ErrorKind::InvalidData, EXPIRED).into());
    }
    match policy {
        Some(policy) => {
            let sending = Sending::new(&session, overheard.as_deref());
            Ok(Tls::new(socket, session, policy, sending))
        }
        None => {
            session.send_close_notify();
            flush_now(&socket, &mut session);
            Err(io::Error::other("closed after an ACME validation").into())
        }
    }
}

/// Reason against a session that is resumed.
const EXPIRED: &str = "the client's certificate has expired since the session began";

/// Records with a fatal alert each (RFC 8446 section 6).
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];
const INTERNAL_ERROR: &[u8] = &[21, 3, 3, 0, 2, 2, 80];
const HANDSHAKE_FAILURE: &[u8] = &[21, 3, 3, 0, 2, 2, 40];
const ACCESS_DENIED: &[u8] = &[21, 3, 3, 0, 2, 2, 49];

async fn fill(socket: &mut Plain, input: &mut Input) -> Result<(), HandshakeError> {
    match poll_fn(|cx| socket.poll_fill(cx, input, Fill::Head)).await? {
        0 => Err(HandshakeError::Failed(io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(()),
    }
}

/// Reads the ClientHello; rustls limits its size.
async fn read_hello(socket: &mut Plain, input: &mut Input) -> Result<Accepted, HandshakeError> {
    let mut acceptor = Acceptor::default();
    loop {
        while !input.bytes().is_empty() {
            let n = acceptor.read_tls(&mut input.bytes())?;
            input.consume(n);
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted),
                Ok(None) => {}
                Err(refused) => return Err(refuse(socket, refused)),
            }
        }
        fill(socket, input).await?;
    }
}

/// Exchanges messages until the handshake is complete.
async fn exchange(
    socket: &mut Plain,
    session: &mut ServerConnection,
) -> Result<(), HandshakeError> {
    while session.is_handshaking() {
        poll_fn(|cx| flush(session, |bufs| socket.poll_write(cx, bufs, Attempt::Ready))).await?;
        let read = poll_fn(|cx| {
            let socket = &mut *socket;
            take_in(session, |into| socket.poll_read(cx, into))
        });
        match read.await {
            Ok(0) => return Err(HandshakeError::Failed(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(e) => {
                flush_now(socket, session);
                return Err(e.into());
            }
        }
    }
    // In TLS 1.3 only tickets are queued now; they can be sent with the first response. In TLS 1.2
    // the client waits for the server's Finished.
    if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        poll_fn(|cx| flush(session, |bufs| socket.poll_write(cx, bufs, Attempt::Ready))).await?;
    }
    Ok(())
}

fn process(socket: &Plain, session: &mut ServerConnection) -> Result<(), HandshakeError> {
    let state = session.process_new_packets();
    state.map(drop).map_err(|e| {
        flush_now(socket, session);
        io::Error::new(io::ErrorKind::InvalidData, e).into()
    })
}

fn refuse(socket: &Plain, (error, mut alert): (rustls::Error, AcceptedAlert)) -> HandshakeError {
    let mut bytes = Vec::new();
    if alert.write_all(&mut bytes).is_ok() {
        // rustls sends access_denied if no certificate fits the client's signature schemes and
        // cipher suites. RFC 8446 section 4.1.1 requires handshake_failure.
        let is_mismatch = bytes == ACCESS_DENIED;
        send_alert(socket, if is_mismatch { HANDSHAKE_FAILURE } else { &bytes });
    }
    io::Error::new(io::ErrorKind::InvalidData, error).into()
}

/// Sends an alert as far as the socket accepts it without waiting.
fn send_alert(socket: &Plain, alert: &[u8]) {
    let mut cx = Context::from_waker(Waker::noop());
    let _ = socket.poll_write(&mut cx, &[IoSlice::new(alert)], Attempt::Ready);
}

fn flush_now(socket: &Plain, session: &mut ServerConnection) {
    let mut cx = Context::from_waker(Waker::noop());
    let _: Poll<_> = flush(session, |bufs| socket.poll_write(&mut cx, bufs, Attempt::Ready));
}
