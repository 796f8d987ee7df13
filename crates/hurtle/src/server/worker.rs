//! A worker: a thread with an event loop, its sites, its file cache and its connections.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hurtle_http::request::HeadLimits;
use hurtle_http::request::section::SectionCache;
use hurtle_objects::Origins;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;

use super::accept::{BoundListener, Listener};
use super::accepting::Accepting;
use super::admin::{self, Admin, Request};
use super::admission::{Admission, cached_descriptors, connections_max};
use super::handshakes::Handshakes;
use super::monitoring::{self, Monitor};
use super::mount::MountedApp;
use super::quic::QuicDuties;
use super::reload::{Settings, Update};
use super::{Command, DRAIN_GRACE, Deployments, HAND_OVER_GRACE, share, upload_roots};
use crate::cache::Caches;
use crate::compress::Compressor;
use crate::deadline::Deadlines;
use crate::disk::{self, Disk};
use crate::files::{Cache, Changed, Listings, Store, Watched};
use crate::handler::directory::Resources;
use crate::handler::gateway::Slots;
use crate::handler::http_request::Buffers;
use crate::handler::proxy::cache::Shortcuts;
use crate::metrics::{Activity, WorkerMetrics};
use crate::observe::WorkerLog;
use crate::observe::status::Feed;
use crate::pipeline::balancers::Balancers;
use crate::pipeline::limit_log::LimitLog;
use crate::pipeline::log_filter::LogFilter;
use crate::pipeline::worker::{Worker, WorkerThread};
use crate::rt::{self, Alarm};
use crate::shared_store::{Follower, SharedStore};
use crate::site::Sites;
use crate::transport::Sender;
use crate::uploads;

/// Interval of removing expired uploads.
const EXPIRED_UPLOADS_EVERY: Duration = Duration::from_secs(10 * 60);

/// Longest delay of an access log line.
const LOG_AGE_MAX: Duration = Duration::from_millis(500);

/// State from which each worker is built, and built again for another configuration.
pub(super) struct WorkerResources {
    pub(super) settings: Settings,
    pub(super) disk: Disk,
    pub(super) listings: Listings,
    /// The time of the last change, and the directories whose changes count.
    pub(super) changes: (Changed, Option<Watched>),
    pub(super) slots: Slots,
    pub(super) caches: Caches,
    pub(super) objects: Origins,
    pub(super) status: Feed,
    pub(super) metrics: Arc<WorkerMetrics>,
    pub(super) compressor: Compressor,
    /// Taken by the first state.
    pub(super) log: Option<WorkerLog>,
    pub(super) apps: Vec<MountedApp>,
}

/// The tasks of a worker beside serving.
pub(super) struct WorkerTasks {
    /// The socket for administration commands; one worker serves it.
    pub(super) admin: Option<(UnixListener, mpsc::UnboundedSender<Request>)>,
    /// Listeners for metrics; one worker serves them.
    pub(super) monitored: Vec<Listener>,
    pub(super) monitor: Monitor,
    /// Directories to clear of unfinished uploads; one worker does it.
    pub(super) upload_roots: Vec<PathBuf>,
    /// `true`: another process holds the listeners too.
    pub(super) inherited: bool,
    /// Deployed applications; `None`: deployment is off.
    pub(super) deployments: Option<watch::Receiver<Deployments>>,
    /// New configurations.
    pub(super) updates: watch::Receiver<Option<Arc<Update>>>,
    pub(super) orders: watch::Receiver<Command>,
    /// Gets a message when the worker accepts connections, and when it no longer does.
    pub(super) accepts: mpsc::UnboundedSender<()>,
    /// UDP sockets for HTTP/3.
    pub(super) quic: QuicDuties,
}

/// The state of a worker that does not depend on the configuration.
pub(super) struct LastingState {
    store: Rc<Store>,
    deadlines: Rc<Deadlines>,
    log: Option<Rc<WorkerLog>>,
    buffers: Rc<Buffers>,
    sections: Rc<SectionCache>,
    activity: Rc<Activity>,
    shared_store: Option<Rc<SharedStore>>,
}

/// The means to put other configurations in force.
struct Updating<'a> {
    number: usize,
    shared: WorkerResources,
    deployments: Option<watch::Receiver<Deployments>>,
    /// Directories that are cleared of unfinished uploads.
    upload_roots: Vec<PathBuf>,
    monitor: Monitor,
    thread: &'a Rc<WorkerThread>,
    admission: &'a Admission,
    /// Applies the purges of other servers; `None`: another worker does it.
    follower: Option<Follower>,
}

impl Updating<'_> {
    /// Applies each new configuration.
    async fn run(
        &mut self,
        mut updates: watch::Receiver<Option<Arc<Update>>>,
        accepting: &mut Accepting,
    ) {
        while updates.changed().await.is_ok() {
            let update = updates.borrow_and_update().clone();
            if let Some(update) = update {
                self.apply(&update, accepting).await;
            }
        }
        // Nobody sends another one.
        std::future::pending::<()>().await;
    }

    /// Has one worker clear upload directories that the configuration before did not have.
    fn clear_new_uploads(&mut self) {
        if self.number > 0 {
            return;
        }
        let mut new = upload_roots(&self.shared.settings.config);
        new.retain(|root| !self.upload_roots.contains(root));
        clear_uploads(&self.shared.disk, &new);
        self.upload_roots.extend(new);
    }

    /// Has one worker follow the purges of the servers that share the store.
    fn follow_purges(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.follow(self.thread.worker().shared_store.as_ref());
        }
    }

    async fn apply(&mut self, update: &Update, accepting: &mut Accepting) {
        self.shared.settings = update.settings.clone();
        let before = self.thread.worker();
        let lasting = LastingState {
            store: Rc::clone(&before.store),
            deadlines: Rc::clone(&before.deadlines),
            log: before.log.clone(),
            buffers: Rc::clone(&before.buffers),
            sections: Rc::clone(&before.sections),
            activity: Rc::clone(&before.activity),
            shared_store: before.shared_store.clone(),
        };
        let worker = worker(&self.shared, lasting, Some(&before.sites));
        if let Some(list) = &self.deployments {
            let list = Arc::clone(&list.borrow());
            worker.sites.deploy(&list, &self.shared.disk, &self.shared.metrics);
        }
        worker.sites.watch_upstreams();
        worker.store.retain_sites(&worker.sites.keys());
        drop(before);
        self.thread.replace(worker);
        self.follow_purges();
        self.shared.status.end_streams();
        self.shared.caches.retain_used();
        self.shared.objects.retain_used();
        self.shared.metrics.retain_used();
        self.monitor.set_keyring(self.shared.settings.keyring.clone());
        self.clear_new_uploads();
        let Settings { config, connections_by_address, .. } = &self.shared.settings;
        self.admission.set_limits(connections_max(config), connections_by_address.clone());
        accepting.change(update.listeners_of(self.number)).await;
        // The sender of the configuration may no longer wait.
        let _ = update.applied.send(());
    }
}

/// Runs the worker with this number until it is stopped.
pub(super) fn run(
    number: usize,
    shared: WorkerResources,
    listeners: Vec<BoundListener>,
    duties: WorkerTasks,
) -> io::Result<()> {
    event_loop()?.block_on(serve(number, shared, listeners, duties))
}

pub(super) fn event_loop() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

async fn serve(
    number: usize,
    mut shared: WorkerResources,
    listeners: Vec<BoundListener>,
    duties: WorkerTasks,
) -> io::Result<()> {
    let WorkerTasks { admin, monitored, monitor, .. } = duties;
    let WorkerTasks { upload_roots, inherited, deployments, updates, mut orders, accepts, .. } =
        duties;
    let QuicDuties { listeners: datagrams, secret, lease, previous } = duties.quic;
    let handed_over = || {
        let mut orders = orders.clone();
        async move { drop(orders.wait_for(Command::is_hand_over).await) }
    };
    rt::spawn(disk::deliver());
    let compressor = shared.compressor.clone();
    clear_uploads(&shared.disk, &upload_roots);
    let (thread, admission) = make(&mut shared);
    let admin = admin.map(|(socket, requests)| {
        let (thread, feed) = (Rc::clone(&thread), shared.settings.feed.clone());
        let admin = Admin { monitor: monitor.clone(), requests, thread, feed };
        spawn_local(admin::serve(socket, admin, handed_over()))
    });
    let monitored = monitored
        .into_iter()
        .map(|listener| spawn_local(monitoring::serve(listener, monitor.clone(), handed_over())));
    // The commands and readers that are being served when another process takes over.
    let monitoring: Vec<_> = admin.into_iter().chain(monitored).collect();
    let worker = thread.worker();
    worker.sites.watch_upstreams();
    if let Some(list) = deployments.clone() {
        let (thread, changed) = (Rc::clone(&thread), shared.changes.0.clone());
        rt::spawn(async move { apply_deployments(&thread, list, &changed).await });
    }
    let measured = Rc::clone(&thread);
    rt::spawn(async move { monitoring::measure(&measured).await });
    rt::spawn(Rc::clone(&worker.store).share_memory(compressor));
    let deadlines = Rc::clone(&worker.deadlines);
    rt::spawn(async move { deadlines.sweep().await });
    if let Some(log) = &worker.log {
        let log = Rc::clone(log);
        rt::spawn(async move { flush_log(&log).await });
    }
    drop(worker);
    let limits = (Rc::clone(&admission), Handshakes::new(shared.settings.config.workers.get()));
    let mut accepting = Accepting::new(Rc::clone(&thread), limits, inherited, (secret, lease));
    for listener in listeners {
        accepting.open(listener)?;
    }
    for listener in datagrams {
        let previous = previous.as_ref().map(OwnedFd::try_clone).transpose()?;
        accepting.open_quic(listener, previous)?;
    }
    // An error means that the process is ending.
    let _ = accepts.send(());
    let (feed, caches) = (shared.settings.feed.clone(), shared.caches.clone());
    let follower = (number == 0).then(|| Follower::new(feed, caches));
    let mut updating = Updating {
        number,
        shared,
        deployments,
        upload_roots,
        monitor,
        thread: &thread,
        admission: &admission,
        follower,
    };
    updating.follow_purges();
    tokio::select! {
        // An error means that the server is gone, which also ends the worker.
        _ = orders.wait_for(|order| !order.serves()) => {}
        () = updating.run(updates, &mut accepting) => {}
    }
    let worker = thread.worker();
    let drain = updating.shared.settings.config.drain;
    let is_hand_over = orders.borrow().is_hand_over();
    let grace = if is_hand_over { HAND_OVER_GRACE.min(drain / 2) } else { DRAIN_GRACE };
    worker.deadlines.drain(grace);
    updating.shared.status.close();
    let ended = orders.wait_for(|order| *order == Command::End);
    let drained = async {
        let finished = async {
            if is_hand_over {
                accepting.note_shared();
            }
            accepting.close_all().await;
            let _ = accepts.send(());
            // The command that began the handover gets its response.
            for served in monitoring.into_iter().filter(|_| is_hand_over) {
                let _ = served.await;
            }
            while thread.open.get() > 0 {
                thread.closed.wait(None).await;
            }
        };
        if rt::timeout(drain, finished).await.is_none() {
            tracing::warn!("{} connections cut after the drain time", thread.open.get());
        }
    };
    tokio::select! { _ = ended => {}, () = drained => {} }
    if let Some(log) = &worker.log {
        log.flush();
    }
    Ok(())
}

/// Removes uploads that a crash left behind, then, periodically, those not resumed in time.
fn clear_uploads(disk: &Disk, roots: &[PathBuf]) {
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

/// Makes a thread's state.
pub(super) fn make(shared: &mut WorkerResources) -> (Rc<WorkerThread>, Rc<Admission>) {
    let log = shared.log.take().map(Rc::new);
    let config = &shared.settings.config;
    let cached = cached_descriptors();
    let cache = Cache::new(share(config.cache_bytes, config.workers), cached / config.workers);
    let revalidate_ms = config.revalidate.as_millis() as u64;
    let store = Store::new(cache, shared.disk.clone(), revalidate_ms, shared.changes.clone());
    let lasting = LastingState {
        store,
        deadlines: Deadlines::new(),
        log,
        buffers: Rc::default(),
        sections: Rc::default(),
        activity: Rc::default(),
        shared_store: None,
    };
    let admission =
        Admission::new(connections_max(config), shared.settings.connections_by_address.clone());
    (WorkerThread::new(worker(shared, lasting, None)), admission)
}

/// Makes a worker's state under a configuration. `previous` are the sites of the one before.
pub(super) fn worker(
    shared: &WorkerResources,
    lasting: LastingState,
    previous: Option<&Sites>,
) -> Worker {
    let WorkerResources {
        settings: Settings { config, guard, keyring, addresses, .. }, disk, ..
    } = shared;
    let limits = config.limits.clone();
    let resources = Resources {
        disk: disk.clone(),
        listings: shared.listings.clone(),
        sendfile: config.sendfile,
        changed: shared.changes.0.clone(),
        caches: shared.caches.clone(),
        objects: shared.objects.clone(),
        metrics: Arc::clone(&shared.metrics),
        status: shared.status.clone(),
        compressor: shared.compressor.clone(),
        upstream_tls: shared.settings.upstream_tls.clone(),
        wasm: shared.settings.wasm.clone(),
    };
    let mut sites = Sites::new(config, &resources, guard, &shared.slots, previous);
    for MountedApp { site, app } in &shared.apps {
        sites.mount(*site, app.for_worker(disk), &shared.metrics);
    }
    let LastingState { store, deadlines, log, buffers, sections, activity, .. } = lasting;
    Worker {
        sites,
        store,
        shared_store: shared_store(shared, lasting.shared_store),
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
        deadlines,
        metrics: Arc::clone(&shared.metrics),
        activity,
        log,
        log_filter: LogFilter::new(config),
        buffers,
        shortcuts: Shortcuts::default(),
        sections,
        is_replaced: Cell::new(false),
        limit_log: LimitLog::default(),
    }
}

/// Returns the worker's access to the store; the one before, if its settings are the same.
fn shared_store(
    shared: &WorkerResources,
    before: Option<Rc<SharedStore>>,
) -> Option<Rc<SharedStore>> {
    let Settings { config, upstream_tls, store, .. } = &shared.settings;
    let settings = store.as_ref()?;
    let known = before.filter(|store| store.is_of(settings));
    let tls = config.store.as_ref().and_then(|store| upstream_tls.of_store(store)).cloned();
    let new = || SharedStore::start(settings, tls, &shared.disk, &shared.metrics);
    Some(known.unwrap_or_else(new))
}
