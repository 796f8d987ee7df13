//! The parts of a worker that last under all configurations; they make its state under one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use hurtle_http::request::HeadLimits;
use hurtle_http::request::section::SectionCache;

use super::mount::MountedApp;
use super::share;
use crate::deadline::Deadlines;
use crate::files::{Cache, Store};
use crate::handler::http_request::Buffers;
use crate::handler::proxy::cache::Shortcuts;
use crate::handler::resources::Resources;
use crate::metrics::{Activity, WorkerMetrics};
use crate::observe::WorkerLog;
use crate::pipeline::balancers::Balancers;
use crate::pipeline::limit_log::LimitLog;
use crate::pipeline::log_filter::LogFilter;
use crate::pipeline::worker::Worker;
use crate::services::Services;
use crate::services::descriptor_limit::cached_descriptors;
use crate::services::settings::Settings;
use crate::shared_store::SharedStore;
use crate::site::Sites;
use crate::transport::Sender;

/// The parts of a worker that last as long as its thread.
pub(super) struct WorkerBase {
    pub(super) services: Arc<Services>,
    pub(super) metrics: Arc<WorkerMetrics>,
    /// Applications that were mounted before the start.
    apps: Vec<MountedApp>,
    store: Rc<Store>,
    deadlines: Rc<Deadlines>,
    log: Option<Rc<WorkerLog>>,
    buffers: Rc<Buffers>,
    sections: Rc<SectionCache>,
    activity: Rc<Activity>,
}

impl WorkerBase {
    /// Makes the parts, on the worker's thread.
    pub(super) fn new(
        services: Arc<Services>,
        metrics: Arc<WorkerMetrics>,
        apps: Vec<MountedApp>,
    ) -> WorkerBase {
        let config = Arc::clone(&services.settings().config);
        let descriptors = cached_descriptors() / config.workers;
        let cache = Cache::new(share(config.cache_bytes, config.workers), descriptors);
        let revalidate_ms = config.revalidate.as_millis() as u64;
        let changes = (services.handlers.changed.clone(), services.watched.clone());
        WorkerBase {
            store: Store::new(cache, services.handlers.disk.clone(), revalidate_ms, changes),
            deadlines: Deadlines::new(),
            log: services.access_log.as_ref().map(|log| Rc::new(log.worker())),
            buffers: Rc::default(),
            sections: Rc::default(),
            activity: Rc::default(),
            services,
            metrics,
            apps,
        }
    }

    /// Makes the state of the worker under the settings. What is equal under `previous`, the state
    /// before, is shared with it.
    pub(super) fn worker(&self, settings: &Settings, previous: Option<&Worker>) -> Worker {
        let Settings { config, keyring, addresses, .. } = settings;
        let limits = config.limits.clone();
        let disk = &self.services.handlers.disk;
        Worker {
            sites: self.sites(settings, previous.map(|previous| &previous.sites)),
            store: Rc::clone(&self.store),
            shared_store: self.shared_store(settings, previous),
            addresses: addresses.clone(),
            sender: Sender { disk: disk.clone(), sendfile: config.sendfile },
            head_limits: HeadLimits {
                head_bytes: limits.head_bytes,
                target_bytes: limits.target_bytes,
                fields: limits.head_fields,
            },
            keyring: keyring.clone(),
            balancers: Balancers::new(config.proxy_protocol.as_ref()),
            tracing: config.tracing.unwrap_or_default(),
            schedule: config.schedule,
            limits,
            http3_congestion: config.http3_congestion,
            trusted_proxies: config.trusted_proxies.clone(),
            forwarded_family: config.forwarded_family,
            deadlines: Rc::clone(&self.deadlines),
            metrics: Arc::clone(&self.metrics),
            activity: Rc::clone(&self.activity),
            log: self.log.clone(),
            log_filter: LogFilter::new(config),
            buffers: Rc::clone(&self.buffers),
            shortcuts: Shortcuts::default(),
            sections: Rc::clone(&self.sections),
            is_replaced: Cell::new(false),
            limit_log: LimitLog::default(),
        }
    }

    /// Makes the sites, with the deployed applications of `previous`.
    fn sites(&self, settings: &Settings, previous: Option<&Sites>) -> Sites {
        let Settings { config, guard, upstream_tls, wasm, .. } = settings;
        let shared = &self.services.handlers;
        let sendfile = config.sendfile;
        let resources = Resources { shared, metrics: &self.metrics, sendfile, upstream_tls, wasm };
        let mut sites = Sites::new(config, &resources, guard, previous);
        for MountedApp { site, app } in &self.apps {
            sites.mount(*site, app.for_worker(&shared.disk), &self.metrics);
        }
        sites
    }

    /// Returns the worker's access to the store of several servers; that of `previous`, if its
    /// settings are the same.
    fn shared_store(
        &self,
        settings: &Settings,
        previous: Option<&Worker>,
    ) -> Option<Rc<SharedStore>> {
        let Settings { config, upstream_tls, store, .. } = settings;
        let settings = store.as_ref()?;
        let known = previous.and_then(|previous| previous.shared_store.clone());
        let known = known.filter(|store| store.is_of(settings));
        let tls = config.store.as_ref().and_then(|store| upstream_tls.of_store(store)).cloned();
        let disk = &self.services.handlers.disk;
        let new = || SharedStore::start(settings, tls, disk, &self.metrics);
        Some(known.unwrap_or_else(new))
    }
}
