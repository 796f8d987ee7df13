//! The metrics of requests, connections and upstreams, with their labels and descriptions, and the
//! samples that a snapshot gives them.

use std::fmt::Display;

use super::UpstreamSnapshot;
use super::exposition::Kind::{Counter, Gauge, Histogram};
use super::exposition::{Family, Labels};

pub(super) static REQUESTS: [Family; 21] = [
    Family {
        name: "hurtle_http_requests",
        kind: Counter,
        unit: "",
        labels: &["site", "mount", "protocol", "status"],
        help: "Responses by site, mount, protocol and class of status.",
        write: |out, s| {
            for route in &s.routes {
                for of in &route.requests {
                    let labels: Labels<'_> = &[
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
                let labels: Labels<'_> = &[("site", &route.site), ("mount", &route.mount)];
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
                let labels: Labels<'_> = &[("site", &route.site), ("mount", &route.mount)];
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
                    let labels: Labels<'_> =
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
                ("h3", "active", of.http3_active),
                ("h3", "idle", of.http3_idle),
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
        name: "hurtle_tls_certificate_not_before_seconds",
        kind: Gauge,
        unit: "seconds",
        labels: &["site", "number"],
        help: "Beginning of the validity of each certificate, as Unix time.",
        write: |out, s| {
            for of in &s.tls.certificates {
                if let Some(not_before) = of.not_before {
                    out.put(&[("site", &of.site), ("number", &of.number)], not_before);
                }
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
                if let Some(not_after) = of.not_after {
                    out.put(&[("site", &of.site), ("number", &of.number)], not_after);
                }
            }
        },
    },
    Family {
        name: "hurtle_tls_certificate_renewal_seconds",
        kind: Gauge,
        unit: "seconds",
        labels: &["site", "number"],
        help: "Time at which the server replaces the certificate, or tries so again, as Unix time.",
        write: |out, s| {
            for of in &s.tls.certificates {
                if let Some(renewal) = of.renewal {
                    out.put(&[("site", &of.site), ("number", &of.number)], renewal);
                }
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
                    let labels: Labels<'_> = &[
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
                    let labels: Labels<'_> = &[
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
    Family {
        name: "hurtle_upstream_waiting",
        kind: Gauge,
        unit: "",
        labels: &["site", "mount", "upstream"],
        help: "Requests that wait for an upstream because of its max_connections.",
        write: |out, s| {
            for of in &s.upstreams {
                out.put(&upstream(of), of.waiting);
            }
        },
    },
    Family {
        name: "hurtle_upstream_refused",
        kind: Counter,
        unit: "",
        labels: &["site", "mount", "upstream"],
        help: "Requests refused because the queue for an upstream was full or too slow.",
        write: |out, s| {
            for of in &s.upstreams {
                out.put(&upstream(of), of.refused);
            }
        },
    },
];

fn upstream(of: &UpstreamSnapshot) -> [(&'static str, &dyn Display); 3] {
    [("site", &of.site), ("mount", &of.mount), ("upstream", &of.upstream)]
}
