//! The server process: binds, switches its user, notifies the service manager, handles signals, and
//! decides when another process replaces it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal as ProcessSignal, geteuid, kill_process};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::admin::{Reply, Request};
use super::apps::Apps;
use super::handover::{Description, Handover, Received};
use super::reload::Reloader;
use super::upgrade::{Program, Upgrade};
use super::{AccessLogHandle, BoundAddresses, Running, Server, Stop, activation};
use crate::config::{Config, Listen};
use crate::observe::ErrorLogHandle;
use crate::sys;

/// Ports tried in turn when the default one is in use.
const PORTS_TRIED: u16 = 100;

/// Longest wait for the workers to close their listeners after a handover.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// The configuration of a process, and how to load it again.
pub struct ProcessConfig {
    /// The configuration.
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
pub fn run(process: ProcessConfig, errors: &ErrorLogHandle) -> io::Result<()> {
    let ProcessConfig { config, any_port, file, watch, load } = process;
    warn_about_backlog(&config);
    let program = Program::current()?;
    let (user, group) = (config.user.clone(), config.group.clone());
    let mut received = Received::receive()?;
    let mut server = match &mut received {
        Some(received) => take_over(config, any_port, received)?,
        None => match activation::listeners()? {
            Some(listeners) => Server::with_listeners(config, listeners)?,
            None => bind(config, any_port)?,
        },
    };
    let is_inherited = server.inherited;
    server.open_logs()?;
    if let Some(user) = user {
        switch_user(&user, group.as_deref())?;
    } else if geteuid().is_root() {
        tracing::warn!(
            "running as root; set `user = \"www-data\"` in the configuration to give it up"
        );
    }
    let bound = server.bound.clone();
    let roots = server.roots();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Installed before the server is announced, because a stop signal may follow at once.
    let signals = Signals::catch(&runtime)?;
    // Started after the switch of user.
    let apps = Apps::start(&mut server)?;
    if let (Some(apps), Some(received)) = (&apps, &received) {
        apps.wait_until_up(&received.description.apps)?;
    }
    let held = server.hold_sockets()?;
    let mut running = server.start()?;
    running.wait_until_accepting()?;
    let logs = running.logs();
    match received {
        Some(received) => announce(received, errors, &logs)?,
        None => print_greeting(&bound, &roots)?,
    }
    let Running { threads, stop, access_log, mut reloader, requested, accepting } = running;
    reloader.any_port = any_port;
    reloader.held = Some(held);
    activation::notify("READY=1");
    let reload = Reload { reloader: Arc::new(Mutex::new(reloader)), load, file };
    let watcher = watch.then(|| reload.file.clone()).flatten().map(Watcher::new);
    let events = Events { signals, requested, watcher };
    let ended = move || super::join(threads, access_log.as_deref());
    let reloader = Arc::clone(&reload.reloader);
    let apps_of = apps.as_ref();
    let phase = Phase::Serving;
    let mut process =
        Process { stop, logs, reload, apps: apps_of, errors, program, phase, accepting };
    let outcome = runtime.block_on(process.run(events, ended));
    let has_handed_over = process.phase == Phase::HandedOver;
    // Applications must outlive the last request.
    if let Some(apps) = apps {
        apps.stop();
    }
    let reloader = reloader.lock().unwrap_or_else(PoisonError::into_inner);
    let sockets = match is_inherited || has_handed_over {
        true => vec![],
        false => socket_files(&reloader.settings.config),
    };
    for socket in sockets {
        // The server's user may not write in the directory; the next start replaces the socket
        // file.
        let _ = std::fs::remove_file(socket);
    }
    outcome
}

/// The socket files that the server removes at its end.
fn socket_files(config: &Config) -> Vec<PathBuf> {
    let path = |listen: &Listen| match listen {
        Listen::Unix(path) => Some(path.clone()),
        Listen::Tcp(_) => None,
    };
    let listening = config.listen.iter().chain(&config.listen_tls).filter_map(path);
    listening.chain(config.admin.clone()).collect()
}

/// Uses the sockets of the process that this one replaces.
fn take_over(mut config: Config, any_port: bool, received: &mut Received) -> io::Result<Server> {
    if received.description.inherited {
        let listeners = received.take_all();
        return Server::with_inherited(config, listeners, Some(received));
    }
    if any_port {
        config.listen = received.addresses(false);
        config.listen_tls = received.addresses(true);
    }
    Server::bind_or_take(config, Some(received))
}

/// Tells the process that this one replaces that the workers accept connections.
fn announce(received: Received, errors: &ErrorLogHandle, logs: &AccessLogHandle) -> io::Result<()> {
    // Standard error is a pipe to that process so far.
    received.take_stderr()?;
    errors.reopen();
    logs.reopen();
    tracing::info!("replaces process {}", received.description.process);
    received.announce();
    Ok(())
}

fn bind(config: Config, any_port: bool) -> io::Result<Server> {
    let first = config.listen.iter().chain(&config.listen_tls).find_map(Listen::port);
    let first = first.filter(|_| any_port).unwrap_or_default();
    for tried in 0..PORTS_TRIED {
        let mut config = config.clone();
        for listen in config.listen.iter_mut().chain(&mut config.listen_tls) {
            if let (Listen::Tcp(address), true) = (listen, any_port) {
                address.set_port(first.saturating_add(tried));
            }
        }
        match Server::bind(config) {
            Err(e) if any_port && e.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    Server::bind(config)
}

/// Gives up root for good: groups first, because only root may change them.
fn switch_user(name: &str, group: Option<&str>) -> io::Result<()> {
    use nix::unistd::{Group, User, setgid, setuid};
    let missing = |what: &str, name: &str| io::Error::other(format!("there is no {what} {name}"));
    let user = User::from_name(name)?.ok_or_else(|| missing("user", name))?;
    if !geteuid().is_root() {
        if user.uid.as_raw() == geteuid().as_raw() {
            return Ok(());
        }
        return Err(io::Error::other(format!("only root can switch to the user {name}")));
    }
    let gid = match group {
        None => user.gid,
        Some(group) => Group::from_name(group)?.ok_or_else(|| missing("group", group))?.gid,
    };
    sys::init_groups(&std::ffi::CString::new(name)?, gid)?;
    setgid(gid)?;
    setuid(user.uid)?;
    Ok(())
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

/// Prints the addresses for the person at the terminal.
fn print_greeting(bound: &BoundAddresses, roots: &[PathBuf]) -> io::Result<()> {
    let mut out = io::stdout();
    let what = match roots {
        [root] => format!("{}", root.display()),
        [] => "the configuration".to_owned(),
        roots => format!("{} directories", roots.len()),
    };
    writeln!(out, "hurtle serves {what}")?;
    for (scheme, addresses) in [("http", &bound.clear), ("https", &bound.tls)] {
        for address in addresses {
            match address {
                Listen::Tcp(addr) => writeln!(out, "  {scheme}://{addr}/")?,
                Listen::Unix(path) => writeln!(out, "  unix:{}", path.display())?,
            }
        }
    }
    out.flush()
}

/// Signal streams; a signal that arrives early waits in its stream.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    hang_up: Signal,
    upgrade: Signal,
}

impl Signals {
    /// Installs the handlers; the signals no longer end the process.
    fn catch(runtime: &Runtime) -> io::Result<Signals> {
        let _entered = runtime.enter();
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
            hang_up: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}

/// The events that the process waits for.
struct Events {
    signals: Signals,
    /// Commands from the admin socket.
    requested: mpsc::UnboundedReceiver<Request>,
    /// Reloads after a change of the file.
    watcher: Option<Watcher>,
}

/// The parts of a running process.
struct Process<'a> {
    stop: Stop,
    logs: AccessLogHandle,
    reload: Reload,
    apps: Option<&'a Apps>,
    errors: &'a ErrorLogHandle,
    program: Program,
    phase: Phase,
    /// A message from each worker that no longer accepts connections.
    accepting: mpsc::UnboundedReceiver<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Requests in flight are finished; the next signal to stop ends them.
    Stopping,
    /// Requests in flight are finished, while another process serves.
    HandedOver,
}

/// An upgrade under way, and what waits for its end.
#[derive(Default)]
struct PendingUpgrade {
    upgrade: Option<Upgrade>,
    reply: Option<Reply>,
    /// `true`: reload afterwards.
    reload: bool,
}

impl Process<'_> {
    /// Handles events until the server has ended: SIGTERM and SIGINT stop gracefully and, the second
    /// time, at once; SIGUSR1 reopens the logs; SIGHUP reloads the configuration and scans the
    /// applications; SIGUSR2 replaces the process.
    async fn run(
        &mut self,
        events: Events,
        ended: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let Events { mut signals, mut requested, mut watcher } = events;
        let mut ended = tokio::task::spawn_blocking(ended);
        let mut pending = PendingUpgrade::default();
        loop {
            let serves = self.phase == Phase::Serving;
            let is_free = serves && pending.upgrade.is_none();
            tokio::select! {
                outcome = &mut ended => return outcome.map_err(io::Error::other)?,
                () = either(&mut signals.terminate, &mut signals.interrupt) => {
                    self.stop(&pending);
                }
                _ = signals.reopen.recv() => {
                    self.errors.reopen();
                    self.logs.reopen();
                }
                _ = signals.hang_up.recv(), if serves => match is_free {
                    // The log has the problems.
                    true => drop(self.reload().await),
                    false => pending.reload = true,
                },
                _ = signals.upgrade.recv(), if is_free => pending = self.upgrade(None),
                outcome = finished(&mut pending.upgrade) => {
                    self.conclude(outcome, std::mem::take(&mut pending)).await;
                }
                Some(request) = requested.recv(), if is_free => match request {
                    // The requester may have left.
                    Request::Reload(reply) => drop(reply.send(self.reload().await)),
                    Request::Upgrade(reply) => pending = self.upgrade(Some(reply)),
                },
                () = changed(&mut watcher), if is_free => drop(self.reload().await),
            }
        }
    }

    /// Handles a signal to stop.
    fn stop(&mut self, pending: &PendingUpgrade) {
        match (self.phase, &pending.upgrade) {
            (Phase::Stopping, _) => self.stop.end(),
            // Draining has begun already; the other process is told by itself.
            (Phase::HandedOver, _) => {}
            // The other process must not have the sockets any more before they are closed.
            (Phase::Serving, Some(upgrade)) => {
                upgrade.cancel();
                self.phase = Phase::Stopping;
            }
            (Phase::Serving, None) => {
                self.phase = Phase::Stopping;
                self.drain();
            }
        }
    }

    fn drain(&self) {
        activation::notify("STOPPING=1");
        self.reload.reloader().held = None;
        self.stop.drain();
    }

    /// Begins to replace this process; `reply` gets the outcome.
    fn upgrade(&self, reply: Option<Reply>) -> PendingUpgrade {
        let begun = self.handover().and_then(|handover| {
            tracing::info!("upgrade: starting {}", self.program);
            Upgrade::begin(self.program.clone(), handover)
        });
        match begun {
            Ok(upgrade) => PendingUpgrade { upgrade: Some(upgrade), reply, reload: false },
            Err(e) => {
                answer_upgrade(reply, Err(vec![e.to_string()]));
                PendingUpgrade::default()
            }
        }
    }

    /// All that another process gets.
    fn handover(&self) -> io::Result<Handover> {
        let process = std::process::id();
        if process == 1 {
            let what = "process 1 cannot be replaced, because its end is that of its container: \
                        start another container";
            return Err(io::Error::other(what));
        }
        let reloader = self.reload.reloader();
        let tickets = reloader.settings.keyring.as_ref().map(|keyring| keyring.ticket_keys());
        let mut description = Description::default();
        description.process = process;
        description.inherited = reloader.inherited;
        description.apps = self.apps.map(Apps::up).unwrap_or_default();
        description.tickets = tickets.unwrap_or_default();
        let held = reloader.held.as_ref();
        held.ok_or(io::ErrorKind::Unsupported)?.hand_over(&reloader.listening, description)
    }

    /// Acts on the outcome of an upgrade: the other process serves, or this one goes on.
    async fn conclude(&mut self, outcome: Result<u32, Vec<String>>, pending: PendingUpgrade) {
        let PendingUpgrade { reply, reload, .. } = pending;
        let new = match outcome {
            Ok(new) => new,
            Err(problems) => {
                answer_upgrade(reply, Err(problems));
                match self.phase {
                    Phase::Stopping => self.drain(),
                    _ if reload => drop(self.reload().await),
                    _ => {}
                }
                return;
            }
        };
        self.phase = Phase::HandedOver;
        activation::notify(&format!("MAINPID={new}"));
        if let (true, Some(new)) = (reload, Pid::from_raw(new.cast_signed())) {
            // An error means that it has ended.
            let _ = kill_process(new, ProcessSignal::HUP);
        }
        let mut reloader = self.reload.reloader();
        reloader.held = None;
        // The other process orders certificates.
        reloader.ordering = None;
        let workers = reloader.settings.config.workers.get();
        drop(reloader);
        self.stop.hand_over();
        // After the reply, every new connection is the other process's.
        let closed = async {
            for _ in 0..workers {
                self.accepting.recv().await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, closed).await;
        let this = std::process::id();
        let text = format!("upgraded: process {new} serves, process {this} drains");
        answer_upgrade(reply, Ok(text));
    }

    /// Reloads the configuration; returns what to tell the operator, or all problems.
    async fn reload(&self) -> Result<String, Vec<String>> {
        activation::notify_reloading();
        let outcome = self.reload.run().await;
        activation::notify("READY=1");
        let reloaded = match &self.reload.file {
            Some(file) => format!("reloaded {}", file.display()),
            None => "reloaded".to_owned(),
        };
        match &outcome {
            Ok(later) => {
                tracing::info!("{reloaded}");
                later.iter().for_each(|line| tracing::warn!("{line}"));
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!("not reloaded: {problem}");
                }
            }
        }
        if let Some(apps) = self.apps {
            apps.reload(self.reload.config());
            apps.scan();
        }
        outcome.map(|later| [vec![reloaded], later].concat().join("\n"))
    }
}

/// The means of a reload.
struct Reload {
    reloader: Arc<Mutex<Reloader>>,
    load: LoadConfig,
    file: Option<PathBuf>,
}

impl Reload {
    /// Loads the configuration and puts it in force, on a thread that may block. Returns a line for
    /// each setting that takes effect only at the next start, or all problems.
    async fn run(&self) -> Result<Vec<String>, Vec<String>> {
        let (reloader, load) = (Arc::clone(&self.reloader), Arc::clone(&self.load));
        let reload = move || {
            let config = load()?;
            reloader.lock().unwrap_or_else(PoisonError::into_inner).reload(config)
        };
        let later = tokio::task::spawn_blocking(reload).await;
        later.map_err(|_| vec!["the reload panicked".to_owned()])?
    }

    fn reloader(&self) -> MutexGuard<'_, Reloader> {
        self.reloader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration in force.
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.reloader().settings.config)
    }
}

/// Logs the outcome of an upgrade and tells the operator.
fn answer_upgrade(reply: Option<Reply>, outcome: Result<String, Vec<String>>) {
    match &outcome {
        Ok(text) => tracing::info!("{text}"),
        Err(problems) => {
            problems.iter().for_each(|problem| tracing::error!("not upgraded: {problem}"));
        }
    }
    // The requester may have left.
    let _ = reply.map(|reply| reply.send(outcome));
}

/// Waits for the outcome of an upgrade; without one, for ever.
async fn finished(upgrade: &mut Option<Upgrade>) -> Result<u32, Vec<String>> {
    let Some(upgrade) = upgrade else { return std::future::pending().await };
    let outcome = (&mut upgrade.outcome).await;
    outcome.unwrap_or_else(|_| Err(vec!["the upgrade panicked".to_owned()]))
}

/// Interval of checks of a watched file.
const WATCH_PERIOD: Duration = Duration::from_millis(500);

/// Notices changes of a file, by its attributes.
struct Watcher {
    file: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl Watcher {
    fn new(file: PathBuf) -> Watcher {
        let mut watcher = Watcher { file, seen: None };
        watcher.seen = watcher.look();
        watcher
    }

    fn look(&self) -> Option<(SystemTime, u64)> {
        let metadata = std::fs::metadata(&self.file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

/// Waits until the watched file has changed; without one, for ever.
async fn changed(watcher: &mut Option<Watcher>) {
    let Some(watcher) = watcher else { return std::future::pending().await };
    loop {
        tokio::time::sleep(WATCH_PERIOD).await;
        let now = watcher.look();
        // An editor may remove the file before it writes it again.
        if now.is_some() && now != watcher.seen {
            watcher.seen = now;
            return;
        }
    }
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! { _ = a.recv() => {}, _ = b.recv() => {} }
}
