//! The server: listeners, workers and their shutdown.

mod accept;
mod accepting;
mod acme;
mod admission;
mod cached;
mod config_watch;
mod control;
pub mod dns_hooks;
mod greeting;
mod handover;
mod handshakes;
mod launch;
mod mount;
mod names;
mod places;
pub mod process;
mod protocols;
mod quic;
mod reload;
pub mod resolver;
mod running;
pub mod sandbox;
#[cfg(test)]
mod simulation;
pub mod starter;
pub mod supervisor;
mod updating;
mod upgrade;
mod upkeep;
mod worker;
mod worker_base;

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::acme::Acme;
use crate::apps::Deployments;
use crate::config::{Config, Listen, Mount};
use crate::handler::resources::HandlerServices;
use crate::monitoring::{self, MonitoringSockets};
use crate::observe::{self, Writer};
use crate::services::descriptor_limit::raise_descriptor_limit;
use crate::services::settings::Settings;
use crate::services::{Services, certificates};
use crate::sockets;
use crate::sockets::activation::{self, StoredListeners};
use crate::transport::quic::QuicSecret;
use accept::BoundListener;
use cached::CachedResponses;
use handover::{HeldSockets, Received};
use protocols::Protocols;
use quic::{Lease, QuicDuties, QuicListeners};
use reload::{Listening, Reloader};
use worker::WorkerStart;

pub use crate::services::orders::Stop;
pub use crate::sockets::Listener;
pub use launch::Launch;
pub use running::{AccessLogHandle, Running};

/// A server with its addresses bound.
#[derive(Debug)]
pub struct Server {
    /// The listeners of each worker.
    listeners: Vec<Vec<BoundListener>>,
    /// The UDP sockets of each worker.
    quic: QuicListeners,
    quic_secret: QuicSecret,
    /// The lease of the process before on its UDP sockets.
    quic_previous: Option<OwnedFd>,
    quic_lease: Lease,
    /// The end of the lease for another process.
    quic_released: OwnedFd,
    bound: BoundAddresses,
    listening: Vec<Listening>,
    /// `true`: the listeners are inherited from another process that keeps them open.
    inherited: bool,
    access_log: Option<Arc<Writer>>,
    apps: Vec<mount::MountedApp>,
    settings: Settings,
    /// The position of the process before in the feed of purges.
    purges: Option<String>,
    monitoring: MonitoringSockets,
    /// Stored responses of the process before.
    cached: Option<CachedResponses>,
    acme: Option<Acme>,
    deployments: Option<watch::Receiver<Deployments>>,
}

/// Addresses that a server listens on, with the actual port in place of port 0.
#[derive(Clone, Debug, Default)]
struct BoundAddresses {
    clear: Vec<Listen>,
    tls: Vec<Listen>,
}

impl BoundAddresses {
    fn of(listening: &[Listening]) -> BoundAddresses {
        let at = |tls| {
            let listening = listening.iter().filter(move |open| open.tls == tls);
            let actual = listening.map(|open| open.actual.clone());
            // An inherited unix socket may have no name.
            actual.filter(|listen| *listen != Listen::Unix(PathBuf::new())).collect()
        };
        BoundAddresses { clear: at(false), tls: at(true) }
    }
}

impl Server {
    /// Binds every address, and reads certificates and files of users.
    ///
    /// # Errors
    /// An address that cannot be bound, an address of `proxy_protocol.on` without a listener, or an
    /// unusable certificate or file of users.
    pub fn bind(config: Config) -> io::Result<Server> {
        Server::bind_stored(config, &mut StoredListeners::default())
    }

    /// Binds every address that is not in the service manager's store.
    ///
    /// # Errors
    /// As for `bind`.
    fn bind_stored(config: Config, stored: &mut StoredListeners) -> io::Result<Server> {
        Server::bind_or_take(config, |listen| stored.take(listen), None)
    }

    /// Binds every address that the process before does not have.
    ///
    /// # Errors
    /// As for `bind`.
    fn bind_or_receive(config: Config, received: &mut Received) -> io::Result<Server> {
        let listed = config.listen.iter().chain(&config.listen_tls);
        let mut taken: Vec<_> =
            listed.map(|listen| (listen.clone(), received.take(listen))).collect();
        let take = |listen: &Listen| {
            let of = taken.iter_mut().find(|(configured, _)| configured == listen);
            of.map(|(_, listeners)| std::mem::take(listeners)).unwrap_or_default()
        };
        Server::bind_or_take(config, take, Some(received))
    }

    /// Binds every address of which `take` has no listeners.
    fn bind_or_take(
        mut config: Config,
        mut take: impl FnMut(&Listen) -> Vec<Listener>,
        mut received: Option<&mut Received>,
    ) -> io::Result<Server> {
        let workers = config.workers.get();
        let mut listeners: Vec<Vec<BoundListener>> = (0..workers).map(|_| Vec::new()).collect();
        let backlog = config.backlog;
        protocols::check(&config)?;
        let mut bind = |listen: &Listen, tls| {
            let taken = take(listen);
            let opened = match taken.is_empty() {
                false => sockets::share(taken, workers),
                true => sockets::bind(listen, backlog, workers, tls && config.http3),
            };
            let opened = opened
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {listen}: {e}")))?;
            let address = opened[0].address(listen);
            let protocols = Protocols::on(&config, listen, tls);
            for (at, listener) in opened.into_iter().enumerate() {
                let configured = listen.clone();
                listeners[at % workers].push(BoundListener { listener, configured, protocols });
            }
            io::Result::Ok(address)
        };
        let mut listening = Vec::new();
        let clear = config.listen.iter().map(|listen| (listen, false));
        for (listen, tls) in clear.chain(config.listen_tls.iter().map(|listen| (listen, true))) {
            let (configured, actual) = (listen.clone(), bind(listen, tls)?);
            listening.push(Listening { configured, actual, tls });
        }
        let bound = BoundAddresses::of(&listening);
        // Redirects to HTTPS need the actual port.
        config.listen_tls.clone_from(&bound.tls);
        let quic = quic::bind(&config, &listening, |listen| match &mut received {
            Some(received) => received.take_datagrams(listen),
            None => Vec::new(),
        });
        quic::announce(&mut config, &listening, &quic::addresses(&quic));
        Server::new(config, listeners, quic, listening, false, received)
    }

    /// Uses inherited listeners in place of the configuration's addresses. A listener with the port
    /// of a configured address uses the protocols of that address (TLS, the PROXY protocol).
    ///
    /// # Errors
    /// A listener that cannot be shared among the workers, or an unusable certificate or file of
    /// users.
    pub fn with_listeners(config: Config, inherited: Vec<Listener>) -> io::Result<Server> {
        Server::with_inherited(config, inherited, None)
    }

    fn with_inherited(
        config: Config,
        inherited: Vec<Listener>,
        received: Option<&mut Received>,
    ) -> io::Result<Server> {
        let port = |listener: Listener| {
            let protocols = Protocols::on_inherited(&config, listener.own_address().as_ref());
            let unnamed = || Listen::Unix(PathBuf::new());
            let configured = listener.own_address().unwrap_or_else(unnamed);
            BoundListener { listener, configured, protocols }
        };
        let inherited: Vec<BoundListener> = inherited.into_iter().map(port).collect();
        let listening: Vec<_> = (inherited.iter())
            .map(|port| Listening {
                configured: port.configured.clone(),
                actual: port.configured.clone(),
                tls: port.protocols.tls,
            })
            .collect();
        let bound = BoundAddresses::of(&listening);
        protocols::check_inherited(&config, &[&bound.clear[..], &bound.tls].concat())?;
        let mut listeners = Vec::new();
        for _ in 1..config.workers.get() {
            listeners
                .push(inherited.iter().map(BoundListener::try_clone).collect::<io::Result<_>>()?);
        }
        listeners.push(inherited);
        let mut config = config;
        let mut received = received;
        let quic = quic::bind(&config, &listening, |listen| match &mut received {
            Some(received) => received.take_datagrams(listen),
            None => Vec::new(),
        });
        quic::announce(&mut config, &listening, &quic::addresses(&quic));
        Server::new(config, listeners, quic, listening, true, received)
    }

    fn new(
        config: Config,
        listeners: Vec<Vec<BoundListener>>,
        quic: QuicListeners,
        listening: Vec<Listening>,
        inherited: bool,
        mut received: Option<&mut Received>,
    ) -> io::Result<Server> {
        let bound = BoundAddresses::of(&listening);
        protocols::check_passwords(&config, &bound.clear)?;
        protocols::check_status_pages(&config, &[&bound.clear[..], &bound.tls].concat())?;
        let acme = acme::load(&config)?;
        let quic_previous = received.as_mut().and_then(|received| received.lease.take());
        let (quic_lease, quic_released) = Lease::new()?;
        let quic_secret = match received.as_ref().and_then(|received| received.quic_secret()) {
            Some(secret) => secret,
            None => QuicSecret::random()?,
        };
        let tickets = received.as_ref().map(|received| received.description.tickets.clone());
        let purges = received.as_ref().and_then(|received| received.description.purges.clone());
        let admin = config.admin.as_deref().map(|path| {
            let taken = received.as_mut().and_then(|received| received.take_admin(path));
            taken.map_or_else(|| monitoring::bind_admin(path), Ok)
        });
        let admin = admin.transpose()?;
        let cached = received.as_mut().and_then(|received| received.take_cached());
        let metrics = monitoring::bind_readers(config.metrics.as_ref(), |listen| {
            received.as_mut().and_then(|received| received.take_metrics(listen))
        })?;
        let monitoring = MonitoringSockets { admin, metrics };
        // Read before the process gives up root, which may be needed to read the files.
        let settings = Settings::new(config, None);
        let settings = settings.map_err(|problems| io::Error::other(problems.join("\n")))?;
        if let (Some(keyring), Some(tickets)) = (&settings.keyring, tickets) {
            keyring.adopt_ticket_keys(&tickets);
        }
        Ok(Server {
            settings,
            purges,
            listeners,
            quic,
            quic_secret,
            quic_previous,
            quic_lease,
            quic_released,
            bound,
            listening,
            inherited,
            access_log: None,
            apps: vec![],
            monitoring,
            cached,
            acme,
            deployments: None,
        })
    }

    /// Duplicates the sockets, so that they can be handed to another process.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    fn hold_sockets(&self) -> io::Result<HeldSockets> {
        let path = self.settings.config.admin.clone();
        // The workers have the same inherited listeners.
        let workers = if self.inherited { 1 } else { self.listeners.len() };
        let listeners = self.listeners.iter().take(workers).flatten();
        let metrics = self.settings.config.metrics.iter().flat_map(|metrics| &metrics.listen);
        let mut held = HeldSockets::of(
            listeners,
            path.zip(self.monitoring.admin.as_ref()),
            metrics.zip(&self.monitoring.metrics),
        )?;
        held.add_datagrams(self.quic.iter().flatten())?;
        held.set_lease(self.quic_released.try_clone()?);
        Ok(held)
    }

    /// The directories that the server serves, or the single file of `Config::for_file`.
    pub fn roots(&self) -> Vec<PathBuf> {
        let mounts = self.settings.config.sites.iter().flat_map(|site| &site.mounts);
        mounts.filter_map(Mount::served).collect()
    }

    /// Opens the access log.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub fn open_logs(&mut self) -> io::Result<()> {
        if let Some(log) = &self.settings.config.access_log {
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

    /// Starts the workers.
    ///
    /// # Errors
    /// The system refuses a thread or an event loop.
    pub fn start(self) -> io::Result<Running> {
        raise_descriptor_limit();
        let (stop, orders) = Stop::new();
        let services = Services::start(self.settings, self.access_log, self.deployments, orders)?;
        services.purges.set_position(self.purges);
        let settings = services.settings();
        if let Some(cached) = self.cached {
            let HandlerServices { caches, disk, .. } = &services.handlers;
            cached.restore(&settings.config, caches, disk);
        }
        let (updates, _) = watch::channel(None);
        let (commands, requested) = mpsc::unbounded_channel();
        let (accepts, accepting) = mpsc::unbounded_channel();
        let mut monitoring = Some((self.monitoring, commands));
        let mut threads = Vec::new();
        let quic_addresses = quic::addresses(&self.quic);
        for (number, (listeners, quic)) in self.listeners.into_iter().zip(self.quic).enumerate() {
            let disk = &services.handlers.disk;
            let start = WorkerStart {
                number,
                metrics: services.registry.worker(),
                apps: self.apps.iter().map(|app| app.for_worker(disk)).collect(),
                listeners,
                quic: QuicDuties {
                    listeners: quic,
                    secret: self.quic_secret.clone(),
                    lease: self.quic_lease.clone(),
                    previous: self.quic_previous.as_ref().map(OwnedFd::try_clone).transpose()?,
                },
                inherited: self.inherited || activation::keeps_listeners(),
                updates: updates.subscribe(),
                accepts: accepts.clone(),
                monitoring: monitoring.take(),
            };
            let services = Arc::clone(&services);
            let life = move || worker::run(services, start);
            threads.push(thread::Builder::new().name(format!("worker-{number}")).spawn(life)?);
        }
        drop(accepts);
        let watching = settings.keyring.clone().map(certificates::watch).transpose()?;
        let keyring = settings.keyring.as_deref();
        let ordering = self.acme.map(|acme| acme::start(acme, keyring)).transpose()?;
        let reloader = Reloader {
            services: Arc::clone(&services),
            listening: self.listening,
            quic: quic_addresses,
            quic_secret: self.quic_secret,
            inherited: self.inherited,
            any_port: false,
            regains_root: false,
            held: None,
            updates,
            watching,
            ordering,
        };
        Ok(Running { threads, stop, services, reloader, requested, accepting })
    }
}

/// A worker's share of a limit of the whole process.
fn share(whole: usize, workers: NonZeroUsize) -> usize {
    whole.div_ceil(workers.get())
}

/// Time after the begin of a stop in which idle connections may still send a request.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// Likewise after a handover to another process. It is longer, because nothing waits for the end of
/// this process: a client that sends requests less often still gets `Connection: close` with its
/// next response, and need not find its connection closed.
const HAND_OVER_GRACE: Duration = Duration::from_secs(5);

/// Runs a future on an event loop like a worker's, outside of a server.
///
/// # Errors
/// The system refuses an event loop.
pub fn block_on<T>(task: impl Future<Output = T>) -> io::Result<T> {
    Ok(worker::event_loop()?.block_on(task))
}
