//! A connection on a TLS port: performs the handshake, with a deadline, for the site that the
//! client names, then serves the connection by the negotiated protocol.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hurtle_http::request::ParseError;
use rustls::server::ClientHello;

use super::h2;
use crate::clock;
use crate::config::Listen;
use crate::deadline::DeadlineError;
use crate::metrics::{HandshakeFailure, Protocol};
use crate::pipeline::Connection;
use crate::pipeline::worker::{ConnectionSlot, Worker};
use crate::protocol::h1::H1;
use crate::rt::{self, oneshot};
use crate::tls::{self, SiteTls};
use crate::transport::handshake::{self, Choice, HandshakeError};
use crate::transport::quic::LocalAddress;
use crate::transport::{Input, Plain, Tls};

/// Longest wait for a certificate on demand. An order takes some seconds, and goes on after that.
const SOUGHT_MAX: Duration = Duration::from_secs(30);

/// Serves a connection to its end; `input` has the bytes read so far.
pub(crate) async fn run(socket: Plain, input: Input, peer: Option<IpAddr>, slot: ConnectionSlot) {
    slot.metrics().handshaking.add(1);
    let made = Box::pin(secured(socket, input, &slot.worker(), slot.listen())).await;
    slot.metrics().handshaking.sub(1);
    slot.set_protocol(Some(Protocol::Http1));
    match made {
        Ok(io) if io.speaks_http2() => {
            Box::pin(h2::run(io, Input::default(), peer, Rc::new(slot))).await;
        }
        Ok(io) => {
            let connection = Connection::new(H1(io), Input::default(), peer, Rc::new(slot));
            // Boxed: this future is larger than that of an HTTP/2 connection, which needs no such
            // room.
            drop(Box::pin(connection.run()).await);
        }
        Err(Some(socket)) => {
            let connection = Connection::new(H1(socket), Input::default(), peer, Rc::new(slot));
            Box::pin(connection.turn_down(ParseError::NotTls)).await;
        }
        Err(None) => {}
    }
}

/// Performs the handshake. The error is the socket if the client sent plain HTTP.
async fn secured(
    socket: Plain,
    input: Input,
    worker: &Rc<Worker>,
    listen: Option<&Listen>,
) -> Result<Tls, Option<Plain>> {
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + worker.limits.handshake_timeout.as_millis() as u64);
    // A stopping server closes connections that have sent nothing.
    watch.set_idle(true);
    let local = own_name(&socket);
    let making = async {
        let begun = handshake::begin(socket, input, || watch.set_idle(false)).await?;
        let (mut choice, sought) = choose(worker, &begun.client_hello(), listen, local.as_deref());
        if let Some(sought) = sought {
            let timeout = worker.limits.handshake_timeout;
            watch.set(clock::now_ms() + (SOUGHT_MAX + timeout).as_millis() as u64);
            if rt::timeout(SOUGHT_MAX, sought.recv()).await.flatten() != Some(true) {
                choice = Choice::UnknownName;
            }
            watch.set(clock::now_ms() + timeout.as_millis() as u64);
        }
        handshake::complete(begun, choice).await
    };
    match watch.wait(making).await {
        Ok(Ok(io)) => {
            let (version, resumed) = (io.version(), io.is_resumed());
            worker.metrics.handshakes[version as usize][usize::from(resumed)].add(1);
            Ok(io)
        }
        Ok(Err(HandshakeError::PlainHttp(socket))) => {
            count_failure(worker, HandshakeFailure::PlainHttp);
            Err(Some(socket))
        }
        // Not a warning, since clients could flood the log with it.
        Ok(Err(HandshakeError::Failed(e))) => {
            tracing::debug!("TLS handshake: {e}");
            count_failure(worker, failure(&e));
            Err(None)
        }
        Err(DeadlineError) => {
            tracing::debug!("TLS handshake: timed out");
            count_failure(worker, HandshakeFailure::TimedOut);
            Err(None)
        }
    }
}

fn count_failure(worker: &Worker, reason: HandshakeFailure) {
    worker.metrics.handshake_failures[reason as usize].add(1);
}

/// The reason of a failed handshake, by the kind of its error (see `transport::handshake`).
fn failure(e: &io::Error) -> HandshakeFailure {
    match e.kind() {
        io::ErrorKind::InvalidData => HandshakeFailure::Rejected,
        io::ErrorKind::NotFound => HandshakeFailure::UnknownName,
        _ => HandshakeFailure::Closed,
    }
}

/// Selects the configuration of the site that serves this name, or that of a pending ACME
/// challenge. With a receiver, the choice holds once that gets `true`.
fn choose(
    worker: &Worker,
    hello: &ClientHello<'_>,
    listen: Option<&Listen>,
    local: Option<&str>,
) -> (Choice, Option<oneshot::Receiver<bool>>) {
    let Some(keyring) = &worker.keyring else { return (Choice::UnknownName, None) };
    // RFC 8737 section 3: a validation offers this protocol only. Without a pending challenge the
    // handshake ends with no_application_protocol.
    let is_challenge = hello
        .alpn()
        .is_some_and(|mut offered| offered.next() == Some(tls::ALPN) && offered.next().is_none());
    let challenged = hello.server_name().filter(|_| is_challenge);
    if let Some(config) = challenged.and_then(|name| keyring.challenge_config(name)) {
        return (Choice::Validate(config), None);
    }
    let name = hello.server_name().or(local).map(str::as_bytes);
    let site = worker.sites.at(listen).find(name);
    match site.and_then(|(site, _)| keyring.site(site, hello.server_name())) {
        Some(SiteTls::Sought(config, policy, sought)) => {
            (Choice::Serve(config, policy), Some(sought))
        }
        site => (choice(site), None),
    }
}

/// Selects the configuration of the site for a handshake of QUIC.
pub(crate) fn choose_quic(
    worker: &Worker,
    hello: &ClientHello<'_>,
    local: &LocalAddress,
) -> Choice {
    let Some(keyring) = &worker.keyring else { return Choice::UnknownName };
    let own = local.ip.map(host_name);
    let name = hello.server_name().or(own.as_deref()).map(str::as_bytes);
    let sites = worker.sites.at(local.listen.as_deref());
    choice(sites.find(name).and_then(|(site, _)| keyring.quic_site(site, hello.server_name())))
}

fn choice(site: Option<SiteTls>) -> Choice {
    match site {
        Some(SiteTls::Ready(config, policy)) => Choice::Serve(config, policy),
        // A handshake of QUIC cannot wait; clients come by TCP first (Alt-Svc).
        Some(SiteTls::NotIssued | SiteTls::Sought(..)) => Choice::NotIssued,
        None => Choice::UnknownName,
    }
}

/// The address that the client connected to, as the host name of a client without a server name.
fn own_name(socket: &Plain) -> Option<String> {
    socket.own_address().map(host_name)
}

fn host_name(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
