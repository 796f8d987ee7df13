//! The store that several servers share: Redis or Valkey. Each worker keeps one connection. A
//! decision has a time limit; without one in time the server's own decision holds. After a fault no
//! request waits: the connection is made anew in the background, and until then each server decides
//! alone.
//!
//! One worker has another connection, on which it reads the purges of the other servers (`feed`).
//!
//! `limits` has the algorithm of a rate limit for one server, `TAKE` the same for the store.

mod connection;
mod endpoint;
mod feed;
mod link;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hurtle_http::resp::Reply;

use crate::clock;
use crate::config::{self, read_secret};
use crate::disk::Disk;
use crate::limits::rate::Allowance;
use crate::metrics::{Counter, WorkerMetrics};
use crate::rt::{self, Task};
use crate::tls::UpstreamConfig;

pub(crate) use connection::StoreError;
use endpoint::Endpoint;
pub(crate) use feed::{Feed, Follower};
use link::Ready;

/// Longest wait of a request for a decision.
pub(crate) const DECISION_TIME_MAX: Duration = Duration::from_millis(50);

/// Late replies in a row after which the connection is given up.
const LATE_MAX: u32 = 3;

/// Time between two warnings of the process that the store is away, in milliseconds.
const WARN_EVERY_MS: u64 = 10_000;

/// The settings of a store, with the contents of the files that they name.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    config: config::Store,
    password: Option<Vec<u8>>,
}

/// The outcome of a request for allowances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Taken from all allowances.
    Granted,
    /// One allowance is used up, and none has changed.
    Refused {
        /// Its number among those that were asked for.
        number: usize,
        /// Time until the next request is accepted, in nanoseconds; at least 1.
        wait_ns: u64,
    },
    /// The store has not decided.
    Local,
}

/// A worker's access to the store. Dropping it ends its connection.
pub(crate) struct SharedStore {
    state: Rc<StoreState>,
    _connecting: Task,
}

/// The part that the task which connects shares.
struct StoreState {
    endpoint: Endpoint,
    /// `None`: there is no connection.
    ready: RefCell<Option<Rc<Ready>>>,
    /// Late replies since the last one in time.
    late: Cell<u32>,
    /// The last fault, for the log.
    fault: RefCell<String>,
    metrics: Arc<WorkerMetrics>,
}

impl Settings {
    /// Reads the files of a store.
    ///
    /// # Errors
    /// The password is unusable.
    pub(crate) fn load(config: &config::Store) -> Result<Settings, String> {
        let password = config.password_file.as_ref().map(|path: &PathBuf| read_secret(path));
        Ok(Settings { config: config.clone(), password: password.transpose()? })
    }
}

impl SharedStore {
    /// Begins to connect, on this worker.
    pub(crate) fn start(
        settings: &Arc<Settings>,
        tls: Option<Arc<UpstreamConfig>>,
        disk: &Disk,
        metrics: &Arc<WorkerMetrics>,
    ) -> Rc<SharedStore> {
        let state = Rc::new(StoreState {
            endpoint: Endpoint::new(settings, tls, disk),
            ready: RefCell::default(),
            late: Cell::new(0),
            fault: RefCell::new("no connection yet".to_owned()),
            metrics: Arc::clone(metrics),
        });
        let connecting = rt::spawn_held(link::keep_connected(Rc::clone(&state)));
        Rc::new(SharedStore { state, _connecting: connecting })
    }

    /// Returns whether it has these settings.
    pub(crate) fn is_of(&self, settings: &Arc<Settings>) -> bool {
        Arc::ptr_eq(&self.state.endpoint.settings, settings)
    }

    /// Takes one request from all allowances, or from none, in one step of the store.
    pub(crate) async fn take(&self, allowances: &[Allowance]) -> Decision {
        let state = &*self.state;
        let ready = state.ready.borrow().clone();
        let Some(ready) = ready else { return state.decide_locally() };
        let asked = Instant::now();
        match rt::timeout(DECISION_TIME_MAX, state.ask(&ready, allowances)).await {
            Some(Ok(decision)) => {
                state.late.set(0);
                state.metrics.store_latency.observe(asked.elapsed());
                decision
            }
            Some(Err(error)) => {
                state.give_up(&ready, &error);
                state.decide_locally()
            }
            None => {
                state.metrics.store.late.add(1);
                state.late.set(state.late.get() + 1);
                if state.late.get() >= LATE_MAX {
                    state.give_up(&ready, &StoreError::Late);
                }
                state.decide_locally()
            }
        }
    }
}

impl StoreState {
    async fn ask(&self, ready: &Ready, allowances: &[Allowance]) -> Result<Decision, StoreError> {
        let prefix = &self.endpoint.settings.config.prefix;
        let keys: Vec<String> = allowances.iter().map(|of| rate_key(prefix, of)).collect();
        let us = |ns: u64| format!("{}.{:03}", ns / 1_000, ns % 1_000);
        let times = allowances.iter().flat_map(|of| [us(of.interval_ns), us(of.window_ns)]);
        let times: Vec<String> = times.collect();
        let count = keys.len().to_string();
        let mut command = vec![&b"EVALSHA"[..], &ready.take, count.as_bytes()];
        command.extend(keys.iter().chain(&times).map(String::as_bytes));
        let Reply::Array(reply) = ready.connection.ask(&command).await? else {
            return Err(StoreError::Unexpected);
        };
        let [Reply::Integer(number), Reply::Integer(wait_us)] = reply[..] else {
            return Err(StoreError::Unexpected);
        };
        if number == 0 {
            return Ok(Decision::Granted);
        }
        let number = usize::try_from(number - 1).map_err(|_| StoreError::Unexpected)?;
        let refused = allowances.get(number).ok_or(StoreError::Unexpected)?;
        let wait_ns = u64::try_from(wait_us).unwrap_or(0).saturating_mul(1_000);
        // A key's allowance is at most one burst behind.
        Ok(Decision::Refused { number, wait_ns: wait_ns.clamp(1, refused.window_ns.max(1)) })
    }

    /// Counts a decision without the store, and warns from time to time.
    fn decide_locally(&self) -> Decision {
        static WARNED_MS: AtomicU64 = AtomicU64::new(0);
        self.metrics.store.local_decisions.add(1);
        let now_ms = clock::now_ms();
        let warned_ms = WARNED_MS.load(Relaxed);
        let is_due = warned_ms == 0 || now_ms.saturating_sub(warned_ms) >= WARN_EVERY_MS;
        if is_due && WARNED_MS.compare_exchange(warned_ms, now_ms, Relaxed, Relaxed).is_ok() {
            let (url, fault) = (self.endpoint.settings.config.url(), self.fault.borrow());
            tracing::warn!("store {url}: {fault}; rate limits are this server's own meanwhile");
        }
        Decision::Local
    }

    /// Closes a connection; another one is made after a pause.
    fn give_up(&self, ready: &Rc<Ready>, error: &StoreError) {
        let is_current = self.ready.borrow().as_ref().is_some_and(|of| Rc::ptr_eq(of, ready));
        if is_current {
            self.ready.take();
            *self.fault.borrow_mut() = error.to_string();
            ready.given_up.ring();
        }
    }
}

/// A count of one in a gauge, as long as it lives.
struct Counted<'a>(&'a Counter);

impl<'a> Counted<'a> {
    fn new(gauge: &'a Counter) -> Counted<'a> {
        gauge.add(1);
        Counted(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

/// The key of an allowance.
fn rate_key(prefix: &str, allowance: &Allowance) -> String {
    let number = u128::from_be_bytes(allowance.key);
    format!("{prefix}rate:{number:032x}")
}

impl fmt::Debug for Settings {
    /// Keeps the password out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("url", &self.config.url()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore")
            .field("settings", &self.state.endpoint.settings)
            .finish_non_exhaustive()
    }
}
