//! The clock that ends a component's turn: a thread that advances the engine's epoch while requests
//! run. It is no task, because all threads of the runtime may be busy with components.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

/// Longest turn of a component; then other tasks of its thread have theirs.
pub const TICK: Duration = Duration::from_millis(10);

/// Ticks without a request after which the clock stops.
const IDLE_TICKS: u32 = 100;

/// A clock, which ends with this handle.
#[derive(Debug)]
pub(crate) struct Clock {
    state: Arc<ClockState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct ClockState {
    /// Requests that run.
    running: AtomicUsize,
    is_parked: AtomicBool,
    has_ended: AtomicBool,
}

/// Keeps the clock going.
#[derive(Debug)]
pub(crate) struct Running(Arc<ClockState>);

impl Clock {
    /// Starts the clock of an engine.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Clock> {
        let state = Arc::new(ClockState::default());
        let (of_thread, engine) = (Arc::clone(&state), engine.weak());
        let builder = thread::Builder::new().name("wasm-clock".to_owned());
        let thread = builder.spawn(move || tick(&of_thread, &engine))?.thread().clone();
        Ok(Clock { state, thread })
    }

    /// Lets the clock go until the result is dropped.
    pub(crate) fn run(&self) -> Running {
        self.state.running.fetch_add(1, SeqCst);
        if self.state.is_parked.swap(false, SeqCst) {
            self.thread.unpark();
        }
        Running(Arc::clone(&self.state))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.state.has_ended.store(true, SeqCst);
        self.thread.unpark();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

fn tick(state: &ClockState, engine: &EngineWeak) {
    let mut idle = 0;
    while !state.has_ended.load(SeqCst) {
        if idle >= IDLE_TICKS {
            state.is_parked.store(true, SeqCst);
            // A request that began before the store has not unparked this thread.
            if state.running.load(SeqCst) == 0 && !state.has_ended.load(SeqCst) {
                thread::park();
            }
            state.is_parked.store(false, SeqCst);
            idle = 0;
            continue;
        }
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        idle = if state.running.load(SeqCst) > 0 { 0 } else { idle + 1 };
    }
}
