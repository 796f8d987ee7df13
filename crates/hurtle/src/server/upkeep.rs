//! The tasks of a worker beside its connections: it removes unfinished uploads, mounts deployed
//! applications and writes its log.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::apps::Deployments;
use crate::config::{Config, MountHandler};
use crate::disk::Disk;
use crate::files::Changed;
use crate::monitoring;
use crate::observe::WorkerLog;
use crate::pipeline::worker::WorkerThread;
use crate::rt::{self, Alarm};
use crate::services::Services;
use crate::uploads;

/// Interval of removing expired uploads.
const EXPIRED_UPLOADS_EVERY: Duration = Duration::from_secs(10 * 60);

/// Longest delay of an access log line.
const LOG_AGE_MAX: Duration = Duration::from_millis(500);

/// Begins the tasks of a worker, but for those that depend on the configuration.
pub(super) fn begin(services: &Services, thread: &Rc<WorkerThread>) {
    let worker = thread.worker();
    worker.sites.watch_upstreams();
    if let Some(list) = services.deployments.clone() {
        let (thread, changed) = (Rc::clone(thread), services.handlers.changed.clone());
        rt::spawn(async move { apply_deployments(&thread, list, &changed).await });
    }
    let measured = Rc::clone(thread);
    rt::spawn(async move { monitoring::measure(&measured).await });
    rt::spawn(Rc::clone(&worker.store).share_memory(services.handlers.compressor.clone()));
    let deadlines = Rc::clone(&worker.deadlines);
    rt::spawn(async move { deadlines.sweep().await });
    if let Some(log) = &worker.log {
        let log = Rc::clone(log);
        rt::spawn(async move { flush_log(&log).await });
    }
}

/// Returns the directories of unfinished uploads.
pub(super) fn upload_roots(config: &Config) -> Vec<PathBuf> {
    let mounts = config.sites.iter().flat_map(|site| &site.mounts);
    let roots = mounts.filter_map(|mount| match &mount.handler {
        MountHandler::Files(files) => files.upload_dir(),
        _ => None,
    });
    roots.collect()
}

/// Removes uploads that a crash left behind, then, periodically, those not resumed in time.
pub(super) fn clear_uploads(disk: &Disk, roots: &[PathBuf]) {
    for root in roots {
        let (disk, root) = (disk.clone(), root.clone());
        rt::spawn(async move {
            let lane = disk.lane();
            let mut clear: fn(&Path) -> usize = uploads::sweep;
            let mut alarm = Alarm::unset();
            loop {
                let root = root.clone();
                disk.begin(lane, move || {
                    let cleared = clear(&root);
                    if cleared > 0 {
                        tracing::info!("{}: removed {cleared} unfinished uploads", root.display());
                    }
                });
                clear = uploads::expire;
                alarm.wait(EXPIRED_UPLOADS_EVERY).await;
            }
        });
    }
}

/// Mounts and unmounts applications as the list of deployments changes.
async fn apply_deployments(
    thread: &WorkerThread,
    mut list: watch::Receiver<Deployments>,
    changed: &Changed,
) {
    loop {
        let deployments = Arc::clone(&list.borrow_and_update());
        let worker = thread.worker();
        worker.sites.deploy(&deployments, &worker.store.disk, &worker.metrics);
        drop(worker);
        // The path of a cached file may now belong to an application.
        changed.note();
        if list.changed().await.is_err() {
            return;
        }
    }
}

async fn flush_log(log: &WorkerLog) {
    let mut alarm = Alarm::unset();
    loop {
        alarm.wait(LOG_AGE_MAX).await;
        log.flush();
    }
}
