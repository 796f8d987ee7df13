//! The metrics of caches, disk threads, workers and the process, with their labels and
//! descriptions, and the samples that a snapshot gives them.

use super::Snapshot;
use super::exposition::Family;
use super::exposition::Kind::{Counter, Gauge, Histogram, Info};

macro_rules! plain {
    ($name:literal, $kind:ident, $unit:literal, $help:literal, $value:expr) => {
        Family {
            name: $name,
            kind: $kind,
            unit: $unit,
            labels: &[],
            help: $help,
            write: |out, s| {
                let value: fn(&Snapshot) -> _ = $value;
                out.put(&[], value(s));
            },
        }
    };
}

macro_rules! lanes {
    ($name:literal, $kind:ident, $unit:literal, $help:literal, $field:ident) => {
        Family {
            name: $name,
            kind: $kind,
            unit: $unit,
            labels: &["lane"],
            help: $help,
            write: |out, s| {
                for of in &s.disk {
                    out.put(&[("lane", &of.lane)], of.$field);
                }
            },
        }
    };
}

pub(super) static SERVER: [Family; 18] = [
    plain!("hurtle_response_cache_entries", Gauge, "", "Stored responses.", |s| s
        .response_cache
        .entries),
    Family {
        name: "hurtle_response_cache_bytes",
        kind: Gauge,
        unit: "bytes",
        labels: &["storage"],
        help: "Bytes of stored responses, in memory and on disk.",
        write: |out, s| {
            out.put(&[("storage", &"memory")], s.response_cache.memory_bytes);
            out.put(&[("storage", &"disk")], s.response_cache.disk_bytes);
        },
    },
    plain!(
        "hurtle_response_cache_evictions",
        Counter,
        "",
        "Keys that were evicted from the response caches.",
        |s| s.response_cache.evictions
    ),
    lanes!("hurtle_disk_queued_jobs", Gauge, "", "Jobs that wait for a disk thread.", queued),
    lanes!("hurtle_disk_running_jobs", Gauge, "", "Jobs on disk threads.", running),
    lanes!("hurtle_disk_jobs", Counter, "", "Jobs that disk threads have begun.", jobs),
    lanes!(
        "hurtle_disk_wait_seconds",
        Counter,
        "seconds",
        "Sum of the waits of jobs for a disk thread.",
        wait_seconds
    ),
    lanes!(
        "hurtle_disk_rejected_jobs",
        Counter,
        "",
        "Jobs that were refused because their lane was full.",
        rejected
    ),
    Family {
        name: "hurtle_config_reloads",
        kind: Counter,
        unit: "",
        labels: &["result"],
        help: "Reloads of the configuration.",
        write: |out, s| {
            out.put(&[("result", &"success")], s.reloads.succeeded);
            out.put(&[("result", &"failure")], s.reloads.failed);
        },
    },
    plain!(
        "hurtle_config_last_reload_successful",
        Gauge,
        "",
        "1 unless the last reload failed.",
        |s| u8::from(s.reloads.last_succeeded)
    ),
    plain!(
        "hurtle_config_last_reload_success_timestamp_seconds",
        Gauge,
        "seconds",
        "Time of the last successful reload, or of the start, as Unix time.",
        |s| s.reloads.last_success
    ),
    plain!(
        "hurtle_access_log_dropped_lines",
        Counter,
        "",
        "Lines that the access log has dropped.",
        |s| s.access_log_dropped
    ),
    Family {
        name: "hurtle_store_decision_seconds",
        kind: Histogram,
        unit: "seconds",
        labels: &[],
        help: "Time of the store's decisions about rate limits.",
        write: |out, s| out.histogram(&[], &s.store.decision_seconds),
    },
    plain!(
        "hurtle_buffered_file_bytes",
        Gauge,
        "bytes",
        "Bytes of bodies in files, because clients send or read slowly (`buffer`).",
        |s| s.buffered.file_bytes
    ),
    plain!(
        "hurtle_buffered_bodies_passed_on",
        Counter,
        "",
        "Bodies that a bound or the disk did not let be kept, so that slow clients hold upstreams.",
        |s| s.buffered.passed_on
    ),
    plain!("hurtle_workers", Gauge, "", "Worker threads.", |s| s.workers.len()),
    Family {
        name: "hurtle_worker_connections",
        kind: Gauge,
        unit: "",
        labels: &["worker"],
        help: "Open connections of each worker.",
        write: |out, s| {
            for of in &s.workers {
                out.put(&[("worker", &of.worker)], of.connections);
            }
        },
    },
    Family {
        name: "hurtle_worker_loop_lag_seconds",
        kind: Histogram,
        unit: "seconds",
        labels: &["worker"],
        help: "Delay of a timer of each worker's event loop, measured once a second.",
        write: |out, s| {
            for of in &s.workers {
                out.histogram(&[("worker", &of.worker)], &of.loop_lag_seconds);
            }
        },
    },
];

pub(super) static PROCESS: [Family; 6] = [
    Family {
        name: "hurtle_build",
        kind: Info,
        unit: "",
        labels: &["version"],
        help: "The version of the server.",
        write: |out, s| out.put(&[("version", &s.version)], 1),
    },
    plain!(
        "process_start_time_seconds",
        Gauge,
        "seconds",
        "Start of the process, as Unix time.",
        |s| s.process.start_time
    ),
    plain!("process_cpu_seconds", Counter, "seconds", "Processor time of the process.", |s| s
        .process
        .cpu_seconds),
    Family {
        name: "process_resident_memory_bytes",
        kind: Gauge,
        unit: "bytes",
        labels: &[],
        help: "Resident memory of the process.",
        write: |out, s| s.process.resident_bytes.iter().for_each(|bytes| out.put(&[], bytes)),
    },
    Family {
        name: "process_open_fds",
        kind: Gauge,
        unit: "",
        labels: &[],
        help: "Open descriptors of the process.",
        write: |out, s| s.process.open_descriptors.iter().for_each(|count| out.put(&[], count)),
    },
    Family {
        name: "process_max_fds",
        kind: Gauge,
        unit: "",
        labels: &[],
        help: "Limit of open descriptors.",
        write: |out, s| s.process.max_descriptors.iter().for_each(|count| out.put(&[], count)),
    },
];
