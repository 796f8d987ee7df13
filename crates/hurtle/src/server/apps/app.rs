//! One application that is deployed, and what becomes of it: started, up, left alone for a while
//! after a failure. Its processes are `run`'s.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::Event;
use super::look::Stamp;
use super::run::Run;
use super::sockets::Sockets;
use crate::config::{Manifest, Runs, Start};
use crate::handler::proxy::Standing;
use crate::site::Deployment;

/// The pause after a first failure; each further one doubles it.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest pause.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// Who was up for so long has not failed before.
const STEADY: Duration = Duration::from_secs(60);

/// A deployed application.
#[derive(Debug)]
pub(super) struct App {
    serial: u64,
    /// Of the manifest it is made from.
    pub(super) stamp: Stamp,
    dir: PathBuf,
    pub(super) manifest: Manifest,
    socket: PathBuf,
    state: State,
    /// In a row.
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// Somebody else looks after it.
    Elsewhere,
    /// It is to be started then; after a failure, or because it is new.
    Waiting {
        until: Instant,
        failed: bool,
    },
    /// It must listen by then.
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
        stamp: Stamp,
        dir: PathBuf,
        manifest: Manifest,
        socket: PathBuf,
    ) -> App {
        let state = match manifest.runs {
            Runs::Here(_) => State::Waiting { until: Instant::now(), failed: false },
            Runs::Elsewhere(_) => State::Elsewhere,
        };
        App { serial, stamp, dir, manifest, socket, state, failures: 0 }
    }

    /// What workers are told of it.
    pub(super) fn deployment(&self) -> Deployment {
        Deployment {
            serial: self.serial,
            site: self.manifest.site,
            path: self.manifest.path.clone(),
            proxy: self.manifest.proxy(&self.socket),
            standing: match self.state {
                State::Elsewhere | State::Up { .. } => Standing::Up,
                State::Starting { .. } | State::Waiting { failed: false, .. } => Standing::Starting,
                State::Waiting { failed: true, .. } => Standing::Down,
            },
        }
    }

    /// When there is something to do; `soon`: for one that is being started.
    pub(super) fn due(&self, soon: Instant) -> Option<Instant> {
        match &self.state {
            State::Waiting { until, .. } => Some((*until).max(soon)),
            State::Starting { .. } => Some(soon),
            State::Elsewhere | State::Up { .. } => None,
        }
    }

    /// Whether it is to be started.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting { until, .. } if until <= now)
    }

    /// Waits no longer.
    pub(super) fn hurry(&mut self) {
        if let State::Waiting { until, .. } = &mut self.state {
            *until = Instant::now();
        }
    }

    pub(super) fn has_run(&self, serial: u64) -> bool {
        matches!(&self.state, State::Starting { run, .. } | State::Up { run, .. } if run.serial == serial)
    }

    /// Starts it.
    pub(super) fn begin(
        &mut self,
        name: &str,
        serial: u64,
        sockets: &Sockets,
        events: &Sender<Event>,
        now: Instant,
    ) {
        let Runs::Here(start) = &self.manifest.runs else { return };
        let by = now + start.start_timeout;
        match self.launch(name, serial, start, sockets, events) {
            Ok(run) => self.state = State::Starting { run, by },
            Err(why) => self.fail(name, &why, now),
        }
    }

    fn launch(
        &self,
        name: &str,
        serial: u64,
        start: &Start,
        sockets: &Sockets,
        events: &Sender<Event>,
    ) -> Result<Run, String> {
        let account = super::run::account(start)?;
        sockets.make(&self.socket, account.as_ref()).map_err(|e| format!("no socket: {e}"))?;
        Run::start(
            name,
            serial,
            (start, &self.manifest.path),
            &self.dir,
            &self.socket,
            account,
            events,
        )
        .map_err(|e| format!("it cannot be started: {e}"))
    }

    /// Looks whether one that is being started listens; if not in time, the number of the run that
    /// was told to end.
    pub(super) fn knock(&mut self, name: &str, now: Instant) -> Option<u64> {
        let State::Starting { by, .. } = &self.state else { return None };
        let late = now >= *by;
        let listens = UnixStream::connect(&self.socket).is_ok();
        if !listens && !late {
            return None;
        }
        let pause = State::Waiting { until: now, failed: true };
        let State::Starting { run, .. } = std::mem::replace(&mut self.state, pause) else {
            return None;
        };
        if listens {
            tracing::info!("app {name}: started; it listens for {}", self.manifest.path);
            self.state = State::Up { run, since: now };
            return None;
        }
        self.fail(name, "it does not listen in time (start_timeout)", now);
        Some(run.end())
    }

    /// Leaves it alone for a while.
    pub(super) fn fail(&mut self, name: &str, why: &str, now: Instant) {
        if matches!(self.state, State::Up { since, .. } if now - since >= STEADY) {
            self.failures = 0;
        }
        let pause = back_off(self.failures);
        self.failures = self.failures.saturating_add(1);
        tracing::error!("app {name}: {why}; it is started again in {} s", pause.as_secs());
        self.state = State::Waiting { until: now + pause, failed: true };
    }

    /// Tells its processes to end, if there are any; the number of their run.
    pub(super) fn end(self) -> Option<u64> {
        match self.state {
            State::Starting { run, .. } | State::Up { run, .. } => Some(run.end()),
            State::Elsewhere | State::Waiting { .. } => None,
        }
    }
}

/// The pause after one more failure than these.
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
