//! Commands that end a running server: drain, hand over, stop.

use std::sync::Arc;

use tokio::sync::watch;

/// A command to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Serve,
    /// Finish the requests in flight.
    Drain,
    /// Finish the requests in flight; another process accepts connections.
    HandOver,
    /// Stop at once.
    End,
}

impl Command {
    pub(super) fn is_hand_over(&self) -> bool {
        *self == Command::HandOver
    }
}

/// A handle that stops a running server.
#[derive(Clone, Debug)]
pub struct Stop(pub(super) Arc<watch::Sender<Command>>);

impl Stop {
    /// Stops accepting and finishes the requests in flight.
    pub fn drain(&self) {
        self.finish(Command::Drain);
    }

    /// Does the same while another process accepts connections on the same sockets.
    pub(super) fn hand_over(&self) {
        self.finish(Command::HandOver);
    }

    fn finish(&self, how: Command) {
        self.0.send_if_modified(|order| {
            let serving = *order == Command::Serve;
            if serving {
                *order = how;
            }
            serving
        });
    }

    /// Stops at once and cuts the requests in flight.
    pub fn end(&self) {
        self.0.send_replace(Command::End);
    }
}
