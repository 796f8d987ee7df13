//! Local certificates, and the thread that renews them and reloads certificates when their files
//! change.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::config::Config;
use crate::tls::{self, Keyring, local};
use crate::users::next_user;

/// Interval of checks; each takes a few system calls.
const PERIOD: Duration = Duration::from_secs(1);

/// Creates the directory of the local authority, for the user that the process becomes. The sandbox
/// then permits this directory, and not the one above.
///
/// # Errors
/// The directory and the I/O error.
pub(crate) fn create_directory(config: &Config) -> io::Result<()> {
    let Some(dir) = &config.local_authority else { return Ok(()) };
    if let Some(user) = next_user(config)? {
        tls::create_directory_for(&user, dir, local::DIRECTORY_MODE)?;
    }
    local::create_directory(dir)
}

/// Makes a configuration's local certificates, reads all certificates, and shares what is equal in
/// `previous`.
///
/// # Errors
/// The unusable files, one line each.
pub(crate) fn load(
    config: &Config,
    previous: Option<&Keyring>,
) -> io::Result<Option<Arc<Keyring>>> {
    create_directory(config)?;
    if let Some(new) = local::prepare(config)?.created {
        tracing::warn!("{new}");
    }
    let keyring = Keyring::load(config, previous);
    let keyring = keyring.map_err(|problems| io::Error::other(problems.join("\n")))?;
    Ok(keyring.map(Arc::new))
}

/// Starts the thread, which also renews local certificates; it ends when the returned sender is
/// dropped.
pub(crate) fn watch(keyring: Arc<Keyring>) -> io::Result<Sender<()>> {
    let (alive, ended) = mpsc::channel();
    let life = move || {
        while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            keyring.reload_changed();
        }
    };
    thread::Builder::new().name("certificates".to_owned()).spawn(life)?;
    Ok(alive)
}
