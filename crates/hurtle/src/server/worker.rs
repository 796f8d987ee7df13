//! One worker: a thread with an event loop of its own, its sites, its cache, its connections.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::watch;

use super::accept::{Accepting, Port, Room, accept, accept_rest};
use super::admin;
use super::mount::Mounted;
use super::{DRAIN_GRACE, Deployments, Order, share};
use crate::auth::Guard;
use crate::cache::Caches;
use crate::config::Config;
use crate::disk::Disk;
use crate::files::{Cache, Changed, Listings, Store};
use crate::h1::head::HeadLimits;
use crate::h1::section::Sections;
use crate::handler::directory::Means;
use crate::handler::gateway::Slots;
use crate::observe::WorkerLog;
use crate::rt::{self, Alarm};
use crate::serve::Worker;
use crate::serve::deadline::Deadlines;
use crate::serve::proxied::Balancers;
use crate::serve::shortcuts::Shortcuts;
use crate::site::Sites;
use crate::tls::Keyring;
use crate::transport::{Addresses, Sender};
use crate::uploads;

/// Of the process's descriptors, the part that cached files may have.
const CACHED_FILES_SHARE: usize = 4;

/// How often uploads that have expired are looked for.
const EXPIRED_UPLOADS_EVERY: Duration = Duration::from_secs(10 * 60);

/// How late a line of the access log may be.
const LOG_AGE_MAX: Duration = Duration::from_millis(500);

/// Descriptors kept for listeners, logs, disk jobs and the event loops; fewer where there are few.
const DESCRIPTORS_RESERVED: usize = 64;

/// What all workers are made from.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) disk: Disk,
    pub(super) listings: Listings,
    pub(super) changed: Changed,
    pub(super) slots: Slots,
    pub(super) caches: Caches,
    /// Where orders are taken; one worker does.
    pub(super) admin: Option<UnixListener>,
    pub(super) addresses: Option<Addresses>,
    /// Directories that are to be cleared of uploads nobody has finished.
    pub(super) upload_roots: Vec<PathBuf>,
    pub(super) guard: Guard,
    /// The listeners are not only this process's.
    pub(super) inherited: bool,
    pub(super) log: Option<WorkerLog>,
    pub(super) apps: Vec<Mounted>,
    pub(super) keyring: Option<Arc<Keyring>>,
    /// Applications that come and go; `None`: there are none.
    pub(super) deployments: Option<watch::Receiver<Deployments>>,
}

/// A worker's life.
pub(super) fn run(
    shared: Shared,
    listeners: Vec<Port>,
    orders: watch::Receiver<Order>,
) -> io::Result<()> {
    event_loop()?.block_on(serve(shared, listeners, orders))
}

pub(super) fn event_loop() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

async fn serve(
    mut shared: Shared,
    listeners: Vec<Port>,
    mut orders: watch::Receiver<Order>,
) -> io::Result<()> {
    if let Some(socket) = shared.admin.take() {
        rt::spawn(admin::obey(socket, shared.caches.clone()));
    }
    let (drain, inherited) = (shared.config.drain, shared.inherited);
    clear_uploads(&shared);
    let deployments = shared.deployments.clone().map(|list| (list, shared.changed.clone()));
    let (worker, room) = make(shared);
    worker.sites.watch_upstreams();
    if let Some((list, changed)) = deployments {
        let worker = Rc::clone(&worker);
        rt::spawn(async move { follow(&worker, list, &changed).await });
    }
    let deadlines = Rc::clone(&worker.deadlines);
    rt::spawn(async move { deadlines.sweep().await });
    if worker.log.is_some() {
        let worker = Rc::clone(&worker);
        rt::spawn(async move { flush_log(&worker).await });
    }
    let mut accepting = Vec::new();
    for listener in listeners {
        let listener = Rc::new(Accepting::new(listener)?);
        let (l, w, r) = (Rc::clone(&listener), Rc::clone(&worker), Rc::clone(&room));
        let task = tokio::task::spawn_local(async move { accept(&l, &w, &r).await });
        accepting.push((listener, task));
    }
    // The sender lives as long as the server; if it is gone, so is everybody who could wait.
    let _ = orders.wait_for(|order| *order != Order::Serve).await;
    worker.deadlines.drain(DRAIN_GRACE);
    let ended = orders.wait_for(|order| *order == Order::End);
    let drained = async {
        let finished = async {
            close(accepting, inherited, &worker, &room).await;
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

/// Closes the listeners without resetting a connection that is on its way through them.
async fn close(
    accepting: Vec<(Rc<Accepting>, tokio::task::JoinHandle<()>)>,
    inherited: bool,
    worker: &Rc<Worker>,
    room: &Rc<Room>,
) {
    // Of those begun the last ones may take a round trip to complete.
    let waits = accepting.iter().filter(|(l, _)| !inherited && l.end_handshakes()).count() > 0;
    if waits {
        rt::sleep(DRAIN_GRACE).await;
    }
    for (listener, task) in accepting {
        task.abort();
        // Gone for good only then, and with it its hold on the listener, which is closed the
        // moment its queue is found empty.
        let _ = task.await;
        accept_rest(&listener, worker, room).await;
    }
}

/// Removes what a crash has left of uploads, and, from then on, what nobody has resumed in time.
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

/// Mounts applications as they come, and takes them away as they go.
async fn follow(worker: &Worker, mut list: watch::Receiver<Deployments>, changed: &Changed) {
    loop {
        let deployments = Arc::clone(&list.borrow_and_update());
        worker.sites.deploy(&deployments, &worker.store.disk);
        // A file that was answered with before may be behind an application now.
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

fn make(shared: Shared) -> (Rc<Worker>, Rc<Room>) {
    let Shared {
        config,
        disk,
        listings,
        changed,
        slots,
        caches,
        addresses,
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
    let means = Means { disk: disk.clone(), listings, sendfile: config.sendfile, changed, caches };
    let mut sites = Sites::new(&config, &means, &guard, &slots);
    for Mounted { site, app } in apps {
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
        spare_fields: RefCell::default(),
        spare_lines: RefCell::default(),
        shortcuts: Shortcuts::default(),
        sections: Sections::default(),
        spare_copy: RefCell::default(),
    };
    let room = Room::new(share(connections, config.workers), config.limits.connections_per_address);
    (Rc::new(worker), room)
}
