//! Measurements of a worker: the delay of its event loop, and the state of its caches and
//! upstreams.

use std::time::{Duration, Instant};

use crate::clock;
use crate::pipeline::worker::WorkerThread;
use crate::rt::Alarm;

/// Interval of measuring the delay of an event loop, and of publishing the state of caches and
/// upstreams.
const MEASURED_EVERY: Duration = Duration::from_secs(1);

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
pub(crate) async fn measure(thread: &WorkerThread) {
    let mut alarm = Alarm::unset();
    let mut crowd = Crowd::default();
    let heap = thread.worker().store.disk.lane_of("heap".to_owned());
    loop {
        let begun = Instant::now();
        alarm.wait(MEASURED_EVERY).await;
        thread.metrics.lag.observe(begun.elapsed().saturating_sub(MEASURED_EVERY));
        let worker = thread.worker();
        let metrics = &thread.metrics;
        metrics.http1_idle.set(worker.deadlines.http1_idle_count() as u64);
        worker.store.publish(&thread.metrics);
        worker.sites.publish_upstreams(clock::now_ms());
        worker.activity.publish(metrics);
        // Open connections may use a replaced configuration for a while after a reload.
        metrics.retain_used();
        if crowd.has_gone(thread.open.get()) {
            worker.store.disk.begin(heap, || {
                hurtle_heap::trim();
            });
        }
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
