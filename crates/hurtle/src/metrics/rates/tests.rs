//! Tests of rates and percentiles: tables, and the property that no figure is negative.

use proptest::prelude::*;

use super::*;
use crate::metrics::snapshot::RequestCount;

fn times(counts: [u64; 3]) -> Distribution {
    Distribution::new(vec![0.001, 0.01], counts.to_vec(), 0.0)
}

fn route(mount: &str, ok: u64, failed: u64, counts: [u64; 3], sent: f64) -> RouteSnapshot {
    let count = |status: &'static str, count| RequestCount {
        protocol: "h2".into(),
        status: status.into(),
        count,
    };
    RouteSnapshot {
        site: "a".to_owned(),
        mount: mount.to_owned(),
        requests: vec![count("2xx", ok), count("5xx", failed)],
        duration_seconds: times(counts),
        response_bytes: Distribution { sum: sent, ..Distribution::default() },
        ..RouteSnapshot::default()
    }
}

fn snapshot(time: f64, routes: Vec<RouteSnapshot>) -> Snapshot {
    let mut snapshot = Snapshot { time, routes, ..Snapshot::default() };
    snapshot.process.start_time = 100.0;
    snapshot.process.pid = 7;
    snapshot
}

#[test]
fn rates_are_the_growth_per_second() {
    let before = snapshot(110.0, vec![route("/", 100, 0, [100, 0, 0], 1e6)]);
    let after = snapshot(
        112.0,
        vec![route("/", 300, 10, [200, 110, 0], 3e6), route("/new", 40, 0, [0, 0, 40], 10.0)],
    );
    let rates = Rates::between(Some(&before), &after);
    assert_eq!((rates.seconds, rates.is_since_start, rates.up), (2.0, false, 12.0));
    let [root, new] = &rates.routes[..] else { panic!("{:?}", rates.routes) };
    assert_eq!((root.requests, root.errors(), root.sent), (105.0, 5.0, 1e6));
    assert_eq!((new.requests, new.errors(), new.sent), (20.0, 0.0, 5.0));
    assert_eq!((rates.total.requests, rates.total.sent), (125.0, 1_000_005.0));
    assert_eq!(rates.total.classes, [0.0, 120.0, 0.0, 0.0, 5.0]);
    // 100 of 210 in the first bucket: the 105th of them is the 5th of 110 in the second.
    let p50 = root.latency.p50.unwrap();
    assert!((p50 - (0.001 + 0.009 * 5.0 / 110.0)).abs() < 1e-9, "{p50}");
    assert_eq!(new.latency.p50, Some(0.01), "values above all bounds count as the last bound");
}

#[test]
fn the_first_snapshot_and_a_restart_count_from_the_start() {
    let served = |time, count| snapshot(time, vec![route("/", count, 0, [count, 0, 0], 0.0)]);
    let (before, after) = (served(108.0, 900), served(110.0, 20));
    let mut other = before.clone();
    other.process.pid = 8;
    let mut earlier = before.clone();
    earlier.process.start_time = 50.0;
    #[rustfmt::skip]
    let rows = [
        ("there is none before", None, true, 2.0),
        ("another process number", Some(&other), true, 2.0),
        ("another start", Some(&earlier), true, 2.0),
        ("a counter that began again", Some(&before), false, 10.0),
    ];
    for (sentence, before, is_since_start, requests) in rows {
        let rates = Rates::between(before, &after);
        let found = (rates.is_since_start, rates.total.requests);
        assert_eq!(found, (is_since_start, requests), "{sentence}");
    }
}

#[test]
fn a_quantile_is_interpolated_within_its_bucket() {
    #[rustfmt::skip]
    let rows = [
        ("no values", [0, 0, 0], 0.5, None),
        ("the middle of the first bucket", [2, 0, 0], 0.5, Some(0.0005)),
        ("the end of a bucket", [1, 1, 0], 0.5, Some(0.001)),
        ("the last value", [1, 1, 0], 1.0, Some(0.01)),
        ("empty buckets are skipped", [0, 4, 0], 0.0, Some(0.001)),
        ("above all bounds", [1, 0, 9], 0.99, Some(0.01)),
    ];
    for (sentence, counts, share, expected) in rows {
        assert_eq!(quantile(&times(counts), share), expected, "{sentence}");
    }
}

#[test]
fn rows_are_sorted_by_the_chosen_figure() {
    let routes = vec![
        route("/busy", 100, 0, [100, 0, 0], 1.0),
        route("/slow", 10, 0, [0, 10, 0], 2.0),
        route("/failing", 10, 50, [60, 0, 0], 3.0),
        route("/large", 1, 0, [1, 0, 0], 1e9),
    ];
    let mut rates = Rates::between(None, &snapshot(101.0, routes));
    let rows = [
        (SortKey::Requests, "/busy"),
        (SortKey::Latency, "/slow"),
        (SortKey::Errors, "/failing"),
        (SortKey::Bytes, "/large"),
    ];
    for (key, first) in rows {
        rates.sort(key);
        assert_eq!(rates.routes[0].mount, first, "{key:?}");
    }
}

#[test]
fn a_snapshot_is_read_back_from_its_json_also_if_keys_are_missing_or_new() {
    let before = snapshot(110.0, vec![route("/", 1, 2, [1, 2, 0], 3.0)]);
    let read: Snapshot = serde_json::from_str(&serde_json::to_string(&before).unwrap()).unwrap();
    assert_eq!(Rates::between(None, &read), Rates::between(None, &before));
    let other: Snapshot = serde_json::from_str(r#"{"time": 5, "future": [1]}"#).unwrap();
    assert_eq!(other.time, 5.0);
}

fn snapshots() -> impl Strategy<Value = Snapshot> {
    let row = (0..3_u8, 0..50_u64, 0..50_u64, [0..50_u64, 0..50, 0..50], 0.0..1e9);
    let rows = prop::collection::vec(row, 0..4);
    (0..3_u32, 0.0..9.0, rows, 0..9_u64, 0.0..9.0).prop_map(|(pid, time, rows, count, cpu)| {
        let routes = rows.into_iter().map(|(mount, ok, failed, counts, sent)| {
            route(&format!("/{mount}"), ok, failed, counts, sent)
        });
        let mut snapshot = snapshot(time, routes.collect());
        snapshot.process.pid = pid;
        snapshot.process.start_time = f64::from(pid);
        snapshot.process.cpu_seconds = cpu;
        snapshot.received_bytes = count;
        snapshot.connections.accepted = count;
        snapshot.file_cache.hits = count;
        let requests = BTreeMap::from([("answered".into(), count)]);
        snapshot.upstreams = vec![UpstreamSnapshot { requests, ..UpstreamSnapshot::default() }];
        let lane = LaneSnapshot { jobs: count, wait_seconds: cpu, ..LaneSnapshot::default() };
        snapshot.disk = vec![lane];
        snapshot
    })
}

proptest! {
    /// Every figure of any two snapshots is a number that is not negative.
    #[test]
    fn no_rate_is_negative(before in snapshots(), after in snapshots()) {
        let rates = Rates::between(Some(&before), &after);
        let mut figures = vec![
            rates.seconds, rates.cpu, rates.received, rates.accepted, rates.up,
            rates.file_cache.hits, rates.file_cache.misses,
        ];
        for route in rates.routes.iter().chain([&rates.total]) {
            figures.extend([route.requests, route.sent, route.errors()]);
            figures.extend(route.classes);
            let Latency { p50, p90, p99 } = route.latency;
            figures.extend([p50, p90, p99].into_iter().flatten());
            prop_assert!(p50 <= p90 && p90 <= p99);
        }
        figures.extend(rates.upstreams.iter().flat_map(|of| [of.answered, of.failed]));
        figures.extend(rates.disk.iter().flat_map(|of| [of.jobs, of.rejected, of.wait.unwrap_or(0.0)]));
        for figure in figures {
            prop_assert!(figure.is_finite() && figure >= 0.0, "{rates:?}");
        }
    }
}
