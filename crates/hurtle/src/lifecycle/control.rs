//! The control of a running server: signals, commands of the admin socket, reloads, and upgrades,
//! in which another process replaces this one.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal as ProcessSignal, kill_process};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::config_watch::{Watcher, changed};
use super::handover::{Description, Handover};
use super::names::{self, NameWatch};
use super::process::LoadConfig;
use super::reload::{ReloadError, Reloader};
use super::sandbox::Sandbox;
use super::socket_files::SocketFiles;
use super::supervisor;
use super::upgrade::{Launcher, Upgrade};
use crate::apps::Apps;
use crate::config::Config;
use crate::monitoring::admin::{Reply, Request};
use crate::observe::ErrorLogHandle;
use crate::server::running::WorkerMessage;
use crate::server::{AccessLogHandle, cached};
use crate::services::Services;
use crate::services::orders::Stop;
use crate::sockets::activation;

/// Longest wait for the workers to close their listeners after a handover.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// Signal streams; a signal that arrives early waits in its stream.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    hang_up: Signal,
    upgrade: Signal,
}

impl Signals {
    /// Installs the handlers; the signals no longer end the process.
    pub(super) fn catch(runtime: &Runtime) -> io::Result<Signals> {
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
pub(super) struct Events {
    pub(super) signals: Signals,
    /// Commands from the admin socket.
    pub(super) requested: mpsc::UnboundedReceiver<Request>,
    /// Reloads after a change of the file.
    pub(super) watcher: Option<Watcher>,
    /// Replacements because names lead elsewhere.
    pub(super) names: NameWatch,
}

/// The parts of a running process.
pub(super) struct Process<'a> {
    pub(super) stop: Stop,
    pub(super) logs: AccessLogHandle,
    pub(super) reload: Reload,
    pub(super) apps: Option<&'a Apps>,
    pub(super) errors: &'a ErrorLogHandle,
    pub(super) launcher: Launcher,
    pub(super) phase: Phase,
    /// A message from each worker that no longer accepts connections.
    pub(super) accepting: mpsc::UnboundedReceiver<WorkerMessage>,
    /// The end of the drain delay after a signal to stop.
    pub(super) drains_at: Option<Instant>,
    /// The socket files of a process that is stopping.
    pub(super) socket_files: SocketFiles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// Requests in flight are finished; the next signal to stop ends them.
    Stopping,
    /// Requests in flight are finished, while another process serves. `is_told`: there was a signal
    /// to stop, which changes nothing; the next one ends them.
    HandedOver {
        is_told: bool,
    },
}

/// An upgrade under way, and what waits for its end.
#[derive(Default)]
struct PendingUpgrade {
    upgrade: Option<Upgrade>,
    replies: Vec<Reply>,
    /// The senders of commands to upgrade that arrived during the upgrade: the new process may have
    /// read files that they have changed since.
    next: Vec<Reply>,
    /// `true`: SIGHUP or a command to reload arrived during the upgrade, so a reload follows it.
    reload: bool,
    /// The senders of commands to reload.
    reload_replies: Vec<Reply>,
    /// `true`: names lead to what the sandbox refuses.
    because_of_names: bool,
    /// `true`: a reload has become this upgrade.
    is_for_reload: bool,
}

impl Process<'_> {
    /// Handles events until the server has ended: SIGTERM and SIGINT stop gracefully and, the
    /// second time, at once; SIGUSR1 reopens the logs; SIGHUP reloads the configuration and scans
    /// the applications; SIGUSR2 replaces the process.
    pub(super) async fn run(
        &mut self,
        events: Events,
        ended: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let Events { mut signals, mut requested, mut watcher, mut names } = events;
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
                    true => pending = self.reload(vec![]).await,
                    false => pending.reload = true,
                },
                _ = signals.upgrade.recv(), if is_free => pending = self.upgrade(vec![], false),
                outcome = finished(&mut pending.upgrade) => {
                    pending = self.conclude(outcome, std::mem::take(&mut pending)).await;
                }
                Some(request) = requested.recv() => match request {
                    // The requester learns that the server is stopping.
                    _ if !serves => drop(request),
                    Request::Reload(reply) if is_free => pending = self.reload(vec![reply]).await,
                    Request::Upgrade(reply) if is_free => {
                        pending = self.upgrade(vec![reply], false);
                    }
                    Request::Reload(reply) => {
                        tracing::info!("a reload follows the upgrade");
                        pending.reload = true;
                        pending.reload_replies.push(reply);
                    }
                    Request::Upgrade(reply) => {
                        tracing::info!("a command to upgrade waits for the upgrade");
                        pending.next.push(reply);
                    }
                },
                () = passed(self.drains_at) => self.drain(),
                () = changed(&mut watcher, &self.reload), if is_free => {
                    pending = self.reload(vec![]).await;
                }
                () = names.strayed(&self.reload), if is_free => {
                    pending = self.upgrade(vec![], true);
                }
            }
        }
    }

    /// Handles a signal to stop.
    fn stop(&mut self, pending: &PendingUpgrade) {
        match (self.phase, &pending.upgrade) {
            (Phase::Stopping | Phase::HandedOver { is_told: true }, _) => self.stop.end(),
            // A service manager signals both processes.
            (Phase::HandedOver { is_told: false }, _) => {
                self.phase = Phase::HandedOver { is_told: true };
            }
            // The other process must not have the sockets any more before they are closed.
            (Phase::Serving, Some(upgrade)) => {
                upgrade.cancel();
                self.begin_stopping();
            }
            (Phase::Serving, None) => {
                self.begin_stopping();
                self.withdraw();
            }
        }
    }

    /// Remembers the socket files, which are its own as long as it listens.
    pub(super) fn begin_stopping(&mut self) {
        self.phase = Phase::Stopping;
        self.socket_files = SocketFiles::of(&self.reload.config());
    }

    /// Reports that the server is not ready, and drains after the delay.
    fn withdraw(&mut self) {
        activation::notify("STOPPING=1");
        let delay = self.reload.config().drain_delay;
        if delay.is_zero() {
            return self.drain();
        }
        tracing::info!("stops accepting connections in {delay:?}");
        self.stop.withdraw();
        self.drains_at = Some(Instant::now() + delay);
    }

    fn drain(&mut self) {
        self.drains_at = None;
        self.reload.reloader().held = None;
        self.stop.drain();
    }

    /// Begins to replace this process; `replies` get the outcome.
    fn upgrade(&self, replies: Vec<Reply>, because_of_names: bool) -> PendingUpgrade {
        let begun = self.handover(because_of_names).and_then(|handover| {
            tracing::info!("upgrade: starting {}", self.launcher.program);
            Upgrade::begin(self.launcher.clone(), handover)
        });
        match begun {
            Ok(upgrade) => PendingUpgrade {
                upgrade: Some(upgrade),
                replies,
                because_of_names,
                ..PendingUpgrade::default()
            },
            Err(e) => {
                answer_upgrade(replies, &Err(vec![e.to_string()]));
                PendingUpgrade::default()
            }
        }
    }

    /// Begins the upgrade that a reload becomes.
    fn upgrade_for_reload(&self, replies: Vec<Reply>) -> PendingUpgrade {
        let pending = self.upgrade(replies, false);
        if pending.upgrade.is_none() {
            self.reload.services.registry.count_reload(false);
        }
        PendingUpgrade { is_for_reload: true, ..pending }
    }

    /// All that another process gets.
    fn handover(&self, because_of_names: bool) -> io::Result<Handover> {
        let reloader = self.reload.reloader();
        let services = &self.reload.services;
        let keyring = services.settings().keyring.clone();
        let tickets = keyring.map(|keyring| keyring.ticket_keys());
        let mut description = Description::default();
        description.process = std::process::id();
        description.inherited = reloader.addresses.inherited;
        description.because_of_names = because_of_names;
        description.apps = self.apps.map(Apps::up).unwrap_or_default();
        description.tickets = tickets.unwrap_or_default();
        // Before the responses are read: later purges are repeated by the new process.
        description.purges = services.purges.position();
        let held = reloader.held.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let mut handover = held.hand_over(&reloader.addresses.listening, description)?;
        handover.add_cached(cached::send(services.handlers.caches.clone())?);
        if let (true, Some(supervisor)) = (supervisor::is_supervised(), &self.launcher.starter) {
            handover.add_supervisor(supervisor.channel()?);
        }
        Ok(handover)
    }

    /// Acts on the outcome of an upgrade: the other process serves, or this one goes on.
    async fn conclude(
        &mut self,
        outcome: Result<u32, Vec<String>>,
        pending: PendingUpgrade,
    ) -> PendingUpgrade {
        let PendingUpgrade { replies, next, reload, reload_replies, because_of_names, .. } =
            pending;
        if pending.is_for_reload && outcome.is_err() {
            self.reload.services.registry.count_reload(false);
        }
        let new = match outcome {
            Ok(new) => new,
            Err(problems) => {
                answer_upgrade(replies, &Err(problems));
                if because_of_names {
                    names::tell_failed();
                }
                match self.phase {
                    Phase::Stopping => self.withdraw(),
                    _ if !next.is_empty() => {
                        let following = self.upgrade(next, false);
                        if following.upgrade.is_some() {
                            return PendingUpgrade { reload, reload_replies, ..following };
                        }
                        if reload {
                            return self.reload(reload_replies).await;
                        }
                    }
                    _ if reload => return self.reload(reload_replies).await,
                    _ => {}
                }
                return PendingUpgrade::default();
            }
        };
        // A signal to stop came too late to end the new process.
        let is_told = self.phase == Phase::Stopping;
        self.phase = Phase::HandedOver { is_told };
        if !supervisor::is_supervised() {
            activation::notify(&format!("MAINPID={new}"));
        }
        if let (true, Some(new)) = (reload, Pid::from_raw(new.cast_signed())) {
            // An error means that it has ended.
            let _ = kill_process(new, ProcessSignal::HUP);
        }
        {
            let mut reloader = self.reload.reloader();
            reloader.held = None;
            // The other process orders certificates.
            reloader.certificates.ordering = None;
        }
        let workers = self.reload.config().workers.get();
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
        answer_upgrade(replies, &Ok(text));
        let text = format!("process {new} serves since another upgrade: run the command again");
        answer(next, &Err(vec![text]));
        answer(reload_replies, &Ok(format!("process {new} serves now, and reloads: see its log")));
        PendingUpgrade::default()
    }

    /// Reloads the configuration; `replies` get what to tell the operator, or all problems. If the
    /// sandbox does not permit what it needs, or only a start puts a setting in force, another
    /// process replaces this one.
    async fn reload(&self, replies: Vec<Reply>) -> PendingUpgrade {
        activation::notify_reloading();
        let outcome = self.reload.run().await;
        // One that becomes an upgrade has not failed yet.
        if let Ok(()) | Err(ReloadError::Unconfirmed | ReloadError::Problems(_)) = &outcome {
            self.reload.services.registry.count_reload(outcome.is_ok());
        }
        activation::notify("READY=1");
        let reloaded = match &self.reload.file {
            Some(file) => format!("reloaded {}", file.display()),
            None => "reloaded".to_owned(),
        };
        let outcome = match outcome {
            Ok(()) => {
                tracing::info!("{reloaded}");
                Ok(reloaded)
            }
            Err(ReloadError::Confined) => {
                tracing::info!("the sandbox does not permit what the configuration needs");
                return self.upgrade_for_reload(replies);
            }
            Err(ReloadError::Restart(keys)) => {
                tracing::info!("a new process puts {} in force", keys.join(", "));
                return self.upgrade_for_reload(replies);
            }
            Err(ReloadError::Privileged(listen)) => {
                tracing::info!("a new process listens on {listen}, because that needs root");
                return self.upgrade_for_reload(replies);
            }
            Err(ReloadError::Unconfirmed) => {
                let what = "the configuration is in force, but a worker does not respond; it \
                            follows when it does";
                tracing::error!("{reloaded}: {what}");
                Err(vec![what.to_owned()])
            }
            Err(ReloadError::Problems(problems)) => {
                for problem in &problems {
                    tracing::error!("not reloaded: {problem}");
                }
                Err(problems)
            }
        };
        if let Some(apps) = self.apps {
            apps.reload(self.reload.config());
            apps.scan();
        }
        answer(replies, &outcome);
        PendingUpgrade::default()
    }
}

/// The means of a reload.
pub(super) struct Reload {
    pub(super) services: Arc<Services>,
    pub(super) reloader: Arc<Mutex<Reloader>>,
    pub(super) load: LoadConfig,
    pub(super) file: Option<PathBuf>,
    pub(super) sandbox: Arc<Sandbox>,
}

impl Reload {
    /// Loads the configuration and puts it in force, on a thread that may block.
    async fn run(&self) -> Result<(), ReloadError> {
        let (reloader, load) = (Arc::clone(&self.reloader), Arc::clone(&self.load));
        let (sandbox, file) = (Arc::clone(&self.sandbox), self.file.clone());
        let reload = move || {
            let config = load().map_err(|problems| match sandbox.may_cause(&problems) {
                true => ReloadError::Confined,
                false => ReloadError::Problems(problems),
            })?;
            if !sandbox.permits(&config, file.as_deref()) {
                return Err(ReloadError::Confined);
            }
            let mut reloader = reloader.lock().unwrap_or_else(PoisonError::into_inner);
            let restart = reloader.needs_restart(&config);
            if !restart.is_empty() {
                return Err(ReloadError::Restart(restart));
            }
            reloader.reload(config)
        };
        let panicked = || ReloadError::Problems(vec!["the reload panicked".to_owned()]);
        tokio::task::spawn_blocking(reload).await.unwrap_or_else(|_| Err(panicked()))
    }

    pub(super) fn reloader(&self) -> MutexGuard<'_, Reloader> {
        self.reloader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.services.settings().config)
    }
}

/// Logs the outcome of an upgrade and tells the operator.
fn answer_upgrade(replies: Vec<Reply>, outcome: &Result<String, Vec<String>>) {
    match outcome {
        Ok(text) => tracing::info!("{text}"),
        Err(problems) => {
            problems.iter().for_each(|problem| tracing::error!("not upgraded: {problem}"));
        }
    }
    answer(replies, outcome);
}

fn answer(replies: Vec<Reply>, outcome: &Result<String, Vec<String>>) {
    for reply in replies {
        // The requester may have left.
        let _ = reply.send(outcome.clone());
    }
}

/// Waits for the outcome of an upgrade; without one, for ever.
async fn finished(upgrade: &mut Option<Upgrade>) -> Result<u32, Vec<String>> {
    let Some(upgrade) = upgrade else { return std::future::pending().await };
    let outcome = (&mut upgrade.outcome).await;
    outcome.unwrap_or_else(|_| Err(vec!["the upgrade panicked".to_owned()]))
}

/// Waits until a time; without one, for ever.
async fn passed(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! { _ = a.recv() => {}, _ = b.recv() => {} }
}
