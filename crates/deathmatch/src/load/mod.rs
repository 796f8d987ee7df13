//! The load generator: one thread that never sleeps, on a core of its own.
//!
//! Definitions of its figures:
//!
//! - *Intended*: when a request should have been sent. Open loop: fixed in advance by the rate,
//!   whatever the answers do. Closed loop: the moment the answer before it was complete. Sessions:
//!   when the connection should have been begun; later calls belong to that moment too, so that a
//!   session is measured whole or not at all.
//! - *Response*: from intended to the answer's last byte, so that a stall is seen by every request
//!   it delays (no coordinated omission: Gil Tene, How not to measure latency; wrk2). A session's
//!   first call counts from its intended connection time, its later calls from when the answer
//!   before them was complete.
//! - *Service*: from the send to the last byte; making a connection is not in it.
//! - *Lateness*: what the generator itself delays: from the later of the intended time and the
//!   moment it saw a connection become free, to when it sends (or begins to connect). A request
//!   that waits because every connection is taken waits for the server. None in a closed loop.
//! - A request counts if it was intended after the warm-up and before the end. Each ends as one
//!   reply or one error; those still under way at the end are waited for, so
//!   `intended = replies + errors`. `replies_per_second` alone goes by when an answer ended,
//!   whichever request it belongs to: it is the throughput, also in overload.
//! - *Timeout*: a request unsent for that long, unanswered for that long, or answered later than
//!   that after its intended time. Its response time is the timeout, or that of the late answer, so
//!   that no percentile improves when answers are missing. A failed call takes the rest of its
//!   session with it.
//! - *Anew*: a connection for each request, which the server closes after its answer. The answer
//!   ends with that, so that connecting, the handshake and closing are all in its time, and no
//!   local port is left waiting.
//! - *Beside*: what the streams beside the requests moved in the measured time, by the same thread:
//!   a request can be late by one of their pieces, which its lateness shows.
//! - *Message* of a WebSocket: a request, which ends with the server's next message.
//! - *Page*: several requests on a connection of their own, counted as one request; its time begins
//!   with the connection. *Step* of a visit: a page and what it needs, likewise; its time begins
//!   with the visit, or with the end of the pause before it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::sample::{ConnectionUse, Load, Offered, Version};
use crate::tls::Protocol;

mod arrivals;
mod bucket;
mod bulk;
mod channel;
mod engine;
mod h1;
mod h2;
mod h3;
mod head;
mod huffman;
mod kept;
mod link;
mod marks;
mod multiplex;
mod pace;
mod pool;
mod reader;
pub mod saturation;
mod slow;
mod status;
mod tally;
mod tls;
mod visits;
mod watch;
mod websocket;
mod wire;

pub use bulk::{Bulk, OneTimeDownload};
pub use h2::{Fields as RequestFields, request as http2_request};
pub use h3::{reach as reach_http3, request as http3_request};
pub use kept::Kept;
pub use marks::marks;
pub use slow::SlowClients;
pub use status::Status;
pub use tls::Tls;
use visits::Steps;
pub use watch::{APART_MAX, Apart, Bin, InTime, Progress, Watch};
pub use websocket::{
    content as websocket_content, message as websocket_message, ping as websocket_ping,
};

/// Carries out a job on the calling thread, which never sleeps meanwhile: `pin` it to a core of its
/// own first. A server's faults are counted. An error is the generator's own: no descriptors or
/// local ports left, an impossible job, or `Interrupted` after a stop request.
pub fn run(job: &Job) -> io::Result<Load> {
    Engine::new(job)?.run(job.duration)
}

/// As `run`, over HTTP/1.1, with slow clients beside the requests.
pub fn run_beside(job: &Job, clients: &SlowClients) -> io::Result<Load> {
    engine::Engine::new(job)?.reading(clients).run(job.duration)
}

/// As `run`, with figures for another thread meanwhile. A stop request ends it with the figures so
/// far, in which requests under way are neither replies nor errors; so do the watch's number of
/// requests, once these have ended. So does an error of the generator after its first request;
/// `Progress::fault` has its text.
pub fn run_watched(job: &Job, watch: &Watch) -> io::Result<Load> {
    let mut engine = Engine::new(job)?.watched(watch);
    engine.run(job.duration).or_else(|fault| {
        let load = engine.finish();
        if load.intended == 0 {
            return Err(fault);
        }
        watch.fail(&fault);
        Ok(load)
    })
}

/// The load of one thread, by the job's protocol.
enum Engine<'a> {
    Http1(Box<engine::Engine<'a>>),
    Http2(Box<multiplex::Engine<'a, h2::Connection>>),
    Http3(Box<multiplex::Engine<'a, h3::Connection>>),
    WebSocket(Box<multiplex::Engine<'a, websocket::Connection>>),
    Visits1(Box<visits::Engine<'a, h1::Connection>>),
    Visits2(Box<visits::Engine<'a, h2::Connection>>),
    Visits3(Box<visits::Engine<'a, h3::Connection>>),
}

impl<'a> Engine<'a> {
    /// Opens no connection yet.
    fn new(job: &'a Job) -> io::Result<Engine<'a>> {
        Ok(match job.over {
            Some(ConnectionUse::Streams(streams) | ConnectionUse::Grpc(streams)) => {
                Engine::Http2(Box::new(multiplex::Engine::new(job, streams)?))
            }
            Some(ConnectionUse::Http3(streams)) => {
                Engine::Http3(Box::new(multiplex::Engine::new(job, streams)?))
            }
            Some(ConnectionUse::WebSocket) => {
                Engine::WebSocket(Box::new(multiplex::Engine::new(job, 1)?))
            }
            Some(ConnectionUse::Http3Anew) => {
                Engine::Http3(Box::new(multiplex::Engine::new(job, 1)?))
            }
            Some(ConnectionUse::Page { version, files }) => {
                Engine::visits(job, version, Steps::Files(files as usize), 1)?
            }
            Some(ConnectionUse::Visits { version, connections }) => {
                Engine::visits(job, version, Steps::Of(&job.client.steps), connections)?
            }
            Some(ConnectionUse::Anew { .. } | ConnectionUse::Herd) | None => {
                Engine::Http1(Box::new(engine::Engine::new(job)?))
            }
        })
    }

    /// Visitors that each have so many connections.
    fn visits(
        job: &'a Job,
        version: Version,
        steps: Steps<'a>,
        connections: u32,
    ) -> io::Result<Engine<'a>> {
        Ok(match version {
            Version::Http1 => {
                Engine::Visits1(Box::new(visits::Engine::new(job, steps, connections)?))
            }
            Version::Http2 => {
                Engine::Visits2(Box::new(visits::Engine::new(job, steps, connections)?))
            }
            Version::Http3 => {
                Engine::Visits3(Box::new(visits::Engine::new(job, steps, connections)?))
            }
        })
    }

    fn watched(self, watch: &'a Watch) -> Engine<'a> {
        match self {
            Engine::Http1(engine) => Engine::Http1(Box::new(engine.watched(watch))),
            Engine::Http2(engine) => Engine::Http2(Box::new(engine.watched(watch))),
            Engine::Http3(engine) => Engine::Http3(Box::new(engine.watched(watch))),
            Engine::WebSocket(engine) => Engine::WebSocket(Box::new(engine.watched(watch))),
            Engine::Visits1(engine) => Engine::Visits1(Box::new(engine.watched(watch))),
            Engine::Visits2(engine) => Engine::Visits2(Box::new(engine.watched(watch))),
            Engine::Visits3(engine) => Engine::Visits3(Box::new(engine.watched(watch))),
        }
    }

    fn run(&mut self, duration: Duration) -> io::Result<Load> {
        match self {
            Engine::Http1(engine) => engine.run(duration),
            Engine::Http2(engine) => engine.run(duration),
            Engine::Http3(engine) => engine.run(duration),
            Engine::WebSocket(engine) => engine.run(duration),
            Engine::Visits1(engine) => engine.run(duration),
            Engine::Visits2(engine) => engine.run(duration),
            Engine::Visits3(engine) => engine.run(duration),
        }
    }

    /// Takes the counts so far, and publishes them.
    fn finish(&mut self) -> Load {
        match self {
            Engine::Http1(engine) => engine.finish(),
            Engine::Http2(engine) => engine.finish(),
            Engine::Http3(engine) => engine.finish(),
            Engine::WebSocket(engine) => engine.finish(),
            Engine::Visits1(engine) => engine.finish(),
            Engine::Visits2(engine) => engine.finish(),
            Engine::Visits3(engine) => engine.finish(),
        }
    }
}

/// The protocol of connections with this use.
pub fn protocol(over: Option<ConnectionUse>) -> Protocol {
    match over.map(ConnectionUse::version) {
        None | Some(Version::Http1) => Protocol::Http1,
        Some(Version::Http2) => Protocol::Http2,
        Some(Version::Http3) => Protocol::Http3,
    }
}

/// Keeps the calling thread on one core.
pub fn pin(core: usize) -> io::Result<()> {
    pin_to(&[core])
}

/// Keeps the calling thread on some cores.
pub fn pin_to(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).map_err(|errno| {
        let error = io::Error::from(errno);
        let shown: Vec<String> = cores.iter().map(usize::to_string).collect();
        let shown = shown.join(",");
        let text =
            format!("cannot keep the generator on core {shown}: {error}; name one it may use");
        io::Error::new(error.kind(), text)
    })
}

/// A job for the generator.
#[derive(Clone, Debug)]
pub struct Job {
    /// Address of the server.
    pub target: SocketAddr,
    /// Way of connecting and waiting.
    pub client: Client,
    /// Complete requests as sent (HTTP/1.1, keep-alive); for HTTP/2 their fields (`http2_request`),
    /// for HTTP/3 their HEADERS frames (`http3_request`).
    pub requests: Vec<Vec<u8>>,
    /// Their bodies over HTTP/2 and HTTP/3, by the same index; those that are missing are empty. Of
    /// a WebSocket's upgrade the frame that is sent again and again.
    pub bodies: Vec<Bytes>,
    /// Order of the requests, repeated; empty: always the first.
    pub order: Vec<u32>,
    /// The body every response must have.
    pub expected: Expected,
    pub offered: Offered,
    /// Encryption of connections; `None` in clear text.
    pub tls: Option<Tls>,
    /// Special use of connections, if any; requests on new connections ask for their end.
    pub over: Option<ConnectionUse>,
    /// Streams beside the requests, if any.
    pub beside: Option<Bulk>,
    /// Number of the draw of random arrivals: jobs with the same one have the same arrivals.
    pub draw: u64,
    /// Time that is not counted.
    pub warm_up: Duration,
    /// Time that is counted.
    pub duration: Duration,
    /// A longer response time is an error.
    pub timeout: Duration,
    /// Set to end the job at once, as after a Ctrl-C.
    pub stop: Arc<AtomicBool>,
}

impl Job {
    /// Index of the nth request.
    fn nth(&self, number: usize) -> usize {
        let at = number % self.order.len().max(1);
        self.order.get(at).map_or(0, |&which| which as usize)
    }

    /// Index of the request after those that were chosen, which counts it among them.
    fn choose(&self, chosen: &mut usize) -> usize {
        let which = self.nth(*chosen);
        *chosen = chosen.wrapping_add(1);
        which
    }

    /// The request of this index, and its body over HTTP/2 and HTTP/3.
    fn request(&self, which: usize) -> (&[u8], Bytes) {
        (&self.requests[which], self.bodies.get(which).cloned().unwrap_or_default())
    }

    /// `true` if every request has a connection of its own.
    fn is_anew(&self) -> bool {
        matches!(self.over, Some(ConnectionUse::Anew { .. } | ConnectionUse::Http3Anew))
    }
}

/// Ways of the generator that differ from the usual.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// A unix domain socket instead of the address.
    pub socket: Option<PathBuf>,
    /// `true`: it sleeps until a response arrives or a request is due. It leaves the processor to
    /// others, and wakes some 50 µs late.
    pub sleeps: bool,
    /// The steps of each visit, in their order; empty unless `over` is `ConnectionUse::Visits`.
    pub steps: Vec<Step>,
}

/// A step of a visit.
#[derive(Clone, Debug)]
pub struct Step {
    /// Indices of the job's requests: the page, and what is requested at once when it is there.
    pub requests: Vec<usize>,
    /// The shortest and the longest pause after the step, in which the visitor reads.
    pub pause: [Duration; 2],
}

/// The response that each request should get.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The response's status, or `ANY_STATUS`.
    pub status: u16,
    /// Its body's length, in bytes, or `ANY_LENGTH`.
    pub body_bytes: u64,
    /// Its body, if every byte is compared; otherwise only the length is.
    pub body: Option<Vec<u8>>,
}

/// Every status is right.
pub const ANY_STATUS: u16 = 0;

/// Every length is right.
pub const ANY_LENGTH: u64 = u64::MAX;

impl Expected {
    fn takes_status(&self, status: u16) -> bool {
        self.status == status || self.status == ANY_STATUS
    }

    fn takes_length(&self, bytes: u64) -> bool {
        self.body_bytes == bytes || self.body_bytes == ANY_LENGTH
    }

    /// `true` if a server may close a connection of HTTP/2 in an orderly way.
    fn takes_going_away(&self) -> bool {
        self.status == ANY_STATUS
    }

    /// `true` if bodies are known to be at least so long and are not compared.
    fn is_long(&self, bytes: u64) -> bool {
        self.body.is_none() && self.body_bytes >= bytes && self.body_bytes != ANY_LENGTH
    }
}
