//! The server process: binds or takes over sockets, switches its user, and starts the server.
//! `control` handles signals and commands while it runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::process::geteuid;

use super::Launch;
use super::config_watch::Watcher;
use super::control::{Events, Phase, Process, Reload, Signals};
use super::greeting;
use super::handover::{HeldSockets, Received};
use super::names::NameWatch;
use super::reload::Reloader;
use super::socket_files::SocketFiles;
use crate::apps::Apps;
use crate::config::{Config, Listen};
use crate::observe::ErrorLogHandle;
use crate::server::predecessor::Predecessor;
use crate::server::{AccessLogHandle, Running, Server, running};
use crate::sockets;
use crate::sockets::activation::{self, Passed, StoredListeners};
use crate::sys;
use crate::users::switch_user;

/// Ports tried in turn when the default one is in use.
const PORTS_TRIED: u16 = 100;

/// The configuration of a process, and how to load it again.
pub struct ProcessConfig {
    pub config: Config,
    /// `true`: the address is a default, so another port may be used.
    pub any_port: bool,
    /// The configuration file. `None`: a directory is served.
    pub file: Option<PathBuf>,
    /// `true`: a change of the file is a reload.
    pub watch: bool,
    /// Loads the configuration again, for a reload.
    pub load: LoadConfig,
}

/// Loads a configuration, or returns all its problems.
pub type LoadConfig = Arc<dyn Fn() -> Result<Config, Vec<String>> + Send + Sync>;

/// Runs a server until it is stopped.
///
/// # Errors
/// The server cannot start, or a worker failed.
pub fn run(launch: Launch, process: ProcessConfig, errors: &ErrorLogHandle) -> io::Result<()> {
    let ProcessConfig { config, any_port, file, watch, load } = process;
    let config = of_this_system(config);
    let load: LoadConfig = Arc::new(move || load().map(of_this_system));
    let Launch { passed, mut launcher, sandbox } = launch;
    sandbox.log();
    warn_about_backlog(&config);
    let mut received = Received::receive()?;
    if let Some(supervisor) = received.as_mut().and_then(|received| received.supervisor.take()) {
        launcher.starter = Some(Arc::new(supervisor));
    }
    let mut server = listen(config, any_port, passed, received.as_mut())?;
    let is_inherited = server.inherited;
    server.open_logs()?;
    give_up_root(&server.settings.config, file.as_deref())?;
    let bound = server.bound.clone();
    let roots = server.roots();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Installed before the server is announced, because a stop signal may follow at once.
    let signals = Signals::catch(&runtime)?;
    // Started after the switch of user.
    let awaited = received.as_ref().map_or(&[][..], |received| &received.description.apps);
    let apps = Apps::start(&server.settings.config, awaited)?;
    server.deployments = apps.as_ref().map(Apps::deployments);
    if let (Some(apps), Some(received)) = (&apps, &received) {
        apps.wait_until_up(&received.description.apps)?;
    }
    let held = HeldSockets::of(&server)?;
    if !is_inherited {
        held.store();
    }
    let mut running = server.start()?;
    running.wait_until_accepting()?;
    let logs = running.logs();
    let because_of_names =
        received.as_ref().is_some_and(|received| received.description.because_of_names);
    if let Some(received) = &received {
        take_over_logs(received, errors, &logs)?;
    } else if let Err(e) = greeting::print(&bound, &roots, file.is_none()) {
        // A reader of standard output that has left stops no service.
        tracing::warn!("the greeting cannot be printed: {e}");
    }
    // Before the other process reports the upgrade: from then on the end of this process is the end
    // of the service.
    launcher.tell_serving();
    // Open as long as this process runs.
    let _channel = received.map(Received::announce);
    let Running { threads, stop, services, addresses, updates, .. } = running;
    let Running { certificates, requested, accepting, .. } = running;
    let reloader = Reloader {
        services: Arc::clone(&services),
        addresses,
        any_port,
        regains_root: launcher.regains_root,
        held: Some(held),
        updates,
        certificates,
    };
    activation::notify("READY=1");
    let access_log = services.access_log.clone();
    let reloader = Arc::new(Mutex::new(reloader));
    let sandbox = Arc::new(sandbox);
    let reload = Reload { services: Arc::clone(&services), reloader, load, file, sandbox };
    let watcher = watch.then(|| reload.file.clone()).flatten();
    let watcher = watcher.map(|file| Watcher::new(file, &reload.config().included));
    let events = Events { signals, requested, watcher, names: NameWatch::new(because_of_names) };
    let ended = move || running::join(threads, access_log.as_deref());
    let apps_of = apps.as_ref();
    let phase = Phase::Serving;
    let mut process = Process {
        stop,
        logs,
        reload,
        apps: apps_of,
        errors,
        launcher,
        phase,
        accepting,
        drains_at: None,
        socket_files: SocketFiles::default(),
    };
    let outcome = runtime.block_on(process.run(events, ended));
    if process.phase == Phase::Serving {
        // It has ended by itself.
        process.begin_stopping();
    }
    let Process { phase, socket_files, .. } = process;
    let has_handed_over = matches!(phase, Phase::HandedOver { .. });
    // Applications must outlive the last request.
    if let Some(apps) = apps {
        apps.stop();
    }
    if !is_inherited && !activation::keeps_listeners() && !has_handed_over {
        socket_files.remove();
    }
    outcome
}

/// Leaves out the IPv6 addresses beside IPv4 ones that the system does not have. With a failure
/// instead, the packaged configurations would start on some systems only.
fn of_this_system(mut config: Config) -> Config {
    for listen in config.remove_ipv6_beside_ipv4(sockets::is_missing) {
        tracing::warn!("does not listen on {listen}, because this system has no such IPv6 address");
    }
    config
}

/// Opens the sockets of the server: those of the process that it replaces, those that the service
/// manager passed, or new ones.
fn listen(
    config: Config,
    any_port: bool,
    mut passed: Passed,
    received: Option<&mut Received>,
) -> io::Result<Server> {
    match (received, passed.activated) {
        (Some(received), _) => {
            passed.stored.discard();
            take_over(config, any_port, received)
        }
        (None, Some(listeners)) => {
            passed.stored.discard();
            Server::with_listeners(config, listeners)
        }
        (None, None) => bind(config, any_port, &mut passed.stored),
    }
}

/// Switches to the configured user, or warns that this process stays root.
fn give_up_root(config: &Config, file: Option<&Path>) -> io::Result<()> {
    if let Some(user) = &config.user {
        return switch_user(user, config.group.as_deref());
    }
    if !geteuid().is_root() {
        return Ok(());
    }
    match file {
        Some(file) => tracing::warn!(
            "running as root; set `user = \"www-data\"` in {} to give it up",
            file.display()
        ),
        None => tracing::warn!("running as root; another user needs fewer rights to serve it"),
    }
    Ok(())
}

/// Uses the sockets of the process that this one replaces.
fn take_over(mut config: Config, any_port: bool, received: &mut Received) -> io::Result<Server> {
    if received.description.inherited {
        let listeners = received.predecessor.take_all();
        return Server::with_inherited(config, listeners, &mut received.predecessor);
    }
    if any_port {
        config.listen = received.addresses(false);
        config.listen_tls = received.addresses(true);
    }
    Server::bind_or_take(config, &mut received.predecessor)
}

/// Writes to the logs of the process that this one replaces, in place of its pipe.
fn take_over_logs(
    received: &Received,
    errors: &ErrorLogHandle,
    logs: &AccessLogHandle,
) -> io::Result<()> {
    // Standard error is a pipe to that process so far.
    received.take_stderr()?;
    errors.reopen();
    logs.reopen();
    tracing::info!("replaces process {}", received.description.process);
    Ok(())
}

fn bind(config: Config, any_port: bool, stored: &mut StoredListeners) -> io::Result<Server> {
    let first = config.listen.iter().chain(&config.listen_tls).find_map(Listen::port);
    let first = first.filter(|_| any_port).unwrap_or_default();
    for tried in 0..PORTS_TRIED {
        let mut config = config.clone();
        for listen in config.listen.iter_mut().chain(&mut config.listen_tls) {
            if let (Listen::Tcp(address), true) = (listen, any_port) {
                address.set_port(first.saturating_add(tried));
            }
        }
        match bind_or_take(config, stored) {
            Err(e) if any_port && e.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    bind_or_take(config, stored)
}

/// Binds the addresses that are not in the service manager's store.
fn bind_or_take(config: Config, stored: &mut StoredListeners) -> io::Result<Server> {
    let mut before = Predecessor::default();
    for listen in config.listen.iter().chain(&config.listen_tls) {
        let taken = stored.take(listen).into_iter();
        before.listeners.extend(taken.map(|listener| (listen.clone(), listener)));
    }
    // Before others are bound, which may be at the same ports.
    stored.discard();
    Server::bind_or_take(config, &mut before)
}

fn warn_about_backlog(config: &Config) {
    if let Some(max) = sys::backlog_max()
        && config.backlog > max
    {
        tracing::warn!(
            "the backlog of {} is cut to {max} by the kernel (net.core.somaxconn)",
            config.backlog
        );
    }
}
