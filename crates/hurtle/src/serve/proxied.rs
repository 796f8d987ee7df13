//! A connection through a load balancer: for whom it is made, read before all else, TLS included.
//! What the header's bytes mean is `crate::proxy_protocol`'s.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Worker;
use super::deadline::Late;
use crate::clock;
use crate::config::ProxyProtocol;
use crate::proxy_protocol::{self, Client, Flaw, Header};
use crate::transport::{Input, Plain};

/// How long a balancer may take to say it: from the moment its connection is accepted, since it
/// speaks first, and at once.
const HEADER_MS_MAX: u64 = 5_000;

/// How often the log is told that connections are closed: peers can make as many as they like.
const TOLD_EVERY_MS: u64 = 10_000;

/// Who may say for whom a connection is made.
#[derive(Debug, Default)]
pub struct Balancers {
    from: Vec<IpNet>,
    /// Until when the log is left alone.
    told_until_ms: Cell<u64>,
}

/// What a balancer has said, and what else has come.
#[derive(Debug)]
pub struct Introduced {
    /// The client's address; `None`: it has none.
    pub client: Option<IpAddr>,
    /// The client's first bytes, if they came with the header.
    pub input: Input,
}

/// Why a connection is closed unheard.
enum Closed {
    Untrusted,
    Late,
    Flaw(Flaw),
    /// The peer left, or its socket failed.
    Gone(io::Error),
}

impl Balancers {
    /// Those a configuration names.
    pub fn new(config: Option<&ProxyProtocol>) -> Balancers {
        let from = config.map(|config| config.from.clone()).unwrap_or_default();
        Balancers { from, told_until_ms: Cell::new(0) }
    }

    fn has(&self, peer: Option<IpAddr>) -> bool {
        // Who may connect to a unix socket, its file says.
        peer.is_none_or(|peer| self.from.iter().any(|network| network.contains(&peer)))
    }

    /// Tells the log, but not each time.
    fn tell(&self, peer: Option<IpAddr>, why: &Closed) {
        let peer = peer.map_or_else(|| "a unix socket".to_owned(), |peer| peer.to_string());
        let now_ms = clock::now_ms();
        // Balancers see whether a server is there by connecting, and no more.
        if matches!(why, Closed::Gone(_)) || now_ms < self.told_until_ms.get() {
            return tracing::debug!("PROXY protocol: closed a connection from {peer}: {why}");
        }
        self.told_until_ms.set(now_ms + TOLD_EVERY_MS);
        tracing::warn!("PROXY protocol: closed a connection from {peer}: {why}");
    }
}

/// Reads the header of a connection just accepted. `None`: it is to be closed; the log knows why.
pub async fn introduce(
    socket: &mut Plain,
    peer: Option<IpAddr>,
    worker: &Worker,
) -> Option<Introduced> {
    let mut input = Input::default();
    match heard(socket, &mut input, peer, worker).await {
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
            // A server that stops does not wait for those who have not begun.
            if !worker.deadlines.is_draining() {
                worker.balancers.tell(peer, &why);
            }
            None
        }
    }
}

async fn heard(
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
    // Whoever has not begun when the server stops need not.
    watch.set_idle(true);
    let hearing = async {
        loop {
            if poll_fn(|cx| input.poll_fill(socket, cx)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            watch.set_idle(false);
            if let Some(header) = proxy_protocol::parse(input.bytes())? {
                return Ok(header);
            }
        }
    };
    watch.wait(hearing).await?
}

impl From<Late> for Closed {
    fn from(_: Late) -> Closed {
        Closed::Late
    }
}

impl From<Flaw> for Closed {
    fn from(flaw: Flaw) -> Closed {
        Closed::Flaw(flaw)
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
            Closed::Flaw(flaw) => flaw.fmt(f),
            Closed::Gone(e) => e.fmt(f),
        }
    }
}
