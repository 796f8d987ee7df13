//! The load generator: one thread that never sleeps, on a core of its own.

use std::net::SocketAddr;
use std::time::Duration;

use crate::sample::Offered;

/// A piece of work for the generator.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where the server listens.
    pub target: SocketAddr,
    /// A whole request, as it is sent each time (HTTP/1.1, keep-alive).
    pub request: Vec<u8>,
    /// The body every answer must have.
    pub expected: Expected,
    /// How load is offered.
    pub offered: Offered,
    /// Not counted.
    pub warm_up: Duration,
    /// Counted.
    pub duration: Duration,
    /// An answer that takes longer is an error.
    pub timeout: Duration,
}

/// What an answer must be.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its status.
    pub status: u16,
    /// Its body's length, in bytes.
    pub body_bytes: u64,
    /// Its body, where every byte is compared; else only the length is.
    pub body: Option<Vec<u8>>,
}
