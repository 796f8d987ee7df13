//! Every metric with its labels and description, and the samples that a snapshot gives it.

use super::Family;
use super::Kind::{Counter, Gauge, Histogram, Info};

pub(super) static REQUESTS: [Family; 17] = [
    Family {
        name: "hurtle_http_requests",
        kind: Counter,
        unit: "",
        labels: &["site", "mount", "protocol", "status"],
        help: "Responses by site, mount, protocol and class of status.",
        write: |out, s| {
            for route in &s.routes {
                for of in &route.requests {
                    let labels: super::Labels<'_> = &[
                        ("site", &route.site),
                        ("mount", &route.mount),
                        ("protocol", &of.protocol),
                        ("status", &of.status),
                    ];
                    out.put(labels, of.count);
                }
            }
        },
    },
    Family {
        name: "hurtle_http_request_duration_seconds",
        kind: Histogram,
        unit: "seconds",
        labels: &["site", "mount"],
        help: "Time from the head of a request to the end of its response.",
        write: |out, s| {
            for route in s.routes.iter().filter(|route| !route.requests.is_empty()) {
                let labels: super::Labels<'_> = &[("site", &route.site), ("mount", &route.mount)];
                out.histogram(labels, &route.duration_seconds);
            }
        },
    },
    Family {
        name: "hurtle_http_response_size_bytes",
        kind: Histogram,
        unit: "bytes",
        labels: &["site", "mount"],
        help: "Bytes of response bodies that were sent.",
        write: |out, s| {
            for route in s.routes.iter().filter(|route| !route.requests.is_empty()) {
                let labels: super::Labels<'_> = &[("site", &route.site), ("mount", &route.mount)];
                out.histogram(labels, &route.response_bytes);
            }
        },
    },
    Family {
        name: "hurtle_http_cache_results",
        kind: Counter,
        unit: "",
        labels: &["site", "mount", "result"],
        help: "Requests to mounts with a response cache, by result.",
        write: |out, s| {
            for route in &s.routes {
                for (result, count) in &route.cache {
                    let labels: super::Labels<'_> =
                        &[("site", &route.site), ("mount", &route.mount), ("result", result)];
                    out.put(labels, count);
                }
            }
        },
    },
    Family {
        name: "hurtle_connections",
        kind: Gauge,
        unit: "",
        labels: &["protocol", "state"],
        help: "Open connections of clients by protocol and state.",
        write: |out, s| {
            let of = &s.connections;
            for (protocol, state, count) in [
                ("", "other", of.other),
                ("tls", "handshake", of.handshaking),
                ("http/1.1", "active", of.http1_active),
                ("http/1.1", "idle", of.http1_idle),
                ("h2", "active", of.http2_active),
                ("h2", "idle", of.http2_idle),
            ] {
                out.put(&[("protocol", &protocol), ("state", &state)], count);
            }
        },
    },
    Family {
        name: "hurtle_connections_accepted",
        kind: Counter,
        unit: "",
        labels: &[],
        help: "Connections of clients that were accepted.",
        write: |out, s| out.put(&[], s.connections.accepted),
    },
    Family {
        name: "hurtle_received_bytes",
        kind: Counter,
        unit: "bytes",
        labels: &[],
        help: "Bytes received from clients, without those of TLS.",
        write: |out, s| out.put(&[], s.received_bytes),
    },
    Family {
        name: "hurtle_sent_bytes",
        kind: Counter,
        unit: "bytes",
        labels: &[],
        help: "Bytes of response bodies that were sent, of responses that have ended.",
        write: |out, s| out.put(&[], s.sent_bytes),
    },
    Family {
        name: "hurtle_limit_hits",
        kind: Counter,
        unit: "",
        labels: &["limit"],
        help: "Requests and connections that were refused because of a limit.",
        write: |out, s| {
            for (limit, count) in &s.limits {
                out.put(&[("limit", limit)], count);
            }
        },
    },
    Family {
        name: "hurtle_tls_handshakes",
        kind: Counter,
        unit: "",
        labels: &["version", "resumed"],
        help: "Complete TLS handshakes, by version and whether the session was resumed.",
        write: |out, s| {
            for of in &s.tls.handshakes {
                out.put(&[("version", &of.version), ("resumed", &of.resumed)], of.count);
            }
        },
    },
    Family {
        name: "hurtle_tls_handshake_failures",
        kind: Counter,
        unit: "",
        labels: &["reason"],
        help: "Failed TLS handshakes by reason.",
        write: |out, s| {
            for (reason, count) in &s.tls.failures {
                out.put(&[("reason", reason)], count);
            }
        },
    },
    Family {
        name: "hurtle_tls_certificate_not_after_seconds",
        kind: Gauge,
        unit: "seconds",
        labels: &["site", "number"],
        help: "End of the validity of each certificate, as Unix time.",
        write: |out, s| {
            for of in &s.tls.certificates {
                out.put(&[("site", &of.site), ("number", &of.number)], of.not_after);
            }
        },
    },
    Family {
        name: "hurtle_upstream_requests",
        kind: Counter,
        unit: "",
        labels: &["site", "mount", "upstream", "outcome"],
        help: "Attempts to get a response from an upstream, by outcome.",
        write: |out, s| {
            for of in &s.upstreams {
                for (outcome, count) in &of.requests {
                    let labels: super::Labels<'_> = &[
                        ("site", &of.site),
                        ("mount", &of.mount),
                        ("upstream", &of.upstream),
                        ("outcome", outcome),
                    ];
                    out.put(labels, count);
                }
            }
        },
    },
    Family {
        name: "hurtle_upstream_response_seconds",
        kind: Histogram,
        unit: "seconds",
        labels: &["site", "mount", "upstream"],
        help: "Time from choosing an upstream to the head of its response.",
        write: |out, s| {
            for of in &s.upstreams {
                out.histogram(&upstream(of), &of.response_seconds);
            }
        },
    },
    Family {
        name: "hurtle_upstream_up",
        kind: Gauge,
        unit: "",
        labels: &["site", "mount", "upstream"],
        help: "1 if every worker sends requests to the upstream.",
        write: |out, s| {
            for of in &s.upstreams {
                out.put(&upstream(of), u8::from(of.is_up));
            }
        },
    },
    Family {
        name: "hurtle_upstream_connections",
        kind: Gauge,
        unit: "",
        labels: &["site", "mount", "upstream", "state"],
        help: "Connections to an upstream: with a request, or idle.",
        write: |out, s| {
            for of in &s.upstreams {
                for (state, count) in [("active", of.in_flight), ("idle", of.idle_connections)] {
                    let labels: super::Labels<'_> = &[
                        ("site", &of.site),
                        ("mount", &of.mount),
                        ("upstream", &of.upstream),
                        ("state", &state),
                    ];
                    out.put(labels, count);
                }
            }
        },
    },
    Family {
        name: "hurtle_upstream_connects",
        kind: Counter,
        unit: "",
        labels: &["site", "mount", "upstream"],
        help: "Connections to an upstream that were opened or tried.",
        write: |out, s| {
            for of in &s.upstreams {
                out.put(&upstream(of), of.connects);
            }
        },
    },
];

fn upstream(of: &super::super::UpstreamSnapshot) -> [(&'static str, &dyn std::fmt::Display); 3] {
    [("site", &of.site), ("mount", &of.mount), ("upstream", &of.upstream)]
}

macro_rules! plain {
    ($name:literal, $kind:ident, $unit:literal, $help:literal, $value:expr) => {
        Family {
            name: $name,
            kind: $kind,
            unit: $unit,
            labels: &[],
            help: $help,
            write: |out, s| {
                let value: fn(&super::Snapshot) -> _ = $value;
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

pub(super) static SERVER: [Family; 21] = [
    plain!(
        "hurtle_file_cache_hits",
        Counter,
        "",
        "Requests that were answered from the file cache.",
        |s| s.file_cache.hits
    ),
    plain!("hurtle_file_cache_misses", Counter, "", "Look-ups of files on disk.", |s| s
        .file_cache
        .misses),
    plain!(
        "hurtle_file_cache_evictions",
        Counter,
        "",
        "Files that were evicted from the file cache.",
        |s| s.file_cache.evictions
    ),
    plain!("hurtle_file_cache_entries", Gauge, "", "Files in the file cache.", |s| s
        .file_cache
        .entries),
    plain!("hurtle_file_cache_bytes", Gauge, "bytes", "Memory of the file cache.", |s| s
        .file_cache
        .bytes),
    plain!(
        "hurtle_file_cache_descriptors",
        Gauge,
        "",
        "Open descriptors of the file cache.",
        |s| s.file_cache.descriptors
    ),
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
