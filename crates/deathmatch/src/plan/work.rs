//! One work of a plan.

use std::time::Duration;

use crate::sample::{Beside, ConnectionUse, Network, Offered};

/// Samples of an upward search: for the estimate only.
const UPWARD_SAMPLES: u32 = 8;

/// A work: a request, and the load by which it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Its request and load, such as `10k.png at 5000/s`.
    pub asks: String,
    /// Name of the file that is requested.
    pub file: String,
    /// The load, of one sample or of a search for the limit.
    pub shape: Shape,
    /// Zipf exponent s: file k is requested in proportion to k^-s. 0: all files equally often.
    pub zipf: f64,
    /// `true`: requests have the fields that a browser sends.
    pub browser: bool,
    /// Special use of connections.
    pub over: Option<ConnectionUse>,
    /// The network between the generator and the server; `None`: loopback.
    pub network: Option<Network>,
    /// Streams beside the requests, if any.
    pub beside: Option<Beside>,
    /// Duration of its samples, if other than the plan's.
    pub sample: Option<Duration>,
}

/// Load that one work offers a contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// One sample.
    Steady(Offered),
    /// Open loop, upwards by doubling until the contender or the generator is at its limit, then
    /// the steps between the last two; at the end one sample at 1.5 times the rate carried.
    Upward {
        /// The rate to begin with, in requests a second.
        from: f64,
        /// Connections the requests are spread over.
        connections: u32,
    },
}

impl Work {
    /// A work on loopback, without anything special.
    pub(super) fn new(asks: String, file: &str, zipf: f64, shape: Shape) -> Work {
        let (over, network, beside, sample) = (None, None, None, None);
        let (file, browser) = (file.to_owned(), false);
        Work { asks, file, shape, zipf, browser, over, network, beside, sample }
    }

    /// The name of its samples in every round; unique in a plan.
    pub fn name(&self) -> String {
        let over = self.over.map(|over| format!(", {over}"));
        let beside = self.beside.as_ref().map(|beside| format!(", beside {beside}"));
        let network = self.network.map(|network| format!(", {network}"));
        let browser = self.browser.then(|| ", a browser's fields".to_owned());
        let more = [over, browser, network, beside].map(Option::unwrap_or_default);
        format!("{}{}", self.asks, more.concat())
    }

    /// The work without uploads, for a server that takes none: another work, with another name.
    pub fn without_uploads(&self) -> Work {
        let beside = self.beside.as_ref().map(Beside::downloads_only);
        Work { beside, ..self.clone() }
    }

    /// The work without a limit of reads, for machines that cannot limit them: another work, with
    /// another name.
    pub fn without_reads_per_s(&self) -> Work {
        let mut work = self.clone();
        if let Some(cold) = work.beside.as_mut().and_then(|beside| beside.cold.as_mut()) {
            cold.reads_per_s = None;
        }
        work
    }

    /// `true` if the load can pause at any moment and go on later: of sessions only handshakes.
    pub(super) fn fits_slices(&self) -> bool {
        let fits = match self.shape {
            Shape::Steady(Offered::Open { .. } | Offered::Closed { .. }) => true,
            Shape::Steady(Offered::Sessions { .. }) => self.over.is_some(),
            Shape::Upward { .. } => false,
        };
        fits && self.beside.is_none() && self.network.is_none() && !self.is_herd()
    }

    /// `true` if all connections request the same object at once.
    pub(crate) fn is_herd(&self) -> bool {
        self.over == Some(ConnectionUse::Herd)
    }

    /// `true` if cold files are downloaded beside it.
    pub(crate) fn is_cold(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.cold.is_some())
    }

    /// Limit of the server's reads a second; `None`: unlimited.
    pub(crate) fn reads_per_s(&self) -> Option<u32> {
        self.beside.as_ref()?.cold.as_ref()?.reads_per_s
    }

    /// Number of idle connections beside it; `None` without.
    pub(crate) fn idle(&self) -> Option<u32> {
        self.beside.as_ref().map(|beside| beside.idle).filter(|&count| count > 0)
    }

    /// Number of slow readers beside it; `None` without.
    pub(crate) fn slow(&self) -> Option<u32> {
        self.beside.as_ref().map(|beside| beside.slow).filter(|&count| count > 0)
    }

    /// Reloads of the server's configuration a second; `None` without.
    pub(crate) fn reloads_per_s(&self) -> Option<f64> {
        self.beside.as_ref()?.reloads_per_s
    }

    pub(super) fn uploads(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.uploads > 0)
    }

    /// The name of an open loop's samples in every round.
    pub fn open_name(file: &str, rate: f64, connections: u32) -> String {
        format!("{file} at {rate}/s over {connections} connections")
    }
}

impl Shape {
    pub(super) fn samples(&self) -> u32 {
        match self {
            Shape::Steady(_) => 1,
            Shape::Upward { .. } => UPWARD_SAMPLES,
        }
    }
}
