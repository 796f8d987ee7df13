//! Deployed applications: a thread that scans their directory, starts and restarts them, and
//! publishes the list to the workers. `scan` scans the directory, `app` is the state of one
//! application, `run` one run of its processes, and `keeper` the process between.

mod app;
pub mod keeper;
mod output;
mod probe;
mod run;
mod scan;
mod sockets;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::config::{AppBackend, Config, Manifest};
use crate::handler::proxy::Availability;
use crate::site::Deployment;
use app::App;
use scan::{FoundApp, ManifestStamp, RejectedApp, ScanError, ScanResult};
use sockets::SocketDir;

/// Interval of scans; each takes a few system calls per application.
const SCAN_PERIOD: Duration = Duration::from_secs(1);

/// Interval of checks whether a starting application accepts connections.
const CHECK_PERIOD: Duration = Duration::from_millis(20);

/// Time for which a replaced version goes on: the workers learn of the new one meanwhile, and
/// requests that came before reach it.
const REPLACED_FOR: Duration = Duration::from_millis(500);

/// Time that a stop waits beyond the applications' own grace period.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// Time in which applications must answer before this process replaces another one, which gives up
/// after 30 s (`READY_TIME_MAX`).
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);

/// The deployed applications; every worker is notified of a change.
pub(crate) type Deployments = Arc<Vec<Deployment>>;

/// Handle of the thread that supervises the applications of a running server.
#[derive(Debug)]
pub(crate) struct Apps {
    events: Sender<Event>,
    deployments: watch::Receiver<Deployments>,
    thread: JoinHandle<()>,
}

/// A message to the thread.
#[derive(Debug)]
enum Event {
    /// The run with this number has ended; its exit status as text.
    Ended(u64, String),
    /// Scan now, and end the pauses after failures.
    Scan,
    /// Scan by another configuration.
    Reload(Arc<Config>),
    Stop,
}

impl Apps {
    /// Starts the thread if an application directory is configured. `awaited`: site and path of
    /// applications that are up in a process that this one replaces. They must answer a request
    /// within `ANSWER_TIME_MAX`, or listen after it.
    ///
    /// # Errors
    /// The system refuses a thread or a directory for sockets.
    pub(crate) fn start(
        config: &Arc<Config>,
        awaited: &[(String, String)],
    ) -> io::Result<Option<Apps>> {
        let Some(dir) = config.apps.clone() else { return Ok(None) };
        let (publish, deployments) = watch::channel(Deployments::default());
        let (events, receiver) = mpsc::channel();
        let mut supervisor = Supervisor {
            dir,
            config: Arc::clone(config),
            is_reloaded: false,
            sockets: SocketDir::create()?,
            deployments: publish,
            events: events.clone(),
            apps: BTreeMap::new(),
            replaced: Vec::new(),
            stopping: BTreeMap::new(),
            refused: BTreeMap::new(),
            serial: 0,
        };
        // The first request must find the applications.
        supervisor.scan();
        for app in supervisor.apps.values_mut() {
            let (site, path) = (&app.manifest.site, &app.manifest.path);
            let is_awaited = awaited.iter().any(|up| (&up.0, &up.1) == (site, path));
            app.answers_until = is_awaited.then(|| Instant::now() + ANSWER_TIME_MAX);
        }
        supervisor.publish();
        let life = move || supervisor.run(&receiver);
        let thread = thread::Builder::new().name("apps".to_owned()).spawn(life)?;
        Ok(Some(Apps { events, deployments, thread }))
    }

    /// The list of deployments, for the workers.
    pub(crate) fn deployments(&self) -> watch::Receiver<Deployments> {
        self.deployments.clone()
    }

    /// Site and path of each application that accepts requests.
    pub(crate) fn up(&self) -> Vec<(String, String)> {
        let deployments = self.deployments.borrow();
        let up = deployments.iter().filter(|app| app.availability == Availability::Up);
        up.map(|app| (app.site.clone(), app.path.clone())).collect()
    }

    /// Waits until these applications accept requests, as far as they are still deployed. A start
    /// takes `start_timeout` at most.
    ///
    /// # Errors
    /// An application has failed.
    pub(crate) fn wait_until_up(&self, apps: &[(String, String)]) -> io::Result<()> {
        loop {
            let deployments = Arc::clone(&self.deployments.borrow());
            let awaited = |app: &&Deployment| {
                apps.iter().any(|(site, path)| (site, path) == (&app.site, &app.path))
            };
            let mut late = deployments.iter().filter(awaited);
            let Some(app) = late.find(|app| app.availability != Availability::Up) else {
                return Ok(());
            };
            if app.availability == Availability::Down {
                let what = format!("the application at {} does not start", app.path);
                return Err(io::Error::other(what));
            }
            thread::sleep(CHECK_PERIOD);
        }
    }

    /// Scans the directory now, and ends the pauses after failures.
    pub(crate) fn scan(&self) {
        // An error means that the thread has ended.
        let _ = self.events.send(Event::Scan);
    }

    /// Checks the manifests against another configuration. Applications whose manifests are still
    /// right keep running.
    pub(crate) fn reload(&self, config: Arc<Config>) {
        // An error means that the thread has ended.
        let _ = self.events.send(Event::Reload(config));
    }

    /// Ends all applications and waits for their processes.
    pub(crate) fn stop(self) {
        let _ = self.events.send(Event::Stop);
        let _ = self.thread.join();
    }
}

/// The state of the thread.
struct Supervisor {
    dir: PathBuf,
    config: Arc<Config>,
    /// `true`: the next scan reads every manifest, because the configuration has changed.
    is_reloaded: bool,
    sockets: SocketDir,
    deployments: watch::Sender<Deployments>,
    events: Sender<Event>,
    /// Applications by the names of their directories.
    apps: BTreeMap<String, App>,
    /// Versions that have been replaced, and the times when they are asked to end.
    replaced: Vec<(Instant, String, App)>,
    /// Runs that were asked to end, with their applications.
    stopping: BTreeMap<u64, String>,
    /// Last logged reason of each application that is not deployed.
    refused: BTreeMap<String, String>,
    /// The last number of a deployment or run.
    serial: u64,
}

impl Supervisor {
    fn run(mut self, receiver: &Receiver<Event>) {
        let mut next_scan = Instant::now() + SCAN_PERIOD;
        loop {
            let now = Instant::now();
            if now >= next_scan {
                self.scan();
                next_scan = now + SCAN_PERIOD;
            }
            self.end_replaced(|_, until| until <= now);
            self.advance(now);
            self.publish();
            match receiver.recv_timeout(self.pause(now, next_scan)) {
                Ok(Event::Ended(run, how)) => self.handle_end(run, &how),
                Ok(Event::Scan) => {
                    self.apps.values_mut().for_each(App::start_now);
                    next_scan = now;
                }
                Ok(Event::Reload(config)) => {
                    self.config = config;
                    self.is_reloaded = true;
                    next_scan = now;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return self.stop(receiver);
                }
            }
        }
    }

    /// Time until the next action.
    fn pause(&self, now: Instant, next_scan: Instant) -> Duration {
        let due = self.apps.values().filter_map(|app| app.due(now + CHECK_PERIOD));
        let due = due.chain(self.replaced.iter().map(|(until, ..)| *until)).min();
        due.map_or(next_scan, |due| due.min(next_scan)).saturating_duration_since(now)
    }

    /// Scans the directory and applies the differences.
    fn scan(&mut self) {
        let mut before = std::mem::take(&mut self.apps);
        let trusts_stamps = !std::mem::take(&mut self.is_reloaded);
        let known = |name: &str, stamp: &ManifestStamp| {
            trusts_stamps && before.get(name).is_some_and(|app: &App| app.stamp == *stamp)
        };
        let scanned = scan::read(&self.dir, &self.config, known, |name| before.contains_key(name));
        let ScanResult { same, new, mut refused } = match scanned {
            Ok(scanned) => scanned,
            Err(ScanError { why, is_passing: true }) => {
                self.apps = before;
                self.is_reloaded = !trusts_stamps;
                return self.log_rejected(vec![RejectedApp::all(why, true)]);
            }
            // Without a scan, running applications may be outdated, so they are ended.
            Err(ScanError { why, .. }) => {
                ScanResult { refused: vec![RejectedApp::all(why, false)], ..ScanResult::default() }
            }
        };
        // A running application is not ended by a mistake in its manifest.
        let kept = refused.iter().filter(|refused| refused.keep).map(|refused| &refused.name);
        for name in same.iter().chain(kept) {
            self.apps.extend(before.remove_entry(name));
        }
        let (mut changed, mut moved, mut added) = (Vec::new(), Vec::new(), Vec::new());
        for found in new {
            match before.get_mut(&found.name) {
                None => added.push(found),
                Some(app) if app.is_unchanged(&found) => {
                    app.stamp = found.stamp;
                    self.apps.extend(before.remove_entry(&found.name));
                }
                Some(app) if app.has_path_of(&found.manifest) => changed.push(found),
                Some(_) => moved.push(found),
            }
        }
        // Those that run have their paths before those that come.
        for found in changed.into_iter().chain(moved).chain(added) {
            let name = found.name.clone();
            if let Some(mut app) = before.remove(&name) {
                let (may_wait, stamp) = (app.may_wait_for(&found.manifest), found.stamp.clone());
                match self.deploy(found) {
                    Ok(next) if may_wait => {
                        tracing::info!("app {name}: its manifest has changed");
                        app.stamp = stamp;
                        self.end_runs(&name, app.replace_by(next));
                    }
                    Ok(next) => {
                        tracing::info!("app {name}: its manifest has changed");
                        self.end_replaced(|of, _| of == name);
                        self.end_runs(&name, app.end());
                        app = next;
                    }
                    // The stamp stays, so that it is tried again.
                    Err(why) => {
                        let keep = self.taken(&app.manifest).is_none();
                        refused.push(RejectedApp { name: name.clone(), why, keep });
                        if !keep {
                            self.end_runs(&name, app.end());
                            continue;
                        }
                    }
                }
                self.apps.insert(name, app);
                continue;
            }
            match self.deploy(found) {
                Ok(app) => drop(self.apps.insert(name, app)),
                Err(why) => refused.push(RejectedApp { name, why, keep: false }),
            }
        }
        for (name, app) in before {
            if !refused.iter().any(|refused| refused.name == name) {
                tracing::info!("app {name}: removed from {}", self.dir.display());
            }
            self.end_replaced(|of, _| of == name);
            self.end_runs(&name, app.end());
        }
        self.log_rejected(refused);
    }

    /// Returns the application that has the path of this one.
    fn taken(&self, manifest: &Manifest) -> Option<&String> {
        self.apps.iter().find(|(_, app)| app.has_path_of(manifest)).map(|(name, _)| name)
    }

    /// Deploys a new or changed application; the error is the reason against it.
    fn deploy(&mut self, found: FoundApp) -> Result<App, String> {
        let FoundApp { name, stamp, dir, manifest } = found;
        if let Some(other) = self.taken(&manifest) {
            return Err(format!("{} is already the path of {other}", manifest.path));
        }
        if let AppBackend::Started(start) = &manifest.backend {
            run::account(start)?;
        }
        tracing::info!("app {name}: deployed at {}", manifest.path);
        self.serial += 1;
        let socket = self.sockets.path(&name, self.serial);
        Ok(App::new(self.serial, stamp, dir, manifest, socket))
    }

    /// Logs each reason against a deployment once.
    fn log_rejected(&mut self, refused: Vec<RejectedApp>) {
        for RejectedApp { name, why, keep } in &refused {
            if self.refused.get(name) != Some(why) {
                match name.as_str() {
                    "" if *keep => tracing::error!("applications are not scanned: {why}"),
                    "" => tracing::error!("no application is deployed: {why}"),
                    name => tracing::error!("app {name}: not deployed: {why}"),
                }
            }
        }
        self.refused = refused.into_iter().map(|r| (r.name, r.why)).collect();
    }

    /// Starts and checks the applications that are due.
    fn advance(&mut self, now: Instant) {
        for (name, app) in &mut self.apps {
            // A new run waits for the end of the last one, because it may have files of its own.
            let is_ending = self.stopping.values().any(|stopping| stopping == name)
                || self.replaced.iter().any(|(_, replaced, _)| replaced == name);
            if app.is_due(now) && !is_ending {
                self.serial += 1;
                let begun = app.begin(name, self.serial, &self.sockets, &self.events, now);
                begun.unwrap_or_else(|why| app.fail(name, &why, now));
            }
            if let Some(given_up) = app.check_listening(name, now) {
                app.fail(name, App::LATE, now);
                self.stopping.insert(given_up, name.clone());
            }
            let (late, replaced) =
                app.advance_successor(name, &mut self.serial, &self.sockets, &self.events);
            self.stopping.extend(late.map(|run| (run, name.clone())));
            self.replaced.extend(replaced.map(|app| (now + REPLACED_FOR, name.clone(), app)));
        }
    }

    /// Ends replaced versions, by the names of their applications and their times.
    fn end_replaced(&mut self, is_due: impl Fn(&str, Instant) -> bool) {
        let due = self.replaced.extract_if(.., |(until, name, _)| is_due(name, *until));
        for (_, name, app) in due.collect::<Vec<_>>() {
            self.end_runs(&name, app.end());
        }
    }

    /// Handles the end of a run.
    fn handle_end(&mut self, run: u64, how: &str) {
        if self.stopping.remove(&run).is_some() {
            return;
        }
        self.replaced.retain(|(.., app)| !app.has_run(run));
        for (name, app) in &mut self.apps {
            let why = || format!("it has ended ({how})");
            if app.has_run(run) {
                app.fail(name, &why(), Instant::now());
            } else if app.successor_has_run(run) {
                app.give_up_successor(name, &why());
            }
        }
    }

    /// Remembers runs that were asked to end.
    fn end_runs(&mut self, name: &str, runs: impl IntoIterator<Item = u64>) {
        self.stopping.extend(runs.into_iter().map(|run| (run, name.to_owned())));
    }

    /// Publishes the deployments to the workers if they have changed.
    fn publish(&self) {
        let deployments: Vec<_> =
            self.apps.iter().map(|(name, app)| app.deployment(name)).collect();
        self.deployments.send_if_modified(|known| {
            let news = **known != deployments;
            if news {
                *known = Arc::new(deployments);
            }
            news
        });
    }

    /// Ends all applications and waits for their processes.
    fn stop(mut self, receiver: &Receiver<Event>) {
        for (name, app) in std::mem::take(&mut self.apps) {
            self.end_runs(&name, app.end());
        }
        self.end_replaced(|_, _| true);
        let end = Instant::now() + keeper::GRACE + STOP_MARGIN;
        while !self.stopping.is_empty() {
            match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended(run, _)) => drop(self.stopping.remove(&run)),
                Ok(_) => {}
                Err(_) => {
                    let names: Vec<_> = self.stopping.values().map(String::as_str).collect();
                    return tracing::error!("applications did not end: {}", names.join(", "));
                }
            }
        }
    }
}
