//! The hottest paths and the slowest requests in flight of all workers, for readers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::WorkerMetrics;
use super::activity::SlowRequest;
use super::paths::{PATH_BYTES_MAX, WINDOW_SECONDS};

/// Paths of a snapshot.
const PATHS_MAX: usize = 20;

/// Requests in flight of a snapshot.
const REQUESTS_MAX: usize = 20;

/// The paths that got most responses lately, estimated from samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathsSnapshot {
    /// The time that the samples are of, in seconds.
    pub seconds: f64,
    /// Responses that were sampled.
    pub samples: u64,
    /// All responses that the samples stand for.
    pub responses: u64,
    /// The paths, those with most responses first.
    pub hottest: Vec<HotPath>,
}

/// A path of a site, with its estimated responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HotPath {
    /// The site's name; empty: no site has the requested host.
    pub site: String,
    /// The path without the query, cut after 128 bytes, in visible ASCII characters.
    pub path: String,
    /// Responses to it in the time of the samples, estimated.
    pub responses: u64,
    /// `responses` may be too many by this number, besides the error of the samples.
    pub error: u64,
    /// Samples of the path.
    pub samples: u64,
}

/// Requests in flight, without tunnels and without small responses from caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InFlightSnapshot {
    /// Requests that were examined; `unexamined` counts the others.
    pub requests: u64,
    /// Further requests, which were not examined because there are too many.
    pub unexamined: u64,
    /// The slowest: those without a response first, the oldest first.
    pub slowest: Vec<SlowestRequest>,
}

/// A request in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowestRequest {
    /// Name of the site that responds.
    pub site: String,
    /// The mount's path; empty: the site itself responds.
    pub mount: String,
    /// The method as sent.
    pub method: String,
    /// The path as in [`HotPath::path`].
    pub path: String,
    /// Time since the request's head was read, in seconds.
    pub seconds: f64,
    /// `true`: the head of the response has been sent.
    pub is_responding: bool,
}

/// Joins what the workers have published. `up`: seconds since the start.
pub(super) fn join(
    workers: &[Arc<WorkerMetrics>],
    now: f64,
    up: f64,
) -> (PathsSnapshot, InFlightSnapshot) {
    let mut paths = PathsSnapshot::default();
    let mut in_flight = InFlightSnapshot::default();
    let mut by_name: BTreeMap<(String, Vec<u8>), HotPath> = BTreeMap::new();
    let mut slowest = Vec::new();
    for published in workers.iter().map(|worker| worker.published()) {
        paths.samples += published.paths.samples;
        paths.responses += published.paths.responses;
        for of in published.paths.paths {
            let sum = by_name.entry((of.site, of.path)).or_default();
            sum.responses += of.responses;
            sum.error += of.error;
            sum.samples += of.samples;
        }
        in_flight.requests += published.in_flight.0;
        in_flight.unexamined += published.in_flight.1;
        slowest.extend(published.slowest);
    }
    paths.seconds = (WINDOW_SECONDS as f64 + now % WINDOW_SECONDS as f64).min(up);
    paths.hottest = by_name
        .into_iter()
        .map(|((site, path), sum)| HotPath { site, path: shown(&path), ..sum })
        .collect();
    paths.hottest.sort_by_key(|of| Reverse(of.responses));
    paths.hottest.truncate(PATHS_MAX);
    slowest.sort_by_key(|of| (of.has_begun_response, Reverse(of.age_ms)));
    in_flight.slowest = slowest.iter().take(REQUESTS_MAX).map(slow).collect();
    (paths, in_flight)
}

fn slow(of: &SlowRequest) -> SlowestRequest {
    SlowestRequest {
        site: of.route.site().unwrap_or_default().to_owned(),
        mount: of.route.mount().unwrap_or_default().to_owned(),
        method: shown(&of.method),
        path: shown(&of.path),
        seconds: of.age_ms as f64 / 1e3,
        is_responding: of.has_begun_response,
    }
}

/// Writes a path for a terminal: control characters, blanks and bytes beyond ASCII percent-encoded.
fn shown(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in &path[..path.len().min(PATH_BYTES_MAX)] {
        match byte {
            0x21..=0x7e => out.push(char::from(*byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    if path.len() > PATH_BYTES_MAX {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::Activity;
    use super::*;

    #[test]
    fn a_path_has_no_control_characters_and_a_bounded_length() {
        let rows: [(&[u8], &str); 3] = [
            (b"/a%20b?", "/a%20b?"),
            (b"/\x1b[2J \x7f\xc3\xa9\n", "/%1B[2J%20%7F%C3%A9%0A"),
            (b"*", "*"),
        ];
        for (path, expected) in rows {
            assert_eq!(shown(path), expected);
        }
        assert_eq!(shown(&[b'x'; 500]), format!("{}...", "x".repeat(128)));
    }

    #[test]
    fn workers_are_joined_and_waiting_requests_come_first() {
        let workers = [Arc::new(WorkerMetrics::default()), Arc::new(WorkerMetrics::default())];
        let mut open = Vec::new();
        for (at, worker) in workers.iter().enumerate() {
            let route = worker.route("a.test", "/m");
            let activity = Rc::new(Activity::default());
            activity.count(&route, b"/both", 1);
            activity.count(&route, &[b"/only-", &[b'0' + at as u8][..]].concat(), 1);
            open.push(activity.begin(&route, b"GET", b"/waits"));
            let sending = activity.begin(&route, b"GET", b"/sends");
            sending.begin_response();
            open.push(sending);
            drop(activity.begin(&route, b"GET", b"/has-ended"));
            activity.publish(worker);
        }
        let (paths, in_flight) = join(&workers, 3_000.0, 1e6);
        assert_eq!((paths.seconds, paths.samples, paths.responses), (30.0, 4, 4));
        let first = &paths.hottest[0];
        assert_eq!((first.path.as_str(), first.responses, first.samples), ("/both", 2, 2));
        assert_eq!((in_flight.requests, in_flight.unexamined), (4, 0));
        let order: Vec<_> = in_flight.slowest.iter().map(|of| of.path.as_str()).collect();
        assert_eq!(order, ["/waits", "/waits", "/sends", "/sends"]);
        assert_eq!(in_flight.slowest[0].mount, "/m");
    }
}
