//! The ACME thread, with an event loop of its own because authorities respond slowly.

use std::io;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::worker::event_loop;
use crate::acme::{Acme, STORAGE_MODE};
use crate::config::Config;
use crate::tls::{self, Keyring};
use crate::users::next_user;

/// Certificates are issued and renewed until this is dropped.
#[derive(Debug)]
pub(crate) struct AcmeHandle {
    /// Dropped to end the thread.
    alive: Option<oneshot::Sender<()>>,
    /// Disconnected when its work has ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

/// Longest wait for the end of an attempt, which is taken back in its record.
const END_MAX: Duration = Duration::from_secs(2);

impl Drop for AcmeHandle {
    /// Ends the thread's work: another one may read its records next.
    fn drop(&mut self) {
        self.alive = None;
        // It has ended, or the wait has.
        let _ = self.ended.get_mut().map(|ended| ended.recv_timeout(END_MAX));
    }
}

/// Loads the ACME account and certificates before the process gives up root. The storage directory
/// becomes that of the user that the process becomes.
///
/// # Errors
/// The file or directory that cannot be used.
pub(crate) fn load(config: &Config) -> io::Result<Option<Acme>> {
    if let (Some(acme), Some(user)) = (&config.acme, next_user(config)?) {
        tls::create_directory_for(&user, &acme.storage, STORAGE_MODE)?;
    }
    Acme::load(config)
}

/// Starts the ACME thread, for the certificates of a keyring.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn start(acme: Acme, keyring: Option<&Keyring>) -> io::Result<AcmeHandle> {
    let (alive, stopped) = oneshot::channel();
    let (working, ended) = mpsc::channel();
    let automatic = keyring.map(Keyring::automatic).unwrap_or_default();
    let life = move || {
        let work = async {
            tokio::select! { _ = stopped => {}, () = acme.run(&automatic) => {} }
            drop(working);
        };
        if let Err(e) = event_loop().map(|runtime| runtime.block_on(work)) {
            tracing::error!("automatic certificates are off: {e}");
        }
    };
    thread::Builder::new().name("acme".to_owned()).spawn(life)?;
    Ok(AcmeHandle { alive: Some(alive), ended: Mutex::new(ended) })
}
