//! A deployed application and its state: waiting to be started, starting, or up. `run` handles its
//! processes.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::Event;
use super::probe::Probe;
use super::run::{Run, RunPaths};
use super::scan::{FoundApp, ManifestStamp};
use super::sockets::SocketDir;
use crate::config::{AppBackend, AppCommand, Manifest};
use crate::handler::proxy::Availability;
use crate::site::Deployment;

/// Pause after a first failure; each further failure doubles it.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);

const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// After this time up, earlier failures no longer count.
const STEADY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct App {
    serial: u64,
    /// Stamp of the manifest that it was made from.
    pub(super) stamp: ManifestStamp,
    dir: PathBuf,
    pub(super) manifest: Manifest,
    socket: PathBuf,
    state: AppState,
    /// Consecutive failures.
    failures: u32,
    /// The next version, until it answers a request.
    successor: Option<Box<App>>,
    probe: Probe,
    /// Until this time it must answer a request to be up; then its socket is enough, as of one that
    /// is slow to begin. `None`: it is enough in any case.
    pub(super) answers_until: Option<Instant>,
}

#[derive(Debug)]
enum AppState {
    /// The application is started elsewhere.
    Elsewhere,
    /// It is started at `until`; after a failure, or because it is new.
    Waiting {
        until: Instant,
        failed: bool,
    },
    /// It must accept connections by this time.
    Starting {
        run: Run,
        by: Instant,
    },
    Up {
        run: Run,
        since: Instant,
    },
}

impl App {
    pub(super) fn new(
        serial: u64,
        stamp: ManifestStamp,
        dir: PathBuf,
        manifest: Manifest,
        socket: PathBuf,
    ) -> App {
        let state = match manifest.backend {
            AppBackend::Started(_) => AppState::Waiting { until: Instant::now(), failed: false },
            AppBackend::External(_) => AppState::Elsewhere,
        };
        App {
            serial,
            stamp,
            dir,
            manifest,
            socket,
            state,
            failures: 0,
            successor: None,
            probe: Probe::default(),
            answers_until: None,
        }
    }

    /// Returns whether what was found in its directory is what is deployed.
    pub(super) fn is_unchanged(&self, found: &FoundApp) -> bool {
        self.manifest == found.manifest && self.stamp.is_same_write(&found.stamp)
    }

    /// Returns whether it is deployed at the path of this manifest.
    pub(super) fn has_path_of(&self, manifest: &Manifest) -> bool {
        (&self.manifest.site, &self.manifest.path) == (&manifest.site, &manifest.path)
    }

    /// The deployment that the workers see.
    pub(super) fn deployment(&self, name: &str) -> Deployment {
        Deployment {
            serial: self.serial,
            name: match self.manifest.backend {
                AppBackend::Started(_) => Some(format!("app {name}")),
                AppBackend::External(_) => None,
            },
            site: self.manifest.site.clone(),
            path: self.manifest.path.clone(),
            proxy: self.manifest.proxy(&self.socket),
            availability: match self.state {
                AppState::Elsewhere | AppState::Up { .. } => Availability::Up,
                AppState::Starting { .. } | AppState::Waiting { failed: false, .. } => {
                    Availability::Starting
                }
                AppState::Waiting { failed: true, .. } => Availability::Down,
            },
        }
    }

    /// Time of the next action, if any; `soon`: the time to use while it is starting.
    pub(super) fn due(&self, soon: Instant) -> Option<Instant> {
        match &self.state {
            AppState::Waiting { until, .. } => Some((*until).max(soon)),
            AppState::Starting { .. } => Some(soon),
            AppState::Elsewhere | AppState::Up { .. } => self.successor.as_ref()?.due(soon),
        }
    }

    /// `true` if it should be started now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, AppState::Waiting { until, .. } if until <= now)
    }

    /// Ends the pause before the next start.
    pub(super) fn start_now(&mut self) {
        if let AppState::Waiting { until, .. } = &mut self.state {
            *until = Instant::now();
        }
    }

    pub(super) fn has_run(&self, serial: u64) -> bool {
        matches!(&self.state, AppState::Starting { run, .. } | AppState::Up { run, .. } if run.serial == serial)
    }

    /// Starts its processes.
    ///
    /// # Errors
    /// The reason why they cannot be started.
    pub(super) fn begin(
        &mut self,
        name: &str,
        serial: u64,
        sockets: &SocketDir,
        events: &Sender<Event>,
        now: Instant,
    ) -> Result<(), String> {
        let AppBackend::Started(start) = &self.manifest.backend else { return Ok(()) };
        let by = now + start.start_timeout;
        let run = self.launch(name, serial, start, sockets, events)?;
        self.state = AppState::Starting { run, by };
        Ok(())
    }

    fn launch(
        &self,
        name: &str,
        serial: u64,
        start: &AppCommand,
        sockets: &SocketDir,
        events: &Sender<Event>,
    ) -> Result<Run, String> {
        let account = super::run::account(start)?;
        sockets
            .make(&self.socket, account.as_ref())
            .map_err(|e| format!("cannot create its socket: {e}"))?;
        let paths = RunPaths { mount: &self.manifest.path, dir: &self.dir, socket: &self.socket };
        Run::start(name, serial, start, &paths, account, events)
            .map_err(|e| format!("it cannot be started: {e}"))
    }

    /// Checks whether a starting application accepts connections, or answers while it must. If it
    /// is late, asks its run to end and returns the run's number.
    pub(super) fn check_listening(&mut self, name: &str, now: Instant) -> Option<u64> {
        let is_starting = matches!(self.state, AppState::Starting { .. });
        let listens = is_starting
            && match self.answers_until {
                Some(until) if now < until => {
                    self.probe.is_answered(&self.socket, &self.manifest.path)
                }
                _ => UnixStream::connect(&self.socket).is_ok(),
            };
        if listens {
            self.answers_until = None;
        }
        self.check_started(name, listens, now)
    }

    fn check_started(&mut self, name: &str, listens: bool, now: Instant) -> Option<u64> {
        let AppState::Starting { by, .. } = &self.state else { return None };
        let late = now >= *by;
        if !listens && !late {
            return None;
        }
        let pause = AppState::Waiting { until: now, failed: true };
        let AppState::Starting { run, .. } = std::mem::replace(&mut self.state, pause) else {
            return None;
        };
        if listens {
            tracing::info!("app {name}: started; it listens for {}", self.manifest.path);
            self.state = AppState::Up { run, since: now };
            return None;
        }
        Some(run.end())
    }

    /// Reason why a run that `check_listening` returns was ended.
    pub(super) const LATE: &str = "it does not listen in time (start_timeout)";

    /// Records a failure and schedules the next start.
    pub(super) fn fail(&mut self, name: &str, why: &str, now: Instant) {
        if matches!(self.state, AppState::Up { since, .. } if now - since >= STEADY) {
            self.failures = 0;
        }
        let pause = back_off(self.failures);
        self.failures = self.failures.saturating_add(1);
        tracing::error!("app {name}: {why}; it is started again in {} s", pause.as_secs());
        self.state = AppState::Waiting { until: now + pause, failed: true };
    }

    /// Asks its processes to end; returns the numbers of their runs.
    pub(super) fn end(self) -> Vec<u64> {
        let mut runs = self.successor.map_or_else(Vec::new, |successor| successor.end());
        match self.state {
            AppState::Starting { run, .. } | AppState::Up { run, .. } => runs.push(run.end()),
            AppState::Elsewhere | AppState::Waiting { .. } => {}
        }
        runs
    }

    /// `true`: this version answers requests until one by `next` does.
    pub(super) fn may_wait_for(&self, next: &Manifest) -> bool {
        let (site, path) = (&self.manifest.site, &self.manifest.path);
        matches!(self.state, AppState::Up { .. })
            && (site, path) == (&next.site, &next.path)
            && matches!(next.backend, AppBackend::Started(_))
    }

    /// Starts a new version beside this one. Returns the runs of one that it replaces unused.
    pub(super) fn replace_by(&mut self, successor: App) -> Vec<u64> {
        let unused = self.successor.replace(Box::new(successor));
        unused.map_or_else(Vec::new, |unused| unused.end())
    }

    pub(super) fn successor_has_run(&self, serial: u64) -> bool {
        self.successor.as_ref().is_some_and(|successor| successor.has_run(serial))
    }

    /// Starts and checks the next version, which takes this one's place once it answers a request.
    /// Returns a run that was asked to end, and this version if it was replaced.
    pub(super) fn advance_successor(
        &mut self,
        name: &str,
        serial: &mut u64,
        sockets: &SocketDir,
        events: &Sender<Event>,
    ) -> (Option<u64>, Option<App>) {
        let now = Instant::now();
        let Some(successor) = &mut self.successor else { return (None, None) };
        if successor.is_due(now) {
            *serial += 1;
            if let Err(why) = successor.begin(name, *serial, sockets, events, now) {
                self.give_up_successor(name, &why);
                return (None, None);
            }
        }
        let answers = successor.probe.is_answered(&successor.socket, &successor.manifest.path);
        if let Some(late) = successor.check_started(name, answers, now) {
            self.give_up_successor(name, App::LATE);
            return (Some(late), None);
        }
        let is_up = |app: &mut Box<App>| matches!(app.state, AppState::Up { .. });
        let successor = self.successor.take_if(is_up);
        (None, successor.map(|successor| std::mem::replace(self, *successor)))
    }

    /// Drops the next version, which has failed before it answered a request.
    pub(super) fn give_up_successor(&mut self, name: &str, why: &str) {
        self.successor = None;
        tracing::error!(
            "app {name}: the new version has failed: {why}; the version before goes on. Touch \
             app.toml to try again"
        );
    }
}

/// Pause after one more failure than `failures`.
fn back_off(failures: u32) -> Duration {
    BACK_OFF_MIN.saturating_mul(2_u32.saturating_pow(failures)).min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<u64> = (0..8).map(|failures| back_off(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(back_off(u32::MAX), BACK_OFF_MAX);
    }
}
