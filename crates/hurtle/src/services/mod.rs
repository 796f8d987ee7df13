//! The services that last as long as the server: they are made once and shared by all workers, and
//! by reloads, handovers and monitoring. `settings` is what a configuration decides, `orders` the
//! commands that end a server. A request uses `pipeline::worker::Worker`, which
//! `server::worker_base` makes from them.

pub(crate) mod address_counts;
pub(crate) mod certificates;
pub(crate) mod descriptor_limit;
pub(crate) mod orders;
pub(crate) mod settings;
mod watching;

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use self::descriptor_limit::cached_bodies;
use self::orders::Command;
use self::settings::Settings;
use crate::apps::Deployments;
use crate::cache::Caches;
use crate::compress::Compressor;
use crate::disk::Disk;
use crate::files::{Listings, Watched};
use crate::handler::gateway::Slots;
use crate::handler::resources::HandlerServices;
use crate::metrics::{Registry, Snapshot};
use crate::observe::Writer;
use crate::observe::status::Feed;
use crate::shared_store;

/// The services of a running server.
#[derive(Debug)]
pub(crate) struct Services {
    /// Those that handlers are built with.
    pub(crate) handlers: HandlerServices,
    /// The directories whose changes count; `None`: files are looked up again after `revalidate`
    /// only.
    pub(crate) watched: Option<Watched>,
    pub(crate) registry: Registry,
    /// The access log; `None`: it is off.
    pub(crate) access_log: Option<Arc<Writer>>,
    /// The purges of the servers that share a store.
    pub(crate) purges: shared_store::Feed,
    /// The deployed applications; `None`: deployment is off.
    pub(crate) deployments: Option<watch::Receiver<Deployments>>,
    /// The last command to the workers.
    pub(crate) orders: watch::Receiver<Command>,
    in_force: Mutex<Arc<Settings>>,
}

impl Services {
    /// Starts the threads that all workers use, and makes the rest.
    ///
    /// # Errors
    /// The system refuses a thread or random bytes.
    pub(crate) fn start(
        settings: Settings,
        access_log: Option<Arc<Writer>>,
        deployments: Option<watch::Receiver<Deployments>>,
        orders: watch::Receiver<Command>,
    ) -> io::Result<Arc<Services>> {
        let disk = Disk::start(settings.config.disk_threads)?;
        let compressor = Compressor::start(&settings.config.compress, &disk)?;
        Services::on(disk, compressor, settings, access_log, deployments, orders)
    }

    /// Makes the services with these threads.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn on(
        disk: Disk,
        compressor: Compressor,
        settings: Settings,
        access_log: Option<Arc<Writer>>,
        deployments: Option<watch::Receiver<Deployments>>,
        orders: watch::Receiver<Command>,
    ) -> io::Result<Arc<Services>> {
        let config = Arc::clone(&settings.config);
        let purges = shared_store::Feed::new()?;
        let (changed, watched) = watching::start(config.watches_files);
        let make = |services: &Weak<Services>| {
            let services = Weak::clone(services);
            let snapshot = move || services.upgrade().map(|services| services.snapshot());
            Services {
                handlers: HandlerServices {
                    listings: Listings::new(&disk),
                    disk,
                    changed,
                    slots: Slots::new(config.limits.programs),
                    caches: Caches::new(cached_bodies()),
                    objects: hurtle_objects::Origins::default(),
                    compressor,
                    status: Feed::new(move || snapshot().unwrap_or_default()),
                },
                watched,
                registry: Registry::default(),
                access_log,
                purges,
                deployments,
                orders,
                in_force: Mutex::new(Arc::new(settings)),
            }
        };
        Ok(Arc::new_cyclic(make))
    }

    /// Returns the settings in force.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.in_force.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other settings in force; workers apply them at the next update.
    pub(crate) fn set_settings(&self, settings: Arc<Settings>) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Waits until another process has taken over.
    pub(crate) async fn handed_over(&self) {
        // An error means that the server is gone.
        let _ = self.orders.clone().wait_for(Command::is_hand_over).await;
    }

    /// Makes a snapshot. It takes locks and reads files, so an event loop must not call it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.registry.snapshot();
        snapshot.disk = self.handlers.disk.snapshot();
        snapshot.response_cache = self.handlers.caches.snapshot();
        let keyring = self.settings().keyring.clone();
        snapshot.tls.certificates = keyring.map(|keyring| keyring.snapshot()).unwrap_or_default();
        snapshot.access_log_dropped = self.access_log.as_ref().map_or(0, |log| log.dropped());
        snapshot
    }
}
