//! The server: it binds its addresses, starts a worker for each core, and each worker accepts
//! connections until it is stopped.
//!
//! `worker` is the life of a worker, `worker_base` its state, `updating` how another configuration
//! comes into force in it. `accept`, `accepting` and `quic` have its listeners, `admission` and
//! `handshakes` their limits. `predecessor` is what a server takes over from the process before;
//! `lifecycle` is above: it reloads, hands over and stops servers.

pub(crate) mod accept;
pub(crate) mod accepting;
pub(crate) mod acme;
mod admission;
pub(crate) mod cached;
mod handshakes;
pub(crate) mod listening;
mod mount;
pub(crate) mod predecessor;
pub(crate) mod protocols;
pub(crate) mod quic;
pub(crate) mod running;
#[cfg(test)]
mod simulation;
pub(crate) mod updating;
mod upkeep;
mod worker;
mod worker_base;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::acme::Acme;
use crate::apps::Deployments;
use crate::config::{Config, Listen, Mount};
use crate::handler::resources::HandlerServices;
use crate::monitoring::{MonitoringSockets, admin, readers};
use crate::observe::{self, Writer};
use crate::services::descriptor_limit::raise_descriptor_limit;
use crate::services::settings::Settings;
use crate::services::{Services, certificates};
use crate::sockets::{self, activation};
use accept::BoundListener;
use cached::CachedResponses;
use listening::{BoundAddresses, Listening, OpenAddresses};
use predecessor::Predecessor;
use protocols::Protocols;
use quic::{QuicListeners, QuicSockets};
use running::CertificateTasks;
use worker::WorkerStart;

pub use crate::services::orders::Stop;
pub use crate::sockets::Listener;
pub use running::{AccessLogHandle, Running};

/// A server with its addresses bound.
#[derive(Debug)]
pub struct Server {
    /// The listeners of each worker.
    pub(crate) listeners: Vec<Vec<BoundListener>>,
    pub(crate) quic: QuicSockets,
    pub(crate) bound: BoundAddresses,
    listening: Vec<Listening>,
    /// `true`: the listeners are inherited from another process that keeps them open.
    pub(crate) inherited: bool,
    access_log: Option<Arc<Writer>>,
    apps: Vec<mount::MountedApp>,
    pub(crate) settings: Settings,
    /// The position of the process before in the feed of purges.
    purges: Option<String>,
    pub(crate) monitoring: MonitoringSockets,
    /// Stored responses of the process before.
    cached: Option<CachedResponses>,
    acme: Option<Acme>,
    pub(crate) deployments: Option<watch::Receiver<Deployments>>,
}

impl Server {
    /// Binds every address, and reads certificates and files of users.
    ///
    /// # Errors
    /// An address that cannot be bound, an address of `proxy_protocol.on` or of a site without a
    /// listener, or an unusable certificate or file of users.
    pub fn bind(config: Config) -> io::Result<Server> {
        Server::bind_or_take(config, &mut Predecessor::default())
    }

    /// Binds every address that the process before does not have.
    ///
    /// # Errors
    /// As for `bind`.
    pub(crate) fn bind_or_take(mut config: Config, before: &mut Predecessor) -> io::Result<Server> {
        let workers = config.workers.get();
        let mut listeners: Vec<Vec<BoundListener>> = (0..workers).map(|_| Vec::new()).collect();
        let backlog = config.backlog;
        protocols::check(&config)?;
        let mut bind = |listen: &Listen, tls| {
            let taken = before.take(listen);
            let opened = match taken.is_empty() {
                false => sockets::set_backlog(&taken, backlog)
                    .and_then(|()| sockets::share(taken, workers)),
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
        let quic = quic::bind(&config, &listening, |listen| before.take_datagrams(listen));
        quic::announce(&mut config, &listening, &quic::addresses(&quic));
        Server::new(config, listeners, quic, listening, false, before)
    }

    /// Uses inherited listeners in place of the configuration's addresses. A listener with the port
    /// of a configured address uses the protocols of that address (TLS, the PROXY protocol).
    ///
    /// # Errors
    /// A listener that cannot be shared among the workers, or an unusable certificate or file of
    /// users.
    pub fn with_listeners(config: Config, inherited: Vec<Listener>) -> io::Result<Server> {
        Server::with_inherited(config, inherited, &mut Predecessor::default())
    }

    /// Uses inherited listeners, and the rest of the process before.
    ///
    /// # Errors
    /// As for `with_listeners`.
    pub(crate) fn with_inherited(
        mut config: Config,
        inherited: Vec<Listener>,
        before: &mut Predecessor,
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
        protocols::check_inherited(&config, &bound.all())?;
        let mut listeners = Vec::new();
        for _ in 1..config.workers.get() {
            listeners
                .push(inherited.iter().map(BoundListener::try_clone).collect::<io::Result<_>>()?);
        }
        listeners.push(inherited);
        let quic = quic::bind(&config, &listening, |listen| before.take_datagrams(listen));
        quic::announce(&mut config, &listening, &quic::addresses(&quic));
        Server::new(config, listeners, quic, listening, true, before)
    }

    fn new(
        config: Config,
        listeners: Vec<Vec<BoundListener>>,
        quic: QuicListeners,
        listening: Vec<Listening>,
        inherited: bool,
        before: &mut Predecessor,
    ) -> io::Result<Server> {
        let bound = BoundAddresses::of(&listening);
        protocols::check_passwords(&config, &bound.clear)?;
        protocols::check_status_pages(&config, &bound.all())?;
        let acme = acme::load(&config)?;
        let quic = QuicSockets::new(quic, before)?;
        let admin = config.admin.as_deref().map(|path| {
            let taken = before.take_admin(path);
            taken.map_or_else(|| admin::bind(path), Ok)
        });
        let admin = admin.transpose()?;
        let take = |listen: &Listen| before.take_metrics(listen);
        let metrics = readers::bind(config.metrics.as_ref(), take)?;
        let monitoring = MonitoringSockets { admin, metrics };
        // Read before the process gives up root, which may be needed to read the files.
        let settings = Settings::new(config, None);
        let settings = settings.map_err(|problems| io::Error::other(problems.join("\n")))?;
        if let Some(keyring) = &settings.keyring {
            keyring.adopt_ticket_keys(&before.tickets);
        }
        Ok(Server {
            settings,
            listeners,
            quic,
            bound,
            listening,
            inherited,
            access_log: None,
            apps: vec![],
            monitoring,
            purges: before.purges.take(),
            cached: before.cached.take(),
            acme,
            deployments: None,
        })
    }

    /// The directories that the server serves, or the single file of `Config::for_file`.
    pub fn roots(&self) -> Vec<PathBuf> {
        let mounts = self.settings.config.sites.iter().flat_map(|site| &site.mounts);
        mounts.filter_map(Mount::served).collect()
    }

    /// Opens the access log, before the process changes its user, for example.
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

    /// Starts the workers, and opens the access log unless [`open_logs`](Self::open_logs) has.
    ///
    /// # Errors
    /// The access log cannot be opened, or the system refuses a thread or an event loop.
    pub fn start(mut self) -> io::Result<Running> {
        raise_descriptor_limit();
        if self.access_log.is_none() {
            self.open_logs()?;
        }
        let (stop, orders) = Stop::new();
        let services = Services::start(self.settings, self.access_log, self.deployments, orders)?;
        services.purges.set_position(self.purges);
        let settings = services.settings();
        if let Some(cached) = self.cached {
            let HandlerServices { caches, disk, .. } = &services.handlers;
            cached.restore(&settings.config, caches, disk);
        }
        let (commands, requested) = mpsc::unbounded_channel();
        let (messages, accepting) = mpsc::unbounded_channel();
        let mut monitoring = Some((self.monitoring, commands));
        let (mut threads, mut updates) = (Vec::new(), Vec::new());
        let addresses = OpenAddresses {
            listening: self.listening,
            quic: quic::addresses(&self.quic.listeners),
            inherited: self.inherited,
        };
        let quic = self.quic.of_workers()?;
        for (number, (listeners, quic)) in self.listeners.into_iter().zip(quic).enumerate() {
            let disk = &services.handlers.disk;
            let (update, updated) = mpsc::unbounded_channel();
            updates.push(update);
            let start = WorkerStart {
                number,
                metrics: services.registry.worker(),
                apps: self.apps.iter().map(|app| app.for_worker(disk)).collect(),
                listeners,
                quic,
                inherited: self.inherited || activation::keeps_listeners(),
                updates: updated,
                messages: messages.clone(),
                monitoring: monitoring.take(),
            };
            let services = Arc::clone(&services);
            let life = move || worker::run(services, start);
            threads.push(thread::Builder::new().name(format!("worker-{number}")).spawn(life)?);
        }
        let watching = settings.keyring.clone().map(certificates::watch).transpose()?;
        let keyring = settings.keyring.as_deref();
        let ordering = self.acme.map(|acme| acme::start(acme, keyring)).transpose()?;
        let certificates = CertificateTasks { watching, ordering };
        Ok(Running {
            threads,
            stop,
            services,
            addresses,
            updates,
            certificates,
            requested,
            accepting,
        })
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
