//! The server process: binds, switches its user, notifies the service manager and handles signals.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::admin::ReloadRequest;
use super::apps::Apps;
use super::reload::Reloader;
use super::{AccessLogHandle, BoundAddresses, Running, Server, Stop, activation};
use crate::config::{Config, Listen};
use crate::metrics::Registry;
use crate::observe::ErrorLogHandle;
use crate::sys;

/// Ports tried in turn when the default one is in use.
const PORTS_TRIED: u16 = 100;

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
    let (user, group) = (config.user.clone(), config.group.clone());
    let inherited = activation::listeners()?;
    let is_inherited = inherited.is_some();
    let mut server = match inherited {
        Some(listeners) => Server::with_listeners(config, listeners)?,
        None => bind(config, any_port)?,
    };
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
    let Running { threads, stop, access_log, mut reloader, requested } = server.start()?;
    reloader.any_port = any_port;
    print_greeting(&bound, &roots)?;
    activation::notify("READY=1");
    let logs = AccessLogHandle(access_log.clone());
    let registry = Arc::clone(&reloader.registry);
    let reload = Reload { registry, reloader: Arc::new(Mutex::new(reloader)), load, file };
    let watcher = watch.then(|| reload.file.clone()).flatten().map(Watcher::new);
    let events = Events { signals, requested, watcher };
    let ended = move || super::join(threads, access_log.as_deref());
    let reloader = Arc::clone(&reload.reloader);
    let process = Process { stop, logs, reload, apps: apps.as_ref(), errors };
    let outcome = runtime.block_on(process.run(events, ended));
    // Applications must outlive the last request.
    if let Some(apps) = apps {
        apps.stop();
    }
    let reloader = reloader.lock().unwrap_or_else(PoisonError::into_inner);
    let sockets = match is_inherited {
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
    listening
        .chain(config.metrics.iter().flat_map(|metrics| &metrics.listen).filter_map(path))
        .chain(config.admin.clone())
        .collect()
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
    /// Reloads from the admin socket.
    requested: mpsc::UnboundedReceiver<ReloadRequest>,
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
}

impl Process<'_> {
    /// Handles events until the server has ended: SIGTERM and SIGINT stop gracefully and, the second
    /// time, at once; SIGUSR1 reopens the logs; SIGHUP reloads the configuration and scans the
    /// applications.
    async fn run(
        self,
        events: Events,
        ended: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let Events { mut signals, mut requested, mut watcher } = events;
        let mut ended = tokio::task::spawn_blocking(ended);
        let mut stopping = false;
        loop {
            tokio::select! {
                outcome = &mut ended => return outcome.map_err(io::Error::other)?,
                () = either(&mut signals.terminate, &mut signals.interrupt) => {
                    if stopping {
                        self.stop.end();
                    } else {
                        stopping = true;
                        activation::notify("STOPPING=1");
                        self.stop.drain();
                    }
                }
                _ = signals.reopen.recv() => {
                    self.errors.reopen();
                    self.logs.reopen();
                }
                _ = signals.hang_up.recv(), if !stopping => {
                    // The log has the problems.
                    drop(self.reload().await);
                }
                // Its default action would end the process without a drain.
                _ = signals.upgrade.recv() => {
                    tracing::warn!("SIGUSR2: the binary cannot be replaced while it runs; restart it");
                }
                Some(reply) = requested.recv(), if !stopping => {
                    // The requester may have left.
                    let _ = reply.send(self.reload().await);
                }
                () = changed(&mut watcher), if !stopping => drop(self.reload().await),
            }
        }
    }

    /// Reloads the configuration; returns what to tell the operator, or all problems.
    async fn reload(&self) -> Result<String, Vec<String>> {
        activation::notify_reloading();
        let outcome = self.reload.run().await;
        self.reload.registry.count_reload(outcome.is_ok());
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
    registry: Arc<Registry>,
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

    /// The configuration in force.
    fn config(&self) -> Arc<Config> {
        let reloader = self.reloader.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&reloader.settings.config)
    }
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
