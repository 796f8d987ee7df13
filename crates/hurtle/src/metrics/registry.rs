//! The counters of a server: those of its workers, and those of the process.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::counter::Counter;
use super::counters::FileCacheSnapshot;
use super::snapshot::{
    ConnectionSnapshot, HandshakeCount, Name, ReloadSnapshot, RouteSnapshot, Snapshot,
    StoreSnapshot, TlsSnapshot, UpstreamSnapshot, WorkerSnapshot,
};
use super::worker::{HANDSHAKE_FAILURES, LIMITS, TLS_VERSIONS, WorkerMetrics};
use super::{activity_snapshot, buffered, process};

/// The counters of a server; shared by all its threads.
#[derive(Debug)]
pub struct Registry {
    start: SystemTime,
    workers: Mutex<Vec<Arc<WorkerMetrics>>>,
    reloaded: AtomicU64,
    not_reloaded: AtomicU64,
    /// Seconds since 1970.
    last_reload: AtomicU64,
    /// 1: the last reload failed.
    last_failed: AtomicU64,
}

impl Default for Registry {
    fn default() -> Registry {
        let start = SystemTime::now();
        Registry {
            start,
            workers: Mutex::default(),
            reloaded: AtomicU64::new(0),
            not_reloaded: AtomicU64::new(0),
            last_reload: AtomicU64::new(process::seconds(start) as u64),
            last_failed: AtomicU64::new(0),
        }
    }
}

impl Registry {
    /// Adds a worker; returns its counters.
    pub fn worker(&self) -> Arc<WorkerMetrics> {
        let metrics = Arc::new(WorkerMetrics::default());
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&metrics));
        metrics
    }

    /// Counts a reload of the configuration.
    pub fn count_reload(&self, succeeded: bool) {
        if succeeded {
            self.reloaded.fetch_add(1, Relaxed);
            self.last_reload.store(process::seconds(SystemTime::now()) as u64, SeqCst);
        } else {
            self.not_reloaded.fetch_add(1, Relaxed);
        }
        self.last_failed.store(u64::from(!succeeded), SeqCst);
    }

    /// Adds up the counts of all workers. It reads files, so an event loop must not call it.
    pub fn snapshot(&self) -> Snapshot {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let total = |of: fn(&WorkerMetrics) -> &Counter| {
            // A gauge may be read before the other side of a change.
            workers.iter().fold(0_u64, |sum, worker| sum.wrapping_add(of(worker).get()))
        };
        let open = total(|w| &w.open);
        let handshaking = total(|w| &w.handshaking);
        let (http1, http2) = (total(|w| &w.http1), total(|w| &w.http2));
        let http1_idle = total(|w| &w.http1_idle).min(http1);
        let http2_active = total(|w| &w.http2_active).min(http2);
        let http3 = total(|w| &w.http3);
        let http3_active = total(|w| &w.http3_active).min(http3);
        let routes = routes(&workers);
        let process = process::read(self.start);
        let now = process::seconds(SystemTime::now());
        let (paths, in_flight) = activity_snapshot::join(&workers, now, now - process.start_time);
        let sent_bytes = workers.iter().map(|worker| worker.sent_bytes()).sum();
        let mut file_cache = FileCacheSnapshot::default();
        workers.iter().for_each(|worker| file_cache.add(&worker.files));
        Snapshot {
            time: now,
            version: env!("CARGO_PKG_VERSION").into(),
            process,
            routes,
            paths,
            in_flight,
            connections: ConnectionSnapshot {
                accepted: total(|w| &w.accepted),
                handshaking,
                http1_active: http1 - http1_idle,
                http1_idle,
                http2_active,
                http2_idle: http2 - http2_active,
                http3_active,
                http3_idle: http3 - http3_active,
                other: open.saturating_sub(handshaking + http1 + http2 + http3),
            },
            received_bytes: total(|w| &w.received),
            sent_bytes,
            tls: tls(&workers),
            file_cache,
            upstreams: upstreams(&workers),
            limits: named(&LIMITS, |at| workers.iter().map(|w| w.limits[at].get()).sum()),
            store: store(&workers),
            reloads: ReloadSnapshot {
                succeeded: self.reloaded.load(Relaxed),
                failed: self.not_reloaded.load(Relaxed),
                last_success: self.last_reload.load(SeqCst),
                last_succeeded: self.last_failed.load(SeqCst) == 0,
            },
            workers: (0..).zip(&workers).map(|(number, metrics)| worker(number, metrics)).collect(),
            buffered: buffered::read(),
            ..Snapshot::default()
        }
    }
}

fn named(names: &[&'static str], count: impl Fn(usize) -> u64) -> BTreeMap<Name, u64> {
    names.iter().enumerate().map(|(at, name)| ((*name).into(), count(at))).collect()
}

/// Adds up the requests by site and mount, in that order.
fn routes(workers: &[Arc<WorkerMetrics>]) -> Vec<RouteSnapshot> {
    let mut all: BTreeMap<(String, String), RouteSnapshot> = BTreeMap::new();
    for route in workers.iter().flat_map(|worker| worker.routes()) {
        let labels = (route.site.clone(), route.mount.clone());
        let (site, mount) = labels.clone();
        let empty = || RouteSnapshot { site, mount, ..RouteSnapshot::default() };
        route.add_to(all.entry(labels).or_insert_with(empty));
    }
    all.into_values().collect()
}

/// Adds up the requests to upstreams, in the order of their labels.
fn upstreams(workers: &[Arc<WorkerMetrics>]) -> Vec<UpstreamSnapshot> {
    let mut all: BTreeMap<[String; 3], UpstreamSnapshot> = BTreeMap::new();
    for known in workers.iter().flat_map(|worker| worker.upstreams()) {
        let labels = [known.site.clone(), known.mount.clone(), known.upstream.clone()];
        let [site, mount, upstream] = labels.clone();
        let empty = || UpstreamSnapshot {
            site,
            mount,
            upstream,
            is_up: true,
            ..UpstreamSnapshot::default()
        };
        known.add_to(all.entry(labels).or_insert_with(empty));
    }
    all.into_values().collect()
}

fn tls(workers: &[Arc<WorkerMetrics>]) -> TlsSnapshot {
    let mut handshakes = Vec::new();
    for (at, version) in TLS_VERSIONS.iter().copied().enumerate() {
        for resumed in [false, true] {
            let of = |w: &Arc<WorkerMetrics>| w.handshakes[at][usize::from(resumed)].get();
            handshakes.push(HandshakeCount {
                version: version.into(),
                resumed,
                count: workers.iter().map(of).sum(),
            });
        }
    }
    let failures = named(&HANDSHAKE_FAILURES, |at| {
        workers.iter().map(|w| w.handshake_failures[at].get()).sum()
    });
    TlsSnapshot { handshakes, failures, certificates: Vec::new() }
}

fn store(workers: &[Arc<WorkerMetrics>]) -> StoreSnapshot {
    let mut snapshot = StoreSnapshot::default();
    for worker in workers {
        snapshot.sums.add(&worker.store);
        snapshot.decision_seconds.add_times(&worker.store_latency);
    }
    snapshot
}

fn worker(worker: usize, metrics: &WorkerMetrics) -> WorkerSnapshot {
    let mut snapshot =
        WorkerSnapshot { worker, connections: metrics.open.get(), ..WorkerSnapshot::default() };
    snapshot.loop_lag_seconds.add_times(&metrics.lag);
    snapshot
}

#[cfg(test)]
mod tests {
    use super::super::Protocol;
    use super::*;

    #[test]
    fn workers_are_added_up_and_a_mount_is_found_again() {
        let registry = Registry::default();
        let workers = [registry.worker(), registry.worker()];
        for (worker, status) in workers.iter().zip([200, 503]) {
            worker.route("a.test", "/x").count(Protocol::Http1, status, 10);
            worker.route("a.test", "/x").count(Protocol::Http2, 200, 300);
        }
        let snapshot = registry.snapshot();
        let route = snapshot.routes.iter().find(|r| r.mount == "/x").unwrap();
        let of = |protocol: &str, status: &str| {
            let same = route.requests.iter().find(|r| r.protocol == protocol && r.status == status);
            same.map_or(0, |found| found.count)
        };
        assert_eq!((of("http/1.1", "2xx"), of("http/1.1", "5xx"), of("h2", "2xx")), (1, 1, 2));
        assert_eq!(route.response_bytes.counts[..2], [2, 2]);
        assert_eq!((route.response_bytes.count, route.response_bytes.sum), (4, 620.0));
        workers.iter().for_each(|worker| worker.retain_used());
        let routes = registry.snapshot().routes;
        assert_eq!(routes.len(), 1, "only requests without a site: {routes:?}");
    }
}
