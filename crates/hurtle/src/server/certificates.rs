//! The thread that reloads certificates when their files change.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::config::Config;
use crate::tls::Keyring;

/// Interval of checks; each takes a few system calls.
const PERIOD: Duration = Duration::from_secs(1);

/// Reads a configuration's certificates, and shares what is equal in `previous`.
///
/// # Errors
/// The unusable files, one line each.
pub(super) fn load(
    config: &Config,
    previous: Option<&Keyring>,
) -> io::Result<Option<Arc<Keyring>>> {
    let keyring = Keyring::load(config, previous);
    let keyring = keyring.map_err(|problems| io::Error::other(problems.join("\n")))?;
    Ok(keyring.map(Arc::new))
}

/// Starts the thread; it ends when the returned sender is dropped.
pub(super) fn watch(keyring: Arc<Keyring>) -> io::Result<Sender<()>> {
    let (alive, ended) = mpsc::channel();
    let life = move || {
        while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            keyring.reload_changed();
        }
    };
    thread::Builder::new().name("certificates".to_owned()).spawn(life)?;
    Ok(alive)
}
