//! Making a TLS connection of a socket: the client's hello, whose name decides what the rest is
//! done with, and what follows until both sides agree. Deadlines are left to `serve`.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustls::server::{Accepted, AcceptedAlert, Acceptor, ClientHello};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};

use super::ktls::{self, Sending};
use super::tls::{flush, take_in};
use super::{Input, Plain, Tls, Transport};

/// The record type of a handshake (RFC 8446 5.1), every TLS connection's first byte.
const HANDSHAKE: u8 = 22;

/// What is done with a client.
#[derive(Debug)]
pub enum Choice {
    /// A handshake with these terms, and the site's way to authenticate clients.
    Speak(Arc<ServerConfig>, u32),
    /// The same, and then nothing: the handshake is all that is wanted (RFC 8737 3).
    Show(Arc<ServerConfig>),
    /// No site has the name.
    Unknown,
    /// The site has no certificate yet.
    NotYet,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum Failed {
    /// The client spoke plain HTTP: it can be told so on this socket.
    NotTls(Plain),
    /// The client is gone, or did not speak TLS as it is here.
    Gone(io::Error),
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Failed {
        Failed::Gone(e)
    }
}

/// Does the server's part. `input` is what was read already; `begun` is told when the client has
/// sent something; `choose` looks at the client's hello, and above all at the name in it (SNI,
/// RFC 6066 3).
///
/// # Errors
/// See `Failed`. The client has been sent an alert where that makes sense.
pub async fn handshake(
    mut socket: Plain,
    mut input: Input,
    begun: impl FnOnce(),
    choose: impl FnOnce(&ClientHello<'_>) -> Choice,
) -> Result<Tls, Failed> {
    if input.bytes().is_empty() {
        fill(&mut socket, &mut input).await?;
    }
    begun();
    match input.bytes() {
        [HANDSHAKE, ..] => {}
        // A method's first letter (RFC 9110 9.1): nothing else in TLS's place is worth an answer.
        [b'A'..=b'Z', ..] => return Err(Failed::NotTls(socket)),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    }
    let accepted = hello(&mut socket, &mut input).await?;
    let choice = choose(&accepted.client_hello());
    let ((config, overheard), policy) = match choice {
        Choice::Speak(config, policy) => (ktls::overhear(config), Some(policy)),
        Choice::Show(config) => ((config, None), None),
        Choice::Unknown => {
            // RFC 6066 3: fatal, since going on with another site's certificate would only look
            // like an attack.
            say(&socket, UNRECOGNIZED_NAME);
            return Err(io::Error::other("no site with a certificate has this name").into());
        }
        Choice::NotYet => {
            say(&socket, INTERNAL_ERROR);
            return Err(io::Error::other("the site's certificate has not been issued yet").into());
        }
    };
    let connection =
        accepted.into_connection(config).map_err(|refused| refuse(&socket, refused))?;
    let mut session = Box::new(connection);
    // What is written at once is bounded where it is written.
    session.set_buffer_limit(None);
    while !input.bytes().is_empty() {
        let n = session.read_tls(&mut input.bytes()).map_err(Failed::Gone)?;
        input.consume(n);
        process(&socket, &mut session)?;
    }
    agree(&mut socket, &mut session).await?;
    match policy {
        Some(policy) => {
            let sending = Sending::new(&session, overheard.as_deref());
            Ok(Tls::new(socket, session, policy, sending))
        }
        None => {
            session.send_close_notify();
            flush_now(&socket, &mut session);
            Err(io::Error::other("an authority has seen what it asked for").into())
        }
    }
}

/// A fatal alert (RFC 8446 6): a record of two bytes.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];
/// The same: nothing is wrong with what the client asks for (RFC 8446 6.2).
const INTERNAL_ERROR: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

async fn fill(socket: &mut Plain, input: &mut Input) -> Result<(), Failed> {
    match poll_fn(|cx| input.poll_fill(socket, cx)).await? {
        0 => Err(Failed::Gone(io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(()),
    }
}

/// Reads until the client's hello is whole; rustls bounds how long it may be.
async fn hello(socket: &mut Plain, input: &mut Input) -> Result<Accepted, Failed> {
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

/// Goes on until both sides agree.
async fn agree(socket: &mut Plain, session: &mut ServerConnection) -> Result<(), Failed> {
    while session.is_handshaking() {
        poll_fn(|cx| flush(session, |bufs| socket.poll_write_shared(cx, bufs))).await?;
        let read = poll_fn(|cx| {
            let socket = &mut *socket;
            take_in(session, |into| socket.poll_read(cx, into))
        });
        match read.await {
            Ok(0) => return Err(Failed::Gone(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(e) => {
                flush_now(socket, session);
                return Err(e.into());
            }
        }
    }
    // In TLS 1.3 only tickets are queued now, which can go with the first answer. Before, the
    // client waits for the server's last word.
    if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        poll_fn(|cx| flush(session, |bufs| socket.poll_write_shared(cx, bufs))).await?;
    }
    Ok(())
}

fn process(socket: &Plain, session: &mut ServerConnection) -> Result<(), Failed> {
    let state = session.process_new_packets();
    state.map(drop).map_err(|e| {
        flush_now(socket, session);
        io::Error::new(io::ErrorKind::InvalidData, e).into()
    })
}

fn refuse(socket: &Plain, (error, mut alert): (rustls::Error, AcceptedAlert)) -> Failed {
    let mut bytes = Vec::new();
    if alert.write_all(&mut bytes).is_ok() {
        say(socket, &bytes);
    }
    io::Error::new(io::ErrorKind::InvalidData, error).into()
}

/// An alert is said as far as the socket takes it at once.
fn say(socket: &Plain, alert: &[u8]) {
    let mut cx = Context::from_waker(Waker::noop());
    let _ = socket.poll_write_shared(&mut cx, &[IoSlice::new(alert)]);
}

fn flush_now(socket: &Plain, session: &mut ServerConnection) {
    let mut cx = Context::from_waker(Waker::noop());
    let _: Poll<_> = flush(session, |bufs| socket.poll_write_shared(&mut cx, bufs));
}
