//! Reads the PROXY protocol header of a connection from a load balancer, before TLS.
//! `hurtle_http::proxy_protocol` parses it.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;

use hurtle_http::proxy_protocol::{self, Client, Header, ProxyHeaderError};

use crate::clock;
use crate::deadline::DeadlineError;
use crate::metrics::LimitKind;
use crate::pipeline::balancers::Balancers;
use crate::pipeline::worker::Worker;
use crate::transport::{Fill, Input, Plain, Transport};

/// Time for the header to arrive after the connection was accepted, in milliseconds. Balancers send
/// it at once.
const HEADER_MS_MAX: u64 = 5_000;

/// The result of reading the header.
#[derive(Debug)]
pub(crate) struct Introduced {
    /// The client's address; `None`: the header has none.
    pub client: Option<IpAddr>,
    /// The bytes behind the header.
    pub input: Input,
}

/// The reason for closing a connection before its first request.
enum Closed {
    Untrusted,
    Late,
    BadHeader(ProxyHeaderError),
    /// The peer closed the connection, or its socket failed.
    Gone(io::Error),
}

/// Logs a closed connection, at a limited rate.
fn log_closed(balancers: &Balancers, peer: Option<IpAddr>, why: &Closed) {
    let peer = peer.map_or_else(|| "a unix socket".to_owned(), |peer| peer.to_string());
    // Balancers check a server's health by connecting and closing.
    if matches!(why, Closed::Gone(_)) || !balancers.may_log(clock::now_ms()) {
        return tracing::debug!("PROXY protocol: closed a connection from {peer}: {why}");
    }
    tracing::warn!("PROXY protocol: closed a connection from {peer}: {why}");
}

/// Reads the header of an accepted connection. `None`: the connection must be closed; the error was
/// logged.
pub(crate) async fn introduce(
    socket: &mut Plain,
    peer: Option<IpAddr>,
    worker: &Worker,
) -> Option<Introduced> {
    let mut input = Input::default();
    match read_header(socket, &mut input, peer, worker).await {
        Ok(header) => {
            input.consume(header.len);
            let client = match header.client {
                Client::Peer => peer,
                Client::Address(address) => Some(address),
                Client::Unix => None,
            };
            Some(Introduced { client, input })
        }
        Err(why) => {
            // A stopping server does not wait for connections that have sent nothing.
            if !worker.deadlines.is_draining() {
                if let Closed::Late = why {
                    worker.metrics.hit(LimitKind::ProxyHeaderTime);
                }
                log_closed(&worker.balancers, peer, &why);
            }
            None
        }
    }
}

async fn read_header(
    socket: &mut Plain,
    input: &mut Input,
    peer: Option<IpAddr>,
    worker: &Worker,
) -> Result<Header, Closed> {
    if !worker.balancers.has(peer) {
        return Err(Closed::Untrusted);
    }
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + HEADER_MS_MAX);
    // A stopping server closes connections that have sent nothing.
    watch.set_idle(true);
    let reading = async {
        loop {
            if poll_fn(|cx| socket.poll_fill(cx, input, Fill::Head)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            watch.set_idle(false);
            if let Some(header) = proxy_protocol::parse(input.bytes())? {
                return Ok(header);
            }
        }
    };
    watch.wait(reading).await?
}

impl From<DeadlineError> for Closed {
    fn from(_: DeadlineError) -> Closed {
        Closed::Late
    }
}

impl From<ProxyHeaderError> for Closed {
    fn from(flaw: ProxyHeaderError) -> Closed {
        Closed::BadHeader(flaw)
    }
}

impl From<io::Error> for Closed {
    fn from(e: io::Error) -> Closed {
        Closed::Gone(e)
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Untrusted => f.write_str("it is not in proxy_protocol.from"),
            Closed::Late => write!(f, "no header within {} seconds", HEADER_MS_MAX / 1_000),
            Closed::BadHeader(flaw) => flaw.fmt(f),
            Closed::Gone(e) => e.fmt(f),
        }
    }
}
