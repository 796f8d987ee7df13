//! Applications that come and go: the thread that looks after the directory they are deployed in,
//! starts them, starts them again, and tells the workers. `look` reads the directory, `app` is one
//! of them and what becomes of it, `run` one life of its processes, `keeper` the process between.

mod app;
pub mod keeper;
mod look;
mod output;
mod run;
mod sockets;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Deployments, Server};
use crate::config::{Config, Runs};
use app::App;
use look::{Found, Looked, Refused, Stamp};
use sockets::Sockets;

/// How often the directory is looked at: a few system calls for each application.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How often it is asked whether one that is being started listens.
const KNOCK_PERIOD: Duration = Duration::from_millis(20);

/// How long a stop waits beyond what applications are given to end by themselves.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// The applications of a running server.
#[derive(Debug)]
pub(super) struct Apps {
    events: Sender<Event>,
    thread: JoinHandle<()>,
}

/// What the thread is told.
#[derive(Debug)]
enum Event {
    /// The run of this number has ended, so.
    Ended(u64, String),
    /// Look now, and start now what waits.
    Look,
    Stop,
}

impl Apps {
    /// Begins to look after the directory of applications, if there is one; the server's workers
    /// will know of them.
    ///
    /// # Errors
    /// When there can be no thread, or no place for sockets.
    pub(super) fn start(server: &mut Server) -> io::Result<Option<Apps>> {
        let Some(dir) = server.config.apps.clone() else { return Ok(None) };
        let (publish, deployments) = watch::channel(Deployments::default());
        server.deployments = Some(deployments);
        let (events, told) = mpsc::channel();
        let mut overseer = Overseer {
            dir,
            config: Arc::clone(&server.config),
            sockets: Sockets::create()?,
            publish,
            events: events.clone(),
            apps: BTreeMap::new(),
            leaving: BTreeMap::new(),
            refused: BTreeMap::new(),
            serial: 0,
        };
        // Those that are there are known before the first request.
        overseer.look();
        overseer.tell();
        let life = move || overseer.run(&told);
        let thread = thread::Builder::new().name("apps".to_owned()).spawn(life)?;
        Ok(Some(Apps { events, thread }))
    }

    /// Looks at the directory now, and starts now what waits after a failure.
    pub(super) fn look(&self) {
        // If the thread is gone there is nothing to look after.
        let _ = self.events.send(Event::Look);
    }

    /// Ends them all, and waits until they are gone.
    pub(super) fn stop(self) {
        let _ = self.events.send(Event::Stop);
        let _ = self.thread.join();
    }
}

/// Who looks after them.
struct Overseer {
    dir: PathBuf,
    config: Arc<Config>,
    sockets: Sockets,
    publish: watch::Sender<Deployments>,
    events: Sender<Event>,
    /// By the names of their directories.
    apps: BTreeMap<String, App>,
    /// Runs that were told to end, and whose they are.
    leaving: BTreeMap<u64, String>,
    /// What was last said of those that are not deployed.
    refused: BTreeMap<String, String>,
    /// The last number given to a deployment or a run.
    serial: u64,
}

impl Overseer {
    fn run(mut self, told: &Receiver<Event>) {
        let mut next_look = Instant::now() + LOOK_PERIOD;
        loop {
            let now = Instant::now();
            if now >= next_look {
                self.look();
                next_look = now + LOOK_PERIOD;
            }
            self.advance(now);
            self.tell();
            match told.recv_timeout(self.pause(now, next_look)) {
                Ok(Event::Ended(run, how)) => self.ended(run, &how),
                Ok(Event::Look) => {
                    self.apps.values_mut().for_each(App::hurry);
                    next_look = now;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return self.stop(told),
            }
        }
    }

    /// Until when nothing needs to be done.
    fn pause(&self, now: Instant, next_look: Instant) -> Duration {
        let due = self.apps.values().filter_map(|app| app.due(now + KNOCK_PERIOD)).min();
        due.map_or(next_look, |due| due.min(next_look)).saturating_duration_since(now)
    }

    /// Compares what there is with what there was.
    fn look(&mut self) {
        let mut before = std::mem::take(&mut self.apps);
        let known = |name: &str, stamp: &Stamp| {
            before.get(name).is_some_and(|app: &App| app.stamp == *stamp)
        };
        let looked = look::read(&self.dir, &self.config, known);
        let Looked { same, new, mut refused } = looked.unwrap_or_else(|why| {
            // What runs there may not be what should any more.
            Looked {
                refused: vec![Refused { name: String::new(), why, keep: false }],
                ..Looked::default()
            }
        });
        // One that runs, and is about to be changed, is not ended by a slip.
        let kept = refused.iter().filter(|refused| refused.keep).map(|refused| &refused.name);
        for name in same.iter().chain(kept) {
            self.apps.extend(before.remove_entry(name));
        }
        for found in new {
            let name = found.name.clone();
            if let Some(app) = before.remove(&name) {
                tracing::info!("app {name}: its manifest has changed");
                self.leave(&name, app);
            }
            match self.settle(found) {
                Ok(app) => drop(self.apps.insert(name, app)),
                Err(why) => refused.push(Refused { name, why, keep: false }),
            }
        }
        for (name, app) in before {
            if !refused.iter().any(|refused| refused.name == name) {
                tracing::info!("app {name}: it is gone from {}", self.dir.display());
            }
            self.leave(&name, app);
        }
        self.complain(refused);
    }

    /// Takes in an application that is new, or new again; the error is why not.
    fn settle(&mut self, found: Found) -> Result<App, String> {
        let Found { name, stamp, dir, manifest } = found;
        let place = (manifest.site, &manifest.path);
        let taken = |app: &App| (app.manifest.site, &app.manifest.path) == place;
        if let Some((other, _)) = self.apps.iter().find(|(_, app)| taken(app)) {
            return Err(format!("{} is already the path of {other}", manifest.path));
        }
        if let Runs::Here(start) = &manifest.runs {
            run::account(start)?;
        }
        tracing::info!("app {name}: deployed at {}", manifest.path);
        self.serial += 1;
        let socket = self.sockets.path(&name, self.serial);
        Ok(App::new(self.serial, stamp, dir, manifest, socket))
    }

    /// Says what is refused, once.
    fn complain(&mut self, refused: Vec<Refused>) {
        let now: BTreeMap<_, _> = refused.into_iter().map(|r| (r.name, r.why)).collect();
        for (name, why) in &now {
            if self.refused.get(name) != Some(why) {
                match name.as_str() {
                    "" => tracing::error!("no application is deployed: {why}"),
                    name => tracing::error!("app {name}: not deployed: {why}"),
                }
            }
        }
        self.refused = now;
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        for (name, app) in &mut self.apps {
            // Two lives of one do not overlap: it may have files of its own.
            if app.is_due(now) && !self.leaving.values().any(|leaving| leaving == name) {
                self.serial += 1;
                app.begin(name, self.serial, &self.sockets, &self.events, now);
            }
            if let Some(given_up) = app.knock(name, now) {
                self.leaving.insert(given_up, name.clone());
            }
        }
    }

    /// A run is over.
    fn ended(&mut self, run: u64, how: &str) {
        if self.leaving.remove(&run).is_some() {
            return;
        }
        let ended = self.apps.iter_mut().find(|(_, app)| app.has_run(run));
        if let Some((name, app)) = ended {
            app.fail(name, &format!("it has ended ({how})"), Instant::now());
        }
    }

    /// Ends an application that is none any more.
    fn leave(&mut self, name: &str, app: App) {
        if let Some(run) = app.end() {
            self.leaving.insert(run, name.to_owned());
        }
    }

    /// Tells the workers, if there is anything to tell.
    fn tell(&self) {
        let deployments: Vec<_> = self.apps.values().map(App::deployment).collect();
        self.publish.send_if_modified(|known| {
            let news = **known != deployments;
            if news {
                *known = Arc::new(deployments);
            }
            news
        });
    }

    /// Ends them all, and waits for their ends.
    fn stop(mut self, told: &Receiver<Event>) {
        for (name, app) in std::mem::take(&mut self.apps) {
            self.leave(&name, app);
        }
        let end = Instant::now() + keeper::GRACE + STOP_MARGIN;
        while !self.leaving.is_empty() {
            match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended(run, _)) => drop(self.leaving.remove(&run)),
                Ok(_) => {}
                Err(_) => {
                    let names: Vec<_> = self.leaving.values().map(String::as_str).collect();
                    return tracing::error!("applications that do not end: {}", names.join(", "));
                }
            }
        }
    }
}
