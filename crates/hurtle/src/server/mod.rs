//! A whole server: its listeners, its workers, its end.

mod accept;
mod acme;
mod activation;
mod certificates;
mod mount;
pub mod process;
mod spoken;
mod worker;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::watch;

use crate::acme::Acme;
use crate::auth::Guard;
use crate::config::{Config, Listen, MountHandler, is_exposed};
use crate::disk::Disk;
use crate::files::{Changed, Listings};
use crate::observe::{self, Writer};
use crate::tls::Keyring;
use crate::transport::Addresses;
use accept::Port;
use spoken::Spoken;

pub use accept::Listener;

/// A server with its addresses bound.
#[derive(Debug)]
pub struct Server {
    config: Arc<Config>,
    /// For each worker, what it accepts from.
    listeners: Vec<Vec<Port>>,
    bound: Bound,
    /// Somebody else holds the listeners too, and will go on using them.
    inherited: bool,
    access_log: Option<Arc<Writer>>,
    apps: Vec<mount::Mounted>,
    guard: Guard,
    keyring: Option<Arc<Keyring>>,
    acme: Option<Acme>,
}

/// Where a server listens: as configured, with the port a `0` stood for.
#[derive(Clone, Debug, Default)]
struct Bound {
    clear: Vec<Listen>,
    tls: Vec<Listen>,
}

/// What the workers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Serve,
    /// Finish what is in flight.
    Drain,
    /// End now.
    End,
}

/// Tells a running server to stop.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<Order>>);

impl Stop {
    /// Accept nothing new, finish what is in flight.
    pub fn drain(&self) {
        self.0.send_if_modified(|order| {
            let serving = *order == Order::Serve;
            if serving {
                *order = Order::Drain;
            }
            serving
        });
    }

    /// End now, whatever is in flight.
    pub fn end(&self) {
        self.0.send_replace(Order::End);
    }
}

impl Server {
    /// Binds every address, and reads the certificates.
    ///
    /// # Errors
    /// With the address that could not be bound, and why, or where the PROXY protocol is spoken and
    /// nothing listens; with what is wrong in a file of users or a certificate.
    pub fn bind(mut config: Config) -> io::Result<Server> {
        let workers = config.workers.get();
        let mut listeners: Vec<Vec<Port>> = (0..workers).map(|_| Vec::new()).collect();
        let backlog = config.backlog;
        spoken::check(&config)?;
        let mut bind = |listen: &Listen, tls| {
            let sockets = accept::bind(listen, backlog, workers)
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {listen}: {e}")))?;
            let address = sockets[0].address(listen);
            let spoken = Spoken::on(&config, listen, tls);
            for (worker, listener) in listeners.iter_mut().zip(sockets) {
                worker.push(Port { listener, spoken });
            }
            io::Result::Ok(address)
        };
        let mut bound = Bound::default();
        for listen in &config.listen {
            bound.clear.push(bind(listen, false)?);
        }
        for listen in &config.listen_tls {
            bound.tls.push(bind(listen, true)?);
        }
        // Clients are redirected to the port there is.
        config.listen_tls.clone_from(&bound.tls);
        Server::of(config, listeners, bound, false)
    }

    /// Takes listeners somebody else has bound; the configuration's addresses are left alone, but
    /// what is spoken on one with the same port (TLS, the PROXY protocol) is spoken here.
    ///
    /// # Errors
    /// When a listener cannot be shared among the workers; with what is wrong in a file of users or
    /// a certificate.
    pub fn with_listeners(config: Config, inherited: Vec<Listener>) -> io::Result<Server> {
        let port = |listener: Listener| {
            let spoken = Spoken::on_inherited(&config, listener.own_address().as_ref());
            Port { listener, spoken }
        };
        let inherited: Vec<Port> = inherited.into_iter().map(port).collect();
        let at = |tls| {
            let ports = inherited.iter().filter(move |port| port.spoken.tls == tls);
            ports.filter_map(|port| port.listener.own_address()).collect()
        };
        let bound = Bound { clear: at(false), tls: at(true) };
        spoken::check_inherited(&config, &[&bound.clear[..], &bound.tls].concat())?;
        let mut listeners = Vec::new();
        for _ in 1..config.workers.get() {
            listeners.push(inherited.iter().map(Port::try_clone).collect::<io::Result<_>>()?);
        }
        listeners.push(inherited);
        Server::of(config, listeners, bound, true)
    }

    fn of(
        config: Config,
        listeners: Vec<Vec<Port>>,
        bound: Bound,
        inherited: bool,
    ) -> io::Result<Server> {
        let exposed = bound.clear.iter().find(|listen| is_exposed(listen));
        if let (Some(listen), true) =
            (exposed, config.gates_in_clear().any(|basic| !basic.cleartext))
        {
            let what = format!(
                "passwords would cross the network in clear to {listen}: listen with TLS, on 127.0.0.1 or a \
                 unix socket, or set auth_cleartext"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let acme = acme::load(&config)?;
        let keyring = certificates::load(&config)?;
        // Now, while the process may still read what only its first user may.
        let guard = Guard::read(&config)?;
        let (config, access_log, apps) = (Arc::new(config), None, vec![]);
        Ok(Server { config, listeners, bound, inherited, access_log, apps, guard, keyring, acme })
    }

    /// The directories it serves.
    pub fn roots(&self) -> Vec<PathBuf> {
        let mounts = self.config.sites.iter().flat_map(|site| &site.mounts);
        let roots = mounts.filter_map(|mount| match &mount.handler {
            MountHandler::Files(files) => Some(files.root.clone()),
            _ => None,
        });
        roots.collect()
    }

    /// Logs requests.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn open_logs(&mut self) -> io::Result<()> {
        if let Some(log) = &self.config.access_log {
            self.access_log = Some(Arc::new(Writer::start(log, observe::colour(&log.to))?));
        }
        Ok(())
    }

    /// Where it listens in clear: as configured, with the port a `0` stood for.
    pub fn addresses(&self) -> &[Listen] {
        &self.bound.clear
    }

    /// The same, where it listens with TLS.
    pub fn tls_addresses(&self) -> &[Listen] {
        &self.bound.tls
    }

    /// The directories that take uploads.
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
    /// When the system refuses a thread or an event loop.
    pub fn start(self) -> io::Result<Running> {
        raise_descriptor_limit();
        let disk = Disk::start(self.config.disk_threads)?;
        let listings = Listings::new(&disk);
        let changed = Changed::default();
        let (orders, _) = watch::channel(Order::Serve);
        let orders = Arc::new(orders);
        let rate = self.config.limits.address_rate;
        let addresses = (rate > 0).then(|| Addresses::new(rate));
        let mut upload_roots = self.upload_roots();
        let mut threads = Vec::new();
        for (number, listeners) in self.listeners.into_iter().enumerate() {
            let shared = worker::Shared {
                keyring: self.keyring.clone(),
                config: Arc::clone(&self.config),
                disk: disk.clone(),
                listings: listings.clone(),
                changed: changed.clone(),
                addresses: addresses.clone(),
                // One of them is enough.
                upload_roots: std::mem::take(&mut upload_roots),
                guard: self.guard.clone(),
                inherited: self.inherited,
                log: self.access_log.as_ref().map(|log| log.worker()),
                apps: self.apps.iter().map(|app| app.another(&disk)).collect(),
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

/// A server at work.
#[derive(Debug)]
pub struct Running {
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
    stop: Stop,
    access_log: Option<Arc<Writer>>,
    /// Certificates are looked after while this is there.
    _watching: Option<Sender<()>>,
    _getting: Option<acme::Alive>,
}

/// The access log of a running server, to reopen it.
#[derive(Clone, Debug)]
pub struct Logs(Option<Arc<Writer>>);

impl Logs {
    /// Opens the log anew, after its file was moved away.
    pub fn reopen(&self) {
        if let Some(log) = &self.0 {
            log.reopen();
        }
    }
}

/// How long a stop waits for a log that is stuck.
const LOG_CLOSE_MAX: Duration = Duration::from_secs(2);

impl Running {
    /// Its log.
    pub fn logs(&self) -> Logs {
        Logs(self.access_log.clone())
    }

    /// To stop it with, from anywhere.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until every worker has ended.
    ///
    /// # Errors
    /// The first worker's that failed.
    pub fn join(self) -> io::Result<()> {
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a worker panicked"))??;
        }
        if let Some(log) = &self.access_log
            && !log.close(LOG_CLOSE_MAX)
        {
            let lines = log.dropped();
            tracing::warn!(
                "the access log is stuck: {lines} lines were dropped, the last are lost"
            );
        }
        Ok(())
    }
}

/// Raises the process's soft limit of descriptors to the hard one; a refusal changes nothing.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// How many descriptors the process may have.
fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A worker's part of what the whole process may have.
fn share(whole: usize, workers: NonZeroUsize) -> usize {
    whole.div_ceil(workers.get())
}

/// How long after a stop begins idle connections may still send a request that is on its way.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// Runs one piece of a worker's work outside a server.
///
/// # Errors
/// When there can be no event loop.
pub fn block_on<T>(task: impl Future<Output = T>) -> io::Result<T> {
    Ok(worker::event_loop()?.block_on(task))
}
