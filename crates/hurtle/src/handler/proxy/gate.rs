//! Whether an application is there to be asked, where the server itself starts it: its requests
//! wait a while for one that is being started, and are turned away from one that is not.

use std::cell::Cell;
use std::time::Duration;

use super::Proxy;
use crate::clock;
use crate::rt::Bell;

/// How long a request waits for an application that is being started; then it is answered 503.
const STARTING_MS_MAX: u64 = 10_000;

/// How it stands with an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Standing {
    /// It can be asked.
    #[default]
    Up,
    /// It will soon be.
    Starting,
    /// It failed, and is left alone for a while.
    Down,
}

/// What a worker knows of that.
#[derive(Debug, Default)]
pub(super) struct Gate {
    standing: Cell<Standing>,
    changed: Bell,
}

impl Proxy {
    /// Learns how it stands with the application.
    pub fn stand(&self, standing: Standing) {
        if self.gate.standing.replace(standing) != standing {
            self.peers.iter().for_each(|peer| peer.forget());
            self.gate.changed.ring_all();
        }
    }

    /// Whether it can be asked now.
    pub fn is_open(&self) -> bool {
        self.gate.standing.get() == Standing::Up
    }

    /// Waits for an application that is being started; false: it cannot be asked.
    pub async fn opens(&self) -> bool {
        let until_ms = clock::now_ms() + STARTING_MS_MAX;
        while self.gate.standing.get() == Standing::Starting {
            let left_ms = until_ms.saturating_sub(clock::now_ms());
            if left_ms == 0 {
                return false;
            }
            self.gate.changed.wait(Some(Duration::from_millis(left_ms))).await;
        }
        self.is_open()
    }
}
