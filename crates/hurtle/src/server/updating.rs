//! Puts other configurations in force in one worker. `lifecycle::reload` sends them.

use std::future::pending;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::mpsc::UnboundedReceiver;

use super::accepting::{Accepting, ListenerChanges};
use super::admission::{Admission, connections_max};
use super::upkeep::{clear_uploads, upload_roots};
use super::worker_base::WorkerBase;
use crate::config::Config;
use crate::pipeline::worker::WorkerThread;
use crate::shared_store::Follower;

/// The sign for a worker that other settings are in force.
#[derive(Debug)]
pub(crate) struct Update {
    /// The changes of its listeners.
    pub(crate) listeners: ListenerChanges,
    /// Confirms that it has applied them.
    pub(crate) applied: Sender<()>,
}

/// The means to put other configurations in force.
pub(super) struct Updating {
    number: usize,
    base: WorkerBase,
    thread: Rc<WorkerThread>,
    admission: Rc<Admission>,
    /// Directories that are cleared of unfinished uploads.
    upload_roots: Vec<PathBuf>,
    /// Applies the purges of other servers; `None`: another worker does it.
    follower: Option<Follower>,
}

impl Updating {
    /// Begins the tasks that the configuration in force needs in one worker: the first one clears
    /// uploads and follows purges.
    pub(super) fn new(
        number: usize,
        base: WorkerBase,
        thread: Rc<WorkerThread>,
        admission: Rc<Admission>,
    ) -> Updating {
        let services = &base.services;
        let config = Arc::clone(&services.settings().config);
        let (purges, caches) = (services.purges.clone(), services.handlers.caches.clone());
        let follower = (number == 0).then(|| Follower::new(purges, caches));
        let upload_roots = Vec::new();
        let mut updating = Updating { number, base, thread, admission, upload_roots, follower };
        updating.clear_new_uploads(&config);
        updating.follow_purges();
        updating
    }

    /// Applies each new configuration. None may be skipped, because each has the listeners that it
    /// opens, and the next one does not have them again.
    pub(super) async fn run(
        &mut self,
        mut updates: UnboundedReceiver<Update>,
        accepting: &mut Accepting,
    ) {
        while let Some(update) = updates.recv().await {
            self.apply(update, accepting).await;
        }
        // Nobody sends another one.
        pending::<()>().await;
    }

    /// Has one worker clear upload directories that the configuration before did not have.
    fn clear_new_uploads(&mut self, config: &Config) {
        if self.number > 0 {
            return;
        }
        let mut new = upload_roots(config);
        new.retain(|root| !self.upload_roots.contains(root));
        clear_uploads(&self.base.services.handlers.disk, &new);
        self.upload_roots.extend(new);
    }

    /// Has one worker follow the purges of the servers that share the store.
    fn follow_purges(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.follow(self.thread.worker().shared_store.as_ref());
        }
    }

    async fn apply(&mut self, update: Update, accepting: &mut Accepting) {
        let services = Arc::clone(&self.base.services);
        let (settings, shared) = (services.settings(), &services.handlers);
        let before = self.thread.worker();
        let worker = self.base.worker(&settings, Some(&before));
        if let Some(list) = &services.deployments {
            let list = Arc::clone(&list.borrow());
            worker.sites.deploy(&list, &shared.disk, &worker.metrics);
        }
        worker.sites.watch_upstreams();
        worker.store.retain_sites(&worker.sites.keys());
        drop(before);
        self.thread.replace(worker);
        self.follow_purges();
        shared.status.end_streams();
        shared.caches.retain_used();
        shared.objects.retain_used();
        self.thread.metrics.retain_used();
        self.clear_new_uploads(&settings.config);
        let counts = settings.connections_by_address.clone();
        self.admission.set_limits(connections_max(&settings.config), counts);
        accepting.change(update.listeners).await;
        // The sender of the configuration may no longer wait.
        let _ = update.applied.send(());
    }
}
