//! The server: listeners, workers and their shutdown.

mod accept;
mod acme;
mod activation;
mod admin;
mod admission;
pub mod apps;
mod certificates;
mod mount;
pub mod process;
mod protocols;
#[cfg(test)]
mod simulation;
mod worker;

use std::io;
use std::num::NonZeroUsize;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::watch;

use crate::acme::Acme;
use crate::auth::Guard;
use crate::cache::Caches;
use crate::config::{Config, Listen, MountHandler, is_exposed};
use crate::disk::Disk;
use crate::files::{Changed, Listings};
use crate::handler::gateway::Slots;
use crate::observe::{self, Writer};
use crate::site::Deployment;
use crate::tls::Keyring;
use crate::transport::Addresses;
use accept::BoundListener;
use admission::AddressCounts;
use protocols::Protocols;

pub use accept::Listener;

/// A server with its addresses bound.
#[derive(Debug)]
pub struct Server {
    config: Arc<Config>,
    /// The listeners of each worker.
    listeners: Vec<Vec<BoundListener>>,
    bound: BoundAddresses,
    /// `true`: the listeners are inherited from another process that keeps them open.
    inherited: bool,
    access_log: Option<Arc<Writer>>,
    apps: Vec<mount::MountedApp>,
    guard: Guard,
    keyring: Option<Arc<Keyring>>,
    /// The socket for administration commands.
    admin: Option<UnixListener>,
    acme: Option<Acme>,
    deployments: Option<watch::Receiver<Deployments>>,
}

/// The deployed applications; every worker is notified of a change.
type Deployments = Arc<Vec<Deployment>>;

/// Addresses that a server listens on, with the actual port in place of port 0.
#[derive(Clone, Debug, Default)]
struct BoundAddresses {
    clear: Vec<Listen>,
    tls: Vec<Listen>,
}

/// A command to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Serve,
    /// Finish the requests in flight.
    Drain,
    /// Stop at once.
    End,
}

/// A handle that stops a running server.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<Command>>);

impl Stop {
    /// Stops accepting and finishes the requests in flight.
    pub fn drain(&self) {
        self.0.send_if_modified(|order| {
            let serving = *order == Command::Serve;
            if serving {
                *order = Command::Drain;
            }
            serving
        });
    }

    /// Stops at once and cuts the requests in flight.
    pub fn end(&self) {
        self.0.send_replace(Command::End);
    }
}

impl Server {
    /// Binds every address, and reads certificates and files of users.
    ///
    /// # Errors
    /// An address that cannot be bound, an address of `proxy_protocol.on` without a listener, or an
    /// unusable certificate or file of users.
    pub fn bind(mut config: Config) -> io::Result<Server> {
        let workers = config.workers.get();
        let mut listeners: Vec<Vec<BoundListener>> = (0..workers).map(|_| Vec::new()).collect();
        let backlog = config.backlog;
        protocols::check(&config)?;
        let mut bind = |listen: &Listen, tls| {
            let sockets = accept::bind(listen, backlog, workers)
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {listen}: {e}")))?;
            let address = sockets[0].address(listen);
            let protocols = Protocols::on(&config, listen, tls);
            for (worker, listener) in listeners.iter_mut().zip(sockets) {
                worker.push(BoundListener { listener, protocols });
            }
            io::Result::Ok(address)
        };
        let mut bound = BoundAddresses::default();
        for listen in &config.listen {
            bound.clear.push(bind(listen, false)?);
        }
        for listen in &config.listen_tls {
            bound.tls.push(bind(listen, true)?);
        }
        // Redirects to HTTPS need the actual port.
        config.listen_tls.clone_from(&bound.tls);
        Server::new(config, listeners, bound, false)
    }

    /// Uses inherited listeners in place of the configuration's addresses. A listener with the port
    /// of a configured address uses the protocols of that address (TLS, the PROXY protocol).
    ///
    /// # Errors
    /// A listener that cannot be shared among the workers, or an unusable certificate or file of
    /// users.
    pub fn with_listeners(config: Config, inherited: Vec<Listener>) -> io::Result<Server> {
        let port = |listener: Listener| {
            let protocols = Protocols::on_inherited(&config, listener.own_address().as_ref());
            BoundListener { listener, protocols }
        };
        let inherited: Vec<BoundListener> = inherited.into_iter().map(port).collect();
        let at = |tls| {
            let ports = inherited.iter().filter(move |port| port.protocols.tls == tls);
            ports.filter_map(|port| port.listener.own_address()).collect()
        };
        let bound = BoundAddresses { clear: at(false), tls: at(true) };
        protocols::check_inherited(&config, &[&bound.clear[..], &bound.tls].concat())?;
        let mut listeners = Vec::new();
        for _ in 1..config.workers.get() {
            listeners
                .push(inherited.iter().map(BoundListener::try_clone).collect::<io::Result<_>>()?);
        }
        listeners.push(inherited);
        Server::new(config, listeners, bound, true)
    }

    fn new(
        config: Config,
        listeners: Vec<Vec<BoundListener>>,
        bound: BoundAddresses,
        inherited: bool,
    ) -> io::Result<Server> {
        let exposed = bound.clear.iter().find(|listen| is_exposed(listen));
        if let (Some(listen), true) =
            (exposed, config.basic_auths_in_clear().any(|basic| !basic.cleartext))
        {
            let what = format!(
                "passwords would cross the network in clear to {listen}: listen with TLS, on 127.0.0.1 or a \
                 unix socket, or set auth_cleartext"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let acme = acme::load(&config)?;
        let keyring = certificates::load(&config, None)?;
        let admin = config.admin.as_deref().map(admin::bind).transpose()?;
        // Read before the process gives up root, which may be needed to read the file.
        let guard = Guard::read(&config, None)?;
        let (config, access_log, apps) = (Arc::new(config), None, vec![]);
        Ok(Server {
            config,
            listeners,
            bound,
            inherited,
            access_log,
            apps,
            guard,
            keyring,
            admin,
            acme,
            deployments: None,
        })
    }

    /// The directories that the server serves.
    pub fn roots(&self) -> Vec<PathBuf> {
        let mounts = self.config.sites.iter().flat_map(|site| &site.mounts);
        let roots = mounts.filter_map(|mount| match &mount.handler {
            MountHandler::Files(files) => Some(files.root.clone()),
            _ => None,
        });
        roots.collect()
    }

    /// Opens the access log.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub fn open_logs(&mut self) -> io::Result<()> {
        if let Some(log) = &self.config.access_log {
            self.access_log = Some(Arc::new(Writer::start(log, observe::colour(&log.to))?));
        }
        Ok(())
    }

    /// Addresses in clear, with the actual port in place of port 0.
    pub fn addresses(&self) -> &[Listen] {
        &self.bound.clear
    }

    /// Addresses with TLS, with the actual port in place of port 0.
    pub fn tls_addresses(&self) -> &[Listen] {
        &self.bound.tls
    }

    /// The directories that accept uploads.
    fn upload_roots(&self) -> Vec<PathBuf> {
        let mounts = self.config.sites.iter().flat_map(|site| &site.mounts);
        let roots = mounts.filter_map(|mount| match &mount.handler {
            MountHandler::Files(files) if files.uploads.is_some() => Some(files.root.clone()),
            _ => None,
        });
        roots.collect()
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// The system refuses a thread or an event loop.
    pub fn start(self) -> io::Result<Running> {
        raise_descriptor_limit();
        let disk = Disk::start(self.config.disk_threads)?;
        let listings = Listings::new(&disk);
        let changed = Changed::default();
        let slots = Slots::new(self.config.limits.programs);
        let caches = Caches::new((descriptor_limit() / CACHED_BODIES_SHARE).max(1));
        let (orders, _) = watch::channel(Command::Serve);
        let orders = Arc::new(orders);
        let rate = self.config.limits.address_rate;
        let addresses = (rate > 0).then(|| Addresses::new(rate));
        let connections_by_address =
            self.config.limits.connections_per_address.map(AddressCounts::new);
        let mut upload_roots = self.upload_roots();
        let mut admin = self.admin;
        let mut threads = Vec::new();
        for (number, listeners) in self.listeners.into_iter().enumerate() {
            let shared = worker::Shared {
                keyring: self.keyring.clone(),
                deployments: self.deployments.clone(),
                config: Arc::clone(&self.config),
                disk: disk.clone(),
                listings: listings.clone(),
                changed: changed.clone(),
                slots: slots.clone(),
                caches: caches.clone(),
                admin: admin.take(),
                addresses: addresses.clone(),
                connections_by_address: connections_by_address.clone(),
                // One worker clears all of them.
                upload_roots: std::mem::take(&mut upload_roots),
                guard: self.guard.clone(),
                inherited: self.inherited,
                log: self.access_log.as_ref().map(|log| log.worker()),
                apps: self.apps.iter().map(|app| app.for_worker(&disk)).collect(),
            };
            let orders = orders.subscribe();
            let life = move || worker::run(shared, listeners, orders);
            threads.push(thread::Builder::new().name(format!("worker-{number}")).spawn(life)?);
        }
        let watching = self.keyring.map(certificates::watch).transpose()?;
        let getting = self.acme.map(acme::start).transpose()?;
        let (stop, access_log) = (Stop(orders), self.access_log);
        Ok(Running { threads, stop, access_log, _watching: watching, _getting: getting })
    }
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
    stop: Stop,
    access_log: Option<Arc<Writer>>,
    /// Certificates are reloaded until this is dropped.
    _watching: Option<Sender<()>>,
    _getting: Option<acme::AcmeHandle>,
}

/// A handle that reopens the access log of a running server.
#[derive(Clone, Debug)]
pub struct AccessLogHandle(Option<Arc<Writer>>);

impl AccessLogHandle {
    /// Reopens the log after its file was renamed.
    pub fn reopen(&self) {
        if let Some(log) = &self.0 {
            log.reopen();
        }
    }
}

/// Longest wait at a stop for a log that cannot be written.
const LOG_CLOSE_MAX: Duration = Duration::from_secs(2);

impl Running {
    /// A handle to its access log.
    pub fn logs(&self) -> AccessLogHandle {
        AccessLogHandle(self.access_log.clone())
    }

    /// A handle that stops it from any thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until every worker has ended.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub fn join(self) -> io::Result<()> {
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a worker panicked"))??;
        }
        if let Some(log) = &self.access_log
            && !log.close(LOG_CLOSE_MAX)
        {
            let lines = log.dropped();
            tracing::warn!(
                "the access log cannot be written: {lines} lines were dropped, the last are lost"
            );
        }
        Ok(())
    }
}

/// Raises the soft limit of descriptors to the hard limit; ignores a failure.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Limit of descriptors of the process.
fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Share of the process's descriptors that each response cache may use: one in this many.
const CACHED_BODIES_SHARE: u64 = 16;

/// A worker's share of a limit of the whole process.
fn share(whole: usize, workers: NonZeroUsize) -> usize {
    whole.div_ceil(workers.get())
}

/// Time after the begin of a stop in which idle connections may still send a request.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// Runs a future on an event loop like a worker's, outside of a server.
///
/// # Errors
/// The system refuses an event loop.
pub fn block_on<T>(task: impl Future<Output = T>) -> io::Result<T> {
    Ok(worker::event_loop()?.block_on(task))
}
