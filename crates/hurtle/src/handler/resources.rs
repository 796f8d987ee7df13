//! The services that handlers are built with. `site` builds the handlers; a server makes the
//! services.

use std::sync::Arc;

use hurtle_objects::Origins;

use super::gateway::Slots;
use crate::cache::Caches;
use crate::compress::Compressor;
use crate::config::Sendfile;
use crate::disk::Disk;
use crate::files::{Changed, Listings};
use crate::metrics::WorkerMetrics;
use crate::observe::status::Feed;
use crate::tls::UpstreamConfigs;
use crate::wasm::WasmApps;

/// Services of the whole process, which the handlers of all workers share under every
/// configuration.
#[derive(Debug)]
pub(crate) struct HandlerServices {
    /// The threads for disk access.
    pub disk: Disk,
    /// The cache of directory listings, and of the names of encoded variants.
    pub listings: Listings,
    /// The time of the last change by an upload.
    pub changed: Changed,
    /// Limits the programs that run at a time.
    pub slots: Slots,
    /// The caches of upstream responses.
    pub caches: Caches,
    /// Origins of objects in remote stores.
    pub objects: Origins,
    /// Makes the encoded variants of files.
    pub compressor: Compressor,
    /// The figures of status pages.
    pub status: Feed,
}

/// Services that the handlers of one worker are built with, under one configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources<'a> {
    /// Those of the process.
    pub shared: &'a HandlerServices,
    /// Counters of the worker that builds the handlers.
    pub metrics: &'a Arc<WorkerMetrics>,
    /// The configuration of `sendfile`; it decides whether small files are kept in memory.
    pub sendfile: Sendfile,
    /// Configurations of TLS to upstreams.
    pub upstream_tls: &'a UpstreamConfigs,
    /// The WebAssembly applications of the configuration.
    pub wasm: &'a WasmApps,
}
