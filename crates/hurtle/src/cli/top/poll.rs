//! Reads the status of a server by its admin socket, again and again on a thread of its own, so
//! that a server that does not answer does not stop the drawing.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use crate::cli::admin;
use crate::metrics::Snapshot;

/// Statuses as they come, or the reason that there is none.
pub(super) type Polled = Receiver<io::Result<Snapshot>>;

/// Statuses that wait to be shown.
const WAITING_MAX: usize = 4;

/// Reads the status.
///
/// # Errors
/// The socket's, or the response is not a status.
pub(super) fn status(socket: &Path) -> io::Result<Snapshot> {
    let reply = admin::send(socket, "GET /status", "localhost")?;
    if reply.status != 200 {
        return Err(io::Error::other(format!("the server said: {}", reply.text.trim_end())));
    }
    serde_json::from_str(&reply.text).map_err(|e| io::Error::other(format!("not a status: {e}")))
}

/// Starts a thread that reads the status at this interval until the receiver is dropped.
///
/// # Errors
/// The system refuses a thread.
pub(super) fn start(socket: &Path, interval: Duration) -> io::Result<Polled> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let socket = socket.to_owned();
    thread::Builder::new().name("poll".to_owned()).spawn(move || {
        while sender.send(status(&socket)).is_ok() {
            thread::sleep(interval);
        }
    })?;
    Ok(receiver)
}
