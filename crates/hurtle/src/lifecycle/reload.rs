//! Puts another configuration in force while the server runs. It is checked whole first: with any
//! problem the one before stays. Connections, caches, tickets, upstreams and counters survive where
//! what they belong to does; listeners are kept, opened or closed.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::dns_hooks;
use super::handover::HeldSockets;
use crate::config::{CertificateFiles, Config, HostName, Listen, OnDemand, Site, Tls};
use crate::observe;
use crate::server::accept::BoundListener;
use crate::server::accepting::ListenerChanges;
use crate::server::listening::{Listening, OpenAddresses};
use crate::server::protocols::{self, Protocols};
use crate::server::running::CertificateTasks;
use crate::server::updating::Update;
use crate::server::{acme, quic};
use crate::services::settings::Settings;
use crate::services::{Services, certificates};
use crate::sockets;
use crate::tls::Keyring;

/// Longest wait for the workers to confirm a configuration.
const CONFIRM_MAX: Duration = Duration::from_secs(5);

/// Ports below this one are for root on most systems.
const PRIVILEGED_PORTS: u16 = 1024;

/// Why a configuration is not in force.
#[derive(Debug)]
pub(super) enum ReloadError {
    Problems(Vec<String>),
    /// It is in force, but not in a worker that does not respond.
    Unconfirmed,
    /// It needs what the sandbox does not permit.
    Confined,
    /// Only a start puts these settings in force.
    Restart(Vec<&'static str>),
    /// Only root, which this process has given up, can listen on this address.
    Privileged(Listen),
}

impl From<Vec<String>> for ReloadError {
    fn from(problems: Vec<String>) -> ReloadError {
        ReloadError::Problems(problems)
    }
}

/// The state of a running server that a reload compares and replaces.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) services: Arc<Services>,
    pub(super) addresses: OpenAddresses,
    /// `true`: the address is a default and its port may be another one, so it stays.
    pub(super) any_port: bool,
    /// `true`: this process has given up root, and one that replaces it begins as root.
    pub(super) regains_root: bool,
    /// Duplicates of all sockets; `None`: they are not handed over.
    pub(super) held: Option<HeldSockets>,
    /// The way to each worker.
    pub(super) updates: Vec<UnboundedSender<Update>>,
    pub(super) certificates: CertificateTasks,
}

impl Reloader {
    /// Returns the names of the settings of a configuration that only a start puts in force.
    pub(super) fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        need_restart(config, &self.services.settings().config)
    }

    /// Puts a configuration in force that needs no restart.
    ///
    /// # Errors
    /// The problems, or an address that another process can listen on. The configuration before
    /// stays in force.
    pub(super) fn reload(&mut self, config: Config) -> Result<(), ReloadError> {
        let before = self.services.settings();
        self.check(&config).map_err(|e| vec![e.to_string()])?;
        let orders_change =
            config.acme != before.config.acme || ordered(&config) != ordered(&before.config);
        let acme = match orders_change {
            true => acme::load(&config).map_err(|e| vec![e.to_string()])?,
            false => None,
        };
        let mut settings = Settings::new(config, Some(&before))?;
        // Last, because bound addresses cannot be taken back unnoticed.
        let (listening, mut listeners) = self.listeners(&settings.config)?;
        if let Some(listen) = self.privileged_quic(&settings.config, &listening) {
            return Err(ReloadError::Privileged(listen));
        }
        let quic_kept = self.change_quic(&settings.config, &listening, &mut listeners);
        let quic_opened = quic::opened(&listeners);
        let serving = quic_kept.iter().filter(|(_, serves)| *serves).map(|(listen, _)| listen);
        let quic_serving: Vec<_> = serving.chain(&quic_opened).cloned().collect();
        let quic_kept: Vec<_> = quic_kept.into_iter().map(|(listen, _)| listen).collect();
        // Redirects to HTTPS need the actual port.
        let tls = listening.iter().filter(|open| open.tls);
        let config = Arc::make_mut(&mut settings.config);
        config.listen_tls = tls.map(|open| open.actual.clone()).collect();
        quic::announce(config, &listening, &quic_serving);
        if let Some(held) = &mut self.held {
            // Before the workers close them, because the last descriptor closes a socket.
            held.retain(&listening);
            let opened = listeners.iter().flat_map(|changes| &changes.opened);
            held.add(opened).map_err(|e| vec![e.to_string()])?;
            held.retain_datagrams(&quic_kept);
            let opened = listeners.iter().flat_map(|changes| &changes.opened_quic);
            held.add_datagrams(opened).map_err(|e| vec![e.to_string()])?;
            if !self.addresses.inherited {
                held.store();
            }
        }
        let settings = Arc::new(settings);
        let is_confirmed = self.publish(&settings, listeners)?;
        let level = settings.config.error_log.level;
        if level != before.config.error_log.level {
            observe::set_level(level);
        }
        if orders_change {
            let keyring = settings.keyring.as_deref();
            // Ends the order in progress, which another thread would take for a failed attempt.
            self.certificates.ordering = None;
            let ordering = acme.map(|acme| acme::start(acme, keyring)).transpose();
            self.certificates.ordering = ordering.map_err(|e| vec![e.to_string()])?;
        }
        let is_kept =
            |open: &Listening| listening.iter().any(|kept| kept.configured == open.configured);
        for closed in self.addresses.listening.iter().filter(|open| !is_kept(open)) {
            if let Listen::Unix(path) = &closed.configured {
                // The directory may be another user's.
                let _ = std::fs::remove_file(path);
            }
        }
        self.addresses.listening = listening;
        self.addresses.quic = quic_kept.into_iter().chain(quic_opened).collect();
        match is_confirmed {
            true => Ok(()),
            false => Err(ReloadError::Unconfirmed),
        }
    }

    /// Returns what an address that stays whatever the configuration says will speak.
    fn protocols_on(&self, config: &Config, open: &Listening) -> Protocols {
        match self.addresses.inherited {
            true => Protocols::on_inherited(config, Some(&open.actual)),
            false => Protocols { tls: open.tls, proxy: false },
        }
    }

    fn check(&self, config: &Config) -> io::Result<()> {
        let actual = |open: &&Listening| open.actual.clone();
        let bound: Vec<Listen> =
            self.addresses.listening.iter().map(|open| actual(&open)).collect();
        match self.addresses.inherited {
            true => protocols::check_inherited(config, &bound)?,
            false => protocols::check(config)?,
        }
        let clear: Vec<Listen> = self
            .addresses
            .listening
            .iter()
            .filter(|open| !self.protocols_on(config, open).tls)
            .map(|open| actual(&open))
            .collect();
        let stay = self.addresses.inherited || self.any_port;
        protocols::check_passwords(config, if stay { &clear } else { &config.listen })?;
        let configured = [&config.listen[..], &config.listen_tls].concat();
        protocols::check_status_pages(config, if stay { &bound } else { &configured })
    }

    /// Sends the configuration to the workers, and waits until all have applied it. `false`: a
    /// worker has not done so in time; it will later.
    fn publish(
        &mut self,
        settings: &Arc<Settings>,
        listeners: Vec<ListenerChanges>,
    ) -> Result<bool, Vec<String>> {
        let (applied, confirmed) = mpsc::channel();
        let same = |a: &Option<Arc<Keyring>>, b: &Option<Arc<Keyring>>| {
            a.as_ref().map(Arc::as_ptr) == b.as_ref().map(Arc::as_ptr)
        };
        if !same(&settings.keyring, &self.services.settings().keyring) {
            let watching = settings.keyring.clone().map(certificates::watch).transpose();
            self.certificates.watching = watching.map_err(|e| vec![e.to_string()])?;
        }
        self.services.set_settings(Arc::clone(settings));
        for (worker, listeners) in self.updates.iter().zip(listeners) {
            // A worker that has ended confirms nothing.
            let _ = worker.send(Update { listeners, applied: applied.clone() });
        }
        let end = Instant::now() + CONFIRM_MAX;
        let mut left = self.updates.iter().map(|_| end.saturating_duration_since(Instant::now()));
        Ok(left.all(|left| confirmed.recv_timeout(left).is_ok()))
    }

    /// Adds the changes of UDP sockets to those of each worker. Returns the addresses whose sockets
    /// stay, and whether they serve: a socket stays as long as the TLS listener does.
    fn change_quic(
        &self,
        config: &Config,
        listening: &[Listening],
        changes: &mut [ListenerChanges],
    ) -> Vec<(Listen, bool)> {
        let wanted: Vec<_> = quic::wanted(config, listening).map(|(listen, _)| listen).collect();
        let tls = |listen: &&Listen| listening.iter().any(|o| o.tls && o.configured == **listen);
        let stay = self.addresses.quic.iter().filter(tls);
        let kept: Vec<_> = stay.map(|listen| (listen.clone(), wanted.contains(&listen))).collect();
        let is_new = |open: &&Listening| {
            wanted.contains(&&open.configured) && !self.addresses.quic.contains(&open.configured)
        };
        let new: Vec<_> = listening.iter().filter(is_new).cloned().collect();
        let opened = quic::bind(config, &new, |_| Vec::new());
        for (worker, opened) in changes.iter_mut().zip(opened) {
            worker.kept_quic.clone_from(&kept);
            worker.opened_quic = opened;
        }
        kept
    }

    /// Returns the addresses to listen on, and the changes for each worker. New addresses are
    /// bound.
    fn listeners(
        &self,
        config: &Config,
    ) -> Result<(Vec<Listening>, Vec<ListenerChanges>), ReloadError> {
        let workers = config.workers.get();
        let mut changes: Vec<_> = (0..workers).map(|_| ListenerChanges::default()).collect();
        if self.addresses.inherited || self.any_port {
            let mut listening = Vec::new();
            for open in &self.addresses.listening {
                let protocols = self.protocols_on(config, open);
                for worker in &mut changes {
                    worker.kept.push((open.configured.clone(), protocols));
                }
                listening.push(Listening { tls: protocols.tls, ..open.clone() });
            }
            return Ok((listening, changes));
        }
        let (mut listening, mut problems, mut privileged) = (Vec::new(), Vec::new(), None);
        let clear = config.listen.iter().map(|listen| (listen, false));
        let wanted = clear.chain(config.listen_tls.iter().map(|listen| (listen, true)));
        for (listen, tls) in wanted {
            let protocols = Protocols::on(config, listen, tls);
            if let Some(open) =
                self.addresses.listening.iter().find(|open| open.configured == *listen)
            {
                listening.push(Listening { tls, ..open.clone() });
                for worker in &mut changes {
                    worker.kept.push((listen.clone(), protocols));
                }
                continue;
            }
            match sockets::bind(listen, config.backlog, workers, tls && config.http3) {
                Err(e) if self.regains_root && e.kind() == io::ErrorKind::PermissionDenied => {
                    privileged = Some(listen.clone());
                }
                Err(e) => problems.push(cannot_listen(listen, &e)),
                Ok(opened) => {
                    let (configured, actual) = (listen.clone(), opened[0].address(listen));
                    listening.push(Listening { configured, actual, tls });
                    for (worker, listener) in changes.iter_mut().zip(opened) {
                        let configured = listen.clone();
                        worker.opened.push(BoundListener { listener, configured, protocols });
                    }
                }
            }
        }
        match privileged {
            _ if !problems.is_empty() => Err(problems.into()),
            Some(listen) => Err(ReloadError::Privileged(listen)),
            None => Ok((listening, changes)),
        }
    }

    /// Returns an address whose UDP port is new and that another process can bind.
    fn privileged_quic(&self, config: &Config, listening: &[Listening]) -> Option<Listen> {
        let is_denied = |address: SocketAddr| {
            UdpSocket::bind(address).is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
        };
        let mut wanted = quic::wanted(config, listening).filter(|_| self.regains_root);
        let new =
            wanted.find(|(listen, at)| !self.addresses.quic.contains(listen) && is_denied(*at));
        new.map(|(listen, _)| listen.clone())
    }
}

fn cannot_listen(listen: &Listen, e: &io::Error) -> String {
    let is_low = listen.port().is_some_and(|port| port < PRIVILEGED_PORTS);
    let hint = match e.kind() {
        io::ErrorKind::PermissionDenied if is_low => {
            "; it needs root, or the capability CAP_NET_BIND_SERVICE"
        }
        _ => "",
    };
    format!("cannot listen on {listen}: {e}{hint}")
}

/// A site as far as the orders of certificates depend on it.
#[derive(PartialEq)]
struct OrderedSite<'a> {
    hosts: &'a [HostName],
    default: bool,
    listen: &'a [Listen],
    /// The files of its automatic certificate, which may be named after its first address.
    files: &'a [CertificateFiles],
    on_demand: Option<&'a OnDemand>,
}

/// Returns the sites whose certificates are ordered.
fn ordered(config: &Config) -> Vec<OrderedSite<'_>> {
    let on_demand = |site: &Site| site.tls.as_ref().is_some_and(|tls| tls.on_demand().is_some());
    // All names decide about those on demand, each at its listeners.
    let all = config.sites.iter().any(on_demand);
    let is_automatic = |site: &Site| site.tls.as_ref().is_some_and(Tls::is_automatic);
    let sites = config.sites.iter().filter(|site| all || is_automatic(site));
    sites
        .map(|site| {
            let Site { hosts, default, listen, tls, .. } = site;
            let files = tls.as_ref().filter(|tls| tls.is_automatic());
            OrderedSite {
                hosts,
                default: *default,
                listen: if all { listen } else { &[] },
                files: files.map_or(&[], |tls| &tls.certificates),
                on_demand: tls.as_ref().and_then(Tls::on_demand),
            }
        })
        .collect()
}

/// Returns the names of the settings that differ and that only a start puts in force.
fn need_restart(config: &Config, before: &Config) -> Vec<&'static str> {
    let mut names = Vec::new();
    macro_rules! compare {
        ($($key:ident),*) => {
            $(if config.$key != before.$key {
                names.push(stringify!($key));
            })*
        };
    }
    if config.limits.programs != before.limits.programs {
        names.push("limits.programs");
    }
    let (new, old) = (&config.error_log, &before.error_log);
    if (&new.to, &new.rotation) != (&old.to, &old.rotation) {
        names.push("error_log.path or rotation");
    }
    if dns_hooks::process_of(config) != dns_hooks::process_of(before) {
        names.push("acme.dns_hook");
    }
    let (new, old) = (&config.compress, &before.compress);
    if (new.cache_bytes, &new.disk) != (old.cache_bytes, &old.disk) {
        names.push("compress.cache_bytes or directory");
    }
    compare!(
        workers,
        backlog,
        sandbox,
        user,
        group,
        disk_threads,
        cache_bytes,
        revalidate,
        access_log,
        apps,
        admin,
        metrics
    );
    names
}
