//! The state that streams share with the task of their connection.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::task::{Context, Waker};

use hurtle_http::h2::{Connection, Reason};

use super::super::multiplexed::Security;
use super::super::waiters::Waiters;
use super::pulse::Pulse;
use crate::transport::Transport;

/// The shared state of one connection.
pub(crate) struct Shared {
    pub(super) codec: RefCell<Connection>,
    pub(super) pulse: Pulse,
    pub(super) security: Security,
    /// `true` if the connection's task is running; it then writes new frames without being woken.
    pub(super) is_busy: Cell<bool>,
    driver: RefCell<Waker>,
    /// Streams that wait for an event.
    pub(super) waiting: Waiters<u32>,
}

impl Shared {
    pub(super) fn new(codec: Connection, io: &impl Transport) -> Shared {
        Shared {
            codec: RefCell::new(codec),
            pulse: Pulse::new(),
            security: Security {
                is_secure: io.is_secure(),
                policy: io.policy(),
                server_name: io.server_name(),
                cipher: io.cipher(),
                client: io.client(),
            },
            is_busy: Cell::new(false),
            driver: RefCell::new(Waker::noop().clone()),
            waiting: Waiters::default(),
        }
    }

    /// Returns the times and counters.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Returns the time since which the peer owes the rest of a head or of a control frame, in
    /// milliseconds.
    pub(crate) fn begun_ms(&self) -> Option<u64> {
        self.codec.borrow().begun_ms()
    }

    /// Returns the number of refused streams, and whether too many frames failed the connection.
    pub(crate) fn limits_hit(&self) -> (u64, bool) {
        let codec = self.codec.borrow();
        (codec.refused_streams(), codec.failure() == Some(Reason::ENHANCE_YOUR_CALM))
    }

    /// Returns whether the peer has sent its preface and settings.
    pub(crate) fn is_established(&self) -> bool {
        self.codec.borrow().is_established()
    }

    /// Stores the waker of the connection's task.
    pub(super) fn set_driver(&self, cx: &Context<'_>) {
        let mut driver = self.driver.borrow_mut();
        if !driver.will_wake(cx.waker()) {
            driver.clone_from(cx.waker());
        }
    }

    /// Wakes the connection's task to write queued frames.
    pub(super) fn queued(&self) {
        if !self.is_busy.get() {
            self.driver.borrow().wake_by_ref();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("pulse", &self.pulse).finish_non_exhaustive()
    }
}
