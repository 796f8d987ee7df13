//! The counts of a whole server at one time. Its JSON form (`hurtle status --json`) has the names
//! of these fields; docs/monitoring.md describes them, and they change only by addition.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::counters::{FileCacheSnapshot, StoreSums};
use serde::{Deserialize, Serialize};

use super::buffered::BufferedSnapshot;
use super::counter::TIME_BOUNDS_US;
use super::process::ProcessSnapshot;
use super::{Histogram, InFlightSnapshot, NativeBuckets, PathsSnapshot};

/// A name that the server's code defines, or that a reader got from a server.
pub type Name = Cow<'static, str>;

/// The counts of a server. Counters begin at its start and only grow, so that a reader computes
/// rates from two snapshots.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Time of the snapshot, in seconds since 1970.
    pub time: f64,
    /// The version of the server.
    pub version: Name,
    /// Time of start, memory, processor time and descriptors of the process.
    pub process: ProcessSnapshot,
    /// Requests by site and mount.
    pub routes: Vec<RouteSnapshot>,
    /// The paths that got most responses lately, estimated from samples.
    pub paths: PathsSnapshot,
    /// Requests in flight: their number, and the slowest of them.
    pub in_flight: InFlightSnapshot,
    /// Client connections: those accepted since the start, and the open ones by protocol and state.
    pub connections: ConnectionSnapshot,
    /// Bytes received from clients, without those of TLS.
    pub received_bytes: u64,
    /// Bytes of response bodies that were sent.
    pub sent_bytes: u64,
    /// TLS handshakes and certificates.
    pub tls: TlsSnapshot,
    /// The file caches of all workers.
    pub file_cache: FileCacheSnapshot,
    /// Entries, sizes and evictions of all response caches together.
    pub response_cache: CacheSnapshot,
    /// The disk threads, by lane.
    pub disk: Vec<LaneSnapshot>,
    /// The upstreams of all mounts; one that several mounts have is in each of them.
    pub upstreams: Vec<UpstreamSnapshot>,
    /// Limits that clients have hit.
    pub limits: BTreeMap<Name, u64>,
    /// The store that several servers share.
    pub store: StoreSnapshot,
    /// Reloads of the configuration.
    pub reloads: ReloadSnapshot,
    /// Delay of each worker's event loop.
    pub workers: Vec<WorkerSnapshot>,
    /// Bodies that are kept for slow clients.
    pub buffered: BufferedSnapshot,
    /// Lines that the access log has dropped.
    pub access_log_dropped: u64,
}

/// A histogram with classic and native buckets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// Upper bounds of the buckets; a last bucket has none.
    pub bounds: Vec<f64>,
    /// Counts of the buckets, not cumulative.
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: f64,
    /// Number of the values.
    pub count: u64,
    /// The buckets of a native histogram, for readers of the protobuf format.
    #[serde(skip)]
    pub native: NativeBuckets,
}

/// The requests to a mount.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteSnapshot {
    /// The site's name; empty: no site has the requested host.
    pub site: String,
    /// The mount's path; empty: the site itself responded, as with a redirect.
    pub mount: String,
    /// Responses by protocol and class of status.
    pub requests: Vec<RequestCount>,
    /// Time from the head of the request to the end of the response.
    pub duration_seconds: Distribution,
    /// Bytes of the response's body.
    pub response_bytes: Distribution,
    /// Results of the response cache, by their names in the access log.
    pub cache: BTreeMap<Name, u64>,
}

/// Responses of one protocol and class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCount {
    /// `http/1.1` (which includes HTTP/1.0) or `h2`.
    pub protocol: Name,
    /// The class of the status, such as `2xx`.
    pub status: Name,
    /// Responses of this protocol and class since the start.
    pub count: u64,
}

/// Client connections: those accepted since the start, and the open ones by protocol and state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionSnapshot {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that perform a TLS handshake.
    pub handshaking: u64,
    /// HTTP/1.1 connections with a request.
    pub http1_active: u64,
    /// HTTP/1.1 connections that wait for a request.
    pub http1_idle: u64,
    /// HTTP/2 connections with a stream.
    pub http2_active: u64,
    /// HTTP/2 connections without streams.
    pub http2_idle: u64,
    /// HTTP/3 connections with a stream.
    pub http3_active: u64,
    /// HTTP/3 connections without streams.
    pub http3_idle: u64,
    /// Other connections, such as those that wait for a PROXY protocol header.
    pub other: u64,
}

/// TLS handshakes and certificates.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsSnapshot {
    /// Complete handshakes, by version of TLS and resumption.
    pub handshakes: Vec<HandshakeCount>,
    /// Failed handshakes by reason.
    pub failures: BTreeMap<Name, u64>,
    /// The certificates in use.
    pub certificates: Vec<CertificateSnapshot>,
}

/// Handshakes of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HandshakeCount {
    /// Version of TLS: `1.2` or `1.3`.
    pub version: Name,
    /// `true` if a session was resumed.
    pub resumed: bool,
    /// Handshakes of this kind since the start.
    pub count: u64,
}

/// A certificate of a site, with its source, expiry and renewal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSnapshot {
    /// Name of the site: its first host and, if it has one, its first address.
    pub site: String,
    /// Its number among the site's certificates.
    pub number: usize,
    /// `files`, `acme`, `local` or `on-demand`, which stands for all certificates of the site in
    /// memory: their first expiry and their first renewal.
    pub source: Name,
    /// Beginning and end of its validity, in seconds since 1970; `None`: it is still to be issued.
    pub not_before: Option<u64>,
    pub not_after: Option<u64>,
    /// Time at which the server replaces it, or tries so again, in seconds since 1970; `None`: the
    /// operator replaces it, or the time is not known yet.
    pub renewal: Option<u64>,
}

/// All response caches together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSnapshot {
    /// Stored responses at this time.
    pub entries: u64,
    /// Memory that stored responses use, in bytes.
    pub memory_bytes: u64,
    /// Space that stored responses use on disk, in bytes.
    pub disk_bytes: u64,
    /// Keys that were evicted.
    pub evictions: u64,
}

/// A lane of the disk threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneSnapshot {
    /// Its name; lanes without a name are one.
    pub lane: String,
    /// Jobs that wait for a thread at this time.
    pub queued: u64,
    /// Jobs that a thread runs at this time.
    pub running: u64,
    /// Jobs that were begun.
    pub jobs: u64,
    /// Sum of their waits, in seconds.
    pub wait_seconds: f64,
    /// Jobs that were refused because the queue was full.
    pub rejected: u64,
}

/// An upstream of a mount.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpstreamSnapshot {
    /// Name of the site: its first host and, if it has one, its first address.
    pub site: String,
    /// Name of the mount, which is unique in its site.
    pub mount: String,
    /// The upstream as configured.
    pub upstream: String,
    /// `true` if every worker sends it requests.
    pub is_up: bool,
    /// Requests sent to it at this time, by all workers.
    pub in_flight: u64,
    /// Idle connections kept for further requests, by all workers.
    pub idle_connections: u64,
    /// Requests that wait because it is busy (`max_connections`).
    pub waiting: u64,
    /// Requests that were refused because it was busy.
    pub refused: u64,
    /// Connections that were opened, or tried.
    pub connects: u64,
    /// Attempts by outcome: `answered`, `failed`, `timed_out`.
    pub requests: BTreeMap<Name, u64>,
    /// Time from choosing the upstream to the head of its response.
    pub response_seconds: Distribution,
}

impl UpstreamSnapshot {
    /// `up`, `down`, or `untried`: nothing was sent to it yet.
    pub fn state(&self) -> UpstreamState {
        let is_untried = self.connects == 0 && self.requests.values().all(|count| *count == 0);
        match self.is_up {
            false => UpstreamState::Down,
            true if is_untried => UpstreamState::Untried,
            true => UpstreamState::Up,
        }
    }
}

/// The state of an upstream, as far as this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamState {
    /// Every worker sends it requests.
    Up,
    /// A health check or its failures keep it from getting requests.
    Down,
    /// Neither a request nor a health check has tried it.
    #[default]
    Untried,
}

impl UpstreamState {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            UpstreamState::Up => "up",
            UpstreamState::Down => "down",
            UpstreamState::Untried => "untried",
        }
    }
}

/// The store that several servers share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreSnapshot {
    /// Connections to the store, its decisions and its purges.
    #[serde(flatten)]
    pub sums: StoreSums,
    /// Time of its decisions about rate limits.
    pub decision_seconds: Distribution,
}

/// Reloads of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadSnapshot {
    /// Reloads since the start whose configuration came into force.
    pub succeeded: u64,
    /// Reloads since the start after which the earlier configuration stayed in force.
    pub failed: u64,
    /// Time of the last that succeeded, or of the start, in seconds since 1970.
    pub last_success: u64,
    /// `false`: the last one failed.
    pub last_succeeded: bool,
}

/// The load of a worker, which is one thread with an event loop.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerSnapshot {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// Open client connections of the worker.
    pub connections: u64,
    /// Delay of a timer of its event loop, measured once a second.
    pub loop_lag_seconds: Distribution,
}

impl Distribution {
    /// Creates a distribution. `counts` has one more bucket than `bounds`.
    pub fn new(bounds: Vec<f64>, counts: Vec<u64>, sum: f64) -> Distribution {
        let count = counts.iter().sum();
        Distribution { bounds, counts, sum, count, native: NativeBuckets::default() }
    }

    /// Adds another distribution with the same buckets.
    pub fn add(&mut self, other: &Distribution) {
        if self.bounds.is_empty() {
            self.bounds.clone_from(&other.bounds);
            self.counts = vec![0; other.counts.len()];
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
        // The sum of the buckets, so that both agree while a worker counts.
        self.count += other.count;
        self.native.add(&other.native);
    }

    /// Adds a histogram of times, in seconds.
    pub(super) fn add_times(&mut self, times: &Histogram) {
        let bounds = TIME_BOUNDS_US.iter().map(|us| *us as f64 / 1e6).collect();
        let seconds = times.sum_us() as f64 / 1e6;
        let native = times.native();
        let times = Distribution::new(bounds, times.buckets().collect(), seconds);
        self.add(&Distribution { native, ..times });
    }
}
