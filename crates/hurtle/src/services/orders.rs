//! Commands that end a running server: withdraw, drain, hand over, stop.

use std::sync::Arc;

use tokio::sync::watch;

/// A command to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Serve,
    /// Serve, but report that the server is not ready for new requests.
    Withdraw,
    /// Finish the requests in flight.
    Drain,
    /// Finish the requests in flight; another process accepts connections.
    HandOver,
    /// Stop at once.
    End,
}

impl Command {
    pub(crate) fn is_hand_over(&self) -> bool {
        *self == Command::HandOver
    }

    /// Returns whether the workers go on as before.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Command::Serve | Command::Withdraw)
    }

    /// Returns whether new requests are welcome: here, or at the process that has taken over.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Command::Serve | Command::HandOver)
    }
}

/// A handle that stops a running server.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<Command>>);

impl Stop {
    /// Makes a handle, and the receiver of its commands.
    pub(crate) fn new() -> (Stop, watch::Receiver<Command>) {
        let (orders, received) = watch::channel(Command::Serve);
        (Stop(Arc::new(orders)), received)
    }

    /// Serves as before, but reports that the server is not ready, so that load balancers send new
    /// requests to other servers. Nothing leads back.
    pub fn withdraw(&self) {
        self.send(Command::Withdraw);
    }

    /// Stops accepting and finishes the requests in flight.
    pub fn drain(&self) {
        self.send(Command::Drain);
    }

    /// Does the same while another process accepts connections on the same sockets.
    pub(crate) fn hand_over(&self) {
        self.send(Command::HandOver);
    }

    /// Sends a command unless the workers are ending.
    fn send(&self, command: Command) {
        self.0.send_if_modified(|order| {
            let serving = order.serves();
            if serving {
                *order = command;
            }
            serving
        });
    }

    /// Stops at once and cuts the requests in flight.
    pub fn end(&self) {
        self.0.send_replace(Command::End);
    }
}
