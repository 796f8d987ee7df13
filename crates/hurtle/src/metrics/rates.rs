//! Rates and percentiles between two snapshots of a server: the figures of `hurtle top` and of
//! status pages. Pure: the caller reads the snapshots.

use std::collections::BTreeMap;

use super::counters::FileCacheSnapshot;
use super::snapshot::{
    CacheSnapshot, ConnectionSnapshot, Distribution, LaneSnapshot, Name, ReloadSnapshot,
    RouteSnapshot, Snapshot, UpstreamSnapshot, UpstreamState, WorkerSnapshot,
};
use super::{InFlightSnapshot, PathsSnapshot};

/// Shortest interval, in seconds: two snapshots of one moment have no infinite rates.
const SECONDS_MIN: f64 = 0.001;

/// Status classes, in the order of [`RouteRates::classes`].
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The figures of an interval. Rates are per second and never negative.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// The version of the server.
    pub version: String,
    /// Number of the process in the system.
    pub pid: u32,
    /// Time since the start of the process, in seconds.
    pub up: f64,
    /// Length of the interval, in seconds.
    pub seconds: f64,
    /// `true`: the interval begins with the process.
    pub is_since_start: bool,
    /// Processors in use; 1 is one whole processor.
    pub cpu: f64,
    /// Resident memory in bytes; `None`: unknown.
    pub resident_bytes: Option<u64>,
    /// Requests of all sites and mounts together.
    pub total: RouteRates,
    /// Bytes received from clients.
    pub received: f64,
    /// Connections that were accepted.
    pub accepted: f64,
    /// Open client connections at the end of the interval, by protocol and state.
    pub connections: ConnectionSnapshot,
    /// Requests by site and mount, of those that have had any.
    pub routes: Vec<RouteRates>,
    /// The paths that got most responses lately, estimated from samples.
    pub paths: PathsSnapshot,
    /// Requests in flight at the end of the interval.
    pub in_flight: InFlightSnapshot,
    /// The file caches of all workers together.
    pub file_cache: FileCacheRates,
    /// The response caches; their results are in `cache_results`.
    pub response_cache: CacheSnapshot,
    /// Requests by result of a response cache.
    pub cache_results: BTreeMap<Name, f64>,
    /// The disk threads, by lane.
    pub disk: Vec<LaneRates>,
    /// The upstreams of all mounts.
    pub upstreams: Vec<UpstreamRates>,
    /// Connections and event-loop delay of each worker.
    pub workers: Vec<WorkerRates>,
    /// Refused requests and connections by limit: those of the interval, and since the start.
    pub limits: Vec<(Name, u64, u64)>,
    /// Reloads of the configuration.
    pub reloads: ReloadSnapshot,
}

/// The requests of a mount, or all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteRates {
    /// The site's name; empty: no site has the requested host.
    pub site: String,
    /// The mount's path; empty: the site itself responded.
    pub mount: String,
    /// Responses per second.
    pub requests: f64,
    /// Responses by status class.
    pub classes: [f64; 5],
    /// Bytes of response bodies.
    pub sent: f64,
    /// Time from the head of the request to the end of the response.
    pub latency: Latency,
}

/// Percentiles in seconds, interpolated within the buckets of a histogram; `None`: no values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Latency {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
}

/// The file caches of all workers together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileCacheRates {
    /// Requests answered from it.
    pub hits: f64,
    /// Look-ups on disk per second.
    pub misses: f64,
    /// Files in the caches at the end of the interval.
    pub entries: u64,
    /// Memory of the caches at the end of the interval, in bytes.
    pub bytes: u64,
}

/// A lane of the disk threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneRates {
    /// Name of the lane; lanes without a name are one.
    pub lane: String,
    /// Jobs that wait for a thread at the end of the interval.
    pub queued: u64,
    /// Jobs that a thread runs at the end of the interval.
    pub running: u64,
    /// Jobs that were begun.
    pub jobs: f64,
    /// Mean wait of those jobs, in seconds.
    pub wait: Option<f64>,
    /// Jobs that were refused.
    pub rejected: f64,
}

/// An upstream of a mount.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamRates {
    /// Name of the site: its first host and, if it has one, its first address.
    pub site: String,
    /// Name of the mount, which is unique in its site.
    pub mount: String,
    /// The upstream as configured.
    pub upstream: String,
    /// State at the end of the interval.
    pub state: UpstreamState,
    /// Requests sent to it at the end of the interval.
    pub in_flight: u64,
    /// Idle connections at the end of the interval.
    pub idle: u64,
    /// Attempts that got a response.
    pub answered: f64,
    /// Attempts that failed or timed out.
    pub failed: f64,
    /// Time to the head of the response.
    pub latency: Latency,
}

/// The load of a worker, which is one thread with an event loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerRates {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// Open client connections at the end of the interval.
    pub connections: u64,
    /// Upper bound of the longest delay of its event loop, in seconds; `None`: not measured.
    pub lag: Option<f64>,
}

/// The order of the rows of mounts; each begins with the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Responses per second.
    #[default]
    Requests,
    /// The 99th percentile of the latency.
    Latency,
    /// Responses with 4xx and 5xx per second.
    Errors,
    /// Bytes sent per second.
    Bytes,
}

impl Rates {
    /// Computes the figures between two snapshots. Without `before`, or if it is of another
    /// process, the interval begins with the process. A counter that is lower than before began
    /// again at 0.
    pub fn between(before: Option<&Snapshot>, after: &Snapshot) -> Rates {
        let nothing = Snapshot { time: after.process.start_time, ..Snapshot::default() };
        let known = before.filter(|before| is_same_process(before, after));
        let before = known.unwrap_or(&nothing);
        let seconds = (after.time - before.time).max(SECONDS_MIN);
        let rate = |after: u64, before: u64| grown(after, before) as f64 / seconds;
        let files: (&FileCacheSnapshot, _) = (&after.file_cache, &before.file_cache);
        let mut routes: Vec<_> = after.routes.iter().map(|of| Route::new(before, of)).collect();
        routes.retain(|route| route.has_requests);
        let total = routes.iter().fold(Route::default(), Route::plus).rates(seconds);
        let limit = |(name, count): (&Name, &u64)| {
            let known = before.limits.get(name).copied().unwrap_or(0);
            (name.clone(), grown(*count, known), *count)
        };
        Rates {
            version: after.version.to_string(),
            pid: after.process.pid,
            up: (after.time - after.process.start_time).max(0.0),
            seconds,
            is_since_start: known.is_none(),
            cpu: grown_f64(after.process.cpu_seconds, before.process.cpu_seconds) / seconds,
            resident_bytes: after.process.resident_bytes,
            total,
            received: rate(after.received_bytes, before.received_bytes),
            accepted: rate(after.connections.accepted, before.connections.accepted),
            connections: after.connections.clone(),
            routes: routes.into_iter().map(|route| route.rates(seconds)).collect(),
            paths: after.paths.clone(),
            in_flight: after.in_flight.clone(),
            file_cache: FileCacheRates {
                hits: rate(files.0.hits, files.1.hits),
                misses: rate(files.0.misses, files.1.misses),
                entries: files.0.entries,
                bytes: files.0.bytes,
            },
            response_cache: after.response_cache.clone(),
            cache_results: cache_results(before, after, seconds),
            disk: after.disk.iter().map(|lane| lane_rates(before, lane, seconds)).collect(),
            upstreams: after.upstreams.iter().map(|of| upstream(before, of, seconds)).collect(),
            workers: after.workers.iter().map(|of| worker(before, of)).collect(),
            limits: after.limits.iter().map(limit).collect(),
            reloads: after.reloads.clone(),
        }
    }

    /// Sorts the rows of mounts.
    pub fn sort(&mut self, by: SortKey) {
        let key = |route: &RouteRates| match by {
            SortKey::Requests => route.requests,
            SortKey::Latency => route.latency.p99.unwrap_or(-1.0),
            SortKey::Errors => route.errors(),
            SortKey::Bytes => route.sent,
        };
        // Stable: rows that are equal keep the order of their names.
        self.routes.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }
}

impl RouteRates {
    /// Responses with 4xx and 5xx.
    pub fn errors(&self) -> f64 {
        self.classes[3] + self.classes[4]
    }
}

impl FileCacheRates {
    /// Share of hits; `None`: no requests.
    pub fn hit_share(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0.0).then(|| self.hits / all)
    }
}

impl Latency {
    fn of(times: &Distribution) -> Latency {
        Latency { p50: quantile(times, 0.5), p90: quantile(times, 0.9), p99: quantile(times, 0.99) }
    }
}

/// The requests of a mount in an interval.
#[derive(Default)]
struct Route {
    site: String,
    mount: String,
    classes: [u64; 5],
    sent: f64,
    times: Distribution,
    /// `true` if there were any since the start.
    has_requests: bool,
}

impl Route {
    fn new(before: &Snapshot, after: &RouteSnapshot) -> Route {
        let same = |of: &&RouteSnapshot| of.site == after.site && of.mount == after.mount;
        let nothing = RouteSnapshot::default();
        let before = before.routes.iter().find(same).unwrap_or(&nothing);
        let mut classes = [0; 5];
        for of in &after.requests {
            let same = |known: &&_| is_same_count(known, of);
            let known = before.requests.iter().find(same).map_or(0, |known| known.count);
            if let Some(at) = CLASSES.iter().position(|class| *class == of.status) {
                classes[at] += grown(of.count, known);
            }
        }
        Route {
            site: after.site.clone(),
            mount: after.mount.clone(),
            classes,
            sent: grown_f64(after.response_bytes.sum, before.response_bytes.sum),
            times: difference(&after.duration_seconds, &before.duration_seconds),
            has_requests: !after.requests.is_empty(),
        }
    }

    fn plus(mut self, other: &Route) -> Route {
        for (sum, more) in self.classes.iter_mut().zip(&other.classes) {
            *sum += more;
        }
        self.sent += other.sent;
        self.times.add(&other.times);
        self
    }

    fn rates(self, seconds: f64) -> RouteRates {
        RouteRates {
            requests: self.classes.iter().sum::<u64>() as f64 / seconds,
            classes: self.classes.map(|count| count as f64 / seconds),
            sent: self.sent / seconds,
            latency: Latency::of(&self.times),
            site: self.site,
            mount: self.mount,
        }
    }
}

fn is_same_process(before: &Snapshot, after: &Snapshot) -> bool {
    let of = |snapshot: &Snapshot| (snapshot.process.pid, snapshot.process.start_time);
    of(before) == of(after) && before.time <= after.time
}

fn is_same_count(a: &super::snapshot::RequestCount, b: &super::snapshot::RequestCount) -> bool {
    a.protocol == b.protocol && a.status == b.status
}

/// The growth of a counter.
fn grown(after: u64, before: u64) -> u64 {
    after.checked_sub(before).unwrap_or(after)
}

fn grown_f64(after: f64, before: f64) -> f64 {
    let after = after.max(0.0);
    if after >= before { after - before.max(0.0) } else { after }
}

/// The values that were added to a distribution; all if it began again.
fn difference(after: &Distribution, before: &Distribution) -> Distribution {
    let grew = || after.counts.iter().zip(&before.counts).all(|(after, before)| after >= before);
    if after.bounds != before.bounds || after.counts.len() != before.counts.len() || !grew() {
        return after.clone();
    }
    let counts = after.counts.iter().zip(&before.counts).map(|(after, before)| after - before);
    Distribution::new(after.bounds.clone(), counts.collect(), grown_f64(after.sum, before.sum))
}

/// The value below which this share lies, interpolated within its bucket. A value above all bounds
/// counts as the last bound.
fn quantile(of: &Distribution, share: f64) -> Option<f64> {
    let total: u64 = of.counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = share * total as f64;
    let mut below = 0;
    for (at, count) in of.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0) {
        if (below + count) as f64 >= rank {
            let Some(upper) = of.bounds.get(at) else { break };
            let lower = at.checked_sub(1).map_or(0.0, |at| of.bounds[at]);
            let at = lower + (upper - lower) * (rank - below as f64) / count as f64;
            // Rounding must not leave the bucket.
            return Some(at.clamp(lower, upper.max(lower)));
        }
        below += count;
    }
    of.bounds.last().copied()
}

fn cache_results(before: &Snapshot, after: &Snapshot, seconds: f64) -> BTreeMap<Name, f64> {
    let mut results = BTreeMap::new();
    for route in &after.routes {
        let same = |of: &&RouteSnapshot| of.site == route.site && of.mount == route.mount;
        let known = before.routes.iter().find(same);
        for (result, count) in &route.cache {
            let known = known.and_then(|of| of.cache.get(result)).copied().unwrap_or(0);
            *results.entry(result.clone()).or_insert(0.0) += grown(*count, known) as f64 / seconds;
        }
    }
    results
}

fn lane_rates(before: &Snapshot, after: &LaneSnapshot, seconds: f64) -> LaneRates {
    let nothing = LaneSnapshot::default();
    let before = before.disk.iter().find(|of| of.lane == after.lane).unwrap_or(&nothing);
    let jobs = grown(after.jobs, before.jobs) as f64;
    let waited = grown_f64(after.wait_seconds, before.wait_seconds);
    LaneRates {
        lane: after.lane.clone(),
        queued: after.queued,
        running: after.running,
        jobs: jobs / seconds,
        wait: (jobs > 0.0).then(|| waited / jobs),
        rejected: grown(after.rejected, before.rejected) as f64 / seconds,
    }
}

fn upstream(before: &Snapshot, after: &UpstreamSnapshot, seconds: f64) -> UpstreamRates {
    let labels = |of: &UpstreamSnapshot| [&of.site, &of.mount, &of.upstream].map(String::clone);
    let nothing = UpstreamSnapshot::default();
    let same = |of: &&UpstreamSnapshot| labels(of) == labels(after);
    let before = before.upstreams.iter().find(same).unwrap_or(&nothing);
    let count = |of: &UpstreamSnapshot, outcome| of.requests.get(outcome).copied().unwrap_or(0);
    let rate = |outcome| grown(count(after, outcome), count(before, outcome)) as f64 / seconds;
    let times = difference(&after.response_seconds, &before.response_seconds);
    UpstreamRates {
        site: after.site.clone(),
        mount: after.mount.clone(),
        upstream: after.upstream.clone(),
        state: after.state(),
        in_flight: after.in_flight,
        idle: after.idle_connections,
        answered: rate("answered"),
        failed: rate("failed") + rate("timed_out"),
        latency: Latency::of(&times),
    }
}

fn worker(before: &Snapshot, after: &WorkerSnapshot) -> WorkerRates {
    let nothing = WorkerSnapshot::default();
    let before = before.workers.iter().find(|of| of.worker == after.worker).unwrap_or(&nothing);
    let lag = difference(&after.loop_lag_seconds, &before.loop_lag_seconds);
    WorkerRates { worker: after.worker, connections: after.connections, lag: quantile(&lag, 1.0) }
}

#[cfg(test)]
mod tests;
