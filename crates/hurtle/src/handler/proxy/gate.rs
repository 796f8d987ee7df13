//! The availability of an application that this server starts: requests wait while it is starting,
//! and fail while it is down.

use std::cell::Cell;
use std::time::Duration;

use super::Proxy;
use crate::clock;
use crate::rt::Bell;

/// Longest wait for a starting application, in milliseconds; then the request is answered 503.
const STARTING_MS_MAX: u64 = 10_000;

/// The availability of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Availability {
    /// The application accepts requests.
    #[default]
    Up,
    /// The application is being started.
    Starting,
    /// The application has failed and is restarted later.
    Down,
}

/// The availability as known to one worker.
#[derive(Debug, Default)]
pub(super) struct AvailabilityGate {
    availability: Cell<Availability>,
    changed: Bell,
}

impl Proxy {
    /// Sets the availability and wakes waiting requests.
    pub(crate) fn set_availability(&self, availability: Availability) {
        if self.gate.availability.replace(availability) != availability {
            self.peers.iter().for_each(|peer| peer.reset());
            self.gate.changed.ring_all();
        }
    }

    /// Returns whether the application accepts requests.
    pub(crate) fn is_open(&self) -> bool {
        self.gate.availability.get() == Availability::Up
    }

    /// Waits while the application is starting. Returns whether it is available.
    pub(crate) async fn wait_until_open(&self) -> bool {
        let until_ms = clock::now_ms() + STARTING_MS_MAX;
        while self.gate.availability.get() == Availability::Starting {
            let left_ms = until_ms.saturating_sub(clock::now_ms());
            if left_ms == 0 {
                return false;
            }
            self.gate.changed.wait(Some(Duration::from_millis(left_ms))).await;
        }
        self.is_open()
    }
}
