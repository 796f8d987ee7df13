//! Monitoring of a running server: its counters as OpenMetrics text and as JSON, on the admin
//! socket and on listeners of their own, which also answer health checks. A thread beside the
//! workers makes the text.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::accept::{self, Listener};
use super::command::{self, Reply};
use super::handover::Received;
use super::services::Services;
use crate::clock;
use crate::config::Metrics;
use crate::metrics::Snapshot;
use crate::metrics::exposition::{self, Format};
use crate::pipeline::worker::WorkerThread;
use crate::rt::{self, Alarm, First};

/// Interval of measuring the delay of an event loop, and of publishing the state of caches and
/// upstreams.
const MEASURED_EVERY: Duration = Duration::from_secs(1);

/// Requests of readers that are served at a time; more wait.
const READERS_MAX: usize = 8;

/// Readers that the kernel may queue.
const BACKLOG: u32 = 64;

/// Pause of accepting when descriptors are exhausted.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns the metrics in the format that the request's head accepts.
pub(super) async fn metrics(services: &Arc<Services>, head: &[u8]) -> Reply {
    let format = Format::accepted(command::field(head, b"accept").unwrap_or_default());
    let text = make(services, move |snapshot| exposition::encode(snapshot, format)).await;
    text.typed(format.content_type())
}

/// Returns the snapshot as JSON.
pub(super) async fn status(services: &Arc<Services>) -> Reply {
    let text = |snapshot: &Snapshot| {
        // A snapshot has only text keys and numbers.
        (serde_json::to_string_pretty(snapshot).unwrap_or_default() + "\n").into_bytes()
    };
    make(services, text).await.typed("application/json")
}

/// Returns whether load balancers should send new requests: 200, or 503 from a signal to stop on.
fn readiness(services: &Services) -> Reply {
    match services.orders.borrow().is_ready() {
        true => Reply::ok("ready\n"),
        false => Reply::unavailable("stopping\n"),
    }
}

/// Makes a text of a snapshot on a thread of its own.
async fn make(
    services: &Arc<Services>,
    text: impl FnOnce(&Snapshot) -> Vec<u8> + Send + 'static,
) -> Reply {
    let services = Arc::clone(services);
    match spawn_blocking(move || text(&services.snapshot())).await {
        Ok(text) => Reply::ok(text),
        Err(_) => Reply::unavailable("the snapshot failed\n"),
    }
}

/// Open connections of a worker beyond which they are a crowd, whose memory is returned to the
/// system after it has gone.
const CROWD_MIN: usize = 256;

/// Measurements after a crowd has gone before its memory is returned.
const QUIET_MEASUREMENTS: u32 = 5;

/// The largest number of connections since memory was last returned.
#[derive(Debug, Default)]
struct Crowd {
    peak: usize,
    quiet: u32,
}

impl Crowd {
    /// Takes the number of open connections. `true`: a crowd has gone, and memory is to be
    /// returned.
    fn has_gone(&mut self, open: usize) -> bool {
        self.peak = self.peak.max(open);
        let is_quiet = self.peak >= CROWD_MIN && open <= self.peak / 4;
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        if self.quiet < QUIET_MEASUREMENTS {
            return false;
        }
        *self = Crowd { peak: open, quiet: 0 };
        true
    }
}

/// Measures the delay of a worker's event loop, and publishes the state that only its thread may
/// read. It wakes an idle worker once a second.
pub(super) async fn measure(thread: &WorkerThread) {
    let mut alarm = Alarm::unset();
    let mut crowd = Crowd::default();
    let heap = thread.worker().store.disk.lane_of("heap".to_owned());
    loop {
        let begun = Instant::now();
        alarm.wait(MEASURED_EVERY).await;
        thread.metrics.lag.observe(begun.elapsed().saturating_sub(MEASURED_EVERY));
        let worker = thread.worker();
        let metrics = &thread.metrics;
        // HTTP/2 and HTTP/3 connections are always marked, and handshakes until their first byte.
        let others = metrics.http2.get() + metrics.http3.get() + metrics.handshaking.get();
        metrics.http1_idle.set((worker.deadlines.idle_count() as u64).saturating_sub(others));
        worker.store.publish(&thread.metrics);
        worker.sites.publish_upstreams(clock::now_ms());
        worker.activity.publish(metrics);
        if crowd.has_gone(thread.open.get()) {
            worker.store.disk.begin(heap, || {
                hurtle_heap::trim();
            });
        }
    }
}

/// Binds the listeners of the metrics that `received`, the sockets of the process before, does not
/// have.
///
/// # Errors
/// An address that cannot be bound.
pub(super) fn bind(
    metrics: Option<&Metrics>,
    mut received: Option<&mut Received>,
) -> io::Result<Vec<Listener>> {
    let bound = metrics.iter().flat_map(|metrics| &metrics.listen).map(|listen| {
        let taken = received.as_mut().and_then(|received| received.take_metrics(listen));
        if let Some(listener) = taken {
            return Ok(listener);
        }
        let sockets = accept::bind(listen, BACKLOG, 1, false).map_err(|e| {
            let what = format!("metrics.listen: cannot listen on {listen}: {e}");
            io::Error::new(e.kind(), what)
        });
        sockets.map(|mut sockets| sockets.remove(0))
    });
    bound.collect()
}

/// Serves metrics and health checks on a listener of its own, as long as the worker runs, or until
/// another process accepts connections on the socket.
pub(super) async fn serve(listener: Listener, services: Arc<Services>) {
    let readers = Arc::new(Semaphore::new(READERS_MAX));
    let registered = match listener {
        Listener::Tcp(socket) => TcpListener::from_std(socket).map(Registered::Tcp),
        Listener::Unix(socket) => UnixListener::from_std(socket).map(Registered::Unix),
    };
    let listener = match registered {
        Ok(listener) => listener,
        Err(e) => return tracing::error!("a listener for metrics is off: {e}"),
    };
    let mut handed_over = pin!(services.handed_over());
    loop {
        let accept = async {
            let permit = Arc::clone(&readers).acquire_owned().await.map_err(io::Error::other)?;
            let services = Arc::clone(&services);
            match &listener {
                Registered::Tcp(socket) => spawn_reader(socket.accept().await?.0, services, permit),
                Registered::Unix(socket) => {
                    spawn_reader(socket.accept().await?.0, services, permit)
                }
            }
            io::Result::Ok(())
        };
        match rt::race(handed_over.as_mut(), accept).await {
            First::A(()) => break,
            First::B(Ok(())) => {}
            // Descriptors are exhausted; try again later.
            First::B(Err(_)) => rt::sleep(PAUSE).await,
        }
    }
    // Waits for the readers that are being served.
    let _ = readers.acquire_many(READERS_MAX as u32).await;
}

fn spawn_reader(
    peer: impl AsyncRead + AsyncWrite + Unpin + 'static,
    services: Arc<Services>,
    permit: OwnedSemaphorePermit,
) {
    rt::spawn(async move {
        let _permit = permit;
        command::exchange(peer, async |head: &[u8]| answer(head, &services).await).await;
    });
}

enum Registered {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Answers a request on a listener for metrics.
async fn answer(head: &[u8], services: &Arc<Services>) -> Reply {
    match command::target(head) {
        (b"GET" | b"HEAD", b"/metrics") => metrics(services, head).await,
        (b"GET" | b"HEAD", b"/ready") => readiness(services),
        // The event loop that answers is a worker's.
        (b"GET" | b"HEAD", b"/live") => Reply::ok("live\n"),
        (b"GET" | b"HEAD", _) => {
            Reply::not_found("only /metrics, /ready and /live are served here\n")
        }
        _ => Reply::method_not_allowed("GET, HEAD", "use GET\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_once_after_each_crowd() {
        let rows: [(&str, &[(usize, u32)], usize); 4] = [
            ("never many", &[(200, 9), (0, 9)], 0),
            ("a crowd that goes", &[(1_000, 3), (200, 9)], 1),
            ("one that comes back at once", &[(1_000, 3), (200, 4), (900, 1), (200, 4)], 0),
            ("two crowds", &[(1_000, 3), (10, 9), (300, 1), (0, 9)], 2),
        ];
        for (sentence, measured, expected) in rows {
            let mut crowd = Crowd::default();
            let all = measured.iter().flat_map(|&(open, times)| (0..times).map(move |_| open));
            assert_eq!(all.filter(|&open| crowd.has_gone(open)).count(), expected, "{sentence}");
        }
    }
}
