//! A worker: a thread with an event loop, its sites, its file cache and its connections.

use std::cell::Cell;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hurtle_http::request::HeadLimits;
use hurtle_http::request::section::SectionCache;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::watch;

use super::accept::{BoundListener, WorkerListener, accept, accept_rest};
use super::admin;
use super::admission::{AddressCounts, Admission};
use super::mount::MountedApp;
use super::{Command, DRAIN_GRACE, Deployments, share};
use crate::auth::Guard;
use crate::cache::Caches;
use crate::config::Config;
use crate::deadline::Deadlines;
use crate::disk::Disk;
use crate::files::{Cache, Changed, Listings, Store};
use crate::handler::directory::Resources;
use crate::handler::gateway::Slots;
use crate::handler::http_request::Buffers;
use crate::handler::proxy::cache::Shortcuts;
use crate::observe::WorkerLog;
use crate::pipeline::balancers::Balancers;
use crate::pipeline::worker::Worker;
use crate::rt::{self, Alarm};
use crate::site::Sites;
use crate::tls::Keyring;
use crate::transport::{Addresses, Sender};
use crate::uploads;

/// Share of the process's descriptors that cached files may use: one in this many.
const CACHED_FILES_SHARE: usize = 4;

/// Interval of removing expired uploads.
const EXPIRED_UPLOADS_EVERY: Duration = Duration::from_secs(10 * 60);

/// Longest delay of an access log line.
const LOG_AGE_MAX: Duration = Duration::from_millis(500);

/// Descriptors reserved for listeners, logs, disk jobs and event loops, unless the limit is too
/// low.
const DESCRIPTORS_RESERVED: usize = 64;

/// Shared state from which each worker is built.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) disk: Disk,
    pub(super) listings: Listings,
    pub(super) changed: Changed,
    pub(super) slots: Slots,
    pub(super) caches: Caches,
    /// The socket for administration commands; one worker serves it.
    pub(super) admin: Option<UnixListener>,
    pub(super) addresses: Option<Addresses>,
    /// `None`: an address may have any number of connections.
    pub(super) connections_by_address: Option<AddressCounts>,
    /// Directories to clear of unfinished uploads; one worker does it.
    pub(super) upload_roots: Vec<PathBuf>,
    pub(super) guard: Guard,
    /// `true`: another process holds the listeners too.
    pub(super) inherited: bool,
    pub(super) log: Option<WorkerLog>,
    pub(super) apps: Vec<MountedApp>,
    pub(super) keyring: Option<Arc<Keyring>>,
    /// Deployed applications; `None`: deployment is off.
    pub(super) deployments: Option<watch::Receiver<Deployments>>,
}

/// Runs a worker until it is stopped.
pub(super) fn run(
    shared: Shared,
    listeners: Vec<BoundListener>,
    orders: watch::Receiver<Command>,
) -> io::Result<()> {
    event_loop()?.block_on(serve(shared, listeners, orders))
}

pub(super) fn event_loop() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

async fn serve(
    mut shared: Shared,
    listeners: Vec<BoundListener>,
    mut orders: watch::Receiver<Command>,
) -> io::Result<()> {
    if let Some(socket) = shared.admin.take() {
        rt::spawn(admin::serve(socket, shared.caches.clone()));
    }
    let (drain, inherited) = (shared.config.drain, shared.inherited);
    clear_uploads(&shared);
    let deployments = shared.deployments.clone().map(|list| (list, shared.changed.clone()));
    let (worker, admission) = make(shared);
    worker.sites.watch_upstreams();
    if let Some((list, changed)) = deployments {
        let worker = Rc::clone(&worker);
        rt::spawn(async move { apply_deployments(&worker, list, &changed).await });
    }
    let deadlines = Rc::clone(&worker.deadlines);
    rt::spawn(async move { deadlines.sweep().await });
    if worker.log.is_some() {
        let worker = Rc::clone(&worker);
        rt::spawn(async move { flush_log(&worker).await });
    }
    let mut accepting = Vec::new();
    for listener in listeners {
        let listener = Rc::new(WorkerListener::new(listener)?);
        let (l, w, r) = (Rc::clone(&listener), Rc::clone(&worker), Rc::clone(&admission));
        let task = tokio::task::spawn_local(async move { accept(&l, &w, &r).await });
        accepting.push((listener, task));
    }
    // An error means that the server is gone, which also ends the worker.
    let _ = orders.wait_for(|order| *order != Command::Serve).await;
    worker.deadlines.drain(DRAIN_GRACE);
    let ended = orders.wait_for(|order| *order == Command::End);
    let drained = async {
        let finished = async {
            close(accepting, inherited, &worker, &admission).await;
            while worker.open.get() > 0 {
                worker.closed.wait(None).await;
            }
        };
        if rt::timeout(drain, finished).await.is_none() {
            tracing::warn!("{} connections cut after the drain time", worker.open.get());
        }
    };
    tokio::select! { _ = ended => {}, () = drained => {} }
    if let Some(log) = &worker.log {
        log.flush();
    }
    Ok(())
}

/// Closes the listeners after accepting the connections that are in their queues.
async fn close(
    accepting: Vec<(Rc<WorkerListener>, tokio::task::JoinHandle<()>)>,
    inherited: bool,
    worker: &Rc<Worker>,
    admission: &Rc<Admission>,
) {
    // The last handshakes may take a round trip to complete.
    let waits = accepting.iter().filter(|(l, _)| !inherited && l.end_handshakes()).count() > 0;
    if waits {
        rt::sleep(DRAIN_GRACE).await;
    }
    for (listener, task) in accepting {
        task.abort();
        // Only an ended task has released its listener, which is closed once its queue is empty.
        let _ = task.await;
        accept_rest(&listener, worker, admission).await;
    }
}

/// Removes uploads that a crash left behind, then, periodically, those not resumed in time.
fn clear_uploads(shared: &Shared) {
    for root in shared.upload_roots.clone() {
        let disk = shared.disk.clone();
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
    worker: &Worker,
    mut list: watch::Receiver<Deployments>,
    changed: &Changed,
) {
    loop {
        let deployments = Arc::clone(&list.borrow_and_update());
        worker.sites.deploy(&deployments, &worker.store.disk);
        // The path of a cached file may now belong to an application.
        changed.note();
        if list.changed().await.is_err() {
            return;
        }
    }
}

async fn flush_log(worker: &Worker) {
    let mut alarm = Alarm::unset();
    loop {
        alarm.wait(LOG_AGE_MAX).await;
        if let Some(log) = &worker.log {
            log.flush();
        }
    }
}

pub(super) fn make(shared: Shared) -> (Rc<Worker>, Rc<Admission>) {
    let Shared {
        config,
        disk,
        listings,
        changed,
        slots,
        caches,
        addresses,
        connections_by_address,
        guard,
        log,
        apps,
        keyring,
        ..
    } = shared;
    let descriptors = usize::try_from(super::descriptor_limit()).unwrap_or(usize::MAX);
    let cached = descriptors / CACHED_FILES_SHARE;
    let connections = config.limits.connections.unwrap_or(
        descriptors.saturating_sub(cached).saturating_sub(DESCRIPTORS_RESERVED.min(cached)).max(1),
    );
    let cache = Cache::new(share(config.cache_bytes, config.workers), cached / config.workers);
    let revalidate_ms = config.revalidate.as_millis() as u64;
    let limits = config.limits.clone();
    let store = Store::new(cache, disk.clone(), revalidate_ms, changed.clone());
    let resources =
        Resources { disk: disk.clone(), listings, sendfile: config.sendfile, changed, caches };
    let mut sites = Sites::new(&config, &resources, &guard, &slots, None);
    for MountedApp { site, app } in apps {
        sites.mount(site, app);
    }
    let worker = Worker {
        sites,
        store,
        addresses,
        sender: Sender { disk, sendfile: config.sendfile },
        head_limits: HeadLimits {
            head_bytes: limits.head_bytes,
            target_bytes: limits.target_bytes,
            fields: limits.head_fields,
        },
        keyring,
        balancers: Balancers::new(config.proxy_protocol.as_ref()),
        schedule: config.schedule,
        limits,
        trusted_proxies: config.trusted_proxies.clone(),
        deadlines: Deadlines::new(),
        open: Cell::new(0),
        closed: rt::Bell::default(),
        log,
        buffers: Buffers::default(),
        shortcuts: Shortcuts::default(),
        sections: SectionCache::default(),
    };
    let admission = Admission::new(share(connections, config.workers), connections_by_address);
    (Rc::new(worker), admission)
}
