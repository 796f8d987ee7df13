//! One upstream: connecting to it, its idle connections, and whether it is well.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::time::Duration;
use std::{fmt, io};

use xxhash_rust::xxh3::xxh3_64;

use super::link::Link;
use crate::config::Upstream;
use crate::disk::{Disk, Lane};
use crate::h1::reply::Flaw;
use crate::transport::Plain;
use crate::{clock, rt};

/// Idle connections kept to one upstream, by each worker.
const IDLE_MAX: usize = 64;

/// How long one is kept: shorter than the keep-alive of the usual application servers (Node: 5 s),
/// which would close it at the moment a request leaves, and that request must perhaps not be
/// repeated.
const IDLE_MS_MAX: u64 = 4_000;

/// How long an answer of the name service is used.
const NAMES_MS_MAX: u64 = 10_000;

/// Failures in a row after which an upstream is left alone, and for how long.
pub(super) const FAILS_MAX: u32 = 3;
pub(super) const DOWN_MS: u64 = 10_000;

/// An upstream.
#[derive(Debug)]
pub(super) struct Peer {
    upstream: Upstream,
    /// Its host and port.
    pub(super) authority: String,
    /// What its share of keys is drawn by.
    pub(super) seed: u64,
    /// Requests it has now, from this worker.
    pub(super) in_flight: Cell<usize>,
    idle: RefCell<VecDeque<Idle>>,
    /// Somebody closes idle connections in time.
    swept: Cell<bool>,
    fails: Cell<u32>,
    down_until_ms: Cell<u64>,
    /// What health checks say.
    well: Cell<bool>,
    addresses: RefCell<Vec<SocketAddr>>,
    looked_up_ms: Cell<u64>,
    disk: Disk,
    lane: Lane,
}

#[derive(Debug)]
struct Idle {
    io: Plain,
    since_ms: u64,
}

/// Why an upstream gave no answer.
#[derive(Debug)]
pub enum Fault {
    /// Its name is not known.
    Unknown(String),
    /// It takes no connection.
    Refused(io::Error),
    /// It ended the connection without a byte of an answer.
    Gone(Option<io::Error>),
    /// It ended the connection within the answer's head.
    Cut,
    /// It took none of the request.
    Deaf(io::Error),
    /// Its answer is none.
    Flaw(Flaw),
    /// It answered with what nobody asked for.
    Unasked,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unknown(why) => write!(f, "its name cannot be looked up: {why}"),
            Fault::Refused(e) => write!(f, "it takes no connection: {e}"),
            Fault::Gone(None) => f.write_str("it closed the connection without an answer"),
            Fault::Gone(Some(e)) => write!(f, "it gave no answer: {e}"),
            Fault::Cut => f.write_str("it closed the connection within its answer's head"),
            Fault::Deaf(e) => write!(f, "it did not take the request: {e}"),
            Fault::Flaw(flaw) => write!(f, "its answer is malformed: {flaw}"),
            Fault::Unasked => f.write_str("it changed the protocol unasked"),
        }
    }
}

impl Peer {
    pub(super) fn new(upstream: Upstream, disk: Disk, lane: Lane) -> Peer {
        let (authority, addresses) = match &upstream {
            Upstream::Address(address) => (address.to_string(), vec![*address]),
            Upstream::Name(name, port) => (format!("{name}:{port}"), Vec::new()),
            Upstream::Unix(_) => ("localhost".to_owned(), Vec::new()),
        };
        Peer {
            seed: xxh3_64(upstream.to_string().as_bytes()),
            upstream,
            authority,
            in_flight: Cell::new(0),
            idle: RefCell::default(),
            swept: Cell::new(false),
            fails: Cell::new(0),
            down_until_ms: Cell::new(0),
            well: Cell::new(true),
            addresses: RefCell::new(addresses),
            looked_up_ms: Cell::new(0),
            disk,
            lane,
        }
    }

    /// Whether it may be asked. The only one is asked however often it failed: there is nobody else
    /// who could do better.
    pub(super) fn is_up(&self, alone: bool, now_ms: u64) -> bool {
        self.well.get() && (alone || self.down_until_ms.get() <= now_ms)
    }

    /// It answered.
    pub(super) fn succeeded(&self) {
        self.fails.set(0);
    }

    /// It did not.
    pub(super) fn failed(&self, now_ms: u64) {
        let fails = self.fails.get().saturating_add(1);
        self.fails.set(fails);
        // After its rest one more failure is enough.
        if fails >= FAILS_MAX {
            self.down_until_ms.set(now_ms + DOWN_MS);
        }
    }

    /// What a health check found; it is said when it changes.
    pub(super) fn set_well(&self, well: bool, why: &str) {
        if self.well.replace(well) == well {
            return;
        }
        match well {
            true => tracing::info!("upstream {self} is well again"),
            false => tracing::warn!("upstream {self} is not well and gets no requests: {why}"),
        }
        self.fails.set(0);
        self.down_until_ms.set(0);
    }

    /// It was started anew: what is known of it is of another.
    pub(super) fn forget(&self) {
        self.idle.borrow_mut().clear();
        self.fails.set(0);
        self.down_until_ms.set(0);
        self.well.set(true);
    }

    /// An idle connection that is still alive, the one used last first.
    pub(super) fn idle(&self, now_ms: u64) -> Option<Link> {
        loop {
            let Idle { mut io, since_ms } = self.idle.borrow_mut().pop_back()?;
            let fresh = now_ms.saturating_sub(since_ms) < IDLE_MS_MAX;
            // What an upstream says unasked could be taken for the next request's answer.
            if fresh && io.is_quiet() {
                return Some(Link::new(io, true));
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn keep(self: &Rc<Peer>, io: Plain) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= IDLE_MAX {
            idle.pop_front();
        }
        idle.push_back(Idle { io, since_ms: clock::now_ms() });
        if !self.swept.replace(true) {
            let peer = Rc::clone(self);
            rt::spawn(async move { peer.sweep().await });
        }
    }

    /// After one was found dead the others are likely to be.
    pub(super) fn forget_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    /// Closes idle connections in time, for as long as there are some.
    async fn sweep(&self) {
        let mut alarm = rt::Alarm::unset();
        while !self.idle.borrow().is_empty() {
            alarm.wait(Duration::from_millis(IDLE_MS_MAX / 4)).await;
            let now_ms = clock::now_ms();
            let aged = |idle: &Idle| now_ms.saturating_sub(idle.since_ms) >= IDLE_MS_MAX;
            self.idle.borrow_mut().retain(|idle| !aged(idle));
        }
        self.swept.set(false);
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Link, Fault> {
        if let Upstream::Unix(path) = &self.upstream {
            let io = Plain::connect_unix(path).await.map_err(Fault::Refused)?;
            return Ok(Link::new(io, false));
        }
        self.look_up().await?;
        let addresses = self.addresses.borrow().clone();
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match Plain::connect(address).await {
                Ok(io) => return Ok(Link::new(io, false)),
                Err(e) => refused = e,
            }
        }
        Err(Fault::Refused(refused))
    }

    /// Makes sure that its addresses are known. While the name service fails, old ones will do.
    async fn look_up(&self) -> Result<(), Fault> {
        let Upstream::Name(name, port) = &self.upstream else { return Ok(()) };
        let known = !self.addresses.borrow().is_empty();
        let now_ms = clock::now_ms();
        if known && now_ms.saturating_sub(self.looked_up_ms.get()) < NAMES_MS_MAX {
            return Ok(());
        }
        let (name, port) = (name.clone(), *port);
        let job = move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        let found: Result<Vec<_>, String> = match self.disk.run(self.lane, job).await {
            Ok(found) => found.map_err(|e: io::Error| e.to_string()),
            Err(_) => Err("it takes too long".to_owned()),
        };
        match found {
            Ok(addresses) if !addresses.is_empty() => {
                self.addresses.replace(addresses);
                self.looked_up_ms.set(now_ms);
                Ok(())
            }
            _ if known => Ok(()),
            Ok(_) => Err(Fault::Unknown("it has no address".to_owned())),
            Err(why) => Err(Fault::Unknown(why)),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upstream.fmt(f)
    }
}
