//! A connection on a port that speaks TLS: its handshake, with a deadline, for the site that the
//! client names; then it is as any other.

use std::net::IpAddr;
use std::rc::Rc;

use rustls::server::ClientHello;

use super::deadline::Late;
use super::h1::Connection;
use super::{Place, Worker};
use crate::clock;
use crate::h1::Sin;
use crate::tls::{self, Terms};
use crate::transport::handshake::{Choice, Failed, handshake};
use crate::transport::{Input, Plain, Tls};

/// Serves a connection to its end; `input` is what was read of it already.
pub async fn run(socket: Plain, input: Input, peer: Option<IpAddr>, place: Place) {
    match Box::pin(secured(socket, input, &place.0)).await {
        Ok(io) => Connection::new(io, Input::default(), peer, place).run().await,
        Err(Some(socket)) => {
            let connection = Connection::new(socket, Input::default(), peer, place);
            connection.turn_down(Sin::NotTls).await;
        }
        Err(None) => {}
    }
}

/// `Err` is the socket, if the client is to be told that it speaks the wrong protocol.
async fn secured(socket: Plain, input: Input, worker: &Rc<Worker>) -> Result<Tls, Option<Plain>> {
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + worker.limits.handshake_timeout.as_millis() as u64);
    // Whoever has not begun when the server stops need not.
    watch.set_idle(true);
    let local = own_name(&socket);
    let choose = |hello: &ClientHello<'_>| choose(worker, hello, local.as_deref());
    let making = handshake(socket, input, || watch.set_idle(false), choose);
    match watch.wait(making).await {
        Ok(Ok(io)) => Ok(io),
        Ok(Err(Failed::NotTls(socket))) => Err(Some(socket)),
        // Peers can make as many of these as they like.
        Ok(Err(Failed::Gone(e))) => {
            tracing::debug!("TLS handshake: {e}");
            Err(None)
        }
        Err(Late) => {
            tracing::debug!("TLS handshake: too slow");
            Err(None)
        }
    }
}

/// The terms of the site that a request for this name would go to; but those of an authority that
/// asks whether the name is this server's, if one was told to.
fn choose(worker: &Worker, hello: &ClientHello<'_>, local: Option<&str>) -> Choice {
    let Some(keyring) = &worker.keyring else { return Choice::Unknown };
    // RFC 8737 3: it offers this and nothing else. Whom nobody told to come is refused as any
    // client that offers nothing spoken here.
    let is_challenge = hello
        .alpn()
        .is_some_and(|mut offered| offered.next() == Some(tls::ALPN) && offered.next().is_none());
    let challenged = hello.server_name().filter(|_| is_challenge);
    if let Some(terms) = challenged.and_then(|name| keyring.challenge_terms(name)) {
        return Choice::Show(terms);
    }
    let name = hello.server_name().or(local).map(str::as_bytes);
    match worker.sites.find(name).and_then(|(site, _)| keyring.terms(site)) {
        Some(Terms::Ready(config, policy)) => Choice::Speak(config, policy),
        Some(Terms::NotYet) => Choice::NotYet,
        None => Choice::Unknown,
    }
}

/// What a client that names nobody asked for: an address is no name (RFC 6066 3).
fn own_name(socket: &Plain) -> Option<String> {
    match socket.own_address()? {
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(address) => Some(format!("[{address}]")),
    }
}
