//! Upstreams that an operator has drained: they get no new requests, in all workers and mounts,
//! until they are restored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// `true` if an upstream is drained, for every worker.
pub(super) type Drained = Arc<AtomicBool>;

/// The upstreams of the configurations so far, by their name. A drained one stays so after a
/// reload.
static UPSTREAMS: LazyLock<Mutex<HashMap<String, Drained>>> = LazyLock::new(Mutex::default);

/// Error for a name that no mount has as an upstream.
#[derive(Debug)]
pub(crate) struct UnknownUpstreamError {
    /// The names of the upstreams, sorted.
    pub known: Vec<String>,
}

fn upstreams() -> MutexGuard<'static, HashMap<String, Drained>> {
    UPSTREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the state of the upstream with this name.
pub(super) fn state_of(name: String) -> Drained {
    let mut upstreams = upstreams();
    // Those of former configurations that nothing uses.
    upstreams.retain(|_, drained| is_used(drained) || drained.load(Ordering::Relaxed));
    Arc::clone(upstreams.entry(name).or_default())
}

fn is_used(drained: &Drained) -> bool {
    Arc::strong_count(drained) > 1
}

/// Drains an upstream, or restores it. Returns whether that changes anything.
///
/// # Errors
/// The configuration names no such upstream; the error lists those that it names.
pub(crate) fn set_drained(name: &str, drained: bool) -> Result<bool, UnknownUpstreamError> {
    let upstreams = upstreams();
    match upstreams.get(name).filter(|state| is_used(state)) {
        Some(state) => Ok(state.swap(drained, Ordering::Relaxed) != drained),
        None => {
            let used = upstreams.iter().filter(|(_, state)| is_used(state));
            let mut known: Vec<String> = used.map(|(name, _)| name.clone()).collect();
            known.sort();
            Err(UnknownUpstreamError { known })
        }
    }
}
