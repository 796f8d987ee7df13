//! Counters of a running server. Each worker has its own (`WorkerMetrics`) and is their only
//! writer; a reader on any thread adds them up (`Registry`). A snapshot is written as OpenMetrics
//! text (`exposition`) or as JSON; two of them give `rates`.
//!
//! This module only counts. `pipeline::observe` counts requests, and `services` adds what
//! other modules know (disk threads, caches, certificates) to a snapshot.

mod activity;
mod activity_snapshot;
pub mod buffered;
mod counter;
mod counters;
pub mod exposition;
mod families;
mod native;
mod paths;
mod process;
mod protobuf;
pub mod rates;
mod registry;
pub mod report;
mod route;
mod server_families;
mod snapshot;
pub mod units;
mod upstream;
mod worker;

pub use activity::{Activity, InFlight};
pub use activity_snapshot::{HotPath, InFlightSnapshot, PathsSnapshot, SlowestRequest};
pub use counter::{Counter, Histogram};
pub use native::NativeBuckets;
pub use registry::Registry;
pub use route::{Protocol, RouteMetrics};
pub use snapshot::{
    CacheSnapshot, CertificateSnapshot, ConnectionSnapshot, Distribution, LaneSnapshot, Name,
    ReloadSnapshot, RouteSnapshot, Snapshot, StoreSnapshot, UpstreamSnapshot,
};
pub use upstream::{UpstreamMetrics, UpstreamOutcome};
pub use worker::{HandshakeFailure, LimitKind, TlsVersion, WorkerMetrics};
