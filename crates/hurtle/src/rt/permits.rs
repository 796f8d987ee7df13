//! Permits that tasks of all threads share, given in the order in which they were requested.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of permits.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Semaphore>);

/// A permit, returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    /// Held for its `Drop`.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Permits {
    pub(crate) fn new(count: usize) -> Permits {
        Permits(Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS))))
    }

    /// Takes a permit if one is free and no task waits for it.
    pub(crate) fn try_take(&self) -> Option<Permit> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(|permit| Permit { _permit: Some(permit) })
    }

    /// Returns whether no permit is free.
    pub(crate) fn is_none_free(&self) -> bool {
        self.0.available_permits() == 0
    }

    /// Waits for a permit. A dropped future gives its turn to the next task.
    pub(crate) async fn take(&self) -> Permit {
        // Only a closed semaphore refuses, and this one is never closed.
        Permit { _permit: Arc::clone(&self.0).acquire_owned().await.ok() }
    }
}
